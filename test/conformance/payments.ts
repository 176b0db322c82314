import Stripe from 'stripe';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Order, Payments } from '#core/ports/payments.ts';
import type { ScriptedStripeServer } from '#local/scripted-stripe/server.ts';
import { askProvider, eventsOf, payOnPage } from '#test/helpers/payments.ts';

/** Rules for every adapter of the port `payments`. `now` is the clock of the adapter and the test. */
export function paymentsSuite(
  make: () => Promise<{ payments: Payments; server: ScriptedStripeServer; pass: (ms: number) => void; now(): number }>,
): void {
  let { payments, server, pass, now } = {} as Awaited<ReturnType<typeof make>>;
  beforeEach(async () => {
    ({ payments, server, pass, now } = await make());
  });

  const order = (changes: Partial<Order> = {}): Order => ({
    topUpId: crypto.randomUUID(),
    workspaceId: crypto.randomUUID(),
    cents: 1234,
    title: 'Credits of the workspace acme',
    successUrl: 'https://platform.example/back/{CHECKOUT_SESSION_ID}',
    expiresAt: now() + 7_200_000,
    ...changes,
  });
  /** Signs any text with the SDK's own test helper. */
  const signatureOf = (payload: string): string =>
    Stripe.webhooks.generateTestHeaderString({ payload, secret: server.webhookSecret, timestamp: seconds() });
  const seconds = () => Math.floor(now() / 1000);
  const paid = async (card?: string, cents = 1000) => {
    const { sessionId, url } = await payments.createCheckout(order({ cents }));
    await payOnPage(url, card);
    const [event] = (await eventsOf(server)).filter(({ data }) => data.object.id === sessionId);
    const { payment_intent: payment } = event!.data.object as unknown as { payment_intent: string };
    return { sessionId, payment, read: () => payments.retrieve({ sessionId }) };
  };

  test('a page is made once for an order, and knows what it is for', async () => {
    const one = order();
    const [first, again, other] = [
      await payments.createCheckout(one),
      await payments.createCheckout(one),
      await payments.createCheckout(order()),
    ];
    expect(again).toEqual(first);
    expect(other.sessionId).not.toBe(first.sessionId);
    expect(await payments.retrieve(first)).toEqual({
      sessionId: first.sessionId,
      topUpId: one.topUpId,
      workspaceId: one.workspaceId,
      status: 'open',
      paidCents: 0,
      refundedCents: 0,
      disputedCents: 0,
      hasOpenDispute: false,
      receiptUrl: null,
    });
    const page = await (await fetch(first.url)).text();
    expect(page).toContain('Credits of the workspace acme');
    expect(page).toContain('$12.34');
  });

  test('orders that the provider refuses fail with its reason', async () => {
    await expect(payments.createCheckout(order({ cents: 49 }))).rejects.toThrow('at least $0.50');
    await expect(payments.createCheckout(order({ expiresAt: now() + 60_000 }))).rejects.toThrow('expires_at');
  });

  test('payments that it does not know are told apart from failures', async () => {
    expect(await payments.retrieve({ sessionId: 'cs_test_nothing' })).toBeUndefined();
    expect(await payments.retrieve({ paymentId: 'pi_nothing' })).toBeUndefined();
    await server.close();
    await expect(payments.retrieve({ sessionId: 'cs_test_nothing' })).rejects.toThrow();
  });

  test('a paid page is found by its session and by its payment, with a receipt', async () => {
    const { url, sessionId } = await payments.createCheckout(order());
    const answer = await payOnPage(url);
    expect([answer.status, answer.headers.get('location')]).toEqual([
      303,
      `https://platform.example/back/${sessionId}`,
    ]);
    const [event] = await eventsOf(server);
    const state = await payments.retrieve({ sessionId });
    expect(state).toMatchObject({ status: 'paid', paidCents: 1234 });
    const { payment_intent: paymentId } = event!.data.object as unknown as { payment_intent: string };
    expect(await payments.retrieve({ paymentId })).toEqual(state);
    expect(await (await fetch(state!.receiptUrl!)).text()).toContain('$12.34');
    expect((await payOnPage(url)).status).toBe(402);
  });

  test('a declined card leaves the page open', async () => {
    const { url, sessionId } = await payments.createCheckout(order());
    const answer = await payOnPage(url, '4000000000000002');
    expect([answer.status, (await answer.text()).includes('declined')]).toEqual([402, true]);
    expect(await payments.retrieve({ sessionId })).toMatchObject({ status: 'open', paidCents: 0 });
  });

  test('a page that nobody pays closes at its time', async () => {
    const { sessionId, url } = await payments.createCheckout(order());
    pass(7_300_000);
    expect((await payOnPage(url)).status).toBe(402);
    expect(await payments.retrieve({ sessionId })).toMatchObject({ status: 'closed', paidCents: 0 });
    expect((await eventsOf(server)).map(({ type }) => type)).toEqual(['checkout.session.expired']);
  });

  test.each([
    ['arrive', { status: 'paid', paidCents: 1000 }],
    ['bounce', { status: 'closed', paidCents: 0 }],
  ])('a bank transfer counts once it has arrived (%s)', async (end, state) => {
    const { payment, read } = await paid('bank');
    expect(await read()).toMatchObject({ status: 'processing', paidCents: 0 });
    await askProvider(server, `test/bank/${payment}/${end}`);
    expect(await read()).toMatchObject(state);
  });

  test('refunds add up, and one that fails no longer counts', async () => {
    const { payment, read } = await paid();
    await askProvider(server, 'refunds', { payment_intent: payment, amount: '300' });
    const { id } = await askProvider(server, 'refunds', { payment_intent: payment, amount: '200' });
    expect(await read()).toMatchObject({ status: 'paid', paidCents: 1000, refundedCents: 500 });
    await askProvider(server, `test/refunds/${id}/fail`);
    expect(await read()).toMatchObject({ refundedCents: 300 });
    const all = await askProvider(server, 'refunds', { payment_intent: payment });
    expect([all.status, (await read())!.refundedCents]).toEqual(['succeeded', 1000]);
  });

  test.each([
    ['winning_evidence', 0],
    ['losing_evidence', 1000],
  ])('a dispute takes the money until it is won (%s)', async (text, taken) => {
    const { read } = await paid('4000000000000259');
    expect(await read()).toMatchObject({ disputedCents: 1000, hasOpenDispute: true });
    const dispute = (await eventsOf(server)).find(({ type }) => type === 'charge.dispute.created')!.data.object.id;
    await askProvider(server, `disputes/${dispute}`, { 'evidence[uncategorized_text]': text });
    expect(await read()).toMatchObject({ disputedCents: taken, hasOpenDispute: false });
  });

  describe('events', () => {
    test('say which payment they are about', async () => {
      const { sessionId, payment } = await paid();
      await askProvider(server, 'refunds', { payment_intent: payment, amount: '10' });
      await askProvider(server, 'test/disputes', { payment_intent: payment, amount: '20' });
      const events = await eventsOf(server);
      expect(events.map(({ type }) => type)).toEqual([
        'checkout.session.completed',
        'charge.refunded',
        'charge.dispute.created',
      ]);
      const refs = await Promise.all(events.map(({ body, signature }) => payments.parseEvent(body, signature)));
      expect(refs).toEqual([{ sessionId }, { paymentId: payment }, { paymentId: payment }]);
      expect(await Array.fromAsync(payments.changedSince(now() - 1000))).toEqual(refs.toReversed());
      pass(3_600_000);
      expect(await Array.fromAsync(payments.changedSince(now() - 1000))).toEqual([]);
    });

    test('of other kinds are about no payment', async () => {
      const body = JSON.stringify({ id: 'evt_1', object: 'event', type: 'customer.created', data: { object: {} } });
      expect(await payments.parseEvent(body, signatureOf(body))).toBeUndefined();
    });

    test('count with the right signature only, for 300 seconds', async () => {
      await paid();
      const [event] = await eventsOf(server);
      const { body, signature } = event!;
      const refused = { code: 'INVALID_INPUT', message: expect.stringContaining('stripe-signature') };
      for (const [text, header] of [
        [`${body} `, signature],
        [body, null],
        [body, ''],
        [body, signature.replace(/.$/, (last) => (last === '0' ? '1' : '0'))],
        [body, signature.replace(/t=\d+/, 't=1')],
        ['', signature],
        ['{', signatureOf('{')],
        [body, `t=${Math.floor(now() / 1000)},v1=`],
        [body, 't=,v1='],
        [body, 'v1=00'],
        [body, '=,=,='],
      ] as const) {
        await expect(payments.parseEvent(text, header)).rejects.toMatchObject(refused);
      }
      const kind = { id: 'evt_1', object: 'event', type: 'checkout.session.completed' };
      for (const [event, field] of [
        [kind, 'body.data'],
        [{ ...kind, data: null }, 'body.data'],
        [{ ...kind, data: { object: 'cs_1' } }, 'body.data.object'],
        [{ ...kind, data: { object: { object: 'charge', payment_intent: 7 } } }, 'body.data.object.payment_intent'],
        [{ ...kind, type: 7, data: { object: {} } }, 'body.type'],
        [[], 'body'],
        [null, 'body'],
      ] as const) {
        const text = JSON.stringify(event);
        const said = { code: 'INVALID_INPUT', message: expect.stringContaining(field) };
        await expect(payments.parseEvent(text, signatureOf(text)), text).rejects.toMatchObject(said);
      }
      const unnamed = JSON.stringify({ ...kind, data: { object: { object: 'checkout.session' } } });
      expect(await payments.parseEvent(unnamed, signatureOf(unnamed))).toBeUndefined();
      pass(299_000);
      expect(await payments.parseEvent(body, signature)).toBeDefined();
      pass(3_000);
      await expect(payments.parseEvent(body, signature)).rejects.toMatchObject(refused);
    });
  });
}
