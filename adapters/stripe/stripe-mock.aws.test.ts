import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import Stripe from 'stripe';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Payments } from '#core/ports/payments.ts';
import { fetchStripeMock } from '../../scripts/fetch-test-tools.ts';
import { createStripePayments } from './stripe-payments.ts';

/**
 * Checks the adapter's requests against Stripe's own OpenAPI document with Stripe's stripe-mock, which rejects unknown
 * parameters and wrong types. It keeps no state; in between, the test turns sessions into those of a refunded and
 * disputed top-up, so that all requests about it occur.
 */
const program = fetchStripeMock();
if (program === undefined) console.warn('stripe-mock is skipped: there is no Go here to compile it');

const KEY = 'sk_test_123';
const isJson = { 'content-type': 'application/json' };

let mock: ChildProcess;
let between: Server;
let asked: string[] = [];
let payments: Payments;
let sdk: Stripe;

beforeAll(async () => {
  if (program === undefined) return;
  mock = spawn(program, ['-http-addr', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  let port: string | undefined;
  for await (const line of createInterface(mock.stdout!)) {
    port = /127\.0\.0\.1:(\d+)/.exec(line)?.[1];
    if (port !== undefined) break;
  }
  mock.stdout!.resume();
  between = createServer(async (request, response) => {
    const { method = 'GET', url = '/', headers } = request;
    const body = method === 'POST' ? Buffer.concat(await Array.fromAsync(request)) : undefined;
    const names = ['authorization', 'content-type', 'idempotency-key', 'stripe-version'];
    const sent = Object.fromEntries(names.flatMap((name) => (headers[name] ? [[name, String(headers[name])]] : [])));
    const answer = await fetch(`http://127.0.0.1:${port}${url}`, { method, headers: sent, body });
    asked.push(`${method} ${url.replace(/\?.*|(?<=sessions\/).*/g, '')} ${answer.status}`);
    response.writeHead(answer.status, isJson).end(JSON.stringify(toldMore(await answer.json())));
  });
  between.listen(0, '127.0.0.1');
  await once(between, 'listening');
  const url = `http://127.0.0.1:${(between.address() as AddressInfo).port}`;
  payments = createStripePayments({ key: KEY, webhookSecret: 'whsec_made_up', url }, { now: () => Date.now() });
  const { hostname: host, port: own } = new URL(url);
  sdk = new Stripe(KEY, { host, port: own, protocol: 'http', maxNetworkRetries: 0 });
});
afterAll(async () => {
  mock?.kill();
  between?.close();
});
beforeEach(() => {
  asked = [];
});

// biome-ignore lint/suspicious/noExplicitAny: answers of many operations.
function toldMore(answer: any): unknown {
  if (answer.object === 'list') return { ...answer, data: answer.data.map(toldMore) };
  if (answer.object !== 'checkout.session') return answer;
  return {
    ...answer,
    url: 'https://checkout.stripe.com/made-up',
    metadata: { workspace_id: 'w', topup_id: 't' },
    status: 'complete',
    payment_status: 'paid',
    currency: 'usd',
    amount_total: 1234,
    payment_intent: {
      ...(typeof answer.payment_intent === 'object' && answer.payment_intent),
      id: 'pi_made_up',
      latest_charge: { amount_refunded: 1, disputed: true, receipt_url: null },
    },
  };
}

test.skipIf(program === undefined)('Stripe knows every parameter that is sent', async () => {
  const made = await payments.createCheckout({
    topUpId: crypto.randomUUID(),
    workspaceId: crypto.randomUUID(),
    cents: 1234,
    title: 'Credits of the workspace acme',
    successUrl: 'https://platform.example/billing/checkout/{CHECKOUT_SESSION_ID}',
    expiresAt: Date.now() + 7_200_000,
  });
  expect(made.sessionId).toMatch(/^cs_/);
  expect(await payments.retrieve(made)).toMatchObject({ topUpId: 't', status: 'paid', paidCents: 1234 });
  expect(await payments.retrieve({ paymentId: 'pi_made_up' })).toMatchObject({ topUpId: 't' });
  await Array.fromAsync(payments.changedSince(Date.now() - 3_600_000));
  const rest = ['GET /v1/refunds 200', 'GET /v1/disputes 200'];
  expect(asked).toEqual([
    'POST /v1/checkout/sessions 200',
    'GET /v1/checkout/sessions/ 200',
    ...rest,
    'GET /v1/checkout/sessions 200',
    ...rest,
    'GET /v1/events 200',
  ]);
});

test.skipIf(program === undefined)('it refuses what Stripe does not know', async () => {
  const { sessions } = sdk.checkout;
  const wrong = { mode: 'payment', client_reference: 'w' } as Stripe.Checkout.SessionCreateParams;
  await expect(sessions.create(wrong)).rejects.toMatchObject({ statusCode: 400 });
  await expect(sessions.create({ mode: 'pay' } as never)).rejects.toMatchObject({ statusCode: 400 });
  await expect(sdk.refunds.list({ payment: 'pi' } as never)).rejects.toMatchObject({ statusCode: 400 });
});
