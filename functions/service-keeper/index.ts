import { blobParts, serviceHostParts, tableParts, vaultParts } from '#aws/deps.ts';
import { type BootReply, type KeeperDeps, type KeeperEvent, onKeeperEvent } from '#aws/services/keeper.ts';
import { applyServices } from '#core/services/apply.ts';
import { host } from '../host.ts';

const tables = tableParts(host);
const deps: KeeperDeps = {
  ...host,
  ...tables,
  ...blobParts(host),
  ...vaultParts({ ...host, ...tables }),
  ...serviceHostParts(host),
  gatewayUrl: host.config.callUrl ?? '',
  wakeServices: (ids) => applyServices(deps, ids),
};

/** Invoked when services change, for ECS events about them, every minute, and when an instance starts. */
export async function handler(event: KeeperEvent): Promise<BootReply | undefined> {
  const reply = await onKeeperEvent(deps, event);
  await host.settled();
  return reply;
}
