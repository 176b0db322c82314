import type { Config } from '#core/base/config.ts';
import { isOnHostList } from './host-list.ts';
import { readOutboundUrl } from './outbound-url.ts';

/**
 * Returns why the platform does not connect to a tool server, as a sentence without a full stop; `undefined` if it
 * does. The address follows the rules of {@link readOutboundUrl}. The server acts for an agent, so its host must also
 * be one that sandboxes may connect to (`PLATFORM_SANDBOX_EGRESS`).
 */
export function toolServerUrlProblem(
  { outboundHosts, sandboxEgress }: Pick<Config, 'outboundHosts' | 'sandboxEgress'>,
  text: string,
): string | undefined {
  const read = readOutboundUrl(text, outboundHosts);
  if ('problem' in read) return read.problem;
  if (sandboxEgress === 'open') return undefined;
  if (sandboxEgress === 'none') return 'agents have no network access on this platform';
  return isOnHostList(read.host, sandboxEgress) ? undefined : `agents may not connect to ${read.host} on this platform`;
}
