import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createLlm } from '#adapters/llm/create-llm.ts';
import { parseConfig } from '#core/base/config.ts';
import { LLM_PROVIDERS, type LlmProvider, type LlmRequest, type LlmUsage } from '#core/ports/llm.ts';
import { HastyClock } from '#test/helpers/hasty-clock.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { ModelChoice } from './choose.ts';
import { rowOf } from './providers.ts';
import { type NextTry, RetryingLlm } from './retrying-llm.ts';

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(() => server.close());

const choiceOf = (provider: LlmProvider): ModelChoice => ({
  provider,
  model: rowOf(provider).defaultModel!,
  ...(rowOf(provider).key !== null && { apiKey: `key-of-${provider}` }),
});

function prepare({ seconds = 240, settings = server.settings }: { seconds?: number; settings?: object } = {}) {
  const clock = new HastyClock();
  const llm = createLlm(parseConfig({ ...settings }));
  const signs: string[] = [];
  const generate = (request: LlmRequest) => {
    const onSign = (sign: 'sent' | 'received') => {
      request.onSign?.(sign);
      signs.push(sign);
    };
    return llm.generate({ ...request, onSign });
  };
  const steady = new RetryingLlm(
    { llm: { generate }, clock },
    { workspaceId: 'ws-1', deadline: clock.now() + seconds * 1000 },
  );
  const nexts: NextTry[] = [];
  const spent: LlmUsage[] = [];
  const stop = new AbortController();
  const ask = (
    providers: readonly LlmProvider[] = ['anthropic'],
    { isStreamed = false, text = 'Hello', mayRepeat = (): boolean => true } = {},
  ) =>
    steady.ask(
      providers.map((provider) => choiceOf(provider)),
      {
        signal: stop.signal,
        question: () => ({
          messages: [{ role: 'user', text }],
          maxOutputTokens: 100,
          ...(isStreamed && { onText: () => {} }),
        }),
        mayRepeat,
        onStart: () => {},
        onSkip: () => {},
        onFailure: (_, __, usage, next) => {
          nexts.push(next);
          if (usage) spent.push(usage);
        },
      },
    );
  return { clock, ask, nexts, spent, stop, signs };
}

const TEXT = 'an answer that is long enough to be cut in two';
const TRANSIENT: ScriptedTurn[] = [
  ...[408, 409, 429, 500, 502, 503, 504, 520, 529].map((status) => ({ status })),
  { status: 400, shouldRetry: true },
  { resetBeforeHeaders: true },
  { text: TEXT, breakOff: 'reset' },
  { text: TEXT, breakOff: 'end' },
  { text: TEXT, malformed: true },
  { contentType: 'text/html' },
  { errorFirst: true },
];

describe.each(LLM_PROVIDERS.flatMap((provider) => [false, true].map((isStreamed) => ({ provider, isStreamed }))))(
  '$provider, streamed: $isStreamed',
  ({ provider, isStreamed }) => {
    test.each(TRANSIENT)('%j passes', async (fault) => {
      server.queue({ text: 'first' }, fault, { text: 'second' });
      const { ask, clock } = prepare();
      expect((await ask([provider], { isStreamed })).answer.text).toBe('first');
      expect((await ask([provider], { isStreamed })).answer.text).toBe('second');
      expect(server.asked).toBe(3);
      expect(clock.waits).toHaveLength(1);
      expect(clock.waits[0]).toBeLessThanOrEqual(500);
    });

    test.each<ScriptedTurn>([
      { status: 400 },
      { status: 401 },
      { status: 403 },
      { status: 404 },
      { status: 529, shouldRetry: false },
      { refusal: 'overflow' },
      ...(provider === 'ollama' ? [] : [{ refusal: 'quota' as const }, { refusal: 'spend' as const }]),
      ...(provider === 'anthropic' || provider === 'openai' ? [{ refusal: 'too-large' as const }] : []),
    ])('%j does not', async (fault) => {
      server.queue(fault);
      const { ask } = prepare();
      await expect(ask([provider], { isStreamed })).rejects.toMatchObject({ code: expect.any(String) });
      expect(server.asked).toBe(1);
    });

    test('a silent provider is given up: as a stream after its limit, as a whole when it has begun', async () => {
      const limit = provider === 'anthropic' ? 90_000 : 180_000;
      for (const hangAfter of isStreamed ? [0, 3] : [0]) {
        server.reset();
        server.queue({ text: TEXT, hangAfter }, { text: 'second' });
        const { ask, clock, spent, signs } = prepare({ seconds: 400 });
        const answered = ask([provider], { isStreamed });
        // The beginning of the answer arrives: its headers, then its events immediately.
        const begun = ['sent', 'received', ...(hangAfter > 0 ? ['received'] : [])];
        await expect.poll(() => signs).toEqual(begun);
        await clock.advance(limit - 1000);
        expect(server.asked).toBe(1);
        await clock.advance(1000);
        // An answer that is not streamed is checked at intervals.
        if (!isStreamed) await clock.advance(limit);
        expect((await answered).answer.text).toBe('second');
        expect(server.asked).toBe(2);
        if (hangAfter > 0) expect(spent[0]!.inputTokens).toBeGreaterThan(0);
      }
    });
  },
);

