import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, anyOf, equals, type Item, queryAll } from '#core/ports/table.ts';
import { headKey, newRunFrom, workspaceIdOf } from '../items.ts';
import {
  CHECK_MS,
  checkAt,
  checkPartition,
  grantPlaces,
  leavePlace,
  numberOf,
  type Place,
  placesOf,
  type Queue,
  stateKey,
  type WakingDeps,
} from './queue.ts';

/** Time in which the run of a place has to be recorded. */
const BEGIN_MS = 60_000;

/**
 * Checks the queues in which something waits: frees the places of runs that have ended or that never began, because their
 * process died, and has the next runs begin. Safe to run on several hosts at once, at any time.
 */
export async function sweepQueues(deps: WakingDeps & Pick<Deps, 'log'>): Promise<void> {
  const { runs, clock, log } = deps;
  for (const digit of '0123456789abcdef') {
    const due = { index: 'gsi1', pk: checkPartition(digit), sk: { lessThan: isoTime(clock.now() + 1) } } as const;
    for await (const state of queryAll(runs, { ...due, limit: 200 })) {
      const queue = { workspaceId: workspaceIdOf(state), queueId: state.pk.slice(state.pk.lastIndexOf('#') + 1) };
      await check(deps, queue).catch((error: unknown) =>
        log.error('queue not checked', { queue_id: queue.queueId, error: String(error) }),
      );
    }
  }
}

/** Has a queue checked soon in which nothing waits, but whose places are all taken. */
export async function askForCheck({ runs, clock }: Pick<Deps, 'runs' | 'clock'>, queue: Queue): Promise<void> {
  await runs.update(stateKey(queue), { set: checkAt(queue, clock.now() + CHECK_MS) }, absent('gsi1pk'));
}

async function check(deps: WakingDeps & Pick<Deps, 'log'>, queue: Queue): Promise<void> {
  const { runs, clock, log } = deps;
  let recorded = 0;
  for await (const place of placesOf(deps, queue)) {
    const head = await runs.get(headKey(queue.workspaceId, place.runId));
    if (isHeld(head, place, clock.now())) {
      if (head !== undefined) recorded += 1;
      continue;
    }
    log.warn('place of a run that has ended freed', { run_id: place.runId });
    await leavePlace(deps, queue, place.runId);
  }
  await grantPlaces(deps, queue);
  const state = await runs.get(stateKey(queue));
  // The process of a run that has a place and no record may have died.
  const isChecked = numberOf(state, 'waiting') > 0 || numberOf(state, 'active') > recorded;
  if (isChecked) await runs.update(stateKey(queue), { set: checkAt(queue, clock.now() + CHECK_MS) });
  else
    await runs.update(
      stateKey(queue),
      { remove: ['gsi1pk', 'gsi1sk'] },
      anyOf(absent('waiting'), equals('waiting', 0)),
    );
}

/** Whether the run of a place is in progress, or may still begin. */
function isHeld(head: Item | undefined, { since }: Place, now: number): boolean {
  const mayBegin = now < since + BEGIN_MS;
  if (head === undefined) return mayBegin;
  if (head.status === 'queued') return mayBegin || newRunFrom(head).hasPlace === true;
  return head.duration_ms === undefined;
}
