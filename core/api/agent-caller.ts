import { hashKey } from '#core/accounts/keys/key-format.ts';
import { type RunKeyParts, readRunKey } from '#core/accounts/service-keys/key-format.ts';
import { findStaticKey, touchStaticKey } from '#core/accounts/service-keys/store.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import type { AgentCaller, RunCaller, RunContext, StaticCaller } from '#core/base/caller.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isSame } from '#core/running/sub-calls/run-context.ts';
import { findRunContext } from '#core/runs/lookup.ts';

/** Dependencies for looking up a key. */
export type ServiceKeyDeps = Pick<Deps, 'main' | 'runs' | 'clock'>;

/** The agent of a service key. Returns `undefined` for an unknown or revoked key, and for one of a run that has ended. */
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
  // Runs that began before there were grants have no list.
  const { foreign = [] } = context as Partial<RunContext>;
  const name = context.chain.at(-1)!;
  return { kind: 'run', runId, deadline, context: { ...context, foreign }, workspace: context.workspace, name };
}

async function ofStaticKey(deps: ServiceKeyDeps, presented: string): Promise<StaticCaller | undefined> {
  const key = await findStaticKey(deps, hashKey(presented));
  if (key === undefined) return undefined;
  const { id: keyId, workspaceId, agentName } = key;
  const [workspace] = await Promise.all([findWorkspace(deps, workspaceId), touchStaticKey(deps, key)]);
  return workspace && { kind: 'static', keyId, agentName, workspace, name: `${workspace.slug}/${agentName}` };
}
