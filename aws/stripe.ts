import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import * as z from 'zod';
import type { Clock } from '#core/ports/clock.ts';
import type { Payments } from '#core/ports/payments.ts';
import { createStripePayments } from '#payments/stripe-payments.ts';

/** A changed secret counts after this time. */
const CACHE_MS = 5 * 60_000;
const REQUEST_LIMIT_MS = 10_000;

const secretSchema = z.object({ key: z.string().regex(/^(sk|rk)_/), webhook_secret: z.string().startsWith('whsec_') });

export interface StripeOnAwsProps {
  /** Of a secret with the JSON `{"key": "rk_...", "webhook_secret": "whsec_..."}`. */
  readonly secretName: string;
  readonly url?: string;
  readonly clock: Clock;
  /** @default - Region and credentials of the environment */
  readonly client?: SecretsManagerClient;
}

/** Returns Stripe with the keys of the secret as they are now, or were at most five minutes ago. */
export function stripeOnAws({ secretName, url, clock, client = new SecretsManagerClient() }: StripeOnAwsProps) {
  let cached: { readonly payments: Promise<Payments>; readonly until: number } | undefined;
  const load = async () => {
    const { SecretString = '' } = await client.send(new GetSecretValueCommand({ SecretId: secretName }), {
      abortSignal: AbortSignal.timeout(REQUEST_LIMIT_MS),
    });
    const { key, webhook_secret: webhookSecret } = parseSecret(secretName, SecretString);
    return createStripePayments({ key, webhookSecret, url }, clock);
  };
  return async (): Promise<Payments> => {
    if (cached === undefined || cached.until <= clock.now()) {
      const payments = load();
      const own = { payments, until: clock.now() + CACHE_MS };
      cached = own;
      payments.catch(() => {
        if (cached === own) cached = undefined;
      });
    }
    return cached.payments;
  };
}

/** The error does not contain the secret. */
function parseSecret(name: string, text: string): z.output<typeof secretSchema> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {}
  const { data } = secretSchema.safeParse(value);
  if (data) return data;
  throw new Error(
    `the secret ${name} must be JSON: {"key": "rk_...", "webhook_secret": "whsec_..."} (docs/billing.md)`,
  );
}
