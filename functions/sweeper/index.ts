import { blobParts, tableParts, vaultParts } from '#aws/deps.ts';
import { finishLostRuns, retryDeliveries } from '#core/api/sweeps.ts';
import { createClockHandler } from '../clock.ts';
import { host } from '../host.ts';

const tables = tableParts(host);
const deps = { ...host, ...tables, ...blobParts(host), ...vaultParts({ ...host, ...tables }) };
export const handler = createClockHandler('sweeper', deps, { finishLostRuns, retryDeliveries });
