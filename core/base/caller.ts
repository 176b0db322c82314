import type { Role, Workspace } from './workspace.ts';

/** Who sends a request: a user, acting in one workspace that he is a member of, or an agent in the workspace of its key. */
export interface Caller {
  /** Of an agent `agent:org/name@v1`, which is no user's id. */
  readonly userId: string;
  /** Of a run's own key the run's id. */
  readonly keyId: string;
  readonly workspace: Workspace;
  /** Agents are members, never owners. */
  readonly role: Role;
  /** Present for requests with an agent's service key, which only rows with `agents` accept. */
  readonly agent?: AgentCaller;
}

/** An agent that makes a request: one of its runs, or whoever holds a static key of it. */
export type AgentCaller = RunCaller | StaticCaller;

export interface RunCaller {
  readonly kind: 'run';
  readonly runId: string;
  /** Epoch milliseconds; past it, the run's key is worth nothing. */
  readonly deadline: number;
  readonly context: RunContext;
  /** The one that the run, its costs and all it calls belong to. */
  readonly workspace: Workspace;
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

/** The agent's name alone, without its workspace and version. */
export const agentNameOf = ({ name }: AgentCaller): string => /^[^/]+\/([^@]+)/.exec(name)![1]!;

/** How many calls a dependency call may make, those of its own dependencies included (`per_call_downstream_cap`). */
export interface Budget {
  /** Under which what is used of it is counted. */
  readonly id: string;
  /** Whose calls are counted, for messages: `org/agent@v1`. */
  readonly ref: string;
  readonly cap: number;
}

/** Who calls, as far as its sub-calls are checked against it. */
export interface CallingAgent {
  /** Ends in the agent itself. */
  readonly chain: readonly string[];
  /** The workspace that the agent belongs to. */
  readonly agentWorkspaceId: string;
  /** The workspace that its runs and all below belong to, and that pays for them. */
  readonly workspace: Workspace;
  /** How many levels of calls there may be below it. */
  readonly maxHops: number;
  /** The only agents that it may call. */
  readonly dependencies: readonly string[];
  /** Budget of each of its dependency calls. */
  readonly perCallCap: number;
  /** What its own calls count against. */
  readonly budgets: readonly Budget[];
  readonly isStrict: boolean;
}

/** What the record of a run keeps, so that its sub-calls can be checked without trusting what the agent sends. */
export interface RunContext extends CallingAgent {
  readonly rootRunId: string;
  /** Of the run's service key. */
  readonly keyHash: string;
  /** Signs what the run is told about its chain; known to nobody else. */
  readonly signingSecret: string;
}
