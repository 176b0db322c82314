import { createHmac, timingSafeEqual } from 'node:crypto';
import { hashKey } from '#core/accounts/keys/key-format.ts';
import { newRunKey } from '#core/accounts/service-keys/key-format.ts';
import { MAX_HOPS } from '#core/agents/definition.ts';
import { dependencyRef, refOf } from '#core/agents/references.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import type { Budget, CallingAgent, RunContext } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import type { Deps } from '#core/ports/deps.ts';

/**
 * What a call gets from whoever makes it. Calls of users are the tops of new chains ({@link topOfChain}); those of agents
 * come out of `checkSubCall`.
 */
export interface Lineage {
  /** The agents above, top first: `org/agent@v1`. */
  readonly chain: readonly string[];
  /** Absent at the top of a chain. */
  readonly parentRunId?: string;
  readonly rootRunId?: string;
  /** How many levels of calls there may be below the called agent. */
  readonly maxHops: number;
  /** All that the calls of the called agent, and those below, count against; none at the top of a chain. */
  readonly budgets: readonly Budget[];
  /** Whether an agent above orchestrates strictly. */
  readonly isStrict: boolean;
  /** Epoch milliseconds, when whoever calls waits no longer. */
  readonly deadline?: number;
}

/** The default of `manifest.per_call_downstream_cap` (`spec.md` *Manifest section*). */
const DEFAULT_CAP = 50;

/**
 * The lineage of a call that no agent makes; `maxHops` is the header `X-Platform-Max-Hops`. Throws MAX_HOPS_TOO_LOW when
 * the agent needs more.
 */
export function topOfChain(agent: AgentVersion, maxHops?: number): Lineage {
  const lineage = { chain: [], maxHops: Math.min(maxHops ?? MAX_HOPS, MAX_HOPS), budgets: [], isStrict: false };
  checkRequiredHops(agent, lineage.maxHops);
  return lineage;
}

/** `spec.md` *Manifest section*. Throws MAX_HOPS_TOO_LOW. */
export function checkRequiredHops(agent: AgentVersion, maxHops: number): void {
  const required = agent.definition.manifest?.min_required_hops ?? 0;
  if (maxHops >= required) return;
  throw new PlatformError(
    'MAX_HOPS_TOO_LOW',
    `${refOf(agent)} needs at least ${required} levels of calls below it (min_required_hops), and this call allows ${maxHops}.`,
    { hint: 'Call it with a greater X-Platform-Max-Hops, or from an agent whose max_hops is greater.' },
  );
}

/** The agent as one that calls others, in `workspace`. */
export function callingAgent(agent: AgentVersion, workspace: Workspace, lineage: Lineage): CallingAgent {
  const { manifest } = agent.definition;
  return {
    chain: [...lineage.chain, refOf(agent)],
    agentWorkspaceId: agent.workspaceId,
    workspace,
    maxHops: Math.min(lineage.maxHops, manifest?.max_hops ?? lineage.maxHops),
    dependencies: (manifest?.dependencies ?? []).map(dependencyRef),
    perCallCap: manifest?.per_call_downstream_cap ?? DEFAULT_CAP,
    budgets: lineage.budgets,
    isStrict: lineage.isStrict || manifest?.orchestration_mode === 'strict',
  };
}

/** A run's context, and the key that goes into its sandbox and is kept nowhere. */
export interface IssuedContext {
  readonly runId: string;
  readonly context: RunContext;
  readonly serviceKey: string;
}

/** For runs with a sandbox: a prompt calls nobody. */
export function newContext(
  { ids }: Pick<Deps, 'ids'>,
  { agent, runId, workspace, lineage }: { agent: AgentVersion; runId: string; workspace: Workspace; lineage: Lineage },
): IssuedContext {
  const serviceKey = newRunKey(ids, { workspaceId: workspace.id, runId });
  return {
    runId,
    serviceKey,
    context: {
      ...callingAgent(agent, workspace, lineage),
      rootRunId: lineage.rootRunId ?? runId,
      keyHash: hashKey(serviceKey),
      signingSecret: Buffer.from(ids.randomBytes(32)).toString('base64url'),
    },
  };
}

/** The variables of a sandbox by which an agent, or the SDK in it, calls its dependencies (`contract.md` 11.1). */
export function contextEnvironment(
  { runId, context, serviceKey }: IssuedContext,
  { gatewayUrl, deadline }: { gatewayUrl: string; deadline: number },
): Record<string, string> {
  const { chain, workspace, maxHops, budgets, perCallCap, rootRunId } = context;
  return {
    PLATFORM_SERVICE_KEY: serviceKey,
    PLATFORM_GATEWAY_URL: gatewayUrl,
    PLATFORM_CALL_CHAIN: chain.join(','),
    PLATFORM_CALL_CHAIN_SIG: signChain(context),
    PLATFORM_DEADLINE_MS: String(deadline),
    PLATFORM_MAX_HOPS: String(maxHops),
    PLATFORM_DOWNSTREAM_REMAINING: String(Math.min(...budgets.map(({ cap }) => cap), perCallCap)),
    PLATFORM_BILLING_ORG_ID: workspace.id,
    PLATFORM_BILLING_ORG_SIG: signBillingOrg(context),
    PLATFORM_ROOT_RUN_ID: rootRunId,
    PLATFORM_REQUEST_ID: requestIdOf(runId),
  };
}

/** What `PLATFORM_CALL_CHAIN_SIG` is for a run. */
export const signChain = (context: RunContext): string => sign(context, `chain\n${context.chain.join(',')}`);
/** What `PLATFORM_BILLING_ORG_SIG` is for a run. */
export const signBillingOrg = (context: RunContext): string => sign(context, `billing-org\n${context.workspace.id}`);

const sign = ({ signingSecret }: RunContext, text: string): string =>
  createHmac('sha256', signingSecret).update(text).digest('hex');

/** Compares in constant time. */
export function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
