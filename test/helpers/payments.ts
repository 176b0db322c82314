import { onTestFinished } from 'vitest';
import { createStripePayments } from '#adapters/stripe/stripe-payments.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Payments } from '#core/ports/payments.ts';
import { type ScriptedStripeServer, startScriptedStripe } from '#local/scripted-stripe/server.ts';

/** Starts the scripted provider on its own port until the end of the test, with a connected Stripe SDK. */
export async function scriptedPayments(clock: Clock): Promise<{ payments: Payments; server: ScriptedStripeServer }> {
  const server = await startScriptedStripe({ clock });
  onTestFinished(() => server.close());
  return { payments: createStripePayments(server, clock), server };
}

/** Sends a request to the provider's own API, as its dashboard does. Throws unless the status is 200. */
export async function askProvider(
  { url, key }: Pick<ScriptedStripeServer, 'url' | 'key'>,
  path: string,
  form: Readonly<Record<string, string>> = {},
): Promise<{ id: string; status: string }> {
  const response = await fetch(`${url}/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: new URLSearchParams(form),
  });
  const body = (await response.json()) as { id: string; status: string };
  if (!response.ok) throw new Error(`${path}: ${JSON.stringify(body)}`);
  return body;
}

/** Pays on the provider's page as a browser with this card does. Returns the answer without following its redirect. */
export const payOnPage = (checkoutUrl: string, card = '4242424242424242'): Promise<Response> =>
  fetch(checkoutUrl, { method: 'POST', body: new URLSearchParams({ card }), redirect: 'manual' });

/** Returns the provider's events so far, oldest first, as delivered to their receiver. */
export async function eventsOf({ url, key, provider }: ScriptedStripeServer) {
  const response = await fetch(`${url}/v1/events?limit=100`, { headers: { authorization: `Bearer ${key}` } });
  const { data } = (await response.json()) as {
    data: { id: string; type: string; data: { object: { id: string } } }[];
  };
  return data.toReversed().map((event) => ({ ...event, ...provider.signed(event.id) }));
}
