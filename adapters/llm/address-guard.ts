import { isIPv6, type LookupFunction } from 'node:net';
import { allowedAddresses, resolveAll } from '#core/outbound/allowed-addresses.ts';
import { isOnHostList } from '#core/outbound/host-list.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';

/** Checks for connections to addresses that users configure. */
export interface AddressGuard {
  /** Checks the text of a URL. Throws INVALID_INPUT. */
  readonly check: (url: URL) => void;
  /** Resolves a name to its allowed addresses. The connection uses one of these without resolving the name again. */
  readonly lookup: LookupFunction;
}

/**
 * @param ownHosts `PLATFORM_OUTBOUND_HOSTS`
 * @param resolve Returns all addresses of a name.
 */
export function addressGuard(
  ownHosts: readonly string[],
  resolve: (host: string) => Promise<readonly string[]> = resolveAll,
): AddressGuard {
  return {
    check: (url) => void checkOutboundUrl(url.href, ownHosts, 'the address of the gateway'),
    lookup(host, { all }, callback) {
      resolve(host)
        .then((found) => allowedAddresses({ host, isOwn: isOnHostList(host, ownHosts) }, found))
        .then(
          (allowed) => {
            const found = allowed.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
            if (all) callback(null, found);
            else callback(null, found[0]!.address, found[0]!.family);
          },
          (error: NodeJS.ErrnoException) => callback(error, []),
        );
    },
  };
}
