import { type NoToken, tokensOf } from '#core/accounts/connections/tokens.ts';
import { connectionOfSecret, connectionSecret, isConnectionSecret } from '#core/base/connection-names.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';

interface Reading {
  readonly workspaceId: string;
  readonly userId: string | undefined;
}

/**
 * Returns the access tokens of the connections among an agent's granted secrets (`docs/interface/connections.md`). Throws
 * MISSING_SECRETS if a required one needs a sign-in, and SANDBOX_ERROR if its provider does not answer.
 */
export async function connectionValues(
  deps: Deps,
  agent: AgentVersion,
  { workspaceId, userId }: Reading,
  granted: readonly string[],
): Promise<Readonly<Record<string, string>>> {
  const asking = { workspaceId, userId, places: placesOf(agent) };
  const { values, missing } = await tokensOf(deps, asking, granted.filter(isConnectionSecret));
  const required = agent.definition.required_secrets;
  const failed = [...missing].filter(([secret]) => required.includes(secret));
  if (failed.length > 0) throw notConnected(failed);
  return values;
}

/** Addresses to which the platform itself sends the token of a connection, by secret. */
function placesOf({ definition: { loop } }: AgentVersion): ReadonlyMap<string, readonly string[]> {
  const places = new Map<string, string[]>();
  for (const { connection, url } of loop?.mcp_servers ?? []) {
    if (connection === undefined || url === undefined) continue;
    const secret = connectionSecret(connection);
    places.set(secret, [...(places.get(secret) ?? []), url]);
  }
  return places;
}

function notConnected(failed: readonly (readonly [secret: string, NoToken])[]): PlatformError {
  const texts = failed.map(([secret, { problem }]) => `The connection "${connectionOfSecret(secret)}" ${problem}.`);
  const lasting = failed.filter(([, { needsSignIn }]) => needsSignIn);
  if (lasting.length === 0) {
    const hint = 'Try again later.';
    return new PlatformError('SANDBOX_ERROR', texts.join(' '), { category: 'setup_error', hint });
  }
  const commands = lasting.map(([secret, { command }]) => command ?? `platform connect ${connectionOfSecret(secret)}`);
  // Clients parse the names between "not found in workspace: " and the period (docs/interface/errors.md#codes).
  return new PlatformError(
    'MISSING_SECRETS',
    `Secrets not found in workspace: ${lasting.map(([secret]) => secret).join(', ')}. ${texts.join(' ')}`,
    { hint: `Sign in with: ${commands.join('; ')}. The dashboard does the same under Settings, Secrets.` },
  );
}
