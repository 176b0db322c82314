import { derivedUuid } from '#core/base/derived-uuid.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import type { PreparedCall } from '../calls/prepare.ts';
import type { OwnLater } from '../engines/engine.ts';
import { topOfChain } from '../sub-calls/lineage.ts';

/**
 * Throws FORBIDDEN unless an agent belongs to the workspace in which it runs: another workspace's agent must not go on
 * there without a call.
 */
export function checkIsOwn(agent: AgentVersion, workspace: Pick<Workspace, 'id' | 'slug'>): void {
  if (agent.workspaceId === workspace.id) return;
  throw new PlatformError(
    'FORBIDDEN',
    `${refOf(agent)} belongs to another workspace than "${workspace.slug}", so its runs cannot call it for later.`,
    { hint: `A member of "${workspace.slug}" can schedule it, or fork it.` },
  );
}

/**
 * Queues a run of the agent of `call`, which is not part of its chain: it begins when that has long ended. Returns the id
 * of the run. Throws what `queueCall` and {@link checkIsOwn} throw.
 */
export async function runOwnLater(
  deps: Deps,
  { runId, agent, endpoint, workspace, issued, skillHeaders, ...call }: PreparedCall,
  { input, runAt, requestId }: OwnLater,
): Promise<string> {
  checkIsOwn(agent, workspace);
  const tenantId = issued?.context.tenantId ?? call.tenantId;
  const id = requestId === undefined ? deps.ids.uuid() : derivedUuid('later', requestId);
  if (requestId !== undefined && (await new RunStore(deps, workspace.id).find(id)) !== undefined) return id;
  const { queueCall } = await import('./queue-call.ts');
  await queueCall(deps, {
    ...{ agent, endpoint, workspace, tenantId, skillHeaders, runAt, runId: id },
    input: { document: input, uploads: [], isMultipart: false },
    triggerSource: 'agent',
    isUnattended: true,
    receivedAt: deps.clock.now(),
    lineage: topOfChain(agent),
  });
  deps.log.info('run asked for a later one', { run_id: runId, later_run_id: id, run_at: isoTime(runAt) });
  return id;
}
