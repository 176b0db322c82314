import { randomUUID } from 'node:crypto';
import { CreateSecretCommand, PutSecretValueCommand, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { Payments } from '#core/ports/payments.ts';
import { startScriptedStripe } from '#local/scripted-stripe/server.ts';
import { secretsManagerClient } from '#test/helpers/aws.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { eventsOf, payOnPage } from '#test/helpers/payments.ts';
import { stripeOnAws } from './stripe.ts';

const FIVE_MINUTES = 5 * 60_000;
const REFUSED = 'Invalid API Key provided.';

const clock = new ManualClock();
const secrets = secretsManagerClient();
let secretName: string;
let reads: number;

beforeEach(() => {
  secretName = `made-up/${randomUUID()}`;
  reads = 0;
});

const client = Object.assign(Object.create(secrets) as SecretsManagerClient, {
  send: (...args: Parameters<SecretsManagerClient['send']>) => {
    reads += 1;
    return secrets.send(...args);
  },
});
const create = (SecretString: string) => secrets.send(new CreateSecretCommand({ Name: secretName, SecretString }));
const put = (SecretString: string) => secrets.send(new PutSecretValueCommand({ SecretId: secretName, SecretString }));

/** Starts the provider and creates a matching secret. */
async function startProvider() {
  const server = await startScriptedStripe({ clock });
  onTestFinished(() => server.close());
  const { key, webhookSecret: webhook_secret } = server;
  const secret = (changes: object = {}) => JSON.stringify({ key, webhook_secret, ...changes });
  return { server, secret, open: stripeOnAws({ secretName, url: server.url, clock, client }) };
}

const order = (payments: Payments) =>
  payments.createCheckout({
    topUpId: randomUUID(),
    workspaceId: 'made-up',
    cents: 700,
    title: 'Credits',
    successUrl: 'https://example.com/',
    expiresAt: clock.now() + 3_600_000,
  });

test('orders with the key of the secret, and knows events by its signing secret', async () => {
  const { server, secret, open } = await startProvider();
  await create(secret());
  const payments = await open();
  const { sessionId, url } = await order(payments);
  await payOnPage(url);
  expect(await payments.retrieve({ sessionId })).toMatchObject({ sessionId, status: 'paid', paidCents: 700 });
  const paid = (await eventsOf(server)).find(({ type }) => type === 'checkout.session.completed')!;
  expect(await payments.parseEvent(paid.body, paid.signature)).toEqual({ sessionId });

  await put(secret({ webhook_secret: 'whsec_another' }));
  await clock.advance(FIVE_MINUTES);
  const { body, signature } = (await eventsOf(server)).find(({ id }) => id === paid.id)!;
  await expect((await open()).parseEvent(body, signature)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});

test('a changed secret counts after five minutes, and is read once in them', async () => {
  const { secret, open } = await startProvider();
  await create(secret({ key: 'rk_of_before' }));
  const all = await Promise.all([open(), open(), open()]);
  for (const payments of all) await expect(order(payments)).rejects.toThrow(REFUSED);
  await put(secret());
  await clock.advance(FIVE_MINUTES - 1);
  await expect(order(await open())).rejects.toThrow(REFUSED);
  expect(reads).toBe(1);
  await clock.advance(1);
  expect(await order(await open())).toMatchObject({ url: expect.stringMatching(/^http/) });
  expect(reads).toBe(2);
});

test('a secret that could not be read is read again at once', async () => {
  const { secret, open } = await startProvider();
  await expect(open()).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
  await create(secret());
  expect(await order(await open())).toMatchObject({ url: expect.stringMatching(/^http/) });
});

test('a secret of another form is refused, with what it must be and nothing of what it is', async () => {
  const { secret, open } = await startProvider();
  const hidden = 'made_up_hiddenpart';
  const wrong = [
    hidden,
    `"${hidden}"`,
    JSON.stringify({ key: `rk_${hidden}` }),
    secret({ key: `pk_${hidden}` }),
    secret({ webhook_secret: hidden }),
  ];
  await create('{}');
  for (const text of wrong) {
    await put(text);
    const error: Error = await open().then(
      () => expect.unreachable(text),
      (thrown) => thrown,
    );
    expect(error.message).toContain(`the secret ${secretName} must be JSON: {"key": "rk_...", "webhook_secret"`);
    expect(JSON.stringify([error.message, error.stack, error.cause])).not.toContain(hidden);
  }
});
