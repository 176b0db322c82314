import { hashKey } from '#core/accounts/keys/key-format.ts';
import type { Json } from '#core/base/json.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, type Item, type Key } from '#core/ports/table.ts';
import { hexOf, runExpiry } from '../items.ts';
import type { AskingRun } from './approval.ts';

/*
 * Events for which runs wait. An event has a name, happens once in a run, and is kept if it happens before the run waits
 * for it. Runs table:
 *
 * - `WS#<workspace id>#EVENTS#<run id without dashes> / <name>`: an event of a run that has an address; with its payload
 *   once it has happened;
 * - `EVENT#<hash of a token> / META`: the event that an address stands for.
 *
 * The token is in the address alone and is not stored.
 */

/**
 * Maximum number of events of a run, as its listing reads all payloads (`docs/interface/approvals.md#events-from-outside`).
 * Addresses that are made at the same time may exceed it by a few.
 */
export const MAX_EVENTS = 50;
type RunPlace = Pick<AskingRun, 'workspaceId' | 'runId'>;
type StoreDeps = Pick<Deps, 'runs' | 'config'>;

/** What happened. */
export interface HappenedEvent {
  readonly payload: Json;
  /** ISO 8601. */
  readonly receivedAt: string;
}

const partitionOf = ({ workspaceId, runId }: RunPlace): string => `WS#${workspaceId}#EVENTS#${hexOf(runId)}`;
const eventKey = (run: RunPlace, name: string): Key => ({ pk: partitionOf(run), sk: name });
const tokenKey = (token: string): Key => ({ pk: `EVENT#${hashKey(token)}`, sk: 'META' });

/**
 * Lets the address with `token` stand for an event of a run. Safe to repeat. Returns false if the run has
 * {@link MAX_EVENTS} others.
 *
 * @param latest When the run has waited for as long as it may, in epoch milliseconds.
 */
export async function addEvent(
  { runs, config }: StoreDeps,
  run: RunPlace,
  { name, token, latest }: { readonly name: string; readonly token: string; readonly latest: number },
): Promise<boolean> {
  const { items } = await runs.query({ pk: partitionOf(run), limit: MAX_EVENTS });
  if (items.length >= MAX_EVENTS && !items.some(({ sk }) => sk === name)) return false;
  const ttl = runExpiry(config, latest);
  await runs.put({ ...tokenKey(token), workspace_id: run.workspaceId, run_id: run.runId, event: name, ttl }, absent());
  await runs.put({ ...eventKey(run, name), ttl }, absent());
  return true;
}

/**
 * Returns an event of a run that has an address; `happened` is absent as long as it has not happened. `undefined` if it has
 * no address.
 */
export async function findEvent(
  { runs }: Pick<Deps, 'runs'>,
  run: RunPlace,
  name: string,
): Promise<{ readonly happened?: HappenedEvent } | undefined> {
  const item = await runs.get(eventKey(run, name));
  if (item === undefined) return undefined;
  const happened = happenedFrom(item);
  return happened === undefined ? {} : { happened };
}

/**
 * Returns the event that the address with `token` stands for, and its run; `undefined` if there is no such address.
 */
export async function eventAt(
  { runs }: Pick<Deps, 'runs'>,
  token: string,
): Promise<{ readonly run: RunPlace; readonly name: string } | undefined> {
  const item = await runs.get(tokenKey(token));
  if (item === undefined) return undefined;
  const run = { workspaceId: item.workspace_id as string, runId: item.run_id as string };
  return { run, name: item.event as string };
}

/** Records that an event of a run that has an address happened. Returns what happened first. */
export async function recordEvent(
  deps: Pick<Deps, 'runs' | 'clock'>,
  run: RunPlace,
  { name, payload }: { readonly name: string; readonly payload: Json },
): Promise<HappenedEvent> {
  const receivedAt = isoTime(deps.clock.now());
  const set = { payload: JSON.stringify(payload), received_at: receivedAt };
  const written = await deps.runs.update(eventKey(run, name), { set }, absent('received_at'));
  return written.ok ? { payload, receivedAt } : (await findEvent(deps, run, name))!.happened!;
}

const happenedFrom = ({ payload, received_at }: Item): HappenedEvent | undefined =>
  received_at === undefined
    ? undefined
    : { payload: JSON.parse(payload as string) as Json, receivedAt: received_at as string };
