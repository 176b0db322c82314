import { AgentStore } from '../agents/store.ts';
import type { Deps } from '../deps.ts';
import { hashKey } from '../keys/key-format.ts';
import { RunStore } from '../runs/store.ts';
import { findWorkspace } from '../workspaces/store.ts';
import { type CallingAgent, callingAgent, isSame, MAX_HOPS, type RunContext } from './context.ts';
import { readRunKey } from './service-key.ts';
import { findStaticKey, touchStaticKey } from './static-keys.ts';

/** An agent that makes a request: one of its runs, or whoever holds a static key of it. */
export interface AgentCaller extends CallingAgent {
  /** Of the run, past which its key is worth nothing; endless for a static key. Epoch milliseconds. */
  readonly deadline: number;
  /** The run and the top of its chain; absent for a static key, whose calls are tops of chains themselves. */
  readonly runId?: string;
  readonly rootRunId?: string;
  /** What signatures are checked against; a static key has none. */
  readonly context?: RunContext;
}

type AuthDeps = Pick<Deps, 'main' | 'runs' | 'blobs' | 'clock' | 'config' | 'ids'>;

/** Whose a service key is; `undefined` for one that is unknown, revoked, or of a run that has ended. */
export async function authenticateAgent(deps: AuthDeps, presented: string): Promise<AgentCaller | undefined> {
  const parts = readRunKey(presented);
  return parts === undefined ? ofStaticKey(deps, presented) : ofRun(deps, parts, presented);
}

async function ofRun(
  deps: AuthDeps,
  { workspaceId, runId }: { workspaceId: string; runId: string },
  presented: string,
): Promise<AgentCaller | undefined> {
  const found = await new RunStore(deps, workspaceId).findWithContext(runId);
  const context = found?.context as unknown as RunContext | undefined;
  if (found === undefined || context === undefined || !isSame(hashKey(presented), context.keyHash)) return undefined;
  const { run } = found;
  if (run.status !== 'running' || run.deadline <= deps.clock.now()) return undefined;
  return { ...context, context, runId: run.id, deadline: run.deadline };
}

/** Acts as the agent's current version: the one whose code its author would run. */
async function ofStaticKey(deps: AuthDeps, presented: string): Promise<AgentCaller | undefined> {
  const key = await findStaticKey(deps, hashKey(presented));
  if (key === undefined) return undefined;
  const agents = new AgentStore(deps, key.workspaceId);
  const [workspace, current] = await Promise.all([
    findWorkspace(deps, key.workspaceId),
    agents.findVersion(key.agentName, 'latest'),
    touchStaticKey(deps, key),
  ]);
  const agent = current ?? (await agents.listVersions(key.agentName)).at(-1);
  if (workspace === undefined || agent === undefined) return undefined;
  const top = { chain: [], maxHops: MAX_HOPS, budgets: [], isStrict: false };
  return { ...callingAgent(agent, workspace, top), deadline: Number.POSITIVE_INFINITY };
}
