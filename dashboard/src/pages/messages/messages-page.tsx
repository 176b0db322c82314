import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Inbox, Trash2 } from 'lucide-react';
import { useEffect, useState } from 'react';
import { type AnswerOf, call } from '../../api/client.ts';
import { useDeleteLater } from '../../api/delete-later.ts';
import { keyOf, useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useWorkspaceEvents } from '../../live/use-live.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { count } from '../../ui/data/numbers.tsx';
import { Badge, Status } from '../../ui/data/status.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Empty, NoMatch } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { JsonView } from '../../ui/text/viewer.tsx';

type Message = AnswerOf<'listWorkspaceMessages'>['messages'][number];

const route = getRouteApi('/signed-in/$workspace/messages');
const LEVELS = ['info', 'success', 'warning', 'error'] as const;
const PAGE = 50;
/** Maximum length of a text shown without expanding it. */
const SHORT = 400;

/** Messages of agents and people to the workspace, newest first. New messages wait behind a button. */
export function MessagesPage() {
  const { id: workspace_id } = useWorkspace();
  const given = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<typeof given>) =>
    void navigate({ search: (now) => ({ ...now, ...next }), replace: true });
  const level = LEVELS.find((each) => each === given.level);
  const query = { level, agent_name: given.agent, limit: PAGE };
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: keyOf('listWorkspaceMessages', query, workspace_id),
    queryFn: ({ pageParam: offset, signal }) =>
      call('listWorkspaceMessages', { params: { workspace_id }, query: { ...query, offset } }, { signal }),
    initialPageParam: 0,
    getNextPageParam: ({ total }, pages) => {
      const seen = pages.reduce((sum, { messages }) => sum + messages.length, 0);
      return seen < total ? seen : undefined;
    },
  });
  const later = useDeleteLater('deleteMessage', ['listWorkspaceMessages']);
  // A message that arrived between two requests is on both pages.
  const all = [...new Map(data?.pages.flatMap(({ messages }) => messages).map((each) => [each.id, each])).values()];
  const shown = all.filter(({ id }) => !later.isDeleted(id));
  const [fresh, setFresh] = useState<ReadonlySet<string>>(new Set());
  const [isPaused, setPaused] = useState(false);
  const live = useWorkspaceEvents(
    ['message'],
    ({ data: told }) => {
      const isWanted =
        (level === undefined || told.level === level) && (given.agent === undefined || told.agent_name === given.agent);
      if (isWanted) setFresh((old) => new Set([...old, String(told.id)]));
    },
    { isPaused, onGap: () => void refetch() },
  );
  const waiting = [...fresh].filter((id) => !all.some((each) => each.id === id)).length;
  const seenUntil = useSeen(data?.pages[0]?.messages[0]?.created_at, level === undefined && given.agent === undefined);
  const hasFilter = level !== undefined || given.agent !== undefined;
  return (
    <Page title="Messages" actions={<LiveBadge state={live} onPause={() => setPaused(!isPaused)} />}>
      <div className="flex flex-wrap items-end gap-2" data-filter>
        <TextField
          label="Agent"
          placeholder="Exact name"
          value={given.agent ?? ''}
          onChange={(agent) => change({ agent: agent || undefined })}
        />
        <div className="w-36">
          <Select
            label="Level"
            choices={[{ id: '', label: 'All' }, ...LEVELS.map((id) => ({ id, label: id }))]}
            value={level ?? ''}
            onChange={(next) => change({ level: next || undefined })}
          />
        </div>
        {waiting > 0 && (
          <Button variant="primary" onPress={() => void refetch().then(() => setFresh(new Set()))}>
            {count(waiting)} new
          </Button>
        )}
      </div>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data &&
        shown.length === 0 &&
        (hasFilter ? (
          <NoMatch icon={Inbox} title="No message matches these filters" />
        ) : (
          <Empty icon={Inbox} title="No messages" command={`${COMMAND} message send 'Report ready' 'It has 3 pages.'`}>
            Agents send messages here for people to read: a finished report, a question, a problem. Send one from a
            terminal:
          </Empty>
        ))}
      {shown.length > 0 && (
        <ul aria-label="Messages" className="flex flex-col rounded-lg border border-line bg-raised">
          {shown.map((message) => (
            <Entry
              key={message.id}
              message={message}
              isNew={seenUntil !== undefined && message.created_at > seenUntil}
              onDelete={() => later.remove(message.id, { params: { message_id: message.id } }, 'Message deleted.')}
            />
          ))}
        </ul>
      )}
      {hasNextPage && (
        <div>
          <Button isPending={isFetchingNextPage} onPress={() => void fetchNextPage()}>
            Show older messages
          </Button>
        </div>
      )}
    </Page>
  );
}

/**
 * Returns when the user last read all messages before opening this page, then marks messages up to `newest` as read.
 */
function useSeen(newest: string | undefined, isWhole: boolean): string | undefined {
  const { id: workspace_id } = useWorkspace();
  const overview = useOperation('getOverview', {}, { staleTime: 60_000 });
  const { mutate } = useAction('markMessagesSeen', { silent: true });
  const [before, setBefore] = useState<string>();
  const known = overview.data?.workspaces.find(({ id }) => id === workspace_id)?.unread_messages.seen_until;
  useEffect(() => setBefore((first) => first ?? known), [known]);
  useEffect(() => {
    // A filter may hide unread messages.
    if (newest !== undefined && known !== undefined && isWhole && newest > known) {
      mutate({ params: { workspace_id }, body: { until: newest } });
    }
  }, [newest, known, isWhole, workspace_id, mutate]);
  return before;
}

function Entry({
  message,
  isNew,
  onDelete,
}: {
  readonly message: Message;
  readonly isNew: boolean;
  readonly onDelete: () => void;
}) {
  const { slug } = useWorkspace();
  const { title, body, level, agent_name, created_at, metadata } = message;
  const [isOpen, setOpen] = useState(false);
  const isLong = body.length > SHORT || body.split('\n').length > 4;
  const hasMore = isLong || metadata !== null;
  return (
    <li className="flex items-start gap-3 border-b border-line px-3 py-2.5 last:border-0">
      <div className="flex min-w-0 grow flex-col gap-1">
        <h2 className="flex flex-wrap items-center gap-2 font-medium">
          <Status value={level} />
          <span className="min-w-0">{escapeText(title)}</span>
          {isNew && <Badge tone="info">New</Badge>}
        </h2>
        <p
          dir="ltr"
          className={`[unicode-bidi:plaintext] whitespace-pre-wrap ${isLong && !isOpen ? 'line-clamp-4' : ''}`}
        >
          {escapeText(isOpen || !isLong ? body : body.slice(0, 2_000))}
        </p>
        {isOpen && metadata !== null && <JsonView value={metadata} name={`message-${message.id}`} />}
        <div className="flex flex-wrap items-center gap-x-3 text-xs text-soft">
          <Time at={created_at} />
          {agent_name !== null && (
            <Link to="/$workspace/runs" params={{ workspace: slug }} search={{ agent: agent_name }}>
              {escapeText(agent_name)}
            </Link>
          )}
          {hasMore && (
            <Button variant="quiet" aria-expanded={isOpen} onPress={() => setOpen(!isOpen)}>
              {isOpen ? 'Show less' : 'Show all'}
            </Button>
          )}
        </div>
      </div>
      <span data-row="">
        <IconButton icon={Trash2} label={`Delete ${escapeText(title).slice(0, 80)}`} onPress={onDelete} />
      </span>
    </li>
  );
}
