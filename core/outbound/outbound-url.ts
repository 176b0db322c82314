import { isIP } from 'node:net';
import { PlatformError } from '#core/base/errors.ts';
import { isOnHostList } from './host-list.ts';
import { isPublicAddress } from './public-address.ts';

const MAX_LENGTH = 2048;
/** Lower ports belong to other protocols. */
const FIRST_FREE_PORT = 1024;

/** An address that the platform may send to, as far as its text shows: a name still has to be resolved. */
export interface OutboundUrl {
  readonly url: URL;
  /** A name without a dot at the end, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  /** Whether the host is on the operator's own network and may be private. */
  readonly isOwn: boolean;
}

/**
 * Reads an address from `field` by the rules of {@link readOutboundUrl}. Throws INVALID_INPUT with a message that
 * repeats at most the host, because the rest of the address may be secret.
 */
export function checkOutboundUrl(
  text: string,
  ownHosts: readonly string[],
  field: string,
  example = 'https://hooks.example.com/alerts',
): OutboundUrl {
  const read = readOutboundUrl(text, ownHosts);
  if (!('problem' in read)) return read;
  throw new PlatformError('INVALID_INPUT', `${field}: ${read.problem}.`, {
    hint: `Give an address such as ${example}.`,
  });
}

/**
 * Reads an address. It must be https, at port 443 or from 1024 up, without user and password, and public. Hosts on
 * `ownHosts` (`PLATFORM_OUTBOUND_HOSTS`) may also use http and any port, and may be private.
 *
 * The URL parser normalizes every spelling of an IPv4 address (`127.1`, `0x7f.1`, `2130706433`) and of a name
 * (full-width letters, ideographic dots) before the host is checked.
 */
export function readOutboundUrl(text: string, ownHosts: readonly string[]): OutboundUrl | { readonly problem: string } {
  if (text.length > MAX_LENGTH) {
    return { problem: `the address has ${text.length} characters, at most ${MAX_LENGTH} are allowed` };
  }
  // The parser would drop tabs and line ends, and read \ as /.
  const url = /[\s\\\p{Cc}]/u.test(text) ? null : URL.parse(text);
  if (url === null) return { problem: 'this is not a web address' };
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  const isOwn = isOnHostList(host, ownHosts);
  const isPlain = url.protocol === 'http:';
  if (url.protocol !== 'https:' && !(isPlain && isOwn)) {
    return { problem: `the address must begin with https://, not ${url.protocol.slice(0, 20)}//` };
  }
  if (url.username !== '' || url.password !== '') {
    return { problem: 'the address must not have a user or a password in it' };
  }
  const port = url.port === '' ? (isPlain ? 80 : 443) : Number(url.port);
  if (!isOwn && port !== 443 && port < FIRST_FREE_PORT) {
    return { problem: `port ${port} is not allowed for https: use 443, or a port from ${FIRST_FREE_PORT} up` };
  }
  if (!isOwn && (isLocalName(host) || (isIP(host) && !isPublicAddress(host)))) {
    return { problem: `${host} is not an address of the public internet` };
  }
  return { url, host, port, isOwn };
}

/** Names that no public resolver knows: those of RFC 6761 and RFC 6762, and internal names of clouds. */
const isLocalName = (host: string): boolean => /(^|\.)(localhost|local|internal|home\.arpa)$/.test(host);
