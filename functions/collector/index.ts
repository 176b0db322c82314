import { blobParts, tableParts } from '#aws/deps.ts';
import { collectAgentGarbage } from '#core/agents/garbage.ts';
import { createClockHandler } from '../clock.ts';
import { host } from '../host.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host) };
export const handler = createClockHandler('collector', deps, { collectGarbage: collectAgentGarbage });
