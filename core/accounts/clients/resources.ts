import type { Config } from '#core/base/config.ts';
import { isLoopbackName } from '#core/http/loopback.ts';
import type { RequestHeaders } from '#core/http/message.ts';

/**
 * Protected resources (RFC 9728): paths whose rows accept access tokens, without what follows them. A token names the path
 * and not the address, because an address of this machine has several spellings.
 */
const RESOURCE = /^(?:\/mcp|(\/a2a\/[^/]+\/[^/]+)(?:\/.*)?|\/[^/.][^/]*\/[^/]+\/mcp)$/;

/** Returns the path of the resource that a path of the API belongs to; `undefined` if it belongs to none. */
export function resourcePathOf(path: string): string | undefined {
  const found = RESOURCE.exec(path);
  return found ? (found[1] ?? path) : undefined;
}

type Addresses = Pick<Config, 'baseUrl' | 'callUrl'>;

/** Returns the address of the platform as the client typed it: names of this machine are equivalent. */
export function typedAddress({ baseUrl, callUrl }: Addresses, headers: RequestHeaders): string {
  const host = headers.get('host') ?? '';
  for (const address of [baseUrl, callUrl]) {
    if (address !== undefined && isSameHost(new URL(address), URL.parse(`http://${host}`))) {
      return address.replace(/^(https?:\/\/)[^/]+/, `$1${host.toLowerCase()}`);
    }
  }
  return baseUrl ?? `http://${host}`;
}

function isSameHost(own: URL, given: URL | null): boolean {
  if (given === null) return false;
  const port = (url: URL) => url.port || (own.protocol === 'https:' ? '443' : '80');
  const isSameName =
    own.hostname === given.hostname || (isLoopbackName(own.hostname) && isLoopbackName(given.hostname));
  return isSameName && port(own) === port(given);
}

/**
 * Returns the path of the resource that a client names (RFC 8707, `resource`); `undefined` if it is none of this platform.
 * The query, such as the choice of tools, does not belong to the resource.
 */
export function namedResource(addresses: Addresses, resource: string): string | undefined {
  const url = URL.parse(resource);
  if (url === null || url.hash !== '' || url.username !== '' || url.password !== '') return undefined;
  for (const address of [addresses.baseUrl, addresses.callUrl]) {
    const own = address === undefined ? null : URL.parse(address);
    if (own === null || own.protocol !== url.protocol || !isSameHost(own, url)) continue;
    const base = own.pathname.replace(/\/$/, '');
    if (!url.pathname.startsWith(`${base}/`)) continue;
    const path = url.pathname.slice(base.length).replace(/\/$/, '');
    if (resourcePathOf(path) === path) return path;
  }
  return undefined;
}
