import { describe, expect, test } from 'vitest';
import { PromptCache } from './prompt-cache.ts';
import { type CacheRule, endsOf, prefixesOf } from './turns.ts';

interface Part {
  readonly text: string;
  readonly cache_control?: { readonly ttl?: '5m' | '1h' };
}

let now = 0;
const newCache = () => new PromptCache(() => now);

/** 250 tokens. */
const part = (name: string, cache_control?: Part['cache_control']): Part => ({
  text: name.padEnd(1000, '.'),
  ...(cache_control && { cache_control }),
});
const parts = (count: number): Part[] => Array.from({ length: count }, (_, index) => part(`${index}`));

/** Returns the token counts: uncached, read, written. */
const ask = (cache: PromptCache, asked: readonly Part[], options: { account?: string; model: string } & CacheRule) => {
  const { account = 'a', model, ...rule } = options;
  const request = { model, parts: asked, prefixes: prefixesOf(asked), ends: endsOf(asked) };
  return Object.values(cache.account(account, request, rule));
};

describe("Anthropic's", () => {
  const sonnet = { model: 'claude-sonnet-5-5', kind: 'marks' } as const;

  test('keeps what stands before a mark, for one account and model', () => {
    const cache = newCache();
    const first = [...parts(4), part('last', {}), part('rest')];
    expect(ask(cache, first, sonnet)).toEqual([250, 0, 1250]);
    expect(ask(cache, first, sonnet)).toEqual([250, 1250, 0]);
    expect(ask(cache, first, { ...sonnet, account: 'b' })).toEqual([250, 0, 1250]);
    expect(ask(cache, first, { ...sonnet, model: 'claude-sonnet-5' })).toEqual([250, 0, 1250]);
    const longer = [...first.slice(0, 5), part('new'), part('end', {})];
    expect(ask(cache, longer, sonnet)).toEqual([0, 1250, 500]);
    expect(ask(cache, [part('other'), ...longer.slice(1)], sonnet)).toEqual([0, 0, 1750]);
  });

  test('keeps nothing shorter than the least of its model', () => {
    for (const [model, count] of [
      ['claude-opus-5', 3],
      ['claude-sonnet-5-5', 5],
      ['claude-haiku-4-5', 17],
    ] as const) {
      const cache = newCache();
      const short = [...parts(count - 2), part('last', {})];
      const long = [...parts(count - 1), part('last', {})];
      for (const _ of [1, 2]) expect(ask(cache, short, { ...sonnet, model })).toEqual([250 * (count - 1), 0, 0]);
      ask(cache, long, { ...sonnet, model });
      expect(ask(cache, long, { ...sonnet, model })).toEqual([0, 250 * count, 0]);
    }
  });

  test.each([
    [19, 1250],
    [20, 0],
  ])('looks 20 parts back from a mark: %i further parts', (further, read) => {
    const cache = newCache();
    const start = [...parts(4), part('last', {})];
    ask(cache, start, sonnet);
    const added = Array.from({ length: further - 1 }, (_, index) => part(`added ${index}`));
    const next = [...start.slice(0, 4), part('last'), ...added, part('end', {})];
    expect(ask(cache, next, sonnet)[1]).toBe(read);
    // With a second mark, the cache finds it at any distance.
    expect(ask(cache, [...start, ...added, part('new end', {})], sonnet)[1]).toBe(1250);
  });

  test('forgets after five minutes without use, or after an hour', () => {
    for (const [ttl, minutes] of [
      ['5m', 5],
      ['1h', 60],
    ] as const) {
      const cache = newCache();
      const asked = [...parts(4), part('last', { ttl })];
      ask(cache, asked, sonnet);
      for (let use = 0; use < 3; use++) {
        now += minutes * 60_000 - 1;
        expect(ask(cache, asked, sonnet)[1]).toBe(1250);
      }
      now += minutes * 60_000;
      expect(ask(cache, asked, sonnet)[1]).toBe(0);
    }
  });
});

test("OpenAI's finds the longest prefix in steps of 128 tokens, by its route; writes are charged from GPT-5.6 on", () => {
  const cache = newCache();
  const sol = { model: 'gpt-6.2-sol', kind: 'prefix' } as const;
  expect(ask(cache, parts(6), sol)).toEqual([0, 0, 1500]);
  expect(ask(cache, parts(8), sol)).toEqual([0, 1408, 592]);
  expect(ask(cache, parts(8), { ...sol, route: 'elsewhere' })).toEqual([0, 0, 2000]);
  const old = { ...sol, model: 'gpt-5' };
  expect(ask(cache, parts(6), old)).toEqual([1500, 0, 0]);
  expect(ask(cache, parts(8), old)).toEqual([592, 1408, 0]);
  for (const _ of [1, 2]) expect(ask(newCache(), parts(4), old)).toEqual([1000, 0, 0]);
});

test("Gemini's finds the longest prefix from 4,096 tokens on, and writes without a charge", () => {
  const cache = newCache();
  const flash = { model: 'gemini-3.8-flash', kind: 'implicit' } as const;
  for (const _ of [1, 2]) expect(ask(cache, parts(16), flash)).toEqual([4000, 0, 0]);
  expect(ask(cache, parts(17), flash)).toEqual([4250, 0, 0]);
  expect(ask(cache, parts(20), flash)).toEqual([750, 4250, 0]);
  expect(ask(cache, parts(20), { ...flash, model: 'gemini-2.5-pro' })).toEqual([5000, 0, 0]);
});
