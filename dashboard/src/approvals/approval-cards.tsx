import { Info } from 'lucide-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { useOperation } from '../api/query.ts';
import { useWorkspace } from '../api/session.ts';
import { Status } from '../ui/data/status.tsx';
import { Time } from '../ui/data/time.tsx';
import { Link } from '../ui/link.tsx';
import { escapeText } from '../ui/text/escape-text.ts';
import { MORE_COST } from './approval.ts';
import { Arguments, DecidedView } from './approval-parts.tsx';
import { DecideForm } from './decide-form.tsx';
import { LinkButton } from './link-button.tsx';
import { type Approval, useKept, useMayDecide } from './waiting.ts';

interface CardsProps {
  /** Calls that wait now. */
  readonly waiting: readonly Approval[];
  /** Whether the page is that of their run. @default false */
  readonly isInRun?: boolean;
  /** Shown if there is none. */
  readonly empty?: ReactNode;
}

/** Calls and questions that wait for people, and those that did while the page was open. */
export function WaitingCards({ waiting, isInRun = false, empty }: CardsProps) {
  const kept = useKept(waiting);
  if (kept.length === 0) return empty;
  return (
    <ul aria-label="Waiting for you" className="flex min-w-0 flex-col gap-3">
      {kept.map(({ approval, isListed }) => (
        <li key={approval.id} data-row="" className="min-w-0">
          <KeptCard approval={approval} isListed={isListed} isInRun={isInRun} />
        </li>
      ))}
    </ul>
  );
}

interface CardProps {
  readonly approval: Approval;
  readonly isInRun?: boolean;
}

/** A card that follows its call when that waits no more. */
function KeptCard({ approval, isListed, isInRun = false }: CardProps & { readonly isListed: boolean }) {
  const { id: workspace_id } = useWorkspace();
  const params = { workspace_id, approval_id: approval.id };
  const { data } = useOperation('getApproval', { params }, { enabled: !isListed });
  // A decision is final, and lists may hear of it later.
  const isCurrent = data !== undefined && (!isListed || data.status !== 'waiting');
  return <ApprovalCard approval={isCurrent ? data : approval} isInRun={isInRun} />;
}

/** A call or a question: who asks, what for, and the decision or the form that makes it. */
export function ApprovalCard({ approval, isInRun = false }: CardProps) {
  const { id, kind, status, tool, question, agent_name, agent_version } = approval;
  const { mayDecide, reason } = useMayDecide();
  const [outcome, setOutcome] = useState<'own' | 'other'>();
  const isWaiting = status === 'waiting';
  const hasForm = isWaiting && mayDecide;
  const decided = useRef<HTMLDivElement>(null);
  // The buttons with the focus are gone.
  useEffect(() => {
    if (!isWaiting && outcome !== undefined) decided.current?.focus({ preventScroll: true });
  }, [isWaiting, outcome]);
  const name = escapeText(agent_name);
  const wish = tool === MORE_COST ? 'wants to cost more' : `wants to call ${escapeText(tool)}`;
  const title = `${name} ${kind === 'answer' ? 'asks a question' : wish}`;
  return (
    <article aria-label={title} className="flex min-w-0 flex-col gap-3 rounded-lg border border-line bg-raised p-4">
      <header className="flex min-w-0 flex-col gap-1">
        <div className="flex flex-wrap items-start gap-2">
          <h2 className="min-w-0 grow text-base font-semibold">{title}</h2>
          <Status value={status} />
        </div>
        <Origin approval={approval} isInRun={isInRun} version={agent_version} />
      </header>
      {question !== null && (
        <p dir="ltr" className="text-base [unicode-bidi:plaintext] whitespace-pre-wrap">
          {escapeText(question)}
        </p>
      )}
      {kind !== 'answer' && !hasForm && <Arguments value={approval.arguments} name={`arguments-${id}`} />}
      {hasForm && (
        <>
          <DecideForm approval={approval} onDecided={(isOwn) => setOutcome(isOwn ? 'own' : 'other')} />
          <LinkButton approval={approval} />
        </>
      )}
      {isWaiting && reason !== undefined && <p className="text-soft">You can only read this: {reason}</p>}
      {!isWaiting && (
        <div
          ref={decided}
          tabIndex={-1}
          role="status"
          className="flex min-w-0 flex-col gap-2 rounded-md border border-line bg-panel p-3 outline-none"
        >
          {outcome === 'other' && (
            <p className="flex gap-2 font-medium">
              <Info size={16} aria-hidden className="mt-0.5 shrink-0 text-warn" />
              {status === 'expired' || status === 'cancelled'
                ? 'It was too late, so your decision was not used.'
                : 'This was decided meanwhile, so your decision was not used.'}
            </p>
          )}
          <DecidedView approval={approval} />
        </div>
      )}
    </article>
  );
}

const ON_TIMEOUT = { deny: 'then the agent goes on without it', fail: 'then the run fails', continue: '' } as const;

/** The run and the turn that ask, since when, and until when. */
function Origin({
  approval: { run_id, id, asked_at, expires_at, on_timeout, status },
  isInRun,
  version,
}: {
  readonly approval: Approval;
  readonly isInRun: boolean;
  readonly version: string;
}) {
  const { slug: workspace } = useWorkspace();
  const params = { workspace, run: run_id };
  const [, turn] = id.split('.');
  return (
    <p className="text-xs text-soft">
      {!isInRun && (
        <>
          {version} ·{' '}
          <Link to="/$workspace/runs/$run" params={params} className="underline">
            run {run_id.slice(0, 8)}
          </Link>{' '}
          ·{' '}
        </>
      )}
      <Link to="/$workspace/runs/$run" params={params} search={{ tab: 'turns' }} className="underline">
        turn {turn}
      </Link>{' '}
      · asked <Time at={asked_at} />
      {status === 'waiting' && (
        <>
          {' '}
          · expires <Time at={expires_at} />, {ON_TIMEOUT[on_timeout]}
        </>
      )}
    </p>
  );
}
