import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import type { Clock } from '#core/ports/clock.ts';
import { mapThrottlingErrors } from '../tables/throttles.ts';

/** Cache time of a secret. */
const KEPT_MS = 5 * 60_000;
const REQUEST_LIMIT_MS = 10_000;

export interface KeptSecretProps {
  readonly secretName: string;
  readonly clock: Clock;
  /** @default - Region and credentials of the environment */
  readonly client?: SecretsManagerClient;
}

/**
 * Returns the result of `make` for the text of a secret, cached for five minutes. The text itself is not cached, and
 * neither are failures.
 */
export function keptSecret<T>(
  { secretName, clock, client = mapThrottlingErrors(new SecretsManagerClient()) }: KeptSecretProps,
  make: (text: string) => T,
): () => Promise<T> {
  let kept: { readonly made: Promise<T>; readonly until: number } | undefined;
  const load = async () => {
    const { SecretString = '' } = await client.send(new GetSecretValueCommand({ SecretId: secretName }), {
      abortSignal: AbortSignal.timeout(REQUEST_LIMIT_MS),
    });
    return make(SecretString);
  };
  return async () => {
    if (kept === undefined || kept.until <= clock.now()) {
      const made = load();
      const own = { made, until: clock.now() + KEPT_MS };
      kept = own;
      made.catch(() => {
        if (kept === own) kept = undefined;
      });
    }
    return kept.made;
  };
}
