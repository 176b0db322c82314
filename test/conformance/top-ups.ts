import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import {
  balanceOf,
  grantCredits,
  hold,
  type LedgerEntry,
  listEntries,
  refund,
  settle,
  sweepHolds,
} from '#core/billing/credits/ledger.ts';
import { listEarnings, readEarningSums } from '#core/billing/earnings/store.ts';
import { topUpHandlers } from '#core/billing/top-ups/handlers.ts';
import { PaymentsDiffered, reconcilePayments, type SyncDeps } from '#core/billing/top-ups/sync.ts';
import { SystemIds } from '#core/ports/ids.ts';
import type { Payments } from '#core/ports/payments.ts';
import type { Table } from '#core/ports/table.ts';
import type { ScriptedStripeServer } from '#local/scripted-stripe/server.ts';
import { crashing, type Fuse, ProcessDied } from '#test/helpers/crashing.ts';
import { askProvider, eventsOf, payOnPage, scriptedPayments } from '#test/helpers/payments.ts';

const HOUR_MS = 3_600_000;

/**
 * The rules of `core/billing/top-ups`, on the tables of a host. `rounds` scales the number of runs of the property
 * test.
 */
export function topUpsSuite(
  makeTables: () => Promise<{ main: Table; runs: Table }>,
  { rounds }: { rounds: number },
): void {
  let offset = 0;
  const clock = { now: () => Date.now() + offset, sleep: async () => {}, after: () => () => {} };
  let deps: SyncDeps & { runs: Table; config: ReturnType<typeof parseConfig> };
  let payments: Payments;
  let server: ScriptedStripeServer;
  let workspaceId: string;
  let alarms: string[];

  beforeEach(async () => {
    offset = 0;
    alarms = [];
    ({ payments, server } = await scriptedPayments(clock));
    const silent = () => {};
    const log = { debug: silent, info: silent, warn: silent, error: (message: string) => void alarms.push(message) };
    const config = { ...parseConfig({}), baseUrl: 'https://platform.example' };
    deps = { ...(await makeTables()), payments, clock, ids: new SystemIds(), log, config };
    workspaceId = crypto.randomUUID();
  });

  const balance = () => balanceOf(deps, workspaceId);
  const entries = () => listEntries(deps, workspaceId, { limit: 10_000, offset: 0 });
  const buy = async (cents: number, on: typeof deps = deps) => {
    const caller = { workspace: { id: workspaceId, slug: 'acme' } };
    const answer = await topUpHandlers(on).createCheckout({ caller, body: { amount_cents: cents } } as never);
    return (answer as { body: { checkout_url: string; session_id: string } }).body;
  };
  type SentEvent = Awaited<ReturnType<typeof eventsOf>>[number];
  const deliver = async ({ body, signature }: Pick<SentEvent, 'body' | 'signature'>, on: typeof deps = deps) => {
    const request = new Request('https://platform.example/webhooks/stripe', {
      method: 'POST',
      headers: { 'stripe-signature': signature },
      body,
    });
    return (await topUpHandlers(on).receivePaymentEvent({ request } as never)).status;
  };
  const deliverAll = async () => {
    for (const event of await eventsOf(server)) expect(await deliver(event)).toBe(200);
  };
  const look = (sessionId: string) =>
    topUpHandlers(deps).getCheckout({
      params: { session_id: sessionId },
      request: new Request('https://platform.example/'),
    } as never);
  const paymentOf = async (sessionId: string): Promise<string> => {
    const event = (await eventsOf(server)).find(({ data }) => data.object.id === sessionId);
    return (event!.data.object as unknown as { payment_intent: string }).payment_intent;
  };
  const call = (cents: number, runId: string = crypto.randomUUID(), authorId: string = crypto.randomUUID()) => ({
    workspace: { id: workspaceId, slug: 'acme' },
    runId,
    cents,
    agentRef: 'zoe/oracle@v1',
    author: { workspaceId: authorId, feeCents: Math.floor(cents / 5) },
    expiresAt: clock.now() + 60_000,
  });
  const spend = async (cents: number) => {
    const one = call(cents);
    await hold(deps, one);
    await settle(deps, workspaceId, one.runId);
  };
  const bought = async (cents: number, card?: string) => {
    const { checkout_url: url, session_id: sessionId } = await buy(cents);
    await payOnPage(url, card);
    await deliverAll();
    return { sessionId, payment: await paymentOf(sessionId) };
  };

  /** Checks that each entry continues the balance of the one before, and that the last one has the current balance. */
  const expectSound = async (): Promise<LedgerEntry[]> => {
    const all = (await entries()).reverse();
    let sum = 0;
    for (const { kind, amountCents, balanceAfterCents, debtAfterCents } of all) {
      sum += amountCents;
      expect(balanceAfterCents - debtAfterCents).toBe(sum);
      expect(Math.min(balanceAfterCents, debtAfterCents)).toBe(0);
      if (kind === 'charge') expect(sum).toBeGreaterThanOrEqual(0);
    }
    const { cents, debtCents } = await balance();
    expect(cents - debtCents).toBe(sum);
    return all;
  };

  test('a payment counts once, whatever tells of it, and how often', async () => {
    const { checkout_url: url, session_id: sessionId } = await buy(1000);
    expect(await look(sessionId)).toMatchObject({ body: { status: 'open', amount_cents: 1000 } });
    await payOnPage(url);
    const [event] = await eventsOf(server);
    const reconciled = reconcilePayments(deps).catch((error) => expect(error).toBeInstanceOf(PaymentsDiffered));
    await Promise.all([deliver(event!), deliver(event!), look(sessionId), look(sessionId), reconciled]);
    expect(await look(sessionId)).toMatchObject({ body: { status: 'paid' } });
    const all = await expectSound();
    expect(all).toMatchObject([
      { type: 'top_up', kind: 'top_up', amountCents: 1000, receiptUrl: expect.stringContaining('/receipts/') },
    ]);
    expect(await balance()).toEqual({ cents: 1000, debtCents: 0 });
  });

  test('a refund takes back its difference once, and one that fails gives it again', async () => {
    const { payment } = await bought(1000);
    await askProvider(server, 'refunds', { payment_intent: payment, amount: '300' });
    const { id } = await askProvider(server, 'refunds', { payment_intent: payment, amount: '100' });
    for (const event of (await eventsOf(server)).reverse()) await deliver(event);
    await deliverAll();
    expect(await balance()).toEqual({ cents: 600, debtCents: 0 });
    await askProvider(server, `test/refunds/${id}/fail`);
    await deliverAll();
    expect(await balance()).toEqual({ cents: 700, debtCents: 0 });
    expect((await expectSound()).map(({ kind, type, amountCents }) => [kind, type, amountCents])).toEqual([
      ['top_up', 'top_up', 1000],
      ['top_up_refund', 'refund', -400],
      ['top_up_refund', 'refund', 100],
    ]);
  });

  test('a refund of credits that are spent is a debt, which blocks paid calls until later credits cover it', async () => {
    const { payment } = await bought(1000);
    await spend(700);
    await askProvider(server, 'refunds', { payment_intent: payment });
    await deliverAll();
    expect(await balance()).toEqual({ cents: 0, debtCents: 700 });
    await expect(hold(deps, call(1))).rejects.toMatchObject({
      code: 'INSUFFICIENT_CREDITS',
      message: expect.stringContaining('owes 700'),
    });
    await bought(500);
    expect(await balance()).toEqual({ cents: 0, debtCents: 200 });
    await grantCredits(deps, workspaceId, { id: deps.ids.uuid(), cents: 250, description: 'a present' });
    await hold(deps, call(50));
    expect(await balance()).toEqual({ cents: 0, debtCents: 0 });
    await expectSound();
  });

  test.each([
    ['winning_evidence', 1000, ['top_up', 'dispute', 'dispute_release']],
    ['losing_evidence', 0, ['top_up', 'dispute']],
  ])('a dispute holds the credits until it is decided (%s)', async (text, left, kinds) => {
    await bought(1000, '4000000000000259');
    expect(await balance()).toEqual({ cents: 0, debtCents: 0 });
    await expect(hold(deps, call(1))).rejects.toMatchObject({ code: 'INSUFFICIENT_CREDITS' });
    const dispute = (await eventsOf(server)).find(({ type }) => type.startsWith('charge.dispute'))!.data.object.id;
    await askProvider(server, `disputes/${dispute}`, { 'evidence[uncategorized_text]': text });
    await deliverAll();
    expect(await balance()).toEqual({ cents: left, debtCents: 0 });
    expect((await expectSound()).map(({ kind }) => kind)).toEqual(kinds);
  });

  test('a bank transfer counts when it arrives, and a page that nobody pays is closed', async () => {
    const [transfer, left] = [await buy(1000), await buy(2000)];
    await payOnPage(transfer.checkout_url, 'bank');
    await deliverAll();
    expect(await look(transfer.session_id)).toMatchObject({ body: { status: 'processing' } });
    expect(await entries()).toEqual([]);
    await askProvider(server, `test/bank/${await paymentOf(transfer.session_id)}/arrive`);
    await deliverAll();
    expect(await balance()).toMatchObject({ cents: 1000 });
    offset += 3 * HOUR_MS;
    await reconcilePayments(deps);
    expect(await look(left.session_id)).toMatchObject({ body: { status: 'closed' } });
    expect(alarms).toEqual([]);
  });

  describe('the reconciliation', () => {
    test('books what no event told of, and raises an alarm for it, once', async () => {
      const { checkout_url: url, session_id: sessionId } = await buy(1000);
      await payOnPage(url);
      await expect(reconcilePayments(deps)).rejects.toThrow('payments differed, 1 of them: repaired top-up');
      expect(await balance()).toMatchObject({ cents: 1000 });
      await askProvider(server, 'refunds', { payment_intent: await paymentOf(sessionId), amount: '250' });
      await expect(reconcilePayments(deps)).rejects.toThrow(PaymentsDiffered);
      expect(await balance()).toMatchObject({ cents: 750 });
      await deliverAll();
      await reconcilePayments(deps);
      await expectSound();
    });

    test('finds open top-ups also when the provider lists no event of them', async () => {
      const { checkout_url: url } = await buy(1000);
      await payOnPage(url);
      offset += 30 * 24 * HOUR_MS;
      await expect(reconcilePayments(deps)).rejects.toThrow(PaymentsDiffered);
      expect(await balance()).toMatchObject({ cents: 1000 });
    });

    test('reports a payment of which the tables know nothing, and books none', async () => {
      const { checkout_url: url } = await buy(1000);
      await payOnPage(url);
      for (const { sk } of (await deps.main.query({ pk: `WS#${workspaceId}#LEDGER` })).items) {
        await deps.main.delete({ pk: `WS#${workspaceId}#LEDGER`, sk });
      }
      await expect(reconcilePayments(deps)).rejects.toThrow('1 of them: unknown payment cs_test_');
      expect(alarms).toEqual(['payment without a top-up']);
      expect(await entries()).toEqual([]);
    });
  });

  test('payments of other shops at the same provider are none of ours', async () => {
    const { id } = await askProvider(server, 'checkout/sessions', {
      mode: 'payment',
      'line_items[0][quantity]': '1',
      'line_items[0][price_data][currency]': 'usd',
      'line_items[0][price_data][unit_amount]': '700',
      'line_items[0][price_data][product_data][name]': 'A hat',
      success_url: 'https://shop.example',
    });
    await payOnPage(`${server.url}/pay/${id}`);
    await deliverAll();
    await expect(look(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(alarms).toEqual([]);
  });

  test('an event that cannot be booked is refused, so that it comes again', async () => {
    const { checkout_url: url } = await buy(1000);
    await payOnPage(url);
    const [event] = await eventsOf(server);
    const broken = { ...deps, main: crashing(deps.main, { callsLeft: 2, isAfter: false }) };
    await expect(deliver(event!, broken)).rejects.toThrow(ProcessDied);
    expect(await entries()).toEqual([]);
    await deliver(event!);
    expect(await balance()).toMatchObject({ cents: 1000 });
  });

  const fuse = fc.option(fc.record({ callsLeft: fc.integer({ min: 1, max: 9 }), isAfter: fc.boolean() }));
  const nth = fc.nat(5);
  const step = fc.record({
    fuse,
    what: fc.oneof(
      {
        weight: 3,
        arbitrary: fc.record({ do: fc.constant('buy' as const), cents: fc.integer({ min: 500, max: 900 }) }),
      },
      {
        weight: 4,
        arbitrary: fc.record({
          do: fc.constant('pay' as const),
          nth,
          card: fc.constantFrom('4242424242424242', 'bank', '4000000000000259', '4000000000005126'),
        }),
      },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('event' as const), nth: fc.nat(20) }) },
      {
        weight: 2,
        arbitrary: fc.record({ do: fc.constant('refund' as const), nth, cents: fc.integer({ min: 1, max: 600 }) }),
      },
      fc.record({ do: fc.constant('dispute' as const), nth, cents: fc.integer({ min: 1, max: 900 }) }),
      fc.record({ do: fc.constant('decide' as const), nth, isWon: fc.boolean() }),
      fc.record({ do: fc.constant('transfer' as const), nth, hasArrived: fc.boolean() }),
      {
        weight: 3,
        arbitrary: fc.record({ do: fc.constant('hold' as const), nth, cents: fc.integer({ min: 1, max: 400 }) }),
      },
      { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('settle' as const, 'giveBack' as const), nth }) },
      fc.record({ do: fc.constant('reconcile' as const) }),
    ),
  });

  test(`whatever happens at the same time, and whoever dies, no cent is lost or counted twice (${rounds} histories)`, async () => {
    /** Number of steps played, for the test's output. */
    const played: Record<string, number> = {};
    const count = (what: string, more = 1) => {
      played[what] = (played[what] ?? 0) + more;
    };
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), { maxLength: 8 }), async (waves) => {
        offset = 0;
        workspaceId = crypto.randomUUID();
        const authorId = crypto.randomUUID();
        ({ payments, server } = await scriptedPayments(clock));
        deps = { ...deps, payments };
        const runIds = Array.from({ length: 6 }, () => crypto.randomUUID());
        const pages: { checkout_url: string; session_id: string }[] = [];
        const pick = <T>(all: readonly T[], n: number): T | undefined => all[n % all.length];
        const settled = async () => (await eventsOf(server)).flatMap(({ data }) => paymentIn(data.object) ?? []);
        /** The provider refuses invalid requests, such as a second refund. */
        const ask = (path: string, form = {}) => askProvider(server, path, form).catch(() => {});

        const act = async ({
          what,
          fuse: limit,
        }: {
          what: typeof step extends fc.Arbitrary<infer S> ? (S extends { what: infer W } ? W : never) : never;
          fuse: Fuse | null;
        }) => {
          count(what.do);
          const own = limit && { ...limit };
          const on = own ? { ...deps, main: crashing(deps.main, own), payments: crashing(payments, own) } : deps;
          switch (what.do) {
            case 'buy':
              return void pages.push(await buy(what.cents, on));
            case 'pay': {
              const page = pick(pages, what.nth);
              return page && void (await payOnPage(page.checkout_url, what.card));
            }
            case 'event': {
              const event = pick(await eventsOf(server), what.nth);
              return event && void (await deliver(event, on));
            }
            case 'refund': {
              const payment = pick(await settled(), what.nth);
              return payment && void (await ask('refunds', { payment_intent: payment, amount: String(what.cents) }));
            }
            case 'dispute': {
              const payment = pick(await settled(), what.nth);
              return (
                payment && void (await ask('test/disputes', { payment_intent: payment, amount: String(what.cents) }))
              );
            }
            case 'decide': {
              const made = (await eventsOf(server)).filter(({ type }) => type === 'charge.dispute.created');
              const dispute = pick(made, what.nth)?.data.object.id;
              const text = what.isWon ? 'winning_evidence' : 'losing_evidence';
              return dispute && void (await ask(`disputes/${dispute}`, { 'evidence[uncategorized_text]': text }));
            }
            case 'transfer': {
              const payment = pick(await settled(), what.nth);
              return payment && void (await ask(`test/bank/${payment}/${what.hasArrived ? 'arrive' : 'bounce'}`));
            }
            case 'hold':
              return hold(on, call(what.cents, runIds[what.nth]!, authorId));
            case 'settle':
              return settle(on, workspaceId, runIds[what.nth]!);
            case 'giveBack':
              return refund(on, workspaceId, runIds[what.nth]!);
            case 'reconcile':
              return reconcilePayments(on);
          }
        };
        for (const wave of waves) {
          for (const result of await Promise.allSettled(wave.map(act))) {
            if (result.status === 'fulfilled') continue;
            if (result.reason instanceof ProcessDied) count('processes that died');
            else if (result.reason instanceof PaymentsDiffered) count('differences reported');
            else expect(result.reason).toMatchObject({ code: 'INSUFFICIENT_CREDITS' });
          }
          await expectSound();
        }
        // Every dead process is replaced, and every clock of the platform ticks.
        offset += 3 * HOUR_MS;
        await reconcilePayments(deps).catch((error) => expect(error).toBeInstanceOf(PaymentsDiffered));
        await reconcilePayments(deps);
        await sweepHolds(deps);

        const all = await expectSound();
        count('ledger entries', all.length);
        const sumOf = (id: string) => all.filter(({ referenceId }) => referenceId === id);
        for (const { session_id: sessionId } of pages) {
          const { topUpId, status, paidCents, refundedCents, disputedCents } = (await payments.retrieve({
            sessionId,
          }))!;
          expect(['paid', 'closed', 'processing']).toContain(status);
          const own = sumOf(topUpId);
          const kept = Math.max(0, paidCents - refundedCents - disputedCents);
          expect(own.reduce((sum, { amountCents }) => sum + amountCents, 0)).toBe(kept);
          expect(own.filter(({ kind }) => kind === 'top_up').length).toBe(Number(paidCents > 0));
        }
        let earned = 0;
        for (const runId of runIds) {
          const own = sumOf(runId);
          expect([[], ['charge'], ['charge', 'refund']]).toContainEqual(own.map(({ kind }) => kind));
          if (own.length === 1) earned -= own[0]!.amountCents + Math.floor(-own[0]!.amountCents / 5);
        }
        const sums = await readEarningSums(deps, authorId);
        expect(sums.reduce((sum, { earnedCents }) => sum + earnedCents, 0)).toBe(earned);
        const month = new Date(clock.now()).toISOString().slice(0, 7);
        const listed = await listEarnings(deps, authorId, { month, limit: 100, offset: 0 });
        expect(listed.reduce((sum, { earnedCents }) => sum + earnedCents, 0)).toBeLessThanOrEqual(earned);
      }),
      { numRuns: rounds },
    );
    console.log(`${rounds} histories:`, played);
  }, 600_000);
}

function paymentIn(subject: object): string | undefined {
  return (subject as { payment_intent?: string | null }).payment_intent ?? undefined;
}
