import { Link as RouterLink } from '@tanstack/react-router';
import { Ellipsis, MessageSquarePlus, Pencil, Search, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { Button, IconButton } from '../../ui/button.tsx';
import { classes } from '../../ui/classes.ts';
import { Status } from '../../ui/data/status.tsx';
import { relativeTime, useNow } from '../../ui/data/time.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Menu } from '../../ui/menu.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import type { Session, Sessions } from './use-sessions.ts';

export const titleOf = ({ title }: Pick<Session, 'title'>): string => escapeText(title ?? '') || 'Untitled chat';

/** The sessions of an agent: to open, find, rename and delete. */
export function SessionList({
  sessions,
  params,
  current,
  find,
  onFind,
  onOpen,
  onNew,
  onDeleted,
}: {
  readonly sessions: Sessions;
  /** Path of the page. */
  readonly params: { readonly workspace: string; readonly name: string };
  /** Id of the open session. */
  readonly current: string | undefined;
  readonly find: string;
  readonly onFind: (text: string) => void;
  /** Called when a chat is opened by its link. */
  readonly onOpen: () => void;
  readonly onNew: () => void;
  readonly onDeleted: (id: string) => void;
}) {
  const { rows, error, hasMore, isLoadingMore, more, refetch } = sessions;
  const [renamed, setRenamed] = useState<Session>();
  const [deleted, setDeleted] = useState<Session>();
  const wanted = find.toLowerCase();
  const shown = rows?.filter((each) => titleOf(each).toLowerCase().includes(wanted));
  return (
    <nav aria-label="Chats" className="flex min-h-0 min-w-0 grow flex-col gap-2">
      <Button icon={MessageSquarePlus} onPress={onNew}>
        New chat
      </Button>
      {rows !== undefined && (rows.length > 0 || find !== '') && (
        <TextField
          label="Search chats"
          isLabelHidden
          placeholder="Search chats"
          icon={<Search size={14} aria-hidden />}
          value={find}
          onChange={onFind}
        />
      )}
      {error !== null && <ErrorBox error={error} onRetry={refetch} />}
      {rows === undefined && error === null && <Loading />}
      {rows?.length === 0 && <p className="px-2 py-1 text-soft">No chats yet.</p>}
      {rows !== undefined && rows.length > 0 && shown?.length === 0 && (
        <p className="px-2 py-1 text-soft">
          {hasMore ? 'None of the chats shown matches. Show more to search older ones.' : 'No chat matches.'}
        </p>
      )}
      <ul className="-mx-1 flex min-h-0 grow flex-col gap-px overflow-y-auto px-1">
        {shown?.map((session) => (
          <li
            key={session.id}
            className={classes(
              'group flex shrink-0 items-center rounded-md',
              session.id === current ? 'bg-selected' : 'hover:bg-hover',
            )}
          >
            <RouterLink
              to="/$workspace/agents/$name/chat"
              params={params}
              search={{ session: session.id, ...(find !== '' && { q: find }) }}
              aria-current={session.id === current ? 'page' : undefined}
              onClick={onOpen}
              className="flex min-w-0 grow flex-col rounded-md px-2 py-1.5 outline-offset-[-2px]"
            >
              <span className="w-full truncate font-medium">{titleOf(session)}</span>
              <span className="flex items-center gap-1.5 text-xs text-soft">
                <Age at={session.last_message_at ?? session.created_at} />
                {session.status !== 'idle' && <Status value={session.status} />}
              </span>
            </RouterLink>
            <Menu
              label={`Actions of ${titleOf(session)}`}
              entries={[
                { id: 'rename', label: 'Rename', icon: Pencil, run: () => setRenamed(session) },
                { id: 'delete', label: 'Delete', icon: Trash2, isDanger: true, run: () => setDeleted(session) },
              ]}
            >
              <IconButton icon={Ellipsis} label={`Actions of ${titleOf(session)}`} />
            </Menu>
          </li>
        ))}
        {hasMore && (
          <li className="py-1">
            <Button variant="quiet" isPending={isLoadingMore} onPress={more}>
              Show more
            </Button>
          </li>
        )}
      </ul>
      {renamed !== undefined && (
        <RenameDialog session={renamed} onRename={sessions.rename} onClose={() => setRenamed(undefined)} />
      )}
      <ConfirmDialog
        title="Delete this chat?"
        isOpen={deleted !== undefined}
        onClose={() => setDeleted(undefined)}
        action="Delete chat"
        onConfirm={async () => {
          await sessions.remove(deleted!.id);
          onDeleted(deleted!.id);
        }}
      >
        Its messages, answers and files are erased at once, and those of its runs. An answer under way is stopped.
      </ConfirmDialog>
    </nav>
  );
}

const AGE_MS = 30_000;

/** How long ago a moment was, without the hint of other times, which has a button: it stands in a link. */
function Age({ at }: { readonly at: string }) {
  return <time dateTime={at}>{relativeTime(Date.parse(at), useNow(AGE_MS))}</time>;
}

/** Maximum length of a title. */
export const MAX_TITLE = 200;

function RenameDialog({
  session,
  onRename,
  onClose,
}: {
  readonly session: Session;
  readonly onRename: (id: string, title: string) => Promise<unknown>;
  readonly onClose: () => void;
}) {
  const [title, setTitle] = useState(session.title ?? '');
  const [state, setState] = useState<{ readonly isPending?: boolean; readonly error?: unknown }>({});
  const save = async () => {
    setState({ isPending: true });
    try {
      await onRename(session.id, title.trim());
      onClose();
    } catch (error) {
      setState({ error });
    }
  };
  return (
    <Dialog
      title="Rename chat"
      isOpen
      onClose={onClose}
      actions={
        <Button variant="primary" isPending={state.isPending} isDisabled={title.trim() === ''} onPress={save}>
          Rename
        </Button>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (title.trim() !== '') void save();
        }}
      >
        <TextField label="Title" value={title} onChange={setTitle} maxLength={MAX_TITLE} autoFocus />
      </form>
      {state.error !== undefined && <ErrorBox error={state.error} />}
    </Dialog>
  );
}
