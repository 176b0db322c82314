import type { Role, Workspace } from './workspace.ts';

/** The sender of a request: a user in one of the user's workspaces, or an agent in the workspace of its key. */
export interface Caller {
  /** For an agent `agent:org/name@v1`, which is no user's id. */
  readonly userId: string;
  /** For a run's own key the run's id. */
  readonly keyId: string;
  readonly workspace: Workspace;
  /** Agents are members, never owners. */
  readonly role: Role;
  /** What the user's key is limited to. @default - it may do what its user may */
  readonly limits?: KeyLimits;
  /** Present for requests with an agent's service key, which only rows with `agents` accept. */
  readonly agent?: AgentCaller;
}

/** What a key of a user may do (`docs/interface/authentication.md#scopes`). Each scope holds those before it. */
export const KEY_SCOPES = ['read', 'run', 'manage'] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

/** What a key of a user is limited to. A key without any limits is good for everything that its user may do. */
export interface KeyLimits {
  /** @default manage */
  readonly scope?: KeyScope;
  /** The only workspace that it acts in. @default - all of the user's */
  readonly workspaceId?: string;
  /** ISO time from which it is refused. @default - none */
  readonly expiresAt?: string;
}

/** An agent that sends a request: one of its runs, a service that it runs as, or a holder of its static key. */
export type AgentCaller = RunCaller | ServiceCaller | StaticCaller;

export interface RunCaller {
  readonly kind: 'run';
  readonly runId: string;
  /** Epoch milliseconds. The run's key is refused after it. */
  readonly deadline: number;
  readonly context: RunContext;
  /** The workspace that pays for the run and for all that it calls. */
  readonly workspace: Workspace;
  /** `org/agent@v1`. */
  readonly name: string;
}

/** The app of an always-on service. */
export interface ServiceCaller {
  readonly kind: 'service';
  readonly serviceId: string;
  /** Of the version that the service runs. */
  readonly agentId: string;
  /** That of the service, which pays for what it calls. */
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
  /** The agent's own. */
  readonly workspace: Workspace;
  /** `org/agent`: the key belongs to all versions. */
  readonly name: string;
}

/** The workspace that an agent belongs to, which need not be the one that pays for what it calls. */
export function agentWorkspaceOf(agent: AgentCaller): string {
  if (agent.kind === 'run') return agent.context.agentWorkspaceId;
  const foreign = agent.kind === 'service' ? agent.foreign.at(-1) : undefined;
  return foreign?.workspaceId ?? agent.workspace.id;
}

/** The agent's name alone, without its workspace and version. */
export const agentNameOf = ({ name }: AgentCaller): string => /^[^/]+\/([^@]+)/.exec(name)![1]!;

/** How many calls a dependency call may make, those of its own dependencies included (`per_call_downstream_cap`). */
export interface Budget {
  /** Counter key of this budget. */
  readonly id: string;
  /** The agent whose calls are counted, for messages: `org/agent@v1`. */
  readonly ref: string;
  readonly cap: number;
  /** What these calls may cost together, in millionths of a US dollar (`downstream_spend_cap`); absent: no limit. */
  readonly spendCap?: number;
}

/** A version of an agent that runs for another workspace than its own. */
export interface ForeignAgent {
  /** The agent's own. */
  readonly workspaceId: string;
  /** Slug of that workspace. */
  readonly org: string;
  readonly name: string;
  readonly version: number;
  /** Its agent began with this version: an agent of the same name that was deleted before had smaller numbers. */
  readonly firstVersion: number;
}

/** A calling agent: what its sub-calls are checked against. */
export interface CallingAgent {
  /** The chain of calls, which ends in the agent itself: `org/agent@v1`. */
  readonly chain: readonly string[];
  /** The workspace that the agent belongs to. */
  readonly agentWorkspaceId: string;
  /** The workspace that its runs and all runs below belong to, and that pays for them. */
  readonly workspace: Workspace;
  /** Levels of calls that are allowed below it. */
  readonly maxHops: number;
  /** The only agent versions that it may call: `org/agent@v1`. */
  readonly dependencies: readonly string[];
  /** Budget of each of its dependency calls. */
  readonly perCallCap: number;
  /** The budgets that its own calls count against. */
  readonly budgets: readonly Budget[];
  readonly isStrict: boolean;
  /**
   * The agents of other workspaces in its chain, itself included. What they were not granted of `workspace` is closed to
   * it (`docs/interface/grants.md#chains`).
   */
  readonly foreign: readonly ForeignAgent[];
}

/** Part of a run's record: sub-calls are checked against it, not against what the agent sends. */
export interface RunContext extends CallingAgent {
  readonly rootRunId: string;
  /** Hash of the run's service key. */
  readonly keyHash: string;
  /** Signs what the run is told about its chain. Only the platform knows it. */
  readonly signingSecret: string;
}
