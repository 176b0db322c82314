import type { Deps } from '#core/ports/deps.ts';
import { paused } from './state.ts';
import { ServiceStore } from './store.ts';

/**
 * Pauses the running services of an agent (`org/agent`), or of the whole workspace, because a budget is exhausted. They
 * stay paused until an owner starts them. Idempotent.
 */
export async function pauseServices(
  deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config' | 'wakeServices'>,
  workspaceId: string,
  agent: string | null,
  reason: string,
): Promise<void> {
  const store = new ServiceStore(deps, workspaceId);
  const running = (await store.list()).filter(
    ({ desired, agentOrg, agentName }) =>
      desired === 'running' && (agent === null || agent === `${agentOrg}/${agentName}`),
  );
  await Promise.all(
    running.map(({ id }) =>
      store.change(id, (service) => {
        if (service.desired !== 'running') return undefined;
        const now = deps.clock.now();
        return {
          service: { ...paused(service), autoPausedAt: now, lastError: { at: now, message: reason }, updatedAt: now },
          events: [{ type: 'budget_hard_limit_paused', message: reason }],
        };
      }),
    ),
  );
  if (running.length > 0) await deps.wakeServices?.(running.map(({ id }) => id));
}
