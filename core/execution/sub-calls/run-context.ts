import { createHmac, timingSafeEqual } from 'node:crypto';
import { hashKey } from '#core/accounts/keys/key-format.ts';
import { newRunKey } from '#core/accounts/service-keys/key-format.ts';
import type { RunContext } from '#core/base/caller.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { withSpendCap } from './budget.ts';
import { callingAgent, type Lineage } from './lineage.ts';

/** A run's context, with the service key that is passed to its sandbox and never stored. */
export interface IssuedContext {
  readonly runId: string;
  readonly context: RunContext;
  readonly serviceKey: string;
}

/** Builds the context of a run with a sandbox. Prompts call no agents and need none. */
export function newContext(
  { ids }: Pick<Deps, 'ids'>,
  {
    agent,
    runId,
    workspace,
    lineage,
    tenantId,
    trace,
    userId,
  }: {
    readonly agent: AgentVersion;
    readonly runId: string;
    readonly workspace: Workspace;
    readonly lineage: Lineage;
    /** Tenant that the call names. */
    readonly tenantId?: string | undefined;
    /** The run's own span, if its trace began outside. */
    readonly trace?: string | undefined;
    /** User whose call began the chain. */
    readonly userId?: string | undefined;
  },
): IssuedContext {
  const serviceKey = newRunKey(ids, { workspaceId: workspace.id, runId });
  return {
    runId,
    serviceKey,
    context: {
      ...callingAgent(agent, workspace, {
        ...lineage,
        budgets: withSpendCap(lineage.budgets, agent, runId),
        tenantId: lineage.tenantId ?? tenantId,
        userId,
      }),
      rootRunId: lineage.rootRunId ?? runId,
      ...(trace && { trace }),
      keyHash: hashKey(serviceKey),
      signingSecret: Buffer.from(ids.randomBytes(32)).toString('base64url'),
    },
  };
}

/**
 * Returns the environment variables with which a program, or the SDK in it, calls the agent's dependencies
 * (`docs/interface/sandbox.md#variables`).
 */
export function contextEnvironment(
  { runId, context, serviceKey }: IssuedContext,
  { gatewayUrl, deadline }: { readonly gatewayUrl: string; readonly deadline: number },
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

/** 128 bits cannot be guessed, and a request with a wrong token finds nothing. */
const EVENT_PART_BYTES = 16;

/**
 * Returns the part with which the tokens of all events of a run begin (`docs/interface/approvals.md#events-from-outside`). It
 * is masked like a secret: what is stored of a run shows no address that works.
 *
 * @param serviceKey The run's key, which is the same in every process that continues the run.
 */
export const eventSecret = (serviceKey: string): string => eventPart(serviceKey, 'events');

/** Returns the token of an event of a run. Who has one cannot derive those of other events. */
export const eventToken = (serviceKey: string, name: string): string =>
  `${eventSecret(serviceKey)}${eventPart(serviceKey, `event\n${name}`)}`;

const eventPart = (serviceKey: string, text: string): string =>
  createHmac('sha256', serviceKey).update(text).digest().subarray(0, EVENT_PART_BYTES).toString('base64url');

/** Computes the value of `PLATFORM_CALL_CHAIN_SIG`. */
export const signChain = (context: RunContext): string => sign(context, `chain\n${context.chain.join(',')}`);
/** Computes the value of `PLATFORM_BILLING_ORG_SIG`. */
export const signBillingOrg = (context: RunContext): string => sign(context, `billing-org\n${context.workspace.id}`);

const sign = ({ signingSecret }: RunContext, text: string): string =>
  createHmac('sha256', signingSecret).update(text).digest('hex');

/** Compares in constant time. */
export function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
