import { maySee } from '#core/agents/access.ts';
import { findAnyVersion } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import { fullNameOf } from '#core/manifest/references.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import type { Deps } from '#core/ports/deps.ts';
import { forgetPolicies } from './admission.ts';
import { noteBudgets } from './note.ts';
import { type BudgetPolicy, windowAt, withLimits } from './policy.ts';
import { progressOf } from './progress.ts';
import type { budgetRoutes } from './routes.ts';
import { BudgetStore } from './store.ts';
import { alertView, viewOf } from './view.ts';

type HandlerDeps = Pick<Deps, 'main' | 'runs' | 'blobs' | 'clock' | 'ids' | 'config'>;
type Settings = Pick<BudgetPolicy, 'softLimitCents' | 'hardLimitCents' | 'action'>;

/** All policies are in one item, which could hold many times more. */
const MAX_BUDGETS = 100;
/** Spend is not cached here: after a blocked call, the budget must show the spend that blocked it. */
const MAX_AGE_MS = 0;

export const budgetHandlers = (deps: HandlerDeps): Handlers<typeof budgetRoutes> => ({
  async listBudgets({ caller }) {
    return { status: 200, body: { budgets: await viewsOf(deps, caller, await storeOf(deps, caller).list()) } };
  },

  async createBudget({ caller, body }) {
    const policy = await newPolicy(deps, caller, body);
    await storeOf(deps, caller).change((policies) => {
      const same = policies.find(({ agent, window }) => agent === policy.agent && window === policy.window);
      if (same !== undefined) {
        const scope = policy.agent ?? 'the workspace';
        throw new PlatformError('CONFLICT', `A ${policy.window} budget of ${scope} already exists: ${same.id}.`, {
          hint: 'Change it with PATCH, or delete it first.',
        });
      }
      if (policies.length >= MAX_BUDGETS) {
        throw new PlatformError(
          'CONFLICT',
          `This workspace has ${MAX_BUDGETS} budgets, the maximum: delete one first.`,
        );
      }
      return { policies: [...policies, policy] };
    });
    await changed(deps, caller);
    return { status: 201, body: { budget: await viewIn(deps, caller, policy) } };
  },

  async getBudget({ caller, params }) {
    const policy = found(await storeOf(deps, caller).list(), params.budget_id);
    return { status: 200, body: { budget: await viewIn(deps, caller, policy) } };
  },

  async updateBudget({ caller, params, body }) {
    const store = storeOf(deps, caller);
    const policy = found(await store.list(), params.budget_id);
    const [progress] = await progressOf(deps, caller.workspace.id, [policy], 0);
    const { spentMicro } = progress!;
    let after = policy;
    await store.change((policies) => {
      const before = found(policies, params.budget_id);
      after = updated(deps, before, body, spentMicro);
      return { policies: policies.map((each) => (each === before ? after : each)) };
    });
    forgetPolicies(deps.main, caller.workspace.id);
    return { status: 200, body: { budget: await viewIn(deps, caller, after) } };
  },

  async deleteBudget({ caller, params }) {
    await storeOf(deps, caller).change((policies) => {
      const gone = found(policies, params.budget_id);
      return { policies: policies.filter((each) => each !== gone) };
    });
    await changed(deps, caller);
    return { status: 200, body: { deleted: true, budget_id: params.budget_id } };
  },

  async listBudgetAlerts({ caller, query }) {
    return { status: 200, body: { alerts: (await storeOf(deps, caller).listAlerts(query)).map(alertView) } };
  },
});

const storeOf = (deps: HandlerDeps, { workspace }: Caller) => new BudgetStore(deps, workspace.id);

async function viewsOf(deps: HandlerDeps, { workspace }: Caller, policies: readonly BudgetPolicy[]) {
  const progress = await progressOf(deps, workspace.id, policies, MAX_AGE_MS);
  return policies.map((policy, i) => viewOf(workspace.id, policy, progress[i]!));
}

const viewIn = async (deps: HandlerDeps, caller: Caller, policy: BudgetPolicy) =>
  (await viewsOf(deps, caller, [policy]))[0]!;

/** Updates caches and notes after a change to the number of budgets. */
async function changed(deps: HandlerDeps, { workspace }: Caller): Promise<void> {
  forgetPolicies(deps.main, workspace.id);
  await noteBudgets(deps, workspace.id);
}

