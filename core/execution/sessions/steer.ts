import { PlatformError } from '#core/base/errors.ts';
import { HELD_CALL_MS } from '#core/base/time-limits.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import type { Deps } from '#core/ports/deps.ts';
import { SteeringStore } from '#core/runs/sessions/steering.ts';
import { SessionStore } from '#core/runs/sessions/store.ts';
import { type Call, prepareCall } from '../calls/prepare.ts';

/** Longer messages wait for their own turn. */
const MAX_TEXT_BYTES = 64 * 1024;
/** Pause between two looks at what became of a message, doubled for each further one. */
const LOOK_MS = { first: 100, max: 1000 };

/**
 * Gives the message of a call to the run of its session that is under way, and waits until that has taken it. Returns the id
 * of the run, whose answer is that of the message; `undefined` if the message has to be a turn of its own: no loop is at
 * work, others wait already, or the run ended before it took the message. Of these two, exactly one happens.
 *
 * Throws what {@link prepareCall} throws, CONFLICT if too many messages wait, and TIMEOUT if the run has not taken it by the
 * deadline of the call, or for as long as a call is held.
 */
export async function steer(deps: Deps, call: Call): Promise<string | undefined> {
  const { session, agent, input, workspace } = call;
  if (session === undefined || !engineTraits(agent).hasLoop || input.uploads.length > 0) return undefined;
  const open = session.newest.filter(({ end }) => end === undefined);
  const [turn] = open;
  if (turn === undefined || open.length > 1) return undefined;
  const { document, mask, deadline: ofCall } = await prepareCall(deps, call);
  const deadline = Math.min(ofCall, call.receivedAt + HELD_CALL_MS);
  // As a loop gets the input of a run.
  const text = JSON.stringify(mask.json(document), null, 2);
  if (Buffer.byteLength(text) > MAX_TEXT_BYTES) return undefined;
  const place = { workspaceId: workspace.id, sessionId: session.id, number: turn.number };
  const messages = new SteeringStore(deps, place);
  const number = await messages.add(text);
  if (number === undefined) return undefined;
  const sessions = new SessionStore(deps, workspace.id);
  for (let pause = LOOK_MS.first; ; pause = Math.min(2 * pause, LOOK_MS.max)) {
    if (await messages.isTaken(number)) return turn.runId;
    const now = await sessions.turn(session.id, turn.number);
    const isOver = now === undefined || now.end !== undefined;
    const isLate = deps.clock.now() >= deadline;
    if (isOver || isLate) {
      if ((await messages.withdraw(number)) === 'taken') return turn.runId;
      if (isOver) return undefined;
      throw new PlatformError(
        'TIMEOUT',
        `The run ${turn.runId} of the session ${session.id} did not take the message in time.`,
        {
          hint: 'The run may wait for an approval, or for a long tool. Send the message again later, or cancel that run.',
        },
      );
    }
    await deps.clock.sleep(Math.min(pause, Math.max(0, deadline - deps.clock.now())));
  }
}
