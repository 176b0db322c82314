import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Clock } from '#core/ports/clock.ts';
import { lazyPayments, type Payments } from '#core/ports/payments.ts';
import type { LocalConfig } from '../config.ts';
import { type ScriptedStripeServer, startScriptedStripe } from './server.ts';

/** Connects to Stripe with the operator's key; without a key, starts the scripted provider. */
export async function localPayments(
  config: Pick<LocalConfig, 'stripeKey' | 'stripeWebhookSecret' | 'stripeUrl' | 'dataFolder'>,
  clock: Clock,
): Promise<{ readonly payments: Payments; readonly scripted?: ScriptedStripeServer }> {
  const { stripeKey: key, stripeUrl: url } = config;
  if (key !== undefined) {
    // Without a configured signing secret no event can be verified, so a random one rejects all.
    const webhookSecret = config.stripeWebhookSecret ?? randomBytes(32).toString('hex');
    return { payments: stripeOnUse({ key, webhookSecret, url }, clock) };
  }
  const scripted = await startScriptedStripe({ clock, file: join(config.dataFolder, 'test-payments.json') });
  return { payments: stripeOnUse(scripted, clock), scripted };
}

function stripeOnUse(settings: { key: string; webhookSecret: string; url?: string }, clock: Clock): Payments {
  let loaded: Promise<Payments> | undefined;
  const load = async () => {
    const { createStripePayments } = await import('#adapters/stripe/stripe-payments.ts');
    return createStripePayments(settings, clock);
  };
  return lazyPayments(() => {
    loaded ??= load();
    return loaded;
  });
}
