import * as z from 'zod';
import { createStripePayments } from '#adapters/stripe/stripe-payments.ts';
import { type KeptSecretProps, keptSecret } from './kept-secret.ts';

const secretSchema = z.object({ key: z.string().regex(/^(sk|rk)_/), webhook_secret: z.string().startsWith('whsec_') });

/** `secretName` names a secret with the JSON `{"key": "rk_...", "webhook_secret": "whsec_..."}`. */
export interface StripeOnAwsProps extends KeptSecretProps {
  readonly url?: string;
}

/** Returns Stripe with the secret's keys, cached for five minutes. */
export const stripeOnAws = ({ url, ...secret }: StripeOnAwsProps) =>
  keptSecret(secret, (text) => {
    const { key, webhook_secret: webhookSecret } = parseSecret(secret.secretName, text);
    return createStripePayments({ key, webhookSecret, url }, secret.clock);
  });

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
