import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, anyOf, equals, type Item, queryAll } from '#core/ports/table.ts';
import { headKey, workspaceIdOf } from '../items.ts';
import {
  CHECK_MS,
  checkAt,
  checkPartition,
  leavePlace,
  numberOf,
  type Place,
  placesOf,
  type Queue,
  stateKey,
} from './queue.ts';
import { type ReplacingDeps, settle } from './replace.ts';

/** Time in which the run of a place has to be recorded. */
const BEGIN_MS = 60_000;

/**
 * Checks the queues in which something waits, and makes up for processes that died: frees the places of runs that have ended
 * or that never began, has the next runs begin, and makes room for runs that replace others. Safe to run on several hosts at once, at any time.
 */
export async function sweepQueues(deps: ReplacingDeps & Pick<Deps, 'log'>): Promise<void> {
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

async function check(deps: ReplacingDeps & Pick<Deps, 'log'>, queue: Queue): Promise<void> {
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
  await settle(deps, queue);
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
  const { status, has_place, duration_ms } = head;
  // A run that waits has given its place back, or is just taking one to continue.
  if (status === 'queued' || status === 'waiting') return mayBegin || has_place === true;
  return duration_ms === undefined;
}
