import type { Caller } from '#core/base/caller.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type ApiKey, listKeys } from './store.ts';

/** Lists the user's keys. A key of one workspace sees only keys of that workspace, so that it cannot revoke others. */
export async function keysOf(deps: Pick<Deps, 'main'>, { userId, limits }: Caller): Promise<ApiKey[]> {
  const keys = await listKeys(deps, userId);
  const only = limits?.workspaceId;
  return only === undefined ? keys : keys.filter((key) => key.limits?.workspaceId === only);
}
