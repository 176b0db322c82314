import type { Caller } from '#core/base/caller.ts';
import { type Plan, planOf } from '#core/base/plans.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { callsInUse } from '../limits/admission.ts';
import { installationsInUse } from '../limits/installations.ts';
import { createdWorkspaces } from './created-workspaces.ts';
import type { Use, UseReader } from './quota.ts';
import type { resourceRoutes } from './routes.ts';
import { waitingUploadBytes } from './waiting-uploads.ts';

type ResourceDeps = Pick<Deps, 'main' | 'counters' | 'clock' | 'config'>;

export const resourceHandlers = (
  deps: ResourceDeps,
  readers: readonly UseReader[],
): Handlers<typeof resourceRoutes> => ({
  async getLimits({ caller }) {
    const { name, ...plan } = planOf(deps, caller.workspace);
    const parts = await Promise.all([ownUse(deps, caller), ...readers.map((read) => read(caller.workspace.id))]);
    const used: Use = Object.assign({}, ...parts);
    const limits = Object.entries(plan).map(([member, limit]) => [
      member,
      { used: used[member as keyof Plan] ?? null, limit },
    ]);
    return { status: 200, body: { plan: name, limits: Object.fromEntries(limits) } };
  },
});

async function ownUse(deps: ResourceDeps, { workspace, userId }: Caller): Promise<Use> {
  const [calls, concurrent_installs, upload_bytes, workspaces] = await Promise.all([
    callsInUse(deps, workspace),
    installationsInUse(deps, workspace.id),
    waitingUploadBytes(deps, workspace.id),
    createdWorkspaces(deps, userId),
  ]);
  return { ...calls, concurrent_installs, upload_bytes, workspaces };
}
