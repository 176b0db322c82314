import type { Config } from '#core/base/config.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { type KeyNeeds, keyScopeOf } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isLackOfScope } from '../keys/limits.ts';
import type { ApiKey } from '../keys/store.ts';
import { findConnectedClient, touchConnectedClient } from './connected-client.ts';
import { resourcePathOf, typedAddress } from './resources.ts';

/** Path of the metadata of a resource; the path of the resource follows (RFC 9728, section 3.1). */
export const RESOURCE_METADATA_PATH = '/.well-known/oauth-protected-resource';

/**
 * Throws UNAUTHORIZED unless the row accepts access tokens, the token is for the resource of the request's path, and the
 * connection of its client exists.
 */
export async function checkClientToken(
  deps: Pick<Deps, 'main' | 'clock'>,
  { userId, client }: ApiKey,
  row: KeyNeeds,
  path: string,
): Promise<void> {
  const { connectionId, resource } = client!;
  if (row.clientTokens === undefined || resourcePathOf(path) !== resource) {
    throw new PlatformError(
      'UNAUTHORIZED',
      `This access token of a connected client is for ${resource} only: sign in for this address, or use an API key.`,
    );
  }
  const connection = await findConnectedClient(deps, userId, connectionId);
  if (connection === undefined) {
    throw new PlatformError('UNAUTHORIZED', 'The client is no longer connected: sign in again.');
  }
  await touchConnectedClient(deps, connection);
}

interface Refusal {
  readonly headers: RequestHeaders;
  /** Path of the request. */
  readonly path: string;
  readonly route: KeyNeeds;
  readonly refused: PlatformError;
}

/**
 * Returns the header of an answer 401, or 403 for a lacking scope, that tells the client where and for which scope to sign
 * in (RFC 9728, section 5.1; RFC 6750, section 3).
 */
export function challengeOf(
  config: Pick<Config, 'baseUrl' | 'callUrl'>,
  { headers, path, route, refused }: Refusal,
): Readonly<Record<string, string>> {
  const lacksScope = isLackOfScope(refused);
  if (refused.code !== 'UNAUTHORIZED' && !lacksScope) return {};
  const metadata = `${typedAddress(config, headers)}${RESOURCE_METADATA_PATH}${resourcePathOf(path) ?? path}`;
  const error = lacksScope ? 'insufficient_scope' : headers.has('authorization') ? 'invalid_token' : undefined;
  const params = [
    `resource_metadata="${metadata.replaceAll(/["\\]/g, '')}"`,
    `scope="${keyScopeOf(route)}"`,
    ...(error === undefined ? [] : [`error="${error}"`]),
  ];
  return { 'www-authenticate': `Bearer ${params.join(', ')}` };
}
