import { MAX_QUEUED_MS } from '#core/base/time-limits.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { TransactOperation } from '#core/ports/table.ts';
import { latestOperation, latestRun } from '#core/runs/queues/latest.ts';
import { type Entry, entryKeyOf, waitOperations } from '#core/runs/queues/queue.ts';
import { replacedError, settle } from '#core/runs/queues/replace.ts';
import type { Start } from '#core/runs/queues/starts.ts';
import { endedWith, type HeldBy, type NewRun } from '#core/runs/run.ts';
import { WaitingRuns } from '#core/runs/waiting-runs.ts';
import type { Call } from '../calls/prepare.ts';
import type { QueueOfCall, RateOfCall, SeriesOfCall } from './turn.ts';

/** How a run waits: what its record says, the writes of the rule, and what to do once both are written. */
export interface Waiting {
  readonly heldBy: NonNullable<NewRun['heldBy']>;
  readonly hasPlace?: true;
  readonly alongside: readonly TransactOperation[];
  settle(): Promise<void>;
}

type Caller = Pick<Call, 'runId' | 'priority' | 'wantedDeadline'>;

/** Returns when a run ends that has not begun, in epoch milliseconds. */
export const waitsUntil = ({ wantedDeadline = Number.POSITIVE_INFINITY }: Pick<Call, 'wantedDeadline'>, now: number) =>
  Math.min(now + MAX_QUEUED_MS, wantedDeadline);

const heldBy = (call: Caller, now: number, rule: Pick<HeldBy, 'rule' | 'key' | 'limit'> & Partial<HeldBy>): HeldBy => ({
  ...{ seconds: null, due: null, priority: call.priority ?? 0, until: waitsUntil(call, now) },
  ...rule,
});

/** Waits for a place. */
export function forPlace(
  deps: Deps,
  call: Caller,
  queue: QueueOfCall,
  { replaces = queue.rule.on_limit === 'replace' }: Partial<Pick<Entry, 'replaces'>> = {},
): Waiting {
  const now = deps.clock.now();
  const { limit } = queue.rule;
  const held = heldBy(call, now, { rule: 'concurrency', key: queue.key, limit });
  const { runId, priority = 0 } = call;
  const sk = entryKeyOf(priority, now, runId);
  const entry: Entry = { runId, sk, limit, until: held.until, isRun: true, replaces };
  return {
    heldBy: { ...held, entry: sk },
    alongside: waitOperations(deps, queue, entry),
    settle: () => settle(deps, queue),
  };
}

/** Waits for the beginning of a window. A run that has a place keeps it. */
export function forStart(
  { clock }: Pick<Deps, 'clock'>,
  call: Caller,
  { rate: { key, count: limit, seconds }, hasPlace }: { readonly rate: RateOfCall; readonly hasPlace: boolean },
  { window, at: due }: Start,
): Waiting {
  const held = heldBy(call, clock.now(), { rule: 'rate', key, limit, seconds, due });
  return { heldBy: { ...held, window }, ...(hasPlace && { hasPlace: true }), alongside: [], settle: async () => {} };
}

/** Waits for the end of a series of calls. */
export async function forLaterCalls(deps: Deps, call: Caller, series: SeriesOfCall): Promise<Waiting> {
  const { workspaceId, seconds, key } = series;
  const now = deps.clock.now();
  const before = await latestRun(deps, series);
  return {
    heldBy: heldBy(call, now, { rule: 'debounce', key, limit: 1, seconds, due: now + seconds * 1000 }),
    alongside: [latestOperation(deps, series, call.runId)],
    // Another call may have come in between. The run that it replaced finds that when its time comes.
    async settle() {
      if (before === undefined || before === call.runId) return;
      const isHeld = ({ heldBy: held }: NewRun): boolean => held?.rule === 'debounce';
      await new WaitingRuns(deps, workspaceId).end(before, endedWith(replacedError(call.runId)), isHeld);
    },
  };
}
