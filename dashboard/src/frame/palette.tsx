import { useNavigate, useParams } from '@tanstack/react-router';
import { Activity, Bot, House, type LucideIcon, Search } from 'lucide-react';
import { useEffect, useState } from 'react';
import { Autocomplete, useFilter } from 'react-aria-components/Autocomplete';
import { Dialog } from 'react-aria-components/Dialog';
import { Input } from 'react-aria-components/Input';
import { Menu, MenuItem } from 'react-aria-components/Menu';
import { Modal, ModalOverlay } from 'react-aria-components/Modal';
import { TextField } from 'react-aria-components/TextField';
import { useAgents } from '../api/agents.ts';
import { useMaybeWorkspace, useWorkspaces } from '../api/session.ts';
import { OTHER_PLACES, WORKSPACE_PLACES } from '../navigation.ts';

const OPEN = 'open-palette';

export const openPalette = (): void => void document.dispatchEvent(new Event(OPEN));

interface Entry {
  readonly id: string;
  readonly label: string;
  readonly note: string;
  readonly icon: LucideIcon;
  readonly run: () => void;
}

/** Command palette (Ctrl or Cmd with K): finds pages, workspaces and agents by name. */
export function Palette() {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const open = () => setOpen(true);
    const press = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setOpen((was) => !was);
    };
    document.addEventListener(OPEN, open);
    document.addEventListener('keydown', press);
    return () => {
      document.removeEventListener(OPEN, open);
      document.removeEventListener('keydown', press);
    };
  }, []);
  return (
    <ModalOverlay
      isOpen={isOpen}
      onOpenChange={setOpen}
      isDismissable
      className="fixed inset-0 z-40 flex items-start justify-center bg-scrim p-4 pt-[10vh]"
    >
      <Modal className="w-full max-w-xl overflow-hidden rounded-xl bg-raised shadow-raised animate-[appear_.12s]">
        <Dialog aria-label="Search" className="outline-none">
          <Entries onDone={() => setOpen(false)} />
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function Entries({ onDone }: { readonly onDone: () => void }) {
  const [text, setText] = useState('');
  const { contains } = useFilter({ sensitivity: 'base' });
  const entries = useEntries(text).filter(({ id, label }) => id === 'asked' || contains(label, text));
  return (
    <Autocomplete inputValue={text} onInputChange={setText}>
      <TextField aria-label="Search" autoFocus className="flex items-center gap-2 border-b border-line px-3">
        <Search size={16} aria-hidden className="text-soft" />
        <Input placeholder="Page, agent or workspace" className="h-11 grow bg-transparent text-base outline-none" />
      </TextField>
      <Menu
        aria-label="Results"
        items={entries}
        onAction={(id) => {
          onDone();
          entries.find((entry) => entry.id === id)?.run();
        }}
        renderEmptyState={() => <p className="p-3 text-soft">No results.</p>}
        className="max-h-80 overflow-auto p-1 outline-none"
      >
        {({ id, label, note, icon: Icon }) => (
          <MenuItem
            id={id}
            textValue={label}
            className="flex cursor-default items-center gap-2.5 rounded-md px-2 py-1.5 outline-none data-[focused]:bg-hover"
          >
            <Icon size={15} aria-hidden className="shrink-0 text-soft" />
            <span className="grow truncate">{label}</span>
            <span className="shrink-0 text-xs text-soft">{note}</span>
          </MenuItem>
        )}
      </Menu>
    </Autocomplete>
  );
}

/** A run id, a request id, or a prefix of either. */
const RUN = /^(req_)?[0-9a-f-]{7,36}$/i;

function useEntries(text: string): readonly Entry[] {
  const navigate = useNavigate();
  const { workspace } = useParams({ strict: false });
  const workspaces = useWorkspaces();
  const current = useMaybeWorkspace();
  const { rows: agents = [] } = useAgents({ enabled: current !== undefined, staleTime: 30_000 });
  // biome-ignore lint/suspicious/noExplicitAny: addresses of all pages.
  const go = (to: string, params: object) => () => void navigate({ to, params } as any);
  const run = text.trim();
  return [
    ...(workspace !== undefined && RUN.test(run)
      ? [
          {
            id: 'asked',
            label: `Open run ${run}`,
            note: 'Run',
            icon: Activity,
            run: go('/$workspace/runs/$run', { workspace, run }),
          },
        ]
      : []),
    ...(workspace === undefined ? [] : WORKSPACE_PLACES).map(({ to, label, icon }) => ({
      id: to,
      label,
      note: 'Page',
      icon,
      run: go(to, { workspace }),
    })),
    ...OTHER_PLACES.map(({ to, label, icon }) => ({ id: to, label, note: 'Page', icon, run: go(to, {}) })),
    ...agents.map(({ name }) => ({
      id: `agent ${name}`,
      label: name,
      note: 'Agent',
      icon: Bot,
      run: go('/$workspace/agents/$name', { workspace, name }),
    })),
    ...workspaces.map(({ id, name, slug }) => ({
      id,
      label: name,
      note: 'Workspace',
      icon: House,
      run: go('/$workspace', { workspace: slug }),
    })),
  ];
}
