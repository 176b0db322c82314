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
import { type Commitment, commit, release } from './under-way.ts';

/** Maximum age of the sums: calls within this time may still begin after a limit is met, besides those in flight. */
const MAX_AGE_MS = 1000;

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
  /** Call it once the run's end is recorded, or if the run does not begin. Safe to repeat. */
  release(): Promise<void>;
}

type BudgetDeps = Pick<Deps, 'main' | 'runs' | 'counters' | 'clock' | 'config'>;

const NO_PLACE: BudgetPlace = { release: async () => {} };

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
  const { blocking, progress } = await checkBudgets(deps, workspace, agent);
  if (blocking.length === 0) return NO_PLACE;
  const since = Math.min(...progress.map(({ window }) => window.start));
  const { days, at } = await readSpend(deps, workspace.id, since, MAX_AGE_MS);
  const micro = Math.round(priceCents * MICRO_PER_CENT + meanCost(days, name));
  const run = { workspaceId: workspace.id, runId, agent: name, micro };
  const rooms = blocking.map((policy, i) => ({
    agent: policy.agent,
    micro:
      limitOf(policy, 'hard_limit')! -
      progress[i]!.spentMicro -
      endedAfter(deps.main, at, { workspaceId: workspace.id, agent: policy.agent }),
  }));
  const usedUp = await commit(deps, { ...run, expiresAt: deadline + RUN_GRACE_MS }, rooms);
  if (usedUp !== undefined) throw exceeded(blocking[usedUp]!, progress[usedUp]!, true);
  let isReleased = false;
  return {
    async release() {
      if (!isReleased) noteEnd(deps, run);
      isReleased = true;
      await release(deps, run);
    },
  };
}

/**
 * Throws BUDGET_EXCEEDED if the spend has reached the hard limit of a budget that blocks runs of this agent. Returns these
 * budgets with their progress. Reads nothing for a workspace without budgets.
 */
export async function checkBudgets(
  deps: BudgetDeps,
  workspace: Workspace,
  agent: BudgetedRun['agent'],
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
  const progress = await progressOf(deps, workspace.id, blocking, MAX_AGE_MS);
  const met = blocking.findIndex((policy, i) => meetsHardLimit(policy, progress[i]!.spentMicro));
  if (met >= 0) throw exceeded(blocking[met]!, progress[met]!);
  return { blocking, progress };
}

interface EndedRun {
  readonly at: number;
  readonly agent: string;
  readonly micro: number;
}

/**
 * Runs of this process that ended recently: the sums of {@link progressOf} may not include them yet. Key: workspace.
 */
const ended = new WeakMap<Table, Map<string, readonly EndedRun[]>>();
const MAX_WORKSPACES = 10_000;

function noteEnd(
  { main, clock }: Pick<Deps, 'main' | 'clock'>,
  { workspaceId, agent, micro }: Omit<Commitment, 'expiresAt'>,
): void {
  const all = ended.get(main) ?? new Map<string, readonly EndedRun[]>();
  ended.set(main, all);
  // Runs of the same millisecond share an entry: a busy workspace ends thousands per second.
  const at = clock.now();
  const recent = (all.get(workspaceId) ?? []).filter((each) => at - each.at < MAX_AGE_MS);
  const others = recent.filter((each) => each.at !== at || each.agent !== agent);
  const same = recent.find((each) => each.at === at && each.agent === agent);
  if (all.size >= MAX_WORKSPACES) all.clear();
  all.set(workspaceId, [...others, { at, agent, micro: micro + (same?.micro ?? 0) }]);
}

/** Sums the expected cost of this process's runs that ended after the sums were read. */
function endedAfter(
  main: Table,
  readAt: number,
  { workspaceId, agent }: { readonly workspaceId: string; readonly agent: string | null },
): number {
  return (ended.get(main)?.get(workspaceId) ?? [])
    .filter((each) => each.at > readAt && (agent === null || each.agent === agent))
    .reduce((sum, { micro }) => sum + micro, 0);
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
