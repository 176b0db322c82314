import { blobLinkParts, blobParts, bootParts, tableParts, vaultParts, wakeParts } from '#aws/deps.ts';
import { serviceInstances } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const tables = tableParts(host);
const deps = {
  ...host,
  ...tables,
  ...blobParts(host),
  ...blobLinkParts(host),
  ...vaultParts({ ...host, ...tables }),
  ...bootParts(host),
  ...wakeParts(host),
  gatewayUrl: host.config.callUrl ?? host.config.baseUrl ?? '',
};
export const handler = createHandler('service-instances', deps, serviceInstances).use(observe);
