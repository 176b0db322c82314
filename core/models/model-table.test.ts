import { describe, expect, test } from 'vitest';
import type { LlmUsage } from '#core/ports/llm.ts';
import type { ModelFacts } from '#core/ports/model-table.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { parseModels } from './model-facts.ts';
import { LayeredModelTable } from './model-table.ts';
import builtIn from './models.json' with { type: 'json' };

const TODAY = Date.parse('2026-11-22T12:00:00Z');
const HOUR = 3_600_000;
const MILLION: LlmUsage = { inputTokens: 1_000_000, outputTokens: 100_000 };
const SMALL: LlmUsage = { inputTokens: 1000, outputTokens: 1000 };

/** A table with a fake clock; `texts` are successive results of its source, including errors. */
function prepare({ at = TODAY, texts }: { at?: number; texts?: (string | Error)[] } = {}) {
  const clock = new ManualClock(at);
  const lines: [string, Record<string, unknown> | undefined][] = [];
  const ignore = () => {};
  const warn = (message: string, fields?: Record<string, unknown>) => void lines.push([message, fields]);
  const background: Promise<void>[] = [];
  let readings = 0;
  const read = async () => {
    const text = texts![readings++]!;
    if (typeof text === 'string') return text;
    throw text;
  };
  const table = new LayeredModelTable({
    builtIn: builtIn as Record<string, ModelFacts>,
    clock,
    log: { debug: ignore, info: ignore, warn, error: ignore },
    background: (work) => {
      background.push(work);
      return work;
    },
    source: texts && { name: 'models.example.com', read },
  });
  return { table, clock, lines, readings: () => readings, settled: () => Promise.all(background) };
}

/** The cost of 1,000 tokens each way on a day, in micro-dollars. */
const costOn = (day: string, provider: 'anthropic' | 'openai' | 'gemini', model: string, usage = SMALL): number =>
  Math.round(prepare({ at: Date.parse(`${day}T00:00:00Z`) }).table.costOf(provider, model, usage)! * 1e6);

describe('the built-in table', () => {
  test('is read by the first refresh, for all that wait for it', async () => {
    const table = new LayeredModelTable(memoryDeps());
    const [model, facts] = Object.entries(builtIn as Record<string, ModelFacts>)[0]!;
    expect(table.factsOf(model)).toEqual({});
    const known = Array.from({ length: 3 }, async () => {
      await table.refresh();
      return table.factsOf(model);
    });
    expect(await Promise.all(known)).toEqual([facts, facts, facts]);
  });

  test('matches its schema, and is complete but for models of a local server', () => {
    const parsed = parseModels(JSON.stringify(builtIn));
    for (const [id, facts] of Object.entries(parsed)) {
      const members = [
        'price',
        'inputs',
        'forced_tools',
        'effort',
        'temperature',
        'thoughts',
        ...(id === 'llama3.2' ? [] : ['window', 'max_output']),
      ];
      // Not all providers document their minimum for caching.
      const { cache_from = 1024, ...others } = facts;
      expect(Object.keys(others).toSorted(), id).toEqual(members.toSorted());
      expect(cache_from, id).toBeLessThanOrEqual(4096);
      expect(facts.max_output ?? 0, id).toBeLessThan(facts.window ?? 1);
    }
  });

  test('has one price for each day and band', () => {
    for (const [id, { price }] of Object.entries(parseModels(JSON.stringify(builtIn)))) {
      const places = price!.map(({ from = '', above = 0 }) => `${from} ${above}`);
      expect(new Set(places).size, id).toBe(places.length);
    }
  });

  test('a write to the cache costs as much as other input, or a quarter more', () => {
    for (const [id, { price }] of Object.entries(parseModels(JSON.stringify(builtIn))))
      for (const { input, cache_read, cache_write } of price!) {
        expect(
          [1, 1.25].map((factor) => Number((input * factor).toFixed(6))),
          id,
        ).toContain(cache_write);
        expect(cache_read, id).toBeLessThan(input);
      }
  });
});

