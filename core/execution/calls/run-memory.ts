import { MemoryStore } from '#core/accounts/documents/memory.ts';
import { checkScope } from '#core/accounts/grants/rights.ts';
import { planOf } from '#core/base/plans.ts';
import { refOf } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { RunMemory } from '../engines/engine.ts';
import type { PreparedCall } from './prepare.ts';

/**
 * Returns the memory of a run's tenant or, without one or by `loop.memory.scope`, that of its workspace
 * (`docs/interface/memory.md#scope`). Throws FORBIDDEN unless the workspace granted it to the agents of other workspaces in
 * the run's chain.
 */
export async function memoryOf(
  deps: Deps,
  { agent, workspace, issued, runId, deadline, tenantId }: Pick<PreparedCall, MemberOfCall>,
): Promise<RunMemory> {
  if (issued !== undefined) {
    const { context } = issued;
    await checkScope(deps, { kind: 'run', runId, deadline, context, workspace, name: refOf(agent) }, 'memory');
  }
  const isShared = agent.definition.loop?.memory?.scope === 'workspace';
  const tenant = isShared ? undefined : (issued?.context.tenantId ?? tenantId);
  const store = new MemoryStore(deps, workspace.id, tenant);
  return {
    list: (page) => store.list(page),
    get: (name) => store.get(name),
    delete: (name, expectedVersion) => store.delete(name, expectedVersion),
    write: (name, write) => store.write(name, { ...write, updatedBy: refOf(agent), plan: planOf(deps, workspace) }),
  };
}

type MemberOfCall = 'agent' | 'workspace' | 'issued' | 'runId' | 'deadline' | 'tenantId';
