import { MAX_HOPS } from '#core/agents/definition.ts';
import { refOf, versionName } from '#core/agents/references.ts';
import { AgentStore } from '#core/agents/store.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import type { AgentCaller, Budget, CallingAgent } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, anyOf, lessThan } from '#core/ports/table.ts';
import { untilWritten } from '#core/ports/until-written.ts';
import { callingAgent, checkRequiredHops, type Lineage } from './lineage.ts';
import { isSame, signBillingOrg, signChain } from './run-context.ts';

/** Counters table: `BUDGET#<budget id> / USED` is how many calls were counted against a {@link Budget}. */
const budgetKey = (id: string) => ({ pk: `BUDGET#${id}`, sk: 'USED' });
const BUDGET_KEPT_SECONDS = 24 * 3600;

/** What a sub-call addresses: the version as the path has it, and what was found there. */
export interface SubCallTarget {
  readonly version: string;
  readonly agent: AgentVersion;
}

/**
 * Whether an agent may make this call, and what the called run gets from it (`spec.md` *Limits*, `contract.md` 1.3). All
 * that counts is in the record of the calling run; of what the agent sends, signed headers must be genuine when they
 * are there, and numbers can only make the call's limits narrower.
 *
 * Throws FORBIDDEN for a chain or billing organization that the platform did not sign and for another workspace's private
 * agent, MISSING_BILLING_ORG, INVALID_INPUT for headers that are no numbers, TIMEOUT, DEPENDENCY_NOT_ALLOWED,
 * AGENT_NOT_CALLABLE, DEPENDENCY_CYCLE, MAX_HOPS_EXCEEDED, MAX_HOPS_TOO_LOW, BUDGET_EXCEEDED. The last check counts the
 * call against the budgets above it.
 */
export async function checkSubCall(
  deps: Pick<Deps, 'main' | 'counters' | 'blobs' | 'clock' | 'ids'>,
  caller: AgentCaller,
  headers: Headers,
  target: SubCallTarget,
): Promise<Lineage> {
  checkSignatures(caller, headers);
  const now = deps.clock.now();
  const deadline = least(
    numberIn(headers, 'X-Platform-Deadline-Ms'),
    caller.kind === 'run' ? caller.deadline : undefined,
  );
  if (deadline !== undefined && deadline <= now) {
    throw new PlatformError('TIMEOUT', `The deadline of this call, ${isoTime(deadline)}, has passed.`);
  }
  const calling = caller.kind === 'run' ? caller.context : await currentVersion(deps, caller);
  checkDependency(calling, target);
  const maxHops = hopsBelow(calling, headers, target.agent);
  const cap = least(numberIn(headers, 'X-Platform-Downstream-Remaining'), calling.perCallCap)!;
  await countCall(deps, calling.budgets, deadline ?? now);
  return {
    chain: calling.chain,
    ...(caller.kind === 'run' && { parentRunId: caller.runId, rootRunId: caller.context.rootRunId }),
    maxHops,
    budgets: [...calling.budgets, { id: deps.ids.uuid(), ref: refOf(target.agent), cap }],
    isStrict: calling.isStrict,
    deadline,
  };
}

/** Who holds a static key acts as the agent's current version; while none can run, as the newest. */
async function currentVersion(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
  { workspace, agentName, name }: AgentCaller & { readonly kind: 'static' },
): Promise<CallingAgent> {
  const agents = new AgentStore(deps, workspace.id);
  const agent = (await agents.findVersion(agentName, 'latest')) ?? (await agents.listVersions(agentName)).at(-1);
  if (agent === undefined) throw new PlatformError('UNAUTHORIZED', `${name}, the agent of this service key, is gone.`);
  return callingAgent(agent, workspace, { chain: [], maxHops: MAX_HOPS, budgets: [], isStrict: false });
}

const CHAIN = ['X-Platform-Call-Chain', 'X-Platform-Call-Chain-Sig'] as const;
const BILLING_ORG = ['X-Platform-Billing-Org-Id', 'X-Platform-Billing-Org-Sig'] as const;

/**
 * A signature that cannot be verified is refused, not ignored: whoever sends one believes that it counts. A request with
 * nothing but the key needs none, for the key leads to the run's record.
 */