describe('the cost of a request', () => {
  test('of known models, whatever their edition', () => {
    const { table } = prepare();
    expect(table.costOf('anthropic', 'claude-haiku-4-5-20251001', MILLION)).toBeCloseTo(1.5);
    expect(table.costOf('openai', 'gpt-5-mini-2025-08-07', MILLION)).toBeCloseTo(0.45);
    expect(table.costOf('gemini', 'models/gemini-2.5-flash', MILLION)).toBeCloseTo(0.55);
  });

  test('tokens of the cache have prices of their own', () => {
    const cached = { ...MILLION, cacheReadTokens: 500_000, cacheWriteTokens: 100_000 };
    expect(prepare().table.costOf('anthropic', 'claude-haiku-4-5', cached)).toBeCloseTo(0.4 + 0.05 + 0.125 + 0.5);
  });

  test.each([
    ['anthropic', 'claude-haiku-5-5', 100_000, { input: 0.1, output: 0.5 }, { input: 0.5, output: 2.5 }],
    ['openai', 'gpt-6.2-sol', 272_000, { input: 2, output: 10 }, { input: 4, output: 15 }],
    ['openai', 'gpt-6.1-terra', 272_000, { input: 1, output: 5 }, { input: 2, output: 7.5 }],
    ['openai', 'gpt-6-astra', 272_000, { input: 10, output: 50 }, { input: 20, output: 75 }],
    ['gemini', 'gemini-2.5-pro', 200_000, { input: 1.25, output: 10 }, { input: 2.5, output: 15 }],
  ] as const)('%s %s is dearer above %i tokens, all of the request', (provider, model, band, below, above) => {
    const cost = (inputTokens: number) => prepare().table.costOf(provider, model, { inputTokens, outputTokens: 1000 });
    expect(cost(band)).toBeCloseTo((band * below.input + 1000 * below.output) / 1e6, 9);
    expect(cost(band + 1)).toBeCloseTo(((band + 1) * above.input + 1000 * above.output) / 1e6, 9);
  });

  test('tokens of the cache count for the band, and are dearer, too', () => {
    const usage = { inputTokens: 300_000, outputTokens: 0, cacheReadTokens: 290_000, cacheWriteTokens: 5000 };
    const expected = (5000 * 4 + 290_000 * 0.2 + 5000 * 5) / 1e6;
    expect(prepare().table.costOf('openai', 'gpt-6.2-sol', usage)).toBeCloseTo(expected, 9);
  });

  test.each([
    ['gemini-3.8-flash', '2026-12-31', 4500, '2027-01-01', 9000],
    ['gemini-3.7-flash', '2026-12-31', 4500, '2027-01-01', 9000],
    ['gemini-4-argon', '2026-11-30', 12_000, '2026-12-01', 24_000],
    ['gemini-4-carbon', '2026-11-30', 12_000, '2026-12-01', 24_000],
    ['gemini-4-hydrogen', '2026-11-30', 9000, '2027-01-01', 9000],
  ])('%s costs on %s %i, on %s %i', (model, day, before, next, after) => {
    expect(costOn(day, 'gemini', model)).toBe(before);
    expect(costOn(next, 'gemini', model)).toBe(after);
  });

  test('a price of a later day replaces all bands of the earlier', async () => {
    const price = { cache_read: 0, cache_write: 0 };
    const own = {
      'mine-1': {
        price: [
          { ...price, input: 1, output: 1 },
          { ...price, above: 100, input: 2, output: 2 },
          { ...price, from: '2027-03-01', input: 3, output: 3 },
        ],
      },
    };
    const cost = async (day: string, inputTokens: number) => {
      const { table } = prepare({ at: Date.parse(`${day}T23:59:59Z`), texts: [JSON.stringify(own)] });
      await table.refresh();
      return table.costOf('openai', 'mine-1', { inputTokens, outputTokens: 0 })! * 1e6;
    };
    expect(await cost('2027-02-28', 100)).toBeCloseTo(100);
    expect(await cost('2027-02-28', 101)).toBeCloseTo(202);
    expect(await cost('2027-03-01', 101)).toBeCloseTo(303);
  });

  test('a table of more models than all providers have is refused', () => {
    const table = (count: number) =>
      JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, index) => [`mine-${index}`, {}])));
    expect(Object.keys(parseModels(table(2000)))).toHaveLength(2000);
    expect(() => parseModels(table(2001))).toThrow('it has 2001 models; at most 2000 are allowed.');
  });

  test('nothing for a local model', () => {
    const { table, lines } = prepare();
    expect(table.costOf('ollama', 'qwen3:8b', MILLION)).toBe(0);
    expect(lines).toEqual([]);
  });

  test('unknown for a model without a price, with one line of the log a day', async () => {
    const { table, clock, lines } = prepare();
    for (let call = 0; call < 3; call++) {
      expect(table.costOf('openai', 'gpt-99', MILLION)).toBeUndefined();
      expect(table.costOf('openai', 'constructor', MILLION)).toBeUndefined();
      expect(table.costOf('anthropic', 'claude-fable-5-2', MILLION)).toBeUndefined();
    }
    expect(lines.map(([, fields]) => fields?.model)).toEqual(['gpt-99', 'constructor', 'claude-fable-5-2']);
    await clock.advance(24 * HOUR);
    table.costOf('openai', 'gpt-99', MILLION);
    expect(lines).toHaveLength(4);
  });

  test('callers cannot fill the log with names of models', () => {
    const { table, lines } = prepare();
    for (let index = 0; index < 1000; index++) table.costOf('openai', `made-up-${index}`, SMALL);
    expect(lines).toHaveLength(100);
  });
});

