import { once } from 'node:events';
import { request } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { startScriptedStripe } from './server.ts';

/** Starts the provider with one open session, and requests its page with any headers. */
async function openPage() {
  const server = await startScriptedStripe({ clock: new SystemClock() });
  onTestFinished(() => server.close());
  const form = {
    mode: 'payment',
    'line_items[0][quantity]': '1',
    'line_items[0][price_data][currency]': 'usd',
    'line_items[0][price_data][unit_amount]': '500',
    success_url: 'http://127.0.0.1:1/done',
  };
  const headers = new Headers({ authorization: `Bearer ${server.key}` });
  const { body } = server.provider.answer(
    'POST',
    '/v1/checkout/sessions',
    headers,
    new URLSearchParams(form).toString(),
  );
  const { id, url } = body as { id: string; url: string };
  const send = async (method: string, more: Record<string, string>): Promise<number | undefined> => {
    const sent = request(url, { method, headers: more, agent: false });
    sent.end(method === 'POST' ? 'card=4242424242424242' : '');
    const [answer] = await once(sent, 'response');
    answer.resume();
    return answer.statusCode;
  };
  return { server, status: () => server.provider.find(id)!.status, send };
}

test('pages of other origins cannot pay, nor what comes by another name of this machine', async () => {
  const { server, status, send } = await openPage();
  const { port } = new URL(server.url);
  const strange = `made-up.example:${port}`;
  expect(await send('POST', { origin: 'https://made-up.example' })).toBe(403);
  expect(await send('POST', { origin: 'null' })).toBe(403);
  expect(await send('POST', { host: strange, origin: `http://${strange}` })).toBe(403);
  expect(await send('GET', { host: strange })).toBe(403);
  expect(await send('POST', { origin: `http://localhost:${port}` })).toBe(403);
  expect(status()).toBe('open');
});

test('its own page pays', async () => {
  const { server, status, send } = await openPage();
  expect(await send('GET', {})).toBe(200);
  expect(await send('POST', { origin: server.url })).toBe(303);
  expect(status()).toBe('complete');
});

test('names that every object has are no pages', async () => {
  const { server } = await openPage();
  for (const name of ['__proto__', 'constructor', 'toString']) {
    expect((await fetch(`${server.url}/pay/${name}`)).status).toBe(404);
    expect((await fetch(`${server.url}/pay/${name}`, { method: 'POST', body: 'card=bank' })).status).toBe(404);
  }
});
