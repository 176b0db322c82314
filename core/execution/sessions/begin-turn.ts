import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type CancelDeps, cancelRun } from '#core/runs/cancellation.ts';
import type { NewRun } from '#core/runs/run.ts';
import type { Turn, TurnOfRun } from '#core/runs/sessions/session.ts';
import { noSession, SessionStore } from '#core/runs/sessions/store.ts';
import type { PreparedCall } from '../calls/prepare.ts';
import type { SessionOfCall } from './join.ts';

/** Maximum number of messages of a session that are under way or wait for their turn. */
export const MAX_OPEN_TURNS = 20;
/** Tries to get the next number, while other processes add messages. */
const MAX_TRIES = 20;
const PAUSE_MS = 100;

/**
 * Gives the run of a call the next turn of its session: `start` records the run with it, and returns false if another run has
 * that turn. The numbers are the order in which messages are answered. Throws CONFLICT if the session takes no message now,
 * and NOT_FOUND if it was deleted.
 */
export async function inNextTurn(
  deps: Deps,
  call: Pick<PreparedCall, 'workspace' | 'session'>,
  record: NewRun,
  start: (record: NewRun) => Promise<boolean>,
): Promise<NewRun> {
  const session = call.session!;
  const store = new SessionStore(deps, call.workspace.id);
  let newest = session.newest;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    if (tries > 0) {
      await deps.clock.sleep(Math.random() * PAUSE_MS);
      const found = await store.find(session.id, MAX_OPEN_TURNS + 1);
      if (found === undefined) throw noSession(session.id);
      newest = found.newest;
    }
    checkTakesMessage(session, newest);
    const inTurn = { ...record, session: nextTurn(session.id, newest[0]) };
    if (await start(inTurn)) {
      if (session.busy === 'interrupt') await interruptTurns(deps, call.workspace.id, newest);
      return inTurn;
    }
  }
  throw new PlatformError('CONFLICT', `Too many messages came to the session ${session.id} at the same time.`, {
    hint: 'Send the message again.',
  });
}

/** Cancels the runs of turns that have not ended. Returns the run that is under way; `undefined` if none is. */
export async function interruptTurns(
  deps: CancelDeps,
  workspaceId: string,
  turns: readonly Turn[],
): Promise<string | undefined> {
  const open = turns.filter(({ end }) => end === undefined).map(({ runId }) => runId);
  await Promise.all(open.map((runId) => cancelRun(deps, workspaceId, runId)));
  return open.at(-1);
}

const nextTurn = (sessionId: string, last: Turn | undefined): TurnOfRun => ({
  sessionId,
  number: (last?.number ?? 0) + 1,
  bytes: last?.bytes ?? 0,
  said: last?.said ?? 0,
});

/** Throws CONFLICT if messages are under way and the session takes no other meanwhile. */
function checkTakesMessage({ id, busy }: SessionOfCall, newest: readonly Turn[]): void {
  const open = newest.filter(({ end }) => end === undefined);
  if (open.length === 0) return;
  const runId = open.at(-1)!.runId;
  if (busy === 'reject') {
    throw new PlatformError('CONFLICT', `The session ${id} is busy: its run ${runId} is under way.`, {
      hint: `Wait for the end of that run, or cancel it. A session with "busy": "enqueue" lets messages wait.`,
    });
  }
  if (open.length >= MAX_OPEN_TURNS) {
    throw new PlatformError(
      'CONFLICT',
      `The session ${id} has ${open.length} messages that wait for their turn, the maximum. The run ${runId} is under way.`,
      { hint: 'Send the message again when some of them are answered.' },
    );
  }
}
