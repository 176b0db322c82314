import { describe, expect, test, vi } from 'vitest';
import { askProvider, payOnPage } from '#test/helpers/payments.ts';
import { clientOf, request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk } from '../expect.ts';

const WAIT = { timeout: 25_000, interval: 100 };

/** Buying, refunding and disputing credits, and the earnings of authors. */
export function topUpsSuite(target: () => Target): void {
  describe.concurrent('buying credits', () => {
    const buyer = async (slug: string) => {
      const user = await target().addUser(slug);
      const send = (method: string, path: string, json?: unknown) =>
        request(target(), method, path, { key: user.key, json });
      const balance = async () => expectOk(await send('GET', '/billing/balance'));
      const until = (wanted: object) =>
        vi.waitFor(async () => expect(await balance()).toEqual({ currency: 'usd', debt_cents: 0, ...wanted }), WAIT);
      return { user, send, until };
    };
    const paymentOf = async (receipt: string): Promise<string> => {
      const { url, key } = target().stripe;
      const response = await fetch(`${url}/v1/checkout/sessions?limit=100&expand[]=data.payment_intent.latest_charge`, {
        headers: { authorization: `Bearer ${key}` },
      });
      const { data } = (await response.json()) as {
        data: { payment_intent: null | { id: string; latest_charge: { receipt_url: string } } }[];
      };
      return data.find(({ payment_intent: payment }) => payment?.latest_charge?.receipt_url === receipt)!
        .payment_intent!.id;
    };

    test('an order is paid on a page, spent, refunded, and what is missing is a debt', async () => {
      const [seller, { user, send, until }] = await Promise.all([target().addUser('tu-author'), buyer('tu-buyer')]);
      await clientOf(target(), seller.key).createAgent({
        body: {
          name: 'oracle',
          type: 'prompt',
          description: 'knows',
          prompt: 'Answer.',
          is_public: true,
          pricing_mode: 'per_call',
          price_per_call_cents: 200,
        },
      });
      const call = () =>
        send('POST', '/tu-author/oracle/v1/run', { llm_credentials: { api_key: 'a-key', provider: 'anthropic' } });
      expect(expectError(await call(), 402, 'INSUFFICIENT_CREDITS', 'has 0').hint).toContain('POST /billing/checkout');
      const order = expectOk(await send('POST', '/billing/checkout', { amount_usd: 5, amount_cents: null }));
      expect(order).toEqual({ checkout_url: expect.any(String), session_id: expect.any(String) });
      const back = await payOnPage(order.checkout_url);
      expect(back.headers.get('location')).toBe(`${target().url}/billing/checkout/${order.session_id}`);
      // The event adds the credits even if the buyer never returns.
      await until({ balance_cents: 500 });
      const page = await fetch(back.headers.get('location')!, { headers: { accept: 'text/html,*/*' } });
      expect([
        page.headers.get('content-type'),
        (await page.text()).includes('The credits are in your balance.'),
      ]).toEqual(['text/html; charset=utf-8', true]);
      expect(expectOk(await send('GET', `/billing/checkout/${order.session_id}`))).toEqual({
        session_id: order.session_id,
        status: 'paid',
        amount_cents: 500,
      });
      const [topUp] = expectOk(await send('GET', '/billing/transactions'));
      expect(topUp).toMatchObject({
        type: 'top_up',
        transaction_type: 'top_up',
        amount_cents: 500,
        balance_after_cents: 500,
      });

      expectOk(await call());
      await askProvider(target().stripe, 'refunds', { payment_intent: await paymentOf(topUp.receipt_url) });
      await until({ balance_cents: 0, debt_cents: 200 });
      expectError(await call(), 402, 'INSUFFICIENT_CREDITS', 'owes 200');
      expect(expectOk(await send('GET', '/billing/history?limit=1'))).toMatchObject([
        {
          type: 'refund',
          transaction_type: 'top_up_refund',
          amount_cents: -500,
          balance_after_cents: 0,
          debt_after_cents: 200,
        },
      ]);
      expect(expectOk(await send('GET', '/billing/credits'))).toMatchObject({ balance_cents: 0, debt_cents: 200 });

      const earned = expectOk(await request(target(), 'GET', '/billing/earnings', { key: seller.key }));
      const sums = { price_cents: 200, fee_cents: 0, earned_cents: 200 };
      expect(earned).toMatchObject({
        total_cents: 200,
        by_month: [{ agent: 'tu-author/oracle@v1', calls: 1, ...sums }],
        entries: [{ agent: 'tu-author/oracle@v1', ...sums }],
      });
      const csv = await request(target(), 'GET', '/billing/earnings?format=csv', { key: seller.key });
      expect(csv.headers.get('content-type')).toBe('text/csv; charset=utf-8');
      const [{ created_at: at, run_id: run }] = earned.entries;
      expect(csv.body).toBe(
        `created_at,run_id,agent,price_cents,fee_cents,earned_cents\r\n${at},${run},tu-author/oracle@v1,200,0,200\r\n`,
      );
      expect(expectOk(await send('GET', '/billing/earnings'))).toMatchObject({ total_cents: 0, entries: [] });
      expect(user.workspaceId).not.toBe(seller.workspaceId);
    });

    test('a dispute holds the credits until it is won', async () => {
      const { send, until } = await buyer('tu-disputer');
      const { checkout_url: url } = expectOk(await send('POST', '/billing/add-credits', { amount_cents: 777 }));
      await payOnPage(url, '4000000000000259');
      const kinds = async () =>
        expectOk(await send('GET', '/billing/transactions')).map(
          (each: { transaction_type: string }) => each.transaction_type,
        );
      await vi.waitFor(async () => expect(await kinds()).toContain('dispute'), WAIT);
      const { url: provider, key } = target().stripe;
      const [{ receipt_url: receipt }] = expectOk(await send('GET', '/billing/transactions'));
      const response = await fetch(`${provider}/v1/disputes?payment_intent=${await paymentOf(receipt)}`, {
        headers: { authorization: `Bearer ${key}` },
      });
      const { data } = (await response.json()) as { data: { id: string }[] };
      await askProvider(target().stripe, `disputes/${data[0]!.id}`, {
        'evidence[uncategorized_text]': 'winning_evidence',
      });
      await until({ balance_cents: 777 });
    });

    test.each([
      [{}, 'either'],
      [{ amount_usd: 5, amount_cents: 500 }, 'either'],
      [{ amount_usd: null, amount_cents: null }, 'either'],
      [{ amount_usd: 4.99 }, 'body.amount_usd: must be from 5 to 10000 US dollars'],
      [{ amount_usd: 1e300 }, 'body.amount_usd: must be from 5 to 10000 US dollars'],
      [{ amount_usd: 5.005 }, 'whole number of cents'],
      [{ amount_cents: 499 }, 'body.amount_cents: must be from 500 to 1000000 cents'],
      [{ amount_cents: 1_000_001 }, 'body.amount_cents'],
      [{ amount_cents: 500.5 }, 'amount_cents'],
      [{ amount_usd: '5' }, 'amount_usd'],
    ])('an order of %j is refused', async (body, message) => {
      const answer = await request(target(), 'POST', '/billing/checkout', { key: target().key, json: body });
      expectError(answer, 400, 'INVALID_INPUT', message);
    });

    test('an event with a wrong signature is refused, and nothing else', async () => {
      expect(target().stripe.webhookSecret).toMatch(/^whsec_/);
      const send = (headers: Record<string, string>) =>
        request(target(), 'POST', '/webhooks/stripe', { body: '{"id":"evt_1"}', headers });
      for (const headers of [{}, { 'stripe-signature': 't=1,v1=00' }]) {
        expectError(await send(headers as Record<string, string>), 400, 'INVALID_INPUT', 'stripe-signature');
      }
    });
  });
}
