import { Clock } from 'lucide-react';
import { useOperation } from '../api/query.ts';
import { Time } from '../ui/data/time.tsx';
import { ErrorBox } from '../ui/error-box.tsx';
import { escapeText } from '../ui/text/escape-text.ts';
import { eventOf } from './approval.ts';
import { WaitingCards } from './approval-cards.tsx';
import { isForPeople, POLL_MS } from './waiting.ts';

const MAX_WAITING = 200;

/** What a run waits for: decisions of people, which are made here, or a time. */
export default function WaitingPart({
  params: { workspace_id, run_id },
}: {
  readonly params: { readonly workspace_id: string; readonly run_id: string };
}) {
  const { data, error, refetch } = useOperation(
    'listApprovals',
    { params: { workspace_id }, query: { run_id, status: 'waiting', limit: MAX_WAITING } },
    { refetchInterval: POLL_MS },
  );
  if (error && !data) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  const people = data.approvals.filter(isForPeople);
  const others = data.approvals.filter((each) => !isForPeople(each));
  return (
    <section aria-label="Waiting" className="flex min-w-0 flex-col gap-3">
      <h2 className="flex items-center gap-2 rounded-lg bg-warn-ground px-3 py-2 font-semibold text-warn empty:hidden">
        {people.length > 0 && 'Waiting for you'}
      </h2>
      {others.map((approval) => (
        <p key={approval.id} className="flex items-center gap-2 rounded-lg border border-line bg-raised px-3 py-2">
          <Clock size={16} aria-hidden className="shrink-0 text-soft" />
          <span>
            {approval.kind === 'time'
              ? 'Waiting for a time: continues'
              : `Waiting for the event “${escapeText(eventOf(approval))}”: expires`}{' '}
            <Time at={approval.expires_at} />
          </span>
        </p>
      ))}
      <WaitingCards waiting={people} isInRun />
    </section>
  );
}