/** Throws NOT_FOUND. */
function found(policies: readonly BudgetPolicy[], id: string): BudgetPolicy {
  const policy = policies.find((each) => each.id === id);
  if (policy === undefined) throw new PlatformError('NOT_FOUND', `There is no budget "${id.slice(0, 64)}".`);
  return policy;
}

type Operations = typeof budgetRoutes;
type NewBudget = Incoming<Extract<Operations[number], { operationId: 'createBudget' }>>['body'];
type Changes = Incoming<Extract<Operations[number], { operationId: 'updateBudget' }>>['body'];

async function newPolicy(deps: HandlerDeps, caller: Caller, body: NewBudget): Promise<BudgetPolicy> {
  const now = deps.clock.now();
  const settings = {
    softLimitCents: centsOf(body.soft_limit_usd),
    hardLimitCents: centsOf(body.hard_limit_usd),
    action: body.action_on_hard_limit,
  };
  checkSettings(settings);
  return {
    id: deps.ids.uuid(),
    ...(await scopeOf(deps, caller, body)),
    window: body.window,
    ...settings,
    webhookUrl: urlOf(deps, body.webhook_url),
    createdAt: now,
    updatedAt: now,
    done: { windowStart: 0, names: [] },
  };
}

/** Resolves the scope of a budget. Throws INVALID_INPUT, and NOT_FOUND for an agent that the caller may not see. */
async function scopeOf(
  deps: HandlerDeps,
  caller: Caller,
  { scope_type: type, scope_id: id }: NewBudget,
): Promise<Pick<BudgetPolicy, 'scopeId' | 'agent'>> {
  if (type === 'workspace') {
    if (id == null || id === caller.workspace.id) return { scopeId: null, agent: null };
    throw new PlatformError('INVALID_INPUT', 'body.scope_id: must be left out for a budget of the workspace.');
  }
  if (!id) throw new PlatformError('INVALID_INPUT', 'body.scope_id: is required: the id of a version of the agent.');
  const version = /^[0-9a-f-]{36}$/.test(id) ? await findAnyVersion(deps, id) : undefined;
  if (version === undefined || !(await maySee(deps, caller, version))) {
    throw new PlatformError('NOT_FOUND', `body.scope_id: there is no agent version with the id "${id}".`);
  }
  return { scopeId: id, agent: fullNameOf(version) };
}

function updated(deps: HandlerDeps, before: BudgetPolicy, body: Changes, spentMicro: number): BudgetPolicy {
  const { soft_limit_usd: soft, hard_limit_usd: hard, action_on_hard_limit: action = before.action } = body;
  const limits = {
    softLimitCents: soft === undefined ? before.softLimitCents : centsOf(soft),
    hardLimitCents: hard === undefined ? before.hardLimitCents : centsOf(hard),
  };
  checkSettings({ ...limits, action });
  const now = deps.clock.now();
  return {
    ...withLimits(before, limits, windowAt(before.window, now).start, spentMicro),
    action,
    webhookUrl: body.webhook_url === undefined ? before.webhookUrl : urlOf(deps, body.webhook_url),
    updatedAt: now,
  };
}

const centsOf = (usd: number | null | undefined): number | null => (usd == null ? null : Math.round(usd * 100));

/** Throws INVALID_INPUT. */
function checkSettings({ softLimitCents: soft, hardLimitCents: hard, action }: Settings): void {
  if (soft === null && hard === null) {
    throw new PlatformError('INVALID_INPUT', 'body: a budget needs soft_limit_usd, hard_limit_usd, or both.');
  }
  if (soft !== null && hard !== null && soft >= hard) {
    throw new PlatformError('INVALID_INPUT', 'body.soft_limit_usd: must be less than hard_limit_usd.');
  }
  if (hard === null && action !== 'alert_only') {
    throw new PlatformError('INVALID_INPUT', `body.action_on_hard_limit: ${action} needs a hard_limit_usd.`);
  }
}

/** Returns the webhook address to store, or null for none. Throws INVALID_INPUT. */
function urlOf({ config }: Pick<Deps, 'config'>, given: string | null | undefined): string | null {
  if (!given) return null;
  checkOutboundUrl(given, config.outboundHosts, 'body.webhook_url');
  return given;
}
