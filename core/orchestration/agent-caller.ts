import type { Deps } from '../deps.ts';
import { hashKey } from '../keys/key-format.ts';
import { findRunContext } from '../runs/store.ts';
import { findWorkspace, type Workspace } from '../workspaces/store.ts';
import { isSame, type RunContext } from './context.ts';
import { type RunKeyParts, readRunKey } from './service-key.ts';
import { findStaticKey, touchStaticKey } from './static-keys.ts';

/** An agent that makes a request: one of its runs, or whoever holds a static key of it. */
export type AgentCaller = RunCaller | StaticCaller;

interface RunCaller {
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

interface StaticCaller {
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

/** What a key is looked up with. */
export type ServiceKeyDeps = Pick<Deps, 'main' | 'runs' | 'clock'>;

/** Whose a service key is; `undefined` for one that is unknown, revoked, or of a run that has ended. */
export async function authenticateAgent(deps: ServiceKeyDeps, presented: string): Promise<AgentCaller | undefined> {
  const parts = readRunKey(presented);
  return parts === undefined ? ofStaticKey(deps, presented) : ofRun(deps, parts, presented);
}

async function ofRun(
  deps: ServiceKeyDeps,
  { workspaceId, runId }: RunKeyParts,
  presented: string,
): Promise<RunCaller | undefined> {
  const found = await findRunContext(deps, workspaceId, runId);
  const context = found?.context as unknown as RunContext | undefined;
  if (found === undefined || context === undefined || !isSame(hashKey(presented), context.keyHash)) return undefined;
  const { status, deadline } = found.run;
  if (status !== 'running' || deadline <= deps.clock.now()) return undefined;
  return { kind: 'run', runId, deadline, context, workspace: context.workspace, name: context.chain.at(-1)! };
}

async function ofStaticKey(deps: ServiceKeyDeps, presented: string): Promise<StaticCaller | undefined> {
  const key = await findStaticKey(deps, hashKey(presented));
  if (key === undefined) return undefined;
  const { id: keyId, workspaceId, agentName } = key;
  const [workspace] = await Promise.all([findWorkspace(deps, workspaceId), touchStaticKey(deps, key)]);
  return workspace && { kind: 'static', keyId, agentName, workspace, name: `${workspace.slug}/${agentName}` };
}
