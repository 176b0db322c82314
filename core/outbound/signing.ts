import type { Deps } from '#core/ports/deps.ts';
import { signingVaultOf } from '#core/ports/vault.ts';

/** Name of the value in the vault. */
export const SIGNING_NAME = 'outbound-signing';
const SECRET_BYTES = 32;
/** How long a replaced secret still signs in addition to its successor, so that receivers can switch. */
const PREVIOUS_VALID_MS = 24 * 3_600_000;

/** Signing secrets of a workspace, stored in a vault that has nothing else. */
interface SigningSecrets {
  readonly current: string;
  /** `until` in epoch milliseconds. */
  readonly previous?: { readonly secret: string; readonly until: number };
}

/**
 * Creates or replaces the secret that signs the POSTs of a workspace. On AWS other processes may sign with the previous
 * secret alone for up to a minute.
 *
 * @returns the new secret, which cannot be shown again, and the expiry of the previous one (epoch milliseconds).
 */
export async function rotateSigningSecret(
  deps: Pick<Deps, 'vault' | 'clock' | 'ids'>,
  workspaceId: string,
): Promise<{ readonly secret: string; readonly previousUntil: number | null }> {
  const before = await readSecrets(deps, workspaceId);
  const secret = `whsec_${Buffer.from(deps.ids.randomBytes(SECRET_BYTES)).toString('base64')}`;
  const previous = before && { secret: before.current, until: deps.clock.now() + PREVIOUS_VALID_MS };
  const next: SigningSecrets = { current: secret, previous };
  await deps.vault.write(signingVaultOf(workspaceId), SIGNING_NAME, JSON.stringify(next));
  return { secret, previousUntil: previous?.until ?? null };
}

/**
 * Returns headers with which a receiver verifies the sender and recognizes duplicates
 * (https://www.standardwebhooks.com): one signature for each valid secret, none before the workspace has created one.
 * All attempts of a message have the same `id`.
 */
export async function messageHeaders(
  deps: Pick<Deps, 'vault' | 'clock'>,
  workspaceId: string,
  { id, body }: { readonly id: string; readonly body: string },
): Promise<Record<string, string>> {
  const now = deps.clock.now();
  const { current, previous } = (await readSecrets(deps, workspaceId)) ?? {};
  const valid = [current, previous !== undefined && previous.until > now && previous.secret].filter(
    (secret): secret is string => typeof secret === 'string',
  );
  // Loaded lazily, because many processes send no messages. A bundled CommonJS package only has a default export.
  const { Webhook } = (await import('standardwebhooks')).default;
  const signatures = valid.map((secret) => new Webhook(secret).sign(id, new Date(now), body));
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now / 1000)),
    ...(signatures.length > 0 && { 'webhook-signature': signatures.join(' ') }),
  };
}

async function readSecrets({ vault }: Pick<Deps, 'vault'>, workspaceId: string): Promise<SigningSecrets | undefined> {
  const { [SIGNING_NAME]: kept } = await vault.read(signingVaultOf(workspaceId), [SIGNING_NAME]);
  return kept === undefined ? undefined : JSON.parse(kept);
}
