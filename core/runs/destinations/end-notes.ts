import { isoTime } from '#core/ports/clock.ts';
import { exists, type Item, type Key, queryAll, type Table, type TransactOperation } from '#core/ports/table.ts';
import { hexOf, runIdOf, workspaceIdOf } from '../items.ts';
import type { NewRun } from '../run.ts';

/*
 * Runs table: `WS#<workspace id>#RUN_END / <run id without dashes>`: a note that the end of a run is to be announced. It
 * is written with that end, so no crash loses it. gsi1 lists it by time until its deliveries are written; it expires
 * with the run, because no function may delete items of this table.
 */

export interface RunPlace {
  readonly workspaceId: string;
  readonly runId: string;
}

/** An ended run that is not announced yet. `endedAt` is in ISO 8601. */
export interface EndNote extends RunPlace {
  readonly endedAt: string;
  /** Address that the call gave. */
  readonly webhookUrl?: string;
}

const noteKey = ({ workspaceId, runId }: RunPlace): Key => ({ pk: `WS#${workspaceId}#RUN_END`, sk: hexOf(runId) });
const openPartition = (digit: string): string => `RUN_ENDS#${digit}`;

/** Returns the write that notes the end of a run, for the transaction that records it. `ttl` in epoch seconds. */
export function noteEndOperations(
  workspaceId: string,
  { id: runId, isAnnounced, webhookUrl }: NewRun,
  endedAt: number,
  ttl: number,
): TransactOperation[] {
  if (!isAnnounced) return [];
  const index = { gsi1pk: openPartition(hexOf(runId)[0]!), gsi1sk: isoTime(endedAt) };
  return [{ op: 'put', item: { ...noteKey({ workspaceId, runId }), ...index, webhook_url: webhookUrl, ttl } }];
}

type RunsTable = { readonly runs: Table };

/** Returns the note of a run's end while it is open. */
export async function openNote({ runs }: RunsTable, place: RunPlace): Promise<EndNote | undefined> {
  const item = await runs.get(noteKey(place));
  return item?.gsi1sk === undefined ? undefined : noteFrom(item);
}

export async function closeNote({ runs }: RunsTable, place: RunPlace): Promise<void> {
  await runs.update(noteKey(place), { remove: ['gsi1pk', 'gsi1sk', 'webhook_url'] }, exists());
}

/** Yields the open notes of runs that ended before this time (epoch milliseconds), of all workspaces. */
export async function* openNotesBefore({ runs }: RunsTable, time: number): AsyncGenerator<EndNote> {
  const sk = { lessThan: isoTime(time) };
  for (const digit of '0123456789abcdef') {
    for await (const item of queryAll(runs, { index: 'gsi1', pk: openPartition(digit), sk })) yield noteFrom(item);
  }
}

const noteFrom = (item: Item): EndNote => ({
  workspaceId: workspaceIdOf(item),
  runId: runIdOf(item),
  endedAt: item.gsi1sk!,
  ...(item.webhook_url !== undefined && { webhookUrl: item.webhook_url as string }),
});