function checkSignatures(caller: AgentCaller, headers: Headers): void {
  if (![...CHAIN, ...BILLING_ORG].some((name) => headers.has(name))) return;
  const context = caller.kind === 'run' ? caller.context : undefined;
  if (!BILLING_ORG.every((name) => headers.has(name))) {
    throw new PlatformError(
      'MISSING_BILLING_ORG',
      `A call with the chain headers of a run needs ${BILLING_ORG.join(' and ')}, too.`,
    );
  }
  checkSignature(headers, BILLING_ORG, context && [context.workspace.id, signBillingOrg(context)]);
  if (CHAIN.some((name) => headers.has(name))) {
    checkSignature(headers, CHAIN, context && [context.chain.join(','), signChain(context)]);
  }
}

/** Throws FORBIDDEN unless two headers hold a value and its signature. */
function checkSignature(
  headers: Headers,
  names: readonly [string, string],
  expected: readonly [string, string] | undefined,
): void {
  if (expected?.every((text, index) => isSame(headers.get(names[index]!) ?? '', text))) return;
  throw new PlatformError(
    'FORBIDDEN',
    `${names[0]} is not what the platform signed for the run of this service key: send ${names.join(' and ')} as they are in its environment, or not at all.`,
  );
}

function checkDependency(caller: CallingAgent, { version, agent }: SubCallTarget): void {
  const ref = refOf(agent);
  const own = caller.chain.at(-1)!;
  if (version !== versionName(agent.version)) {
    throw new PlatformError(
      'DEPENDENCY_NOT_ALLOWED',
      `${own} asked for version "${version}" of ${agent.orgSlug}/${agent.name}: agents call exact versions, such as ${ref}.`,
    );
  }
  if (!caller.dependencies.includes(ref)) {
    throw new PlatformError(
      'DEPENDENCY_NOT_ALLOWED',
      `${own} may not call ${ref}: ${
        caller.dependencies.length === 0
          ? 'its manifest has no dependencies'
          : `its manifest.dependencies are ${caller.dependencies.join(', ')}`
      }.`,
    );
  }
  const isVisible =
    agent.definition.is_public ||
    agent.workspaceId === caller.agentWorkspaceId ||
    agent.workspaceId === caller.workspace.id;
  if (!isVisible) throw new PlatformError('FORBIDDEN', `${own} may not call ${ref}: it is private to its workspace.`);
  if (!agent.definition.callable) {
    throw new PlatformError('AGENT_NOT_CALLABLE', `${ref} may not be called by agents: its "callable" is false.`);
  }
  // Whichever version: see dependency-graph.ts.
  if (caller.chain.some((above) => above.startsWith(`${agent.orgSlug}/${agent.name}@`))) {
    throw new PlatformError(
      'DEPENDENCY_CYCLE',
      `${agent.orgSlug}/${agent.name} is in this chain of calls already: ${[...caller.chain, ref].join(' -> ')}.`,
    );
  }
}

/** `spec.md` *Limits*: the smaller of the caller's and the agent's own. The SDK sends what is left below the called one. */
function hopsBelow(caller: CallingAgent, headers: Headers, agent: AgentVersion): number {
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

/** Counts one call against all of the budgets, or against none. Throws BUDGET_EXCEEDED. */
async function countCall(
  { counters, clock }: Pick<Deps, 'counters' | 'clock'>,
  budgets: readonly Budget[],
  deadline: number,
): Promise<void> {
  if (budgets.length === 0) return;
  const exceeded = ({ ref, cap }: Budget): PlatformError =>
    new PlatformError(
      'BUDGET_EXCEEDED',
      `The call of ${ref} may make ${cap} calls of dependencies, those of its dependencies included, and has made them.`,
      { hint: "The limit is per_call_downstream_cap in its caller's manifest." },
    );
  const none = budgets.find(({ cap }) => cap < 1);
  if (none) throw exceeded(none);
  const ttl = epochSeconds(deadline) + BUDGET_KEPT_SECONDS;
  // Sibling runs write budgets at once: on AWS one of two transactions that meet is refused.
  await untilWritten(clock, 'a budget of a sub-call', async () => {
    const result = await counters.transact(
      budgets.map(({ id, cap }) => ({
        op: 'update' as const,
        key: budgetKey(id),
        changes: { add: { used: 1 }, set: { ttl } },
        condition: anyOf(absent('used'), lessThan('used', cap)),
      })),
    );
    if (result.ok) return true;
    if (result.failed.length > 0) throw exceeded(budgets[result.failed[0]!]!);
    return undefined;
  });
}

/** The least of what there is. */
function least(...numbers: (number | undefined)[]): number | undefined {
  const given = numbers.filter((number) => number !== undefined);
  return given.length === 0 ? undefined : Math.min(...given);
}

/** A whole number of 0 and more, or `undefined` without the header. Throws INVALID_INPUT. */
function numberIn(headers: Headers, name: string): number | undefined {
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
