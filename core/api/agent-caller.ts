import { hashKey } from '#core/accounts/keys/key-format.ts';
import { type RunKeyParts, readRunKey, readServiceKey } from '#core/accounts/service-keys/key-format.ts';
import { findStaticKey, touchStaticKey } from '#core/accounts/service-keys/store.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import type { AgentCaller, RunCaller, RunContext, ServiceCaller, StaticCaller } from '#core/base/caller.ts';
import { foreignAgents } from '#core/execution/sub-calls/lineage.ts';
import { isSame } from '#core/execution/sub-calls/run-context.ts';
import type { Deps } from '#core/ports/deps.ts';
import { findRunContext } from '#core/runs/lookup.ts';

/** Dependencies for looking up a key. */
export type ServiceKeyDeps = Pick<Deps, 'main' | 'runs' | 'clock' | 'ids' | 'config'>;

/**
 * Returns the agent of a service key. Returns `undefined` for an unknown or revoked key, and for the key of an ended
 * run or a service that should not run.
 */
export async function authenticateAgent(deps: ServiceKeyDeps, presented: string): Promise<AgentCaller | undefined> {
  const parts = readRunKey(presented);
  if (parts !== undefined) return ofRun(deps, parts, presented);
  return readServiceKey(presented) === undefined ? ofStaticKey(deps, presented) : ofService(deps, presented);
}

async function ofService(deps: ServiceKeyDeps, presented: string): Promise<ServiceCaller | undefined> {
  // Loaded lazily: few callers are services, and smaller functions start faster.
  const { findByServiceKey } = await import('#core/services/boot-tokens.ts');
  const service = await findByServiceKey(deps, presented);
  const workspace = service && (await findWorkspace(deps, service.workspaceId));
  if (workspace === undefined) return undefined;
  const {
    id: serviceId,
    agentId,
    agentWorkspaceId,
    agentOrg: org,
    agentName,
    agentVersion,
    agentFirstVersion,
  } = service!;
  const agent = {
    workspaceId: agentWorkspaceId,
    orgSlug: org,
    name: agentName,
    version: Number(agentVersion.slice(1)),
  };
  const foreign = foreignAgents({ ...agent, firstVersion: agentFirstVersion }, workspace, { foreign: [] });
  return { kind: 'service', serviceId, agentId, workspace, foreign, name: `${org}/${agentName}@${agentVersion}` };
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
  // Runs that started before grants existed have no list.
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
