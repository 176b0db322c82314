import type { Role, Workspace } from './workspace.ts';

/** The sender of a request: a user in one of the user's workspaces, or an agent in the workspace of its key. */
export interface Caller {
  /** User id; for an agent `agent:org/name@v1`, which is never the id of a user. */
  readonly userId: string;
  /** Key id; for a run's own key the id of the run. */
  readonly keyId: string;
  readonly workspace: Workspace;
  /** Agents are members, never owners. */
  readonly role: Role;
  /** Limits of the user's key. @default - the key has all rights of its user */
  readonly limits?: KeyLimits;
  /** Present for requests with an agent's service key, which only rows with `agents` accept. */
  readonly agent?: AgentCaller;
  /** Present for requests with a key that a token of another issuer was exchanged for: its `userId` is that of no user. */
  readonly trust?: TrustCaller;
}

/** A job, such as one of GitHub Actions, that publishes for a workspace by a trust (`docs/interface/trusts.md`). */
export interface TrustCaller {
  /** Id of the trust. */
  readonly id: string;
  readonly issuer: string;
  /** What the token said of the job, for people: its subject, repository, branch and run. */
  readonly claims: Readonly<Record<string, string>>;
}

/**
 * Scopes of a user's key (`docs/interface/authentication.md#scopes`). Each includes `read`, except `publish`, and `manage`
 * includes all others.
 */
export const KEY_SCOPES = ['read', 'approve', 'publish', 'run', 'manage'] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

/** Limits of a user's key. A key without limits has all rights of its user. */
export interface KeyLimits {
  /** @default manage */
  readonly scope?: KeyScope;
  /** The only workspace that the key has access to. @default - all of the user's */
  readonly workspaceId?: string;
  /** ISO time at which the key expires. @default - none */
  readonly expiresAt?: string;
  /** Names of the only agents that the key may publish. @default - all */
  readonly agents?: readonly string[];
  /** Whether the key may publish previews only. @default false */
  readonly previewsOnly?: true;
}

/** An agent that sends a request: a run, a service, or a client with the agent's static key. */
export type AgentCaller = RunCaller | ServiceCaller | StaticCaller;

export interface RunCaller {
  readonly kind: 'run';
  readonly runId: string;
  /** Epoch milliseconds after which the run's key is refused. */
  readonly deadline: number;
  readonly context: RunContext;
  /** Workspace that pays for the run and for everything it calls. */
  readonly workspace: Workspace;
  /** `org/agent@v1`. */
  readonly name: string;
}

/** The app of an always-on service. */
export interface ServiceCaller {
  readonly kind: 'service';
  readonly serviceId: string;
  /** Id of the agent version that the service runs. */
  readonly agentId: string;
  /** Workspace of the service, which pays for its calls. */
  readonly workspace: Workspace;
  /** The agent, if it belongs to another workspace. */
  readonly foreign: readonly ForeignAgent[];
  /** `org/agent@v1`. */
  readonly name: string;
}

export interface StaticCaller {
  readonly kind: 'static';
  readonly keyId: string;
  readonly agentName: string;
  /** Workspace that the agent belongs to. */
  readonly workspace: Workspace;
  /** `org/agent`: the key belongs to all versions. */
  readonly name: string;
}

/** Returns the user of a call whose run may use the user's own connections; nothing for the call of an agent or a trust. */
export const callingUser = ({
  agent,
  trust,
  userId,
}: Pick<Caller, 'agent' | 'trust' | 'userId'>): { readonly userId?: string } =>
  agent === undefined && trust === undefined ? { userId } : {};

/** Returns the workspace that the agent belongs to. Another workspace may pay for its calls. */
export function agentWorkspaceOf(agent: AgentCaller): string {
  if (agent.kind === 'run') return agent.context.agentWorkspaceId;
  const foreign = agent.kind === 'service' ? agent.foreign.at(-1) : undefined;
  return foreign?.workspaceId ?? agent.workspace.id;
}

/** Returns the agent's name without workspace and version. */
export const agentNameOf = ({ name }: AgentCaller): string => /^[^/]+\/([^@]+)/.exec(name)![1]!;

/** Maximum number of calls below one dependency call, nested calls included (`per_call_downstream_cap`). */
export interface Budget {
  /** Counter key of this budget. */
  readonly id: string;
  /** The agent whose calls are counted, for messages: `org/agent@v1`. */
  readonly ref: string;
  readonly cap: number;
  /** Maximum total cost of these calls, in millionths of a US dollar (`downstream_spend_cap`); absent: no limit. */
  readonly spendCap?: number;
}

/** A version of an agent that runs for another workspace than its own. */
export interface ForeignAgent {
  /** Workspace that the agent belongs to. */
  readonly workspaceId: string;
  /** Slug of that workspace. */
  readonly org: string;
  readonly name: string;
  readonly version: number;
  /** First version of this agent: a deleted agent of the same name had lower version numbers. */
  readonly firstVersion: number;
}

/** A calling agent, with the limits for its sub-calls. */
export interface CallingAgent {
  /** The chain of calls, which ends in the agent itself: `org/agent@v1`. */
  readonly chain: readonly string[];
  /** The workspace that the agent belongs to. */
  readonly agentWorkspaceId: string;
  /** The workspace that its runs and all runs below belong to, and that pays for them. */
  readonly workspace: Workspace;
  /** Maximum depth of calls below it. */
  readonly maxHops: number;
  /** The only agent versions that it may call: `org/agent@v1`. */
  readonly dependencies: readonly string[];
  /** Budget of each of its dependency calls. */
  readonly perCallCap: number;
  /** The budgets that its own calls count against. */
  readonly budgets: readonly Budget[];
  readonly isStrict: boolean;
  /** Tenant of the first call of the chain that named one: runs below it cannot act for another. */
  readonly tenantId?: string | undefined;
  /** User whose call began the chain, if a user did: the runs may use this user's own connections. */
  readonly userId?: string | undefined;
  /**
   * Agents of other workspaces in the call chain, itself included. They have access only to what `workspace` granted
   * them (`docs/interface/grants.md#chains`).
   */
  readonly foreign: readonly ForeignAgent[];
}

/** Part of a run's record: sub-calls are checked against the record, not against what the agent sends. */
export interface RunContext extends CallingAgent {
  readonly rootRunId: string;
  /** The run's own span (`core/runs/telemetry/span-ids.ts`), if its trace began outside. It only correlates. */
  readonly trace?: string;
  /** Hash of the run's service key. */
  readonly keyHash: string;
  /** Secret that signs the call chain that the run receives. Only the platform knows it. */
  readonly signingSecret: string;
}
