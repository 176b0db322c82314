import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Scan } from '#core/ports/scan.ts';
import { TABLE_NAMES } from '#core/ports/table-rules.ts';
import { turnBlobKey } from '#core/runs/sessions/items.ts';
import { clientOf, type LocalTarget, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from './expect.ts';

let target: LocalTarget;
let user: TestUser;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
  user = await target.addUser('sessions');
  expectOk(await send('PUT', '/secrets', { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-sessions-0123456789' }));
});
afterAll(() => target?.close());

const send = (method: string, path: string, json?: unknown, headers: Record<string, string> = {}) =>
  request(target, method, `/workspaces/${user.workspaceId}${path}`, { key: user.key, json, headers });

async function publish(name: string, turns: readonly object[], more: object = {}): Promise<void> {
  const prompt = `Talk as ${name}. [[llm ${JSON.stringify(turns)}]]`;
  const body = { name, type: 'prompt', description: 'x', supported_providers: ['anthropic'], prompt, ...more };
  expectOk(await request(target, 'POST', '/agents', { key: user.key, json: body }), 201);
}
const open = async (name: string, more: object = {}): Promise<string> =>
  expectOk(await send('POST', '/sessions', { agent: `sessions/${name}`, ...more }), 201).id;
const say = (id: string, text: string, headers: Record<string, string> = {}) =>
  send('POST', `/sessions/${id}/messages`, { text }, headers);

/** Everything that tables and blobs hold of what this marker is in. */
async function placesOf(marker: string): Promise<string[]> {
  const { scan } = target.deps as unknown as { readonly scan: Scan };
  const found: string[] = [];
  for (const name of TABLE_NAMES) {
    for await (const item of scan.items(name, { partitions: [''], workspaceId: '' })) {
      if (JSON.stringify(item).includes(marker)) found.push(`${name} ${item.pk} / ${item.sk}`);
    }
  }
  for await (const key of target.deps.blobs.list('')) {
    const content = await target.deps.blobs.get(key);
    if (content && Buffer.from(content).includes(marker)) found.push(`blob ${key}`);
  }
  return found;
}

test('a deleted session leaves nothing of what was said in tables and blobs', { timeout: 120_000 }, async () => {
  expectOk(await request(target, 'PATCH', '/org', { key: user.key, json: { trace_content: 'all' } }));
  await publish('eraser', [{ echo: true }]);
  const marker = 'ERASE-ME-4711';
  const id = await open('eraser', { title: marker, metadata: { note: marker }, external_id: `x-${marker}` });
  expectOk(await say(id, marker, { 'idempotency-key': 'once' }));
  expectOk(await say(id, `${marker} ${'long '.repeat(30_000)}`, { 'idempotency-key': 'twice' }));
  expectOk(await say(id, `${marker} streamed`, { accept: 'text/event-stream' }));
  const fork = expectOk(await send('POST', `/sessions/${id}/fork`, { after: 2 }), 201).id;
  expect((await placesOf(marker)).length).toBeGreaterThan(5);
  expectOk(await send('DELETE', `/sessions/${fork}`));
  // The runs of the fork are those of the original.
  expect(expectOk(await send('GET', `/sessions/${id}/messages`)).items).toHaveLength(3);
  expectOk(await send('DELETE', `/sessions/${id}`));
  expect(await placesOf(marker)).toEqual([]);
});

test('so does a run that is cancelled by the deletion', { timeout: 60_000 }, async () => {
  const marker = 'ERASE-ME-4712';
  await publish('slow', [{ echo: true, delayMs: 3000 }]);
  const id = await open('slow');
  const begun = expectOk(await say(id, marker, { prefer: 'respond-async' }), 202);
  const waiting = expectOk(await say(id, `${marker} waits`, { prefer: 'respond-async' }), 202);
  expectOk(await send('DELETE', `/sessions/${id}`));
  for (const { run_id } of [begun, waiting]) {
    await expect
      .poll(async () => expectOk(await send('GET', `/runs/${run_id}`)).status, { timeout: 30_000, interval: 100 })
      .toBe('cancelled');
  }
  await expect.poll(() => placesOf(marker), { timeout: 10_000, interval: 200 }).toEqual([]);
});

test('a damaged message fails the next one with its number, and the session stays readable', async () => {
  await publish('breaks', [{ echo: true }]);
  const id = await open('breaks');
  expectOk(await say(id, 'long '.repeat(10_000)));
  expectOk(await say(id, 'short'));
  await target.deps.blobs.put(turnBlobKey(user.workspaceId, id, 1), Buffer.from('{"inp'));
  expectError(await say(id, 'again'), 500, 'INTERNAL_ERROR', 'Message 1');
  const { items } = expectOk(await send('GET', `/sessions/${id}/messages`));
  expect(items).toMatchObject([
    { number: 1, output: null, error: { code: 'INTERNAL_ERROR' } },
    { number: 2, input: { message: 'short' }, error: null },
    { number: 3, status: 'failed', error: { code: 'INTERNAL_ERROR' } },
  ]);
  expect((await send('GET', `/sessions/${id}/export`)).body.trim().split('\n')).toHaveLength(4);
});

test('message 200 of a conversation is read from the cache of the provider', { timeout: 120_000 }, async () => {
  await publish('cached', [{ text: 'An answer of some length, as a model gives it to a customer.' }], {
    prompt: 'You help customers of a book shop with their questions about orders: {{message}}',
  });
  const id = await open('cached');
  let last: { input_tokens: number; cache_read_tokens?: number; cache_write_tokens?: number } | undefined;
  for (let number = 1; number <= 200; number++) {
    const answer = expectOk(await say(id, `Question ${number}: when does my order number ${number} arrive?`));
    last = answer.metadata.usage;
  }
  const { input_tokens, cache_read_tokens = 0, cache_write_tokens = 0 } = last!;
  // Anthropic's prices: a tenth for what is read, a quarter more for what is written.
  const uncached = input_tokens - cache_read_tokens - cache_write_tokens;
  const price = uncached + 0.1 * cache_read_tokens + 1.25 * cache_write_tokens;
  expect(input_tokens).toBeGreaterThan(10_000);
  expect(price / input_tokens).toBeLessThanOrEqual(0.15);
});

test.skipIf(process.platform !== 'linux')('a program gets the id of its session', { timeout: 60_000 }, async () => {
  const code = 'import json, os; print(json.dumps({"session": os.environ.get("PLATFORM_SESSION_ID")}))';
  await publishCode(clientOf(target, user.key), 'program', { 'main.py': code });
  const id = await open('program');
  expect(expectOk(await send('POST', `/sessions/${id}/messages`, { input: {} })).data).toEqual({ session: id });
  const alone = await request(target, 'POST', '/sessions/program/latest/run', { key: user.key, json: {} });
  expect(expectOk(alone).data).toEqual({ session: null });
});
