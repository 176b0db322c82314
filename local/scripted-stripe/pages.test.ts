import { expect, test } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import type { Payments } from '#core/ports/payments.ts';
import { payOnPage, scriptedPayments } from '#test/helpers/payments.ts';

const newOrder = (payments: Payments) =>
  payments.createCheckout({
    topUpId: crypto.randomUUID(),
    workspaceId: crypto.randomUUID(),
    cents: 1000,
    title: 'Credits <of> a workspace',
    successUrl: 'https://platform.example/back/{CHECKOUT_SESSION_ID}',
    expiresAt: Date.now() + 7_200_000,
  });
const textOf = async (url: string): Promise<string> => (await fetch(url)).text();

test.each([
  ['arrives', 'paid'],
  ['bounces', 'closed'],
])('the page of an order that is paid by bank asks whether the money %s', async (transfer, status) => {
  const { payments } = await scriptedPayments(new SystemClock());
  const { url, sessionId } = await newOrder(payments);
  expect((await payOnPage(url, 'bank')).status).toBe(303);
  expect((await payments.retrieve({ sessionId }))?.status).toBe('processing');
  expect(await textOf(url)).toContain('The bank transfer is on its way.');
  const send = () => fetch(url, { method: 'POST', body: new URLSearchParams({ transfer }), redirect: 'manual' });
  expect((await send()).headers.get('location')).toBe(`https://platform.example/back/${sessionId}`);
  expect((await send()).status).toBe(303);
  expect((await payments.retrieve({ sessionId }))?.status).toBe(status);
  expect(await textOf(url)).not.toContain('on its way');
});

test.each(['', '4111111111111111', 'constructor'])('the card %j is none', async (card) => {
  const { payments } = await scriptedPayments(new SystemClock());
  const { url } = await newOrder(payments);
  const answer = await payOnPage(url, card);
  expect([answer.status, (await answer.text()).includes('Choose one of the cards.')]).toEqual([400, true]);
  expect(await textOf(url)).toContain('Credits &lt;of&gt; a workspace');
});
