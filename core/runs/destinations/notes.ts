import type { Json } from '#core/base/json.ts';
import { isoTime } from '#core/ports/clock.ts';
import {
  absent,
  exists,
  type Item,
  type Key,
  queryAll,
  type Table,
  type TransactOperation,
} from '#core/ports/table.ts';
import { hexOf, runIdOf, workspaceIdOf } from '../items.ts';
import type { Drop } from '../online/drop.ts';
import type { NewRun } from '../run.ts';

/*
 * Runs table: `WS#<workspace id>#RUN_END / <run id without dashes>[#<what>]`: a note that the end of a run, or something
 * else about it, is to be announced. It is written in the transaction of what it is about, so no crash loses it. gsi1 lists
 * it by time until its deliveries are written; it expires with the run, because no function may delete items of this table.
 */

export interface RunPlace {
  readonly workspaceId: string;
  readonly runId: string;
}

/**
 * What of a run is announced: its end, that the scores of its version dropped with its own, that it waits (once for each process that left it
 * so), or a change of an approval.
 */
export type NoteSubject = '' | 'score_dropped' | `waiting#${string}` | `approval#${ApprovalChange}#${number}.${number}`;

/** `cancelled` is not posted anywhere, but closes what people see. */
export const APPROVAL_CHANGES = ['requested', 'decided', 'expired', 'cancelled'] as const;
export type ApprovalChange = (typeof APPROVAL_CHANGES)[number];

/** Something of a run that is not announced yet. `at` is in ISO 8601. */
export interface Note extends RunPlace {
  readonly about: NoteSubject;
  readonly at: string;
  /** Address that the call gave, for the end of its run. */
  readonly webhookUrl?: string;
  /** Epoch milliseconds until which a run waits. */
  readonly until?: number;
  readonly drop?: Drop;
}

type NotePlace = Pick<Note, 'workspaceId' | 'runId' | 'about'>;

const noteKey = ({ workspaceId, runId, about }: NotePlace): Key => ({
  pk: `WS#${workspaceId}#RUN_END`,
  sk: about === '' ? hexOf(runId) : `${hexOf(runId)}#${about}`,
});
const openPartition = (digit: string): string => `RUN_ENDS#${digit}`;

/** Returns the write of a note, for the transaction of what it is about. `at` in epoch milliseconds, `ttl` in epoch seconds. */
export function noteOperation(
  place: NotePlace,
  { at, ttl, ...more }: { readonly at: number; readonly ttl: number } & Pick<Note, 'webhookUrl' | 'until' | 'drop'>,
): TransactOperation {
  const index = { gsi1pk: openPartition(hexOf(place.runId)[0]!), gsi1sk: isoTime(at) };
  const drop = more.drop as unknown as Json | undefined;
  const item = { ...noteKey(place), ...index, webhook_url: more.webhookUrl, until: more.until, drop, ttl };
  return { op: 'put', item, ...(place.about !== '' && { condition: absent() }) };
}

/** Returns the write that notes the end of a run, for the transaction that records it. `ttl` in epoch seconds. */
export function noteEndOperations(
  workspaceId: string,
  { id: runId, isAnnounced, webhookUrl }: NewRun,
  endedAt: number,
  ttl: number,
): TransactOperation[] {
  if (!isAnnounced) return [];
  return [noteOperation({ workspaceId, runId, about: '' }, { at: endedAt, ttl, ...(webhookUrl && { webhookUrl }) })];
}

type RunsTable = { readonly runs: Table };

/** Returns a note while it is open. */
export async function openNote({ runs }: RunsTable, place: NotePlace): Promise<Note | undefined> {
  const item = await runs.get(noteKey(place));
  return item?.gsi1sk === undefined ? undefined : noteFrom(item);
}

/** Returns the open notes of a run. */
export async function openNotesOf({ runs }: RunsTable, { workspaceId, runId }: RunPlace): Promise<Note[]> {
  const { pk, sk } = noteKey({ workspaceId, runId, about: '' });
  const items = await Array.fromAsync(queryAll(runs, { pk, sk: { beginsWith: sk }, limit: 1000 }));
  return items.filter(({ gsi1sk }) => gsi1sk !== undefined).map(noteFrom);
}

export async function closeNote({ runs }: RunsTable, place: NotePlace): Promise<void> {
  await runs.update(noteKey(place), { remove: ['gsi1pk', 'gsi1sk', 'webhook_url'] }, exists());
}

/** Yields the open notes from before this time (epoch milliseconds), of all workspaces. */
export async function* openNotesBefore({ runs }: RunsTable, time: number): AsyncGenerator<Note> {
  const sk = { lessThan: isoTime(time) };
  for (const digit of '0123456789abcdef') {
    for await (const item of queryAll(runs, { index: 'gsi1', pk: openPartition(digit), sk })) yield noteFrom(item);
  }
}

function noteFrom(item: Item): Note {
  const [hex, ...about] = item.sk.split('#');
  return {
    workspaceId: workspaceIdOf(item),
    runId: runIdOf({ ...item, sk: hex! }),
    about: about.join('#') as NoteSubject,
    at: item.gsi1sk!,
    ...(item.webhook_url !== undefined && { webhookUrl: item.webhook_url as string }),
    ...(item.until !== undefined && { until: item.until as number }),
    ...(item.drop !== undefined && { drop: item.drop as unknown as Drop }),
  };
}
