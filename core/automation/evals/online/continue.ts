import type { Deps } from '#core/ports/deps.ts';
import type { TellWorkspace } from '#core/runs/notice.ts';
import { listOnlineAgents } from '#core/runs/online/notes.ts';

/** A process begins to score runs for this long, then leaves the rest to the next process. */
const SLICE_MS = 50_000;
/** The turn of one agent, after which others get theirs. */
const TURN_MS = 10_000;
/** Agents whose runs a process scores at once. */
const AGENTS_AT_ONCE = 10;

/**
 * Scores completed runs of agents with `online` settings (`docs/interface/online-evals.md`). Each is scored once, even if processes die. Safe to
 * run at any time, on any host; returns when what it began has ended.
 */
export async function scoreOnline(deps: Deps, tell: TellWorkspace, sliceMs = SLICE_MS): Promise<void> {
  const { clock, log } = deps;
  const until = clock.now() + sliceMs;
  const due = await Array.fromAsync(listOnlineAgents(deps));
  if (due.length === 0) return;
  // Loaded lazily: the clock finds nothing to do most of the time, and smaller functions start faster.
  const { scoreAgent } = await import('./work.ts');
  const worker = async (): Promise<void> => {
    while (clock.now() < until) {
      const next = due.shift();
      if (next === undefined) return;
      try {
        const left = await scoreAgent(deps, next, Math.min(until, clock.now() + TURN_MS), tell);
        if (left !== undefined) due.push(left);
      } catch (error) {
        log.error('runs not scored', { workspace_id: next.workspaceId, agent: next.agent, error: String(error) });
      }
    }
  };
  await Promise.all(Array.from({ length: AGENTS_AT_ONCE }, worker));
}
