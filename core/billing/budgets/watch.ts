import { batchesOf } from '#core/base/batches.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Table } from '#core/ports/table.ts';
import { type BudgetDeps, findAlerts, sendAlert } from './alerts.ts';
import { noteBudgets } from './note.ts';
import { type BudgetPolicy, limitOf, PAUSED, scopeText, usdText, withDone } from './policy.ts';
import { BudgetStore, listBudgetedWorkspaces } from './store.ts';

/** Callback of a higher wing for a hard limit that is reached; `core/api/listeners.ts` connects it. */
export interface BudgetListener {
  /**
   * Pauses the services of an agent (`org/agent`), or all of the workspace. `reason` is a sentence for their timelines.
   */
  pauseServices(workspaceId: string, agent: string | null, reason: string): Promise<void>;
}

/** Workspaces that this process is checking, and whether to check again: a burst of runs causes one check at a time. */
const looking = new WeakMap<Table, Map<string, { again: boolean }>>();

/**
 * Checks whether the end of a run has reached a threshold of its workspace's budgets. Never throws: {@link
 * watchBudgets}
 * checks again.
 */
export async function afterRun(deps: BudgetDeps & Pick<Deps, 'background'>, id: string): Promise<void> {
  const looked = looking.get(deps.main) ?? new Map<string, { again: boolean }>();
  looking.set(deps.main, looked);
  const current = looked.get(id);
  if (current !== undefined) {
    current.again = true;
    return;
  }
  const state = { again: true };
  looked.set(id, state);
  try {
    while (state.again) {
      state.again = false;
      for (const delivery of (await findAlerts(deps, id)).deliveries) void deps.background(sendAlert(deps, delivery));
    }
  } catch (error) {
    deps.log.error('budgets not checked', { workspace_id: id, error: String(error) });
  } finally {
    looked.delete(id);
  }
}

const CONCURRENCY = 10;
/** A pass starts no further workspaces after this time; the next pass uses another order. */
const MAX_WATCH_MS = 40_000;
/** A member or key added while the first budget was created may have a copy without the note. */
const REPEATED_MS = 600_000;

/**
 * Completes the work of processes that died, for all workspaces, and checks the spend of services, which no run's end
 * triggers. Call it every minute.
 */
export async function watchBudgets(deps: BudgetDeps, listener: BudgetListener): Promise<void> {
  const until = deps.clock.now() + MAX_WATCH_MS;
  const ids = shuffled(await Array.fromAsync(listBudgetedWorkspaces(deps)));
  for (const batch of batchesOf(ids, CONCURRENCY)) {
    if (deps.clock.now() >= until) break;
    await Promise.all(
      batch.map((id) =>
        watch(deps, id, listener).catch((error: unknown) =>
          deps.log.error('budgets not watched', { workspace_id: id, error: String(error) }),
        ),
      ),
    );
  }
}

async function watch(deps: BudgetDeps, workspaceId: string, listener: BudgetListener): Promise<void> {
  const store = new BudgetStore(deps, workspaceId);
  const { deliveries, toPause } = await findAlerts(deps, workspaceId);
  await Promise.all(deliveries.map((delivery) => sendAlert(deps, delivery)));
  for (const { policy, windowStart } of toPause) {
    await listener.pauseServices(workspaceId, policy.agent, pauseReason(policy));
    // Recorded after the pause: if the process dies in between, pausing again is a no-op.
    await store.change((policies) => ({
      policies: policies.map((each) => (each.id === policy.id ? withDone(each, windowStart, PAUSED) : each)),
    }));
    deps.log.warn('services paused by a budget', { workspace_id: workspaceId, budget_id: policy.id });
  }
  const since = deps.clock.now() - REPEATED_MS;
  if ((await store.list()).some(({ updatedAt }) => updatedAt > since)) await noteBudgets(deps, workspaceId);
}

const pauseReason = (policy: BudgetPolicy): string =>
  `Paused: the ${policy.window} spend of ${scopeText(policy)} has reached the hard limit of its budget ${policy.id}, $${usdText(limitOf(policy, 'hard_limit')!)}.`;

/** Random order, so that no workspace is always the last. */
const shuffled = <T>(items: readonly T[]): T[] =>
  items
    .map((item) => ({ item, order: Math.random() }))
    .sort((a, b) => a.order - b.order)
    .map(({ item }) => item);
