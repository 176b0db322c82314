import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';

/** Blocks that networks of operators use. A range is a part of one of them, so it never has loopback or link-local addresses. */
const PRIVATE = ['10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'];
/** Metadata services of clouds inside these blocks: of Alibaba Cloud, AWS, Oracle Cloud and Google Cloud. */
const METADATA = ['100.100.100.200/32', 'fd00:ec2::/32', 'fd00:c1::a9fe:a9fe/128', 'fd20:ce::254/128'];

/** Returns what is wrong with a range of private addresses such as `10.20.0.0/16`, as a predicate; `undefined` if it is valid. */
export function privateRangeProblem(range: string): string | undefined {
  const read = readRange(range);
  if (read === undefined) return 'must be a range of addresses, such as 10.20.0.0/16 or fd12:3456::/48';
  const { address, bits } = read;
  const isPart = PRIVATE.some((block) => bits >= readRange(block)!.bits && isInRanges(address, [block]));
  return isPart ? undefined : `must be part of a private network: ${PRIVATE.join(', ')}`;
}

/**
 * Whether `address` is a private address of one of the ranges, and not of a cloud's metadata service. IPv4 addresses
 * that are embedded in IPv6 ones are in none.
 */
export const isAllowedPrivate = (address: string, ranges: readonly string[]): boolean =>
  isInRanges(address, ranges) && !isInRanges(address, METADATA);

function isInRanges(address: string, ranges: readonly string[]): boolean {
  const family = isIPv4(address) ? 'ipv4' : isIPv6(address) && !address.includes('%') ? 'ipv6' : undefined;
  if (family === undefined) return false;
  const list = new BlockList();
  for (const range of ranges) {
    const { address: start, bits } = readRange(range)!;
    // A list with IPv4 ranges would contain the IPv6 form of their addresses, too.
    if (isIPv4(start) === (family === 'ipv4')) list.addSubnet(start, bits, family);
  }
  return list.check(address, family);
}

function readRange(text: string): { readonly address: string; readonly bits: number } | undefined {
  const [, address = '', length = ''] = /^([\da-f.:]+)\/(\d{1,3})$/i.exec(text) ?? [];
  const bits = Number(length);
  const family = isIP(address);
  return family === 0 || bits > (family === 4 ? 32 : 128) ? undefined : { address, bits };
}
