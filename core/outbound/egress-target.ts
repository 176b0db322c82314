import { isIP } from 'node:net';
import type { Config } from '#core/base/config.ts';
import { isInPorts, portsText } from '#core/base/port-ranges.ts';
import { isOnHostList } from './host-list.ts';

/** Maximum number of entries in `egress` of a manifest. */
export const MAX_EGRESS_TARGETS = 20;
/** Mail between servers. Submission, which requires a password, has the ports 465 and 587. */
const MAIL_PORT = 25;
const LABEL = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?';
const NAME = new RegExp(`^${LABEL}(?:\\.${LABEL})*$`);
/** Names that mean the sandbox itself. */
const OWN_NAME = /^(?:.*\.)?localhost$|^sandbox$/;

export interface EgressTarget {
  readonly host: string;
  readonly port: number;
}

/** Reads a valid target. */
export function readEgressTarget(target: string): EgressTarget {
  const [host, port] = target.split(':') as [string, string];
  return { host: host.toLowerCase(), port: Number(port) };
}

/** Returns what is wrong with a target `host:port`, as a predicate; `undefined` if it is valid. */
export function egressTargetProblem(target: string): string | undefined {
  const [, given = '', port = ''] = /^(.*?)(?::(\d{1,6}))?$/s.exec(target) ?? [];
  const host = given.toLowerCase();
  if (host.includes('://')) return 'must be "host:port" without a scheme, such as "db.example.com:5432"';
  if (host.includes('*')) return 'must be one host: a wildcard has no address that a client could connect to';
  if (
    isIP(host.replace(/^\[|\]$/g, '')) !== 0 ||
    host.includes('[') ||
    /^(?:0x[\da-f]+|\d+)$/.test(host.split('.').at(-1)!)
  ) {
    return 'must have a name instead of an address: give the address a name in DNS';
  }
  if (!NAME.test(host) || host.length > 253) return 'must be "host:port", such as "db.example.com:5432"';
  if (OWN_NAME.test(host)) return 'must not be the sandbox itself';
  if (port === '') return 'must end with a port, as in "db.example.com:5432"';
  if (Number(port) < 1 || Number(port) > 65_535) return 'must have a port from 1 to 65535';
  if (Number(port) === MAIL_PORT)
    return 'must not have the port 25, of mail between servers: send mail by port 465 or 587';
  return undefined;
}

/** Returns why this platform does not open one of the targets of a manifest, as a sentence; `undefined` if it opens all. */
export function closedTarget(
  { sandboxEgress, egressPorts }: Pick<Config, 'sandboxEgress' | 'egressPorts'>,
  targets: readonly string[],
): string | undefined {
  for (const target of targets) {
    const { host, port } = readEgressTarget(target);
    const isHostOpen = sandboxEgress === 'open' || (sandboxEgress !== 'none' && isOnHostList(host, sandboxEgress));
    if (!isHostOpen) {
      return `its "egress" has ${target}, and the operator does not let agents connect to ${host} (PLATFORM_SANDBOX_EGRESS).`;
    }
    if (!isInPorts(port, egressPorts)) {
      const open =
        egressPorts.length === 0 ? 'no ports besides 80 and 443' : `only the ports ${portsText(egressPorts)}`;
      return `its "egress" has ${target}, and the operator opens ${open} (PLATFORM_EGRESS_PORTS).`;
    }
  }
  return undefined;
}
