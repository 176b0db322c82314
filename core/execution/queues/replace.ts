import type { Deps } from '#core/ports/deps.ts';
import { cancelRun } from '#core/runs/cancellation.ts';
import {
  type Entry,
  entriesOf,
  hasEntry,
  isOlder,
  placesOf,
  type Queue,
  removeEntry,
} from '#core/runs/queues/queue.ts';
import { endedWith } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { WaitingRuns } from '#core/runs/waiting-runs.ts';
import { replaced } from './turn.ts';

/** Maximum of entries that one call ends. There are more only if an earlier version let its runs wait. */
const MAX_REPLACED = 200;

/**
 * Makes room for what has begun to wait: ends everything that came before it, and cancels the run that has had its place
 * for the longest time. Of several at the same time the newest one stays, on every host the same.
 */
export async function replaceOthers(deps: Deps, queue: Queue, own: Entry): Promise<void> {
  const { workspaceId } = queue;
  const waiting = new WaitingRuns(deps, workspaceId);
  const entries = await firstOf(entriesOf(deps, queue), MAX_REPLACED);
  const newest = entries.reduce((one, other) => (isOlder(one, other) ? other : one), own);
  for (const entry of entries) {
    if (entry.sk === newest.sk) continue;
    if (entry.isRun) await waiting.end(entry.runId, endedWith(replaced(newest.runId)));
    // A caller that waits finds that it waits no longer.
    else await removeEntry(deps, queue, entry.sk);
  }
  if (newest.sk !== own.sk || !(await hasEntry(deps, queue, own))) return;
  const places = await Array.fromAsync(placesOf(deps, queue));
  const oldest = places.sort((a, b) => a.since - b.since)[0];
  if (oldest === undefined || oldest.runId === own.runId) return;
  // It may have its place, and not have begun yet.
  if (await waiting.end(oldest.runId, endedWith(replaced(own.runId)))) return;
  await new RunStore(deps, workspaceId).noteReplacement(oldest.runId, own.runId);
  await cancelRun(deps, workspaceId, oldest.runId);
}

async function firstOf<T>(all: AsyncIterable<T>, max: number): Promise<T[]> {
  const first: T[] = [];
  for await (const one of all) {
    if (first.push(one) === max) break;
  }
  return first;
}
