import { Bookmark, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useBrowserList } from '../../api/browser-list.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';
import { Menu } from '../../ui/menu.tsx';

const MAX_SAVED = 20;
const MAX_NAME = 60;

interface Saved {
  readonly name: string;
  /** Search parameters of the list. */
  readonly search: Readonly<Record<string, string>>;
}

const isSaved = (value: unknown): value is Saved => {
  const { name, search } = (value ?? {}) as Partial<Saved>;
  return (
    typeof name === 'string' &&
    typeof search === 'object' &&
    search !== null &&
    Object.values(search).every((each) => typeof each === 'string')
  );
};

/** Filters with names, which this browser stores for each user and workspace. */
export function SavedFilters({
  current,
  onApply,
}: {
  /** Filters that are set. */
  readonly current: Readonly<Record<string, string>>;
  readonly onApply: (search: Saved['search']) => void;
}) {
  const [saved, keep] = useBrowserList('run-filters', isSaved);
  const [name, setName] = useState<string>();
  const save = () => {
    const called = (name ?? '').trim().slice(0, MAX_NAME);
    if (called === '') return;
    keep([...saved.filter((each) => each.name !== called), { name: called, search: current }].slice(-MAX_SAVED));
    setName(undefined);
  };
  const isSet = Object.keys(current).length > 0;
  if (!isSet && saved.length === 0) return null;
  return (
    <>
      <Menu
        label="Saved filters"
        entries={[
          ...saved.map((each) => ({ id: `apply ${each.name}`, label: each.name, run: () => onApply(each.search) })),
          ...(isSet ? [{ id: 'save', label: 'Save current filters…', icon: Plus, run: () => setName('') }] : []),
          ...saved.map((each) => ({
            id: `delete ${each.name}`,
            label: `Delete ${each.name}`,
            icon: Trash2,
            isDanger: true,
            run: () => keep(saved.filter(({ name }) => name !== each.name)),
          })),
        ]}
      >
        <Button variant="quiet" icon={Bookmark}>
          Saved filters
        </Button>
      </Menu>
      <Dialog
        title="Save filters"
        isOpen={name !== undefined}
        onClose={() => setName(undefined)}
        actions={
          <Button variant="primary" isDisabled={(name ?? '').trim() === ''} onPress={save}>
            Save
          </Button>
        }
      >
        <TextField label="Name" value={name ?? ''} onChange={setName} maxLength={MAX_NAME} autoFocus />
      </Dialog>
    </>
  );
}
