import { PlatformError } from '#core/base/errors.ts';
import { RUN_GRACE_MS } from '#core/base/time-limits.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { fullNameOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Table } from '#core/ports/table.ts';
import { type BudgetPolicy, limitOf, MICRO_PER_CENT, meetsHardLimit, scopeText, usdText } from './policy.ts';
import { type Progress, progressOf } from './progress.ts';
import { RecentReads } from './recent-reads.ts';
import { meanCost, readSpend } from './spend.ts';
import { BudgetStore } from './store.ts';
import { commit, commitSpent, release } from './under-way.ts';

/** Maximum age of the spend: of runs that are not among those in flight, such as sub-calls, it may lack as much. */
const MAX_AGE_MS = 1000;
/**
 * Each further look at the spend means that runs of this workspace were summed since the one before, or that the clock of the
 * process that sums them is ahead of this one's.
 */
const MAX_LOOKS = 20;

const policyReads = new RecentReads<readonly BudgetPolicy[]>();

/** Makes this process reload changed policies at once; other processes do so within a second. */
export const forgetPolicies = (main: Table, workspaceId: string): void => policyReads.forget(main, workspaceId);

/** A top-level run that is about to begin. */
export interface BudgetedRun {
  readonly runId: string;
  readonly agent: Pick<AgentVersion, 'orgSlug' | 'name'>;
  readonly priceCents: number;
  /** Epoch milliseconds. */
  readonly deadline: number;
}

/** A run's reservation in its workspace's budgets until it ends. */
export interface BudgetPlace {
  /** Call it if the run does not begin, or begins to wait. Safe to repeat. */
  release(): Promise<void>;
  /**
   * Call it before the run's end is recorded, with what it cost in millionths of a US dollar. The consumer of ended runs
   * releases it.
   */
  end(spentMicro: number): Promise<void>;
}

type BudgetDeps = Pick<Deps, 'main' | 'runs' | 'counters' | 'clock' | 'config' | 'endedRuns'>;

const NO_PLACE: BudgetPlace = { release: async () => {}, end: async () => {} };

/**
 * Throws BUDGET_EXCEEDED if a budget of the workspace blocks the run: if the spend plus the expected cost of runs in
 * flight
 * has reached its hard limit (`docs/interface/budgets.md#hard-limit`). Reads nothing for a workspace without budgets.
 */
export async function takeBudgetPlace(
  deps: BudgetDeps,
  workspace: Workspace,
  { runId, agent, priceCents, deadline }: BudgetedRun,
): Promise<BudgetPlace> {
  const name = fullNameOf(agent);
  let maxAgeMs = MAX_AGE_MS;
  for (let look = 1; ; look++) {
    const { blocking, progress } = await checkBudgets(deps, workspace, agent, maxAgeMs);
    if (blocking.length === 0) return NO_PLACE;
    const since = Math.min(...progress.map(({ window }) => window.start));
    const { days } = await readSpend(deps, workspace.id, since, MAX_AGE_MS);
    const micro = Math.round(priceCents * MICRO_PER_CENT + meanCost(days, name));
    const run = { workspaceId: workspace.id, runId, agent: name, micro };
    const rooms = blocking.map((policy, i) => ({
      agent: policy.agent,
      micro: limitOf(policy, 'hard_limit')! - progress[i]!.spentMicro,
    }));
    const readAt = look < MAX_LOOKS ? Math.min(...progress.map((each) => each.readAt)) : undefined;
    const refused = await commit(deps, { ...run, expiresAt: deadline + RUN_GRACE_MS }, rooms, readAt);
    if (refused === undefined) {
      return {
        release: () => release(deps, run),
        end: (spentMicro) => commitSpent(deps, run, spentMicro),
      };
    }
    if ('usedUp' in refused) throw exceeded(blocking[refused.usedUp]!, progress[refused.usedUp]!, true);
    maxAgeMs = Math.max(1, deps.clock.now() - refused.summedAt + 1);
  }
}

/**
 * Throws BUDGET_EXCEEDED if the spend has reached the hard limit of a budget that blocks runs of this agent. Returns these
 * budgets with their progress. Reads nothing for a workspace without budgets.
 */
export async function checkBudgets(
  deps: BudgetDeps,
  workspace: Workspace,
  agent: BudgetedRun['agent'],
  maxAgeMs = MAX_AGE_MS,
): Promise<{ readonly blocking: readonly BudgetPolicy[]; readonly progress: readonly Progress[] }> {
  if (!workspace.budgets) return { blocking: [], progress: [] };
  const { main: table, clock } = deps;
  const policies = await policyReads.get({ table, clock }, workspace.id, MAX_AGE_MS, () =>
    new BudgetStore(deps, workspace.id).list(),
  );
  const name = fullNameOf(agent);
  const blocking = policies.filter(
    (policy) => policy.action === 'block_new_runs' && (policy.agent === null || policy.agent === name),
  );
  if (blocking.length === 0) return { blocking, progress: [] };
  const progress = await progressOf(deps, workspace.id, blocking, maxAgeMs);
  const met = blocking.findIndex((policy, i) => meetsHardLimit(policy, progress[i]!.spentMicro));
  if (met >= 0) throw exceeded(blocking[met]!, progress[met]!);
  return { blocking, progress };
}

function exceeded(policy: BudgetPolicy, { spentMicro, window }: Progress, byRunsUnderWay = false): PlatformError {
  const others = byRunsUnderWay ? ', and runs in progress may cost the rest' : '';
  const limit = usdText(limitOf(policy, 'hard_limit')!);
  return new PlatformError(
    'BUDGET_EXCEEDED',
    `The ${policy.window} budget ${policy.id} of ${scopeText(policy)} blocks new runs: $${usdText(spentMicro)} of its hard limit of $${limit} is spent${others}. Its window ends at ${isoTime(window.end)}.`,
    { hint: 'An owner of the workspace can raise hard_limit_usd, or set another action_on_hard_limit.' },
  );
}