describe('a question', () => {
  test('is asked four times, after waits that grow', async () => {
    server.script({ default: { status: 529 } });
    const { ask, clock, nexts } = prepare();
    await expect(ask()).rejects.toMatchObject({ code: 'LLM_ERROR' });
    expect(server.asked).toBe(4);
    expect(clock.waits).toHaveLength(3);
    for (const [index, wait] of clock.waits.entries()) expect(wait).toBeLessThanOrEqual(500 * 2 ** index);
    expect(nexts.at(-1)).toBeUndefined();
  });

  test('is asked once more if the answer was none', async () => {
    server.script({ default: { contentType: 'text/html' } });
    await expect(prepare().ask()).rejects.toMatchObject({ code: 'LLM_ERROR' });
    expect(server.asked).toBe(2);
  });

  test('waits are random', async () => {
    server.script({ default: { status: 500 } });
    const waits = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const { ask, clock } = prepare();
        await ask().catch(() => {});
        return clock.waits.join();
      }),
    );
    expect(new Set(waits).size).toBeGreaterThan(1);
  });

  test('is repeated however many requests of its run were', async () => {
    const { ask } = prepare();
    for (let question = 1; question <= 20; question++) {
      server.queue({ status: 503 }, { text: 'yes' });
      expect(await ask()).toMatchObject({ answer: { text: 'yes' } });
    }
    expect(server.asked).toBe(40);
    server.script({ default: { status: 503 } });
    await expect(ask()).rejects.toMatchObject({ code: 'LLM_ERROR' });
    expect(server.asked).toBe(44);
  });

  test('is not repeated when a part of its answer stands', async () => {
    server.queue({ status: 503 });
    await expect(prepare().ask(['anthropic', 'openai'], { mayRepeat: () => false })).rejects.toThrow('503');
    expect(server.asked).toBe(1);
  });

  test('that is cancelled is not repeated', async () => {
    server.queue({ hang: true });
    const { ask, stop } = prepare();
    const answered = ask();
    await expect.poll(() => server.open).toBe(1);
    const reason = new Error('cancelled');
    stop.abort(reason);
    await expect(answered).rejects.toBe(reason);
    expect(server.asked).toBe(1);
  });
});

