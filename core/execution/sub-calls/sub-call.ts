import { AgentStore, findAnyVersion } from '#core/agents/store.ts';
import type { AgentCaller, CallingAgent } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { priceFor } from '#core/billing/credits/payment.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { MAX_HOPS } from '#core/manifest/definition.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { checkCallerBudget, countCall } from './budget.ts';
import { type Callee, checkDependency } from './dependency.ts';
import { callingAgent, checkRequiredHops, type Lineage } from './lineage.ts';
import { checkSignatures } from './signed-headers.ts';

/**
 * Checks that an agent may make this call, and returns the lineage of the called run
 * (`docs/interface/orchestration.md`). The record of the calling run is authoritative. In the headers that the agent
 * sends,
 * signatures must be valid, and numbers can only lower the limits.
 *
 * Throws FORBIDDEN for a chain or billing organization that the platform did not sign and for another workspace's
 * private
 * agent, MISSING_BILLING_ORG, INVALID_INPUT for headers that are not numbers, TIMEOUT, DEPENDENCY_NOT_ALLOWED,
 * AGENT_NOT_CALLABLE, DEPENDENCY_CYCLE, MAX_HOPS_EXCEEDED, MAX_HOPS_TOO_LOW, BUDGET_EXCEEDED. The last check counts the
 * call against the budgets above it.
 */
export async function checkSubCall(
  deps: Pick<Deps, 'main' | 'counters' | 'blobs' | 'clock' | 'ids'>,
  caller: AgentCaller,
  headers: RequestHeaders,
  callee: Callee,
): Promise<Lineage> {
  checkSignatures(caller, headers);
  const now = deps.clock.now();
  const deadline = minDefined(
    numberIn(headers, 'X-Platform-Deadline-Ms'),
    caller.kind === 'run' ? caller.deadline : undefined,
  );
  if (deadline !== undefined && deadline <= now) {
    throw new PlatformError('TIMEOUT', `The deadline of this call, ${isoTime(deadline)}, has passed.`);
  }
  const calling = caller.kind === 'run' ? caller.context : await topCaller(deps, caller);
  checkDependency(calling, callee);
  const maxHops = hopsBelow(calling, headers, callee.agent);
  const cap = minDefined(numberIn(headers, 'X-Platform-Downstream-Remaining'), calling.perCallCap)!;
  const { agent } = callee;
  checkCallerBudget(agent, Math.min(cap, ...calling.budgets.map((budget) => budget.cap)), calling.chain.at(-1)!);
  await countCall(deps, calling.budgets, {
    deadline: deadline ?? now,
    priceCents: priceFor(agent, calling.workspace),
  });
  return {
    chain: calling.chain,
    ...(caller.kind === 'run' && { parentRunId: caller.runId, rootRunId: caller.context.rootRunId }),
    maxHops,
    budgets: [...calling.budgets, { id: deps.ids.uuid(), ref: refOf(agent), cap }],
    isStrict: calling.isStrict,
    ...(calling.tenantId !== undefined && { tenantId: calling.tenantId }),
    ...(calling.userId !== undefined && { userId: calling.userId }),
    foreign: calling.foreign,
    skillHome: { workspaceId: calling.agentWorkspaceId, slug: calling.chain.at(-1)!.split('/')[0]! },
    deadline,
  };
}

/** Returns the agent of a key that belongs to no run, as the top of a chain. */
async function topCaller(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
  caller: Exclude<AgentCaller, { readonly kind: 'run' }>,
): Promise<CallingAgent> {
  const { workspace, name } = caller;
  const agent =
    caller.kind === 'service' ? await findAnyVersion(deps, caller.agentId) : await currentVersion(deps, caller);
  if (agent === undefined) throw new PlatformError('UNAUTHORIZED', `${name}, the agent of this service key, is gone.`);
  return callingAgent(agent, workspace, { chain: [], maxHops: MAX_HOPS, budgets: [], isStrict: false, foreign: [] });
}

/** Returns the version for which a static key acts: the current one or, while no version can run, the newest. */
async function currentVersion(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
  { workspace, agentName }: AgentCaller & { readonly kind: 'static' },
): Promise<AgentVersion | undefined> {
  const agents = new AgentStore(deps, workspace.id);
  return (await agents.findVersion(agentName, 'latest')) ?? (await agents.findNewestLive(agentName));
}

/** Maximum number of levels below the called agent: one less than the caller's, or less if the SDK's header says so. */
function hopsBelow(caller: CallingAgent, headers: RequestHeaders, agent: AgentVersion): number {
  if (caller.maxHops < 1) {
    throw new PlatformError(
      'MAX_HOPS_EXCEEDED',
      `${caller.chain.at(-1)} may not call ${refOf(agent)}: this chain of calls may not get any longer (${caller.chain.join(' -> ')}).`,
      { hint: `Limits are X-Platform-Max-Hops of the first call, max_hops of each agent, and ${MAX_HOPS}.` },
    );
  }
  const wanted = numberIn(headers, 'X-Platform-Max-Hops') ?? Number.POSITIVE_INFINITY;
  const maxHops = Math.min(caller.maxHops - 1, wanted);
  checkRequiredHops(agent, maxHops);
  return maxHops;
}

/** The minimum of the defined values. */
function minDefined(...numbers: (number | undefined)[]): number | undefined {
  const given = numbers.filter((number) => number !== undefined);
  return given.length === 0 ? undefined : Math.min(...given);
}

/** Parses the header as a whole number; `undefined` if it is absent. Throws INVALID_INPUT. */
function numberIn(headers: RequestHeaders, name: string): number | undefined {
  const text = headers.get(name);
  if (text === null) return undefined;
  if (!/^\d{1,15}$/.test(text)) {
    throw new PlatformError(
      'INVALID_INPUT',
      `${name} is "${text.slice(0, 40)}"; it must be a whole number, 0 or more.`,
    );
  }
  return Number(text);
}
