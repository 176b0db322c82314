import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { bundleKey } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { historyOf } from '#core/runs/sessions/history.ts';
import type { Turn, TurnOfRun } from '#core/runs/sessions/session.ts';
import { noSession, SessionStore } from '#core/runs/sessions/store.ts';
import type { PreparedCall } from '../calls/prepare.ts';
import type { SessionOfRun } from '../engines/engine.ts';
import { MAX_OPEN_TURNS } from './begin-turn.ts';

/** Pause between two looks at the turns before, doubled for each further one. */
const LOOK_MS = { first: 50, max: 1000 };

/**
 * Waits until all turns before that of a run have ended, and returns what the run is given of them. Throws TIMEOUT at the
 * deadline of the call, NOT_FOUND if the session was deleted, INTERNAL_ERROR for a turn whose content is damaged, and the
 * reason of `signal`.
 */
export async function sessionOfRun(
  deps: Deps,
  call: PreparedCall,
  { sessionId: id, number }: TurnOfRun,
  signal: AbortSignal,
): Promise<SessionOfRun> {
  const known = call.session?.newest ?? [];
  // The turns that were read with the session are all there are, if this run has the next number and none was under way.
  const isKnown = (known[0]?.number ?? 0) === number - 1 && known.every(({ end }) => end !== undefined);
  const newest = isKnown ? known : await waitForTurn(deps, call, { id, number }, signal);
  const { hasProgram, hasLoop } = engineTraits(call.agent);
  const more = hasLoop || call.agent.definition.workspace ? await stateOf(deps, call, { id, number }) : {};
  // A program keeps what it needs by itself, and a loop knows what was said.
  if (hasProgram || more.conversation?.after === number - 1) return { id, number, turns: [], leftOut: 0, ...more };
  const { turns, leftOut } = await historyOf(deps, { workspaceId: call.workspace.id, id, number }, newest);
  return { id, number, turns, leftOut, ...more };
}

/** Returns what the runs before have given to this one, and where it leaves what it gives to the next one. */
async function stateOf(
  deps: Deps,
  { workspace, agent, session }: PreparedCall,
  { id, number }: { readonly id: string; readonly number: number },
): Promise<Pick<SessionOfRun, 'conversation' | 'workspace' | 'steering' | 'keep'>> {
  const place = { workspaceId: workspace.id, sessionId: id };
  const { hasLoop } = engineTraits(agent);
  // Loaded lazily: few runs belong to a session, and smaller functions start faster.
  const [{ SessionState }, { SteeringStore }] = await Promise.all([
    import('./state.ts'),
    import('#core/runs/sessions/steering.ts'),
  ]);
  const state = await SessionState.read(deps, place);
  const bundle = agent.bundle && bundleKey(agent.bundle);
  const { snapshot_bytes, session_bytes } = planOf(deps, workspace);
  const maxBytes = Math.min(snapshot_bytes, session_bytes ?? snapshot_bytes);
  const conversation = hasLoop ? await state.conversation() : undefined;
  return {
    ...(conversation && { conversation }),
    ...(agent.definition.workspace && { workspace: { maxBytes, read: () => state.files(bundle) } }),
    ...(hasLoop && session?.busy === 'steer' && { steering: new SteeringStore(deps, { ...place, number }) }),
    keep: (result) => state.keep(result, { number, bundle }),
  };
}

async function waitForTurn(
  deps: Deps,
  { workspace, runId, deadline }: PreparedCall,
  { id, number }: { readonly id: string; readonly number: number },
  signal: AbortSignal,
): Promise<readonly Turn[]> {
  const store = new SessionStore(deps, workspace.id);
  let pause = LOOK_MS.first;
  for (;;) {
    signal.throwIfAborted();
    const [own, ...before] = await store.turns(id, { after: number + 1, limit: MAX_OPEN_TURNS + 1, reverse: true });
    if (own?.runId !== runId) throw noSession(id);
    const open = before.filter(({ end }) => end === undefined);
    if (open.length === 0) {
      const last = before[0];
      if (last !== undefined && last.bytes !== own.bytes) await store.noteBefore(id, own, last);
      return before;
    }
    const left = deadline - deps.clock.now();
    if (left <= 0) {
      throw new PlatformError(
        'TIMEOUT',
        `The turn of this message did not come in time: the run ${open.at(-1)!.runId} of the session ${id} is still under way.`,
        { hint: 'Wait for the end of that run, or cancel it, and send the message again.' },
      );
    }
    await deps.clock.sleep(Math.min(pause, left), signal);
    pause = Math.min(2 * pause, LOOK_MS.max);
  }
}
