import { lookup } from 'node:dns/promises';
import type { OutboundUrl } from './outbound-url.ts';
import { isPublicAddress } from './public-address.ts';

/** The address is forbidden; a retry would be refused, too. Test the code. */
export class RefusedError extends Error {
  readonly code = 'OUTBOUND_REFUSED';
}

/** All addresses of a name, from the machine's resolver. */
export const resolveAll = async (host: string): Promise<string[]> =>
  (await lookup(host, { all: true })).map(({ address }) => address);

/**
 * Those of the addresses of a host that may be connected to: public ones, and all of a host of the operator's own network.
 * Connect to one of these, and do not resolve the name again. Throws {@link RefusedError} if there is none.
 */
export function allowedAddresses(
  { host, isOwn }: Pick<OutboundUrl, 'host' | 'isOwn'>,
  found: readonly string[],
): readonly string[] {
  const allowed = found.filter((address) => isOwn || isPublicAddress(address));
  if (allowed.length === 0) throw new RefusedError(`${host} is not an address of the public internet`);
  return allowed;
}
