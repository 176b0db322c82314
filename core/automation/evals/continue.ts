import { listDueGates } from '#core/agents/gates/gate.ts';
import type { AgentListeners } from '#core/agents/listeners.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type DueEval, listDueEvals } from './due.ts';

/** A process starts new runs of evaluations for this long, then leaves the rest to the next process. */
const SLICE_MS = 50_000;

type ContinueDeps = Deps & { readonly listeners: AgentListeners };

/**
 * Starts evaluations of versions that wait for them, continues those that no process holds, and lets versions that have passed become
 * latest. Each run is made once, even if processes die: its id is derived from the evaluation and the case. Safe to run at any time, on any
 * host; returns when the runs that it started have ended.
 */
export async function continueEvals(deps: ContinueDeps, sliceMs = SLICE_MS): Promise<void> {
  const until = deps.clock.now() + sliceMs;
  const gates = await Array.fromAsync(listDueGates(deps));
  // Loaded lazily: the clock finds nothing to do most of the time, and smaller functions start faster.
  if (gates.length > 0) await (await import('./gates.ts')).keepGates(deps, gates);
  const due = await Array.fromAsync(listDueEvals(deps));
  await Promise.all(
    due.map((each) =>
      continueEval(deps, each, until).catch((error: unknown) =>
        deps.log.error('evaluation not continued', { eval_id: each.id, error: String(error) }),
      ),
    ),
  );
}

async function continueEval(deps: ContinueDeps, due: DueEval, until: number): Promise<void> {
  const [{ workOn }, { EvalStore }] = await Promise.all([import('./work.ts'), import('./store.ts')]);
  await workOn(deps, due, until);
  const ended = await new EvalStore(deps, due.workspaceId).find(due.id);
  if (ended?.opensGate !== true || ended.status === 'running') return;
  const { settleGate } = await import('./gates.ts');
  await settleGate(deps, ended);
}
