import { onTestFinished } from 'vitest';
import { createStripePayments } from '#adapters/stripe/stripe-payments.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Payments } from '#core/ports/payments.ts';
import { type ScriptedStripeServer, startScriptedStripe } from '#local/scripted-stripe/server.ts';

/** The scripted provider on a port of its own, removed with the test, and Stripe's SDK connected with it. */
export async function scriptedPayments(clock: Clock): Promise<{ payments: Payments; server: ScriptedStripeServer }> {
  const server = await startScriptedStripe({ clock });
  onTestFinished(() => server.close());
  return { payments: createStripePayments(server, clock), server };
}

/** A request to the provider by its own API, as its dashboard makes them. Throws unless it is answered 200. */
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

/** Pays on the provider's page, as a browser with this card does. Returns the answer, whose redirect is not followed. */
export const payOnPage = (checkoutUrl: string, card = '4242424242424242'): Promise<Response> =>
  fetch(checkoutUrl, { method: 'POST', body: new URLSearchParams({ card }), redirect: 'manual' });

/** Events of the provider so far, oldest first, as their receiver gets them. */
export async function eventsOf({ url, key, provider }: ScriptedStripeServer) {
  const response = await fetch(`${url}/v1/events?limit=100`, { headers: { authorization: `Bearer ${key}` } });
  const { data } = (await response.json()) as {
    data: { id: string; type: string; data: { object: { id: string } } }[];
  };
  return data.toReversed().map((event) => ({ ...event, ...provider.signed(event.id) }));
}
