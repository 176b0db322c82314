import { PlatformError } from '#core/base/errors.ts';
import { type CancelDeps, cancelRun } from '../cancellation.ts';
import { endedWith, replacedText } from '../run.ts';
import { RunStore } from '../store.ts';
import { WaitingRuns } from '../waiting-runs.ts';
import {
  type Entry,
  entriesOf,
  grantPlaces,
  hasEntry,
  isOlder,
  placesOf,
  type Queue,
  removeEntry,
  type WakingDeps,
} from './queue.ts';

export type ReplacingDeps = WakingDeps & CancelDeps;

export const replacedError = (runId: string): PlatformError => new PlatformError('RUN_CANCELLED', replacedText(runId));

/** Maximum of entries that one call ends. There are more only if an earlier version let its runs wait. */
const MAX_REPLACED = 200;

/**
 * Call it once an entry waits: a place may have become free before, and other runs may have to make room. Safe to repeat, by
 * any process.
 */
export async function settle(deps: ReplacingDeps, queue: Queue): Promise<void> {
  await grantPlaces(deps, queue);
  const entries = await entriesOf(deps, queue, MAX_REPLACED);
  const newest = entries.filter(({ replaces }) => replaces).sort((a, b) => (isOlder(a, b) ? 1 : -1))[0];
  if (newest !== undefined) await makeRoom(deps, queue, entries, newest);
}

/** Ends everything that came before an entry, and cancels the run that has had its place for the longest time. */
async function makeRoom(deps: ReplacingDeps, queue: Queue, entries: readonly Entry[], newest: Entry): Promise<void> {
  for (const entry of entries) {
    if (!isOlder(entry, newest)) continue;
    if (entry.isRun) await replaceRun(deps, queue, entry.runId, newest);
    // A caller that waits finds that it waits no longer.
    else await removeEntry(deps, queue, entry.sk);
  }
  const places = await Array.fromAsync(placesOf(deps, queue));
  const oldest = places.sort((a, b) => a.since - b.since)[0];
  // Read after the places: an entry is removed in the write that gives it its place.
  const isInTheWay = places.length >= newest.limit && (await hasEntry(deps, queue, newest));
  if (oldest !== undefined && isInTheWay) await replaceRun(deps, queue, oldest.runId, newest);
}

async function replaceRun(deps: ReplacingDeps, queue: Queue, runId: string, { runId: by }: Entry): Promise<void> {
  const { workspaceId } = queue;
  // It may have its place, and not have begun yet.
  if (await new WaitingRuns(deps, workspaceId).end(runId, endedWith(replacedError(by)))) return;
  await new RunStore(deps, workspaceId).noteReplacement(runId, by);
  await cancelRun(deps, workspaceId, runId);
}
