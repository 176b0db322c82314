import { BlockList, isIPv4, isIPv6 } from 'node:net';

/** IANA's special-purpose IPv4 blocks that are not globally reachable, and public addresses that clouds use internally. */
const SPECIAL_IPV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32', // Azure's host agent
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
];

/** Only 2000::/3 is assigned for global use: loopback, mapped, NAT64, unique local, link-local and multicast lie outside. */
const GLOBAL_IPV6 = ['2000::/3'];
const SPECIAL_IPV6 = [
  '2001::/23', // Teredo, which embeds an IPv4 address, ORCHID and other protocols
  '2001:db8::/32',
  '2002::/16', // 6to4, which embeds an IPv4 address
  '3fff::/20',
];

const specialIpv4 = blockList(SPECIAL_IPV4, 'ipv4');
const globalIpv6 = blockList(GLOBAL_IPV6, 'ipv6');
const specialIpv6 = blockList(SPECIAL_IPV6, 'ipv6');

function blockList(subnets: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [address, prefix] = subnet.split('/');
    list.addSubnet(address!, Number(prefix), family);
  }
  return list;
}

/**
 * Returns true if `address` is an IP address, in standard notation, of the public internet. Returns false for
 * everything else: names, odd spellings (`0x7f.1`, `2130706433`), zones, and loopback, private, link-local, shared
 * (CGNAT), metadata, multicast, reserved and documentation addresses, including IPv4 addresses embedded in IPv6.
 *
 * Check the address of the connection, not an earlier answer of the resolver.
 */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !specialIpv4.check(address, 'ipv4');
  if (!isIPv6(address) || address.includes('%')) return false;
  return globalIpv6.check(address, 'ipv6') && !specialIpv6.check(address, 'ipv6');
}
