import { serviceHostParts, tableParts, vaultParts } from '#aws/deps.ts';
import { type KeeperDeps, type KeeperEvent, onKeeperEvent } from '#aws/services/keeper.ts';
import { applyServices } from '#core/services/apply.ts';
import { host } from '../host.ts';

const tables = tableParts(host);
const deps: KeeperDeps = {
  ...host,
  ...tables,
  ...vaultParts({ ...host, ...tables }),
  ...serviceHostParts(host),
  wakeServices: (ids) => applyServices(deps, ids),
};

/** Invoked when services change, for ECS events about them, and every minute. */
export async function handler(event: KeeperEvent): Promise<void> {
  await onKeeperEvent(deps, event);
  await host.settled();
}
