import { isDeepStrictEqual } from 'node:util';
import { hashKey } from '#core/accounts/keys/key-format.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, type Item, type Key } from '#core/ports/table.ts';
import { hexOf, runExpiry } from '../items.ts';
import { RunStore } from '../store.ts';
import type { AskingRun } from './approval.ts';
import { type DecideDeps, settle } from './decide.ts';
import { approvalsOfRun } from './store.ts';

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

/** Maximum number of events of a run, as its listing reads all payloads (`docs/interface/approvals.md#events-from-outside`). */
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
 * Records that an event happened, and lets its run continue if it waits for it: then `waiting` is true. The same event
 * again changes nothing.
 *
 * Throws NOT_FOUND for an unknown token; CONFLICT if the event happened with another payload, or if the run has ended.
 */
export async function receiveEvent(deps: DecideDeps, token: string, payload: Json): Promise<{ waiting: boolean }> {
  const target = await deps.runs.get(tokenKey(token));
  if (target === undefined) {
    throw new PlatformError('NOT_FOUND', 'No run waits at this address.', {
      hint: 'It is an address of one event of one run, and is forgotten when that run is removed.',
    });
  }
  const place = { workspaceId: target.workspace_id as string, runId: target.run_id as string };
  const name = target.event as string;
  const before = (await findEvent(deps, place, name))?.happened;
  if (before !== undefined) checkIsSame(before, name, payload);
  const run = await new RunStore(deps, place.workspaceId).find(place.runId);
  if (run === undefined || hasEnded(run.status)) {
    if (before !== undefined) return { waiting: false };
    throw new PlatformError('CONFLICT', `The run that waits for the event "${name}" has ended.`);
  }
  if (before === undefined) await record(deps, place, { name, payload });
  const waiting = (await approvalsOfRun(deps, place)).filter(
    ({ kind, status, args }) => kind === 'event' && status === 'waiting' && (args as { event?: Json }).event === name,
  );
  // Read after the event was written: a run writes that it waits, and reads the event then.
  for (const approval of waiting) await settle(deps, approval, { type: 'answer', answer: payload }, 'event');
  return { waiting: waiting.length > 0 };
}

async function record(
  deps: DecideDeps,
  place: RunPlace,
  { name, payload }: { readonly name: string; readonly payload: Json },
): Promise<void> {
  const set = { payload: JSON.stringify(payload), received_at: isoTime(deps.clock.now()) };
  if ((await deps.runs.update(eventKey(place, name), { set }, absent('received_at'))).ok) return;
  checkIsSame((await findEvent(deps, place, name))!.happened!, name, payload);
}

function checkIsSame({ payload: first, receivedAt }: HappenedEvent, name: string, payload: Json): void {
  if (isDeepStrictEqual(first, payload)) return;
  throw new PlatformError('CONFLICT', `The event "${name}" happened at ${receivedAt} with another payload.`, {
    hint: 'An event happens once. The agent needs an address of its own for each event.',
  });
}

const happenedFrom = ({ payload, received_at }: Item): HappenedEvent | undefined =>
  received_at === undefined
    ? undefined
    : { payload: JSON.parse(payload as string) as Json, receivedAt: received_at as string };