describe("an operator's table", () => {
  const DEARER = { input: 7, output: 7, cache_read: 7, cache_write: 7 };

  test('is merged over the built-in, member by member', async () => {
    const own = { 'claude-sonnet-5-5': { price: [DEARER] }, 'mine-1': { window: 32_000, max_output: 8000 } };
    const { table } = prepare({ texts: [JSON.stringify(own)] });
    await table.refresh();
    expect(table.costOf('anthropic', 'claude-sonnet-5-5', SMALL)).toBeCloseTo(0.014);
    expect(table.factsOf('claude-sonnet-5-5')).toMatchObject({ window: 1_000_000, forced_tools: false });
    expect(table.factsOf('mine-1')).toEqual({ window: 32_000, max_output: 8000 });
    expect(table.costOf('anthropic', 'claude-haiku-4-5', MILLION)).toBeCloseTo(1.5);
  });

  test('is read at the first call and then hourly; only the first reading is waited for', async () => {
    const own = (window: number) => JSON.stringify({ 'mine-1': { window } });
    const { table, clock, readings, settled } = prepare({ texts: [own(1000), own(2000)] });
    await Promise.all([table.refresh(), table.refresh()]);
    expect(readings()).toBe(1);
    expect(table.factsOf('mine-1').window).toBe(1000);
    await clock.advance(HOUR - 1);
    await table.refresh();
    expect(readings()).toBe(1);
    await clock.advance(1);
    await table.refresh();
    await table.refresh();
    await settled();
    expect(readings()).toBe(2);
    expect(table.factsOf('mine-1').window).toBe(2000);
  });

  test.each([
    ['cannot be read', new Error('it answered 404'), 'it answered 404'],
    ['is no JSON', '{', /^it is not JSON: /],
    ['is a list', '[]', /^the table: /],
    ['has an unknown member', '{"mine-1": {"widow": 3}}', /^mine-1: .*widow/],
    ['has a negative price', JSON.stringify({ m: { price: [{ ...DEARER, input: -1 }] } }), /^m\.price\.0\.input: /],
    [
      'has a day that is none',
      JSON.stringify({ m: { price: [{ ...DEARER, from: '1 Dec' }] } }),
      /^m\.price\.0\.from: /,
    ],
    ['has no output price', '{"m": {"price": [{"input": 1}]}}', /^m\.price\.0\.output: /],
  ])('that %s leaves the last good one, with one line of the log', async (_, bad, problem) => {
    const { table, clock, lines, settled } = prepare({
      texts: [JSON.stringify({ 'mine-1': { window: 1000 } }), bad, JSON.stringify({ 'mine-1': { window: 3000 } })],
    });
    await table.refresh();
    await clock.advance(HOUR);
    await table.refresh();
    await settled();
    expect(table.factsOf('mine-1').window).toBe(1000);
    expect(lines).toEqual([
      [expect.any(String), { source: 'models.example.com', problem: expect.stringMatching(problem) }],
    ]);
    await clock.advance(HOUR);
    await table.refresh();
    await settled();
    expect(table.factsOf('mine-1').window).toBe(3000);
    expect(lines).toHaveLength(1);
  });

  test('that is bad from the beginning leaves the built-in', async () => {
    const { table, lines } = prepare({ texts: [new Error('it answered 403')] });
    await table.refresh();
    expect(table.factsOf('claude-sonnet-5-5').max_output).toBe(128_000);
    expect(lines).toHaveLength(1);
  });
});
