import { describe, expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import { checkOutput, type RunFacts } from './check-output.ts';
import { selectPath } from './json-path.ts';
import type { Assert } from './suite.ts';

const facts: RunFacts = {
  output: { result: 'Hello Ann, it is "fine".' },
  costUsd: 0.02,
  latencyMs: 1200,
  tools: [
    { name: 'look', args: { id: 7, deep: { a: 1, b: [1, 2] } } },
    { name: 'send', args: {} },
  ],
  turns: 3,
};

const check = (assert: Partial<Assert>, more: Partial<RunFacts> = {}) =>
  checkOutput([{ isNot: false, weight: 1, type: 'equals', ...assert }], { ...facts, ...more })[0]!;

describe.each<[Partial<Assert>, Json | undefined, boolean]>([
  // As in promptfoo: texts are compared as texts, objects by their members.
  [{ type: 'equals', value: 'Paris' }, { result: 'Paris' }, true],
  [{ type: 'equals', value: 'paris' }, { result: 'Paris' }, false],
  [{ type: 'equals', value: 5 }, { result: '5' }, true],
  [{ type: 'equals', value: { a: [1] } }, { a: [1] }, true],
  [{ type: 'equals', value: { a: [1] } }, { result: '{"a":[1]}' }, true],
  [{ type: 'equals', value: { a: 1 } }, { result: 'no JSON' }, false],
  [{ type: 'equals', value: null }, { result: ' null ' }, true],
  [{ type: 'equals', value: 'refund', path: '$.label' }, { label: 'refund', text: 'x' }, true],
  [{ type: 'equals', value: 'refund', path: '$.other' }, { label: 'refund' }, false],
  [{ type: 'contains', value: 'Ann' }, undefined, true],
  [{ type: 'contains', value: 'ann' }, undefined, false],
  [{ type: 'contains', value: '"label":"refund"' }, { label: 'refund', text: 'x' }, true],
  [{ type: 'icontains', value: 'ann' }, undefined, true],
  [{ type: 'contains-all', value: ['Hello', 'Ann'] }, undefined, true],
  [{ type: 'contains-all', value: ['Hello', 'Bob'] }, undefined, false],
  [{ type: 'contains-all', value: 'Hello, Ann' }, undefined, true],
  [{ type: 'contains-any', value: 'Bob,"Hello Ann, it"' }, undefined, true],
  [{ type: 'contains-all', value: '"say ""hi"", Ann" , you' }, { result: 'say "hi", Ann and you' }, true],
  [{ type: 'contains-all', value: String.raw`"say \"hi\"", "a\\b"` }, { result: String.raw`say "hi" a\b` }, true],
  [{ type: 'contains-any', value: '" Ann"' }, { result: 'HelloAnn' }, false],
  [{ type: 'contains-any', value: ['Bob', 'Eve'] }, undefined, false],
  [{ type: 'icontains-all', value: ['hello', 'ANN'] }, undefined, true],
  [{ type: 'icontains-any', value: ['bob', 'ANN'] }, undefined, true],
  [{ type: 'starts-with', value: 'Hello' }, undefined, true],
  [{ type: 'starts-with', value: 'hello' }, undefined, false],
  [{ type: 'ends-with', value: 'fine".' }, undefined, true],
  [{ type: 'regex', value: '^Hello \\w+' }, undefined, true],
  [{ type: 'regex', value: '^\\d' }, undefined, false],
  [{ type: 'is-json' }, { a: 1 }, true],
  [{ type: 'is-json' }, { result: 'text' }, false],
  [{ type: 'is-json' }, { result: '[1]' }, true],
  [{ type: 'is-json', value: { required: ['b'] } }, { a: 1 }, false],
  [{ type: 'is-json', value: { required: ['a'] } }, { a: 1 }, true],
  [{ type: 'contains-json' }, { result: 'So: {"a": "}"} and more' }, true],
  [{ type: 'contains-json' }, { result: 'So: {a}' }, false],
  [{ type: 'contains-json', value: { required: ['b'] } }, { result: '{"a": 1} {"b": 2}' }, true],
  [{ type: 'contains-json', value: { required: ['c'] } }, { result: '{"a": 1} {"b": 2}' }, false],
  [{ type: 'levenshtein', value: 'kitten' }, { result: 'sitting' }, true],
  [{ type: 'levenshtein', value: 'kitten', threshold: 2 }, { result: 'sitting' }, false],
  [{ type: 'levenshtein', value: 'kittens', threshold: 0 }, { result: 'kitten' }, false],
  [{ type: 'levenshtein', value: 'kitten', threshold: 3 }, { result: 'sitting' }, true],
  [{ type: 'word-count', value: 5 }, undefined, true],
  [{ type: 'word-count', value: { min: 2, max: 4 } }, undefined, false],
  [{ type: 'word-count', value: { max: 5 } }, undefined, true],
  [{ type: 'word-count', value: 0 }, { result: '  ' }, true],
  [{ type: 'cost', threshold: 0.02 }, undefined, true],
  [{ type: 'cost', threshold: 0.01 }, undefined, false],
  [{ type: 'latency', threshold: 1200 }, undefined, true],
  [{ type: 'latency', threshold: 1199 }, undefined, false],
  [{ type: 'tool-called', value: 'look' }, undefined, true],
  [{ type: 'tool-called', value: 'look', times: 2 }, undefined, false],
  [{ type: 'tool-called', value: 'other', times: 0 }, undefined, true],
  [{ type: 'tool-args', value: { tool: 'look', args: { deep: { a: 1 } } } }, undefined, true],
  [{ type: 'tool-args', value: { tool: 'look', args: { deep: { b: [1] } } } }, undefined, false],
  [{ type: 'tool-args', value: { tool: 'other', args: {} } }, undefined, false],
  [{ type: 'tool-order', value: ['look', 'send'] }, undefined, true],
  [{ type: 'tool-order', value: ['send', 'look'] }, undefined, false],
  [{ type: 'max-turns', value: 3 }, undefined, true],
  [{ type: 'max-turns', value: 2 }, undefined, false],
])('%j of %j', (assert, output, passes) => {
  const more = output === undefined ? {} : { output };

  test(passes ? 'passes' : 'fails with a reason', () => {
    expect(check(assert, more)).toEqual(
      passes
        ? { pass: true, score: 1, reason: 'passed' }
        : { pass: false, score: 0, reason: expect.stringMatching(/^(must|the output)/) },
    );
  });

  // A path that leads nowhere is a mistake, whatever the assert.
  const isNowhere = assert.path === '$.other';
  test('is the opposite with not-', () => {
    expect(check({ ...assert, isNot: true }, more).pass).toBe(isNowhere ? false : !passes);
  });
});

test.each<[string, Partial<Assert>, Partial<RunFacts>, string]>([
  ['a wrong pattern', { type: 'regex', value: '(' }, {}, 'cannot be decided: Invalid regular expression'],
  ['a quote without an end', { type: 'contains-any', value: '"Hello' }, {}, 'must end with one'],
  ['a text after a quote', { type: 'contains-any', value: '"a" b, c' }, {}, 'must end with one'],
  ['an unknown price', { type: 'cost', threshold: 1 }, { costUsd: null }, 'no price is known'],
  ['long texts', { type: 'levenshtein', value: 'x' }, { output: 'x'.repeat(20_001) }, 'more than 20000 characters'],
  [
    'arguments that were not kept',
    { type: 'tool-args', value: { tool: 'a', args: {} } },
    { tools: [{ name: 'a' }] },
    'not recorded',
  ],
])('%s fails with the reason, also with not-', (_, assert, more, words) => {
  for (const isNot of [false, true]) {
    expect(check({ ...assert, isNot }, more)).toMatchObject({ pass: false, reason: expect.stringContaining(words) });
  }
});

test('a reason has a limit, whatever the output', () => {
  expect(check({ value: 'x'.repeat(5000) }, { output: 'y'.repeat(5000) }).reason.length).toBeLessThanOrEqual(500);
});

test('a path selects members, indexes and quoted names', () => {
  const value = { a: { 'b c': [{ d: null }] }, toString: 1 };
  expect(selectPath(value, "$.a['b c'][0].d")).toBeNull();
  expect(selectPath(value, '$')).toBe(value);
  expect(selectPath(value, '$.a[0]')).toBeUndefined();
  expect(selectPath({}, '$.toString')).toBeUndefined();
  expect(selectPath([1, 2], '$[1]')).toBe(2);
  expect(selectPath([1, 2], '$.length')).toBeUndefined();
});
