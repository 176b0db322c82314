import { hash } from 'node:crypto';
import { hashKey } from '#core/accounts/keys/key-format.ts';
import { newServiceKey, readServiceKey } from '#core/accounts/service-keys/key-format.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { randomHex } from '#core/ports/ids.ts';
import type { BootToken, Service } from './service.ts';
import { instancesOf } from './state.ts';
import { storeOfService } from './store.ts';

type TokenDeps = Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>;

/** A service, and the revision for which a token or key is valid. */
interface Opened {
  readonly service: Service;
  readonly revision: number;
}

const DIGITS = 64;

/** Creates the token of a revision: the letter of the cell, and 256 random bits. */
export const newBootToken = (ids: Deps['ids']): string => ids.cell + randomHex(ids, DIGITS / 2);

/**
 * Derives the key with which the app of a service calls the platform from the token of its revision. All instances of
 * the revision share it, and it is never stored.
 */
export const serviceKeyOf = (serviceId: string, token: string): string =>
  newServiceKey(token.slice(0, -DIGITS), serviceId, hash('sha256', `service key\n${token}`, 'buffer'));

/** Returns the stored form of a token. */
export const bootToken = (serviceId: string, revision: number, token: string): BootToken => ({
  revision,
  hash: hashKey(token),
  keyHash: hashKey(serviceKeyOf(serviceId, token)),
});

/** Returns the service and revision of a token. Throws UNAUTHORIZED. */
export async function authenticateInstance(deps: TokenDeps, serviceId: string, token: string): Promise<Opened> {
  const tokenHash = hashKey(token);
  const opened = await openedBy(deps, serviceId, ({ hash: own }) => own === tokenHash);
  if (opened === undefined) throw new PlatformError('UNAUTHORIZED', 'This token is not valid for a running service.');
  return opened;
}

/** Returns the service whose app has this key; `undefined` for any other text, and for an expired key. */
export async function findByServiceKey(deps: TokenDeps, key: string): Promise<Service | undefined> {
  const serviceId = readServiceKey(key);
  if (serviceId === undefined) return undefined;
  const wanted = hashKey(key);
  return (await openedBy(deps, serviceId, ({ keyHash }) => keyHash === wanted))?.service;
}

async function openedBy(
  deps: TokenDeps,
  serviceId: string,
  isIt: (token: BootToken) => boolean,
): Promise<Opened | undefined> {
  const service = await (await storeOfService(deps, serviceId))?.find(serviceId);
  const revision = service?.tokens.find(isIt)?.revision;
  return service === undefined || revision === undefined || !isGood(service, revision)
    ? undefined
    : { service, revision };
}

/** Returns whether the revision may still have instances, and the service should run. */
const isGood = (service: Service, revision: number): boolean =>
  service.desired === 'running' &&
  (revision === service.revision ||
    instancesOf(service).some((instance) => instance.revision === revision && instance.phase !== 'gone'));
