import { describe, expect, test } from 'vitest';
import { jsonIn } from './reply.ts';

const OBJECT = { type: 'object' };
const LIST = { type: 'array', items: { type: 'integer' } };

describe('jsonIn', () => {
  test.each([
    ['{"a": 1}', { a: 1 }],
    ['  [1, 2]\n', [1, 2]],
    ['"text"', 'text'],
    ['```json\n{"a": 1}\n```', { a: 1 }],
    ['```\n{"a": "```"}\n```\n', { a: '```' }],
  ])('reads the JSON value of %j', (reply, value) => {
    expect(jsonIn(reply, null)).toEqual(value);
    expect(jsonIn(reply, OBJECT)).toEqual(value);
  });

  test('reads a JSON block among other text only for agents with an output schema', () => {
    const reply = 'Here it is:\n\n```json\n{"a": 1}\n```\n\nAnything else?';
    expect(jsonIn(reply, OBJECT)).toEqual({ a: 1 });
    expect(jsonIn(reply, null)).toBeUndefined();
  });

  test.each([
    ['Here: {"n": 5} ok', { n: 5 }],
    ['As [1] and {x} say: {"a": "}", "b": ["]"]}.', { a: '}', b: [']'] }],
    ['He said "yes {no}": { "a": {} }', { a: {} }],
    ['````json\n{"a": "```"}\n````\nDone.', { a: '```' }],
  ])('reads the only object among other text, for agents with an output schema: %j', (reply, value) => {
    expect(jsonIn(reply, OBJECT)).toEqual(value);
    expect(jsonIn(reply, null)).toBeUndefined();
  });

  test('reads the only array among other text if the output is one', () => {
    expect(jsonIn('The list is [1, 2].', LIST)).toEqual([1, 2]);
    expect(jsonIn('The list is {"result": [1, 2]}.', LIST)).toEqual({ result: [1, 2] });
    expect(jsonIn('As [1] says, it is [1, 2].', LIST)).toBeUndefined();
  });

  test.each([
    'Here: {"n": 5} or {"n": 6}',
    'Cut: {"list": [{"n": 5}], "text": "and then',
    'Wrong: {"n": five, "more": {"n": 5}}',
    'Set {x} to [1].',
  ])('takes no part of an answer for the whole: %j', (reply) => {
    expect(jsonIn(reply, OBJECT)).toBeUndefined();
  });

  test.each(['Hello!', '', '{"a": ', '```json\n{"a": \n```', `${'['.repeat(1000)}${']'.repeat(1000)}`, '1e999'])(
    'finds none in other text: %j',
    (reply) => {
      expect(jsonIn(reply, OBJECT)).toBeUndefined();
    },
  );

  test('finds none in a text with two JSON blocks', () => {
    const reply = '```json\n1\n```\nor\n```json\n2\n```';
    expect(jsonIn(reply, OBJECT)).toBeUndefined();
  });
});

test('reads a reply in time that is proportional to its length', () => {
  // With a pattern that searches for the end of each block, a tenth of this size took a minute.
  const reply = '```json\n'.repeat(500_000);
  expect(jsonIn(reply, OBJECT)).toBeUndefined();
});
