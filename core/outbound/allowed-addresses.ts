import { lookup } from 'node:dns/promises';
import type { OutboundUrl } from './outbound-url.ts';
import { isPublicAddress } from './public-address.ts';

/** The address is forbidden; a retry would fail, too. Test the code. */
export class RefusedError extends Error {
  readonly code = 'OUTBOUND_REFUSED';
}

/** Resolves all addresses of a name with the machine's resolver. */
export const resolveAll = async (host: string): Promise<string[]> =>
  (await lookup(host, { all: true })).map(({ address }) => address);

/**
 * Returns the addresses of a host that may be connected to: public ones, or all if the host is on the operator's own
 * network. Connect to one of these, and do not resolve the name again. Throws {@link RefusedError} if there are none.
 */
export function allowedAddresses(
  { host, isOwn }: Pick<OutboundUrl, 'host' | 'isOwn'>,
  found: readonly string[],
): readonly string[] {
  const allowed = found.filter((address) => isOwn || isPublicAddress(address));
  if (allowed.length === 0) throw new RefusedError(`${host} is not an address of the public internet`);
  return allowed;
}
