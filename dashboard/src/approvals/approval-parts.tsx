import { useOperation } from '../api/query.ts';
import { useWho, useWorkspace } from '../api/session.ts';
import { Table } from '../ui/data/table.tsx';
import { Time } from '../ui/data/time.tsx';
import { Facts } from '../ui/page.tsx';
import { escapeText } from '../ui/text/escape-text.ts';
import { cutLine, JsonView } from '../ui/text/viewer.tsx';
import { changesOf, MORE_COST } from './approval.ts';
import type { Approval } from './waiting.ts';

/** Number of members, and length of a value, up to which arguments are shown as a list instead of a tree. */
const MAX_MEMBERS = 12;
const MAX_LENGTH = 300;

/** Arguments of a call: as a list if they are few and short. */
export function Arguments({ value, name }: { readonly value: unknown; readonly name: string }) {
  const members = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : [];
  const isSmall =
    members.length > 0 &&
    members.length <= MAX_MEMBERS &&
    members.every(([, each]) => (typeof each !== 'object' || each === null) && String(each).length <= MAX_LENGTH);
  if (!isSmall) return <JsonView value={value} name={name} />;
  return <Facts facts={members.map(([member, each]) => [escapeText(member), <Value key={member} value={each} />])} />;
}

function Value({ value }: { readonly value: unknown }) {
  if (value === undefined) return <span className="text-soft">none</span>;
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return (
    <span dir="ltr" className="font-mono text-xs [unicode-bidi:plaintext] whitespace-pre-wrap">
      {cutLine(escapeText(text))}
    </span>
  );
}

/** What a person changed in the arguments of a call; nothing if nothing was. */
export function Changes({ before, after }: { readonly before: unknown; readonly after: unknown }) {
  const changes = changesOf(before, after);
  if (changes.length === 0) return null;
  return (
    <Table
      label="Changed arguments"
      rows={changes}
      keyOf={({ path }) => path}
      columns={[
        { title: 'Changed', cell: ({ path }) => <span className="font-medium">{escapeText(path || 'all')}</span> },
        {
          title: 'Asked for',
          cell: ({ before: old }) => (
            <del className="rounded bg-bad-ground px-1 text-bad no-underline">
              <Value value={old} />
            </del>
          ),
        },
        {
          title: 'Approved as',
          cell: ({ after: now }) => (
            <ins className="rounded bg-good-ground px-1 text-good no-underline">
              <Value value={now} />
            </ins>
          ),
        },
      ]}
    />
  );
}

/** The name of who decided. */
function Decider({ id }: { readonly id: string }) {
  const { id: workspace_id } = useWorkspace();
  const { user } = useWho();
  const isMember = id !== 'link' && id !== 'event' && id !== user.id;
  const { data } = useOperation(
    'listMembers',
    { params: { workspace_id } },
    { staleTime: 60_000, enabled: isMember, retry: false },
  );
  if (id === 'link') return 'somebody with a link';
  if (id === 'event') return 'the event';
  if (id === user.id) return 'you';
  const member = data?.members.find((each) => each.id === id);
  return escapeText(member?.name || member?.email || id);
}

const VERBS: Readonly<Record<string, string>> = { approved: 'Approved', denied: 'Refused', answered: 'Answered' };

const EXPIRED: Readonly<Record<Approval['kind'], string>> = {
  approve: 'Nobody decided: it expired',
  answer: 'Nobody answered: it expired',
  event: 'The event did not come: it expired',
  time: 'The time came',
};

/** Says what was decided about a call, by whom, and why. */
export function DecidedView({ approval }: { readonly approval: Approval }) {
  const { id, kind, status, tool, decided_by, decided_at, expires_at, for_run, reason, answer, changed_arguments } =
    approval;
  const verb = VERBS[status];
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <p>
        {verb === undefined ? (
          status === 'expired' ? (
            <>
              {EXPIRED[kind]} <Time at={expires_at} />.
            </>
          ) : (
            'The run ended before.'
          )
        ) : (
          <>
            {verb} by <span className="font-medium">{decided_by !== null && <Decider id={decided_by} />}</span> ·{' '}
            <Time at={decided_at} />
            {for_run && (tool === MORE_COST ? ' · without a limit' : ' · and all later calls of this tool in this run')}
          </>
        )}
      </p>
      {reason !== null && <p className="whitespace-pre-wrap">Reason: {escapeText(reason)}</p>}
      {status === 'answered' && <JsonView value={answer} name={`answer-${id}`} />}
      {changed_arguments != null && <Changes before={approval.arguments} after={changed_arguments} />}
    </div>
  );
}