describe('the time to wait', () => {
  test.each([
    { retryAfter: 2, retryForm: 'seconds', least: 2000, most: 2000 },
    { retryAfter: 1.5, retryForm: 'ms', least: 1500, most: 1500 },
    { retryAfter: 10, retryForm: 'date', least: 9000, most: 10_000 },
    { retryAfter: 0, retryForm: 'seconds', least: 0, most: 500 },
  ] as const)('is the one that the provider says: $retryAfter as $retryForm', async ({ least, most, ...said }) => {
    server.queue({ status: 429, ...said }, { text: 'second' });
    const { ask, clock } = prepare();
    expect((await ask()).answer.text).toBe('second');
    expect(clock.waits[0]).toBeGreaterThanOrEqual(least);
    expect(clock.waits[0]).toBeLessThanOrEqual(most);
  });

  test('is not waited for if it is long', async () => {
    server.queue({ status: 429, retryAfter: 21 });
    await expect(prepare().ask()).rejects.toMatchObject({
      code: 'LLM_RATE_LIMITED',
      extra: { suggested_wait_time: 21 },
    });
    expect(server.asked).toBe(1);
  });

  test('ends 15 seconds before the deadline', async () => {
    server.script({ default: { status: 429, retryAfter: 5 } });
    await expect(prepare({ seconds: 24 }).ask()).rejects.toMatchObject({ code: 'LLM_RATE_LIMITED' });
    expect(server.asked).toBe(2);
    server.reset();
    server.script({ default: { status: 529 } });
    await expect(prepare({ seconds: 14 }).ask()).rejects.toMatchObject({ code: 'LLM_ERROR' });
    expect(server.asked).toBe(1);
  });
});

describe('another provider', () => {
  const asked = () => server.requests.map(({ provider }) => provider);
  const both = ['anthropic', 'openai'] as const;

  test.each<ScriptedTurn>([
    { status: 429 },
    { status: 429, retryAfter: 0 },
    { refusal: 'quota' },
    { refusal: 'spend' },
  ])('is asked at once after %j', async (fault) => {
    server.queue(fault, { text: 'second' });
    const { ask, clock } = prepare();
    expect(await ask(both)).toMatchObject({ choice: { provider: 'openai' }, answer: { text: 'second' } });
    expect(asked()).toEqual(['anthropic', 'openai']);
    expect(clock.waits).toEqual([]);
  });

  test.each<ScriptedTurn>([
    { status: 500 },
    { status: 529 },
    { resetBeforeHeaders: true },
    { text: TEXT, breakOff: 'end' },
  ])('is asked after two requests that failed by %j', async (fault) => {
    server.queue({ ...fault, times: 2 }, { text: 'third' });
    expect((await prepare().ask(both)).choice.provider).toBe('openai');
    expect(asked()).toEqual(['anthropic', 'anthropic', 'openai']);
  });

  test('is asked at once when the first one wants a long wait', async () => {
    server.queue({ status: 503, retryAfter: 60 }, { text: 'second' });
    expect((await prepare().ask(both)).choice.provider).toBe('openai');
  });

  test.each<ScriptedTurn>([
    { status: 400 },
    { status: 401 },
    { status: 403 },
    { status: 404 },
    { refusal: 'overflow' },
  ])('is not asked after %j', async (fault) => {
    server.queue(fault);
    await expect(prepare().ask(both)).rejects.toMatchObject({ kind: expect.stringMatching(/refused|key|overflow/) });
    expect(asked()).toEqual(['anthropic']);
  });
});

test('a provider that does not take the request is given up after 30 seconds', async () => {
  const sockets: Socket[] = [];
  const deaf = createServer({ pauseOnConnect: true }, (socket) => sockets.push(socket));
  await new Promise<void>((resolve) => deaf.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    deaf.close();
  });
  const url = `http://127.0.0.1:${(deaf.address() as AddressInfo).port}/v1`;
  const { ask, clock, nexts } = prepare({ seconds: 46, settings: { PLATFORM_ANTHROPIC_URL: url } });
  // More than the socket buffers hold while the server does not read.
  const answered = ask(['anthropic'], { text: 'x'.repeat(32 * 1024 * 1024) }).catch((error: Error) => error);
  await expect.poll(() => sockets.length).toBe(1);
  await clock.advance(29_000);
  expect(nexts).toEqual([]);
  await clock.advance(1000);
  await expect.poll(() => nexts.length).toBeGreaterThan(0);
  await clock.advance(30_000);
  expect(await answered).toMatchObject({ code: 'LLM_ERROR', message: expect.stringContaining('30 seconds') });
});
