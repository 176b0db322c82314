import { isDeepStrictEqual } from 'node:util';
import { checkStillStays } from '#core/accounts/workspaces/moving.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '../store.ts';
import { type DecideDeps, settle } from './decide.ts';
import { eventAt, findEvent, type HappenedEvent, recordEvent } from './events.ts';
import { approvalsOfRun } from './store.ts';

/**
 * Records that an event happened, and lets its run continue if it waits for it: then `waiting` is true. The same event
 * again changes nothing.
 *
 * Throws NOT_FOUND for an unknown token; CONFLICT if the event happened with another payload, or if the run has ended.
 */
export async function receiveEvent(
  deps: DecideDeps & Pick<Deps, 'main'>,
  token: string,
  payload: Json,
): Promise<{ waiting: boolean }> {
  const target = await eventAt(deps, token);
  if (target === undefined) {
    throw new PlatformError('NOT_FOUND', 'No run waits at this address.', {
      hint: 'It is an address of one event of one run, and is forgotten when that run is removed.',
    });
  }
  const { run: place, name } = target;
  await checkStillStays(deps, place.workspaceId, 'change');
  const before = (await findEvent(deps, place, name))?.happened;
  if (before !== undefined) checkIsSame(before, name, payload);
  const run = await new RunStore(deps, place.workspaceId).find(place.runId);
  if (run === undefined || hasEnded(run.status)) {
    if (before !== undefined) return { waiting: false };
    throw new PlatformError('CONFLICT', `The run that waits for the event "${name}" has ended.`);
  }
  if (before === undefined) checkIsSame(await recordEvent(deps, place, { name, payload }), name, payload);
  // Read after the event was written: a run writes that it waits, and reads the event then.
  const waiting = (await approvalsOfRun(deps, place)).filter(
    ({ kind, status, args }) => kind === 'event' && status === 'waiting' && (args as { event?: Json }).event === name,
  );
  for (const approval of waiting) await settle(deps, approval, { type: 'answer', answer: payload }, 'event');
  return { waiting: waiting.length > 0 };
}

function checkIsSame({ payload: first, receivedAt }: HappenedEvent, name: string, payload: Json): void {
  if (isDeepStrictEqual(first, payload)) return;
  throw new PlatformError('CONFLICT', `The event "${name}" happened at ${receivedAt} with another payload.`, {
    hint: 'An event happens once. The agent needs an address of its own for each event.',
  });
}
