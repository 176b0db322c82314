import { describe, expect, test } from 'vitest';
import { parseReply } from './reply.ts';

describe('parseReply', () => {
  test.each([
    ['{"a": 1}', { a: 1 }],
    ['  [1, 2]\n', [1, 2]],
    ['"text"', 'text'],
    ['```json\n{"a": 1}\n```', { a: 1 }],
    ['```\n{"a": "```"}\n```\n', { a: '```' }],
  ])('reads the JSON value of %j', (reply, value) => {
    expect(parseReply(reply, false)).toEqual(value);
    expect(parseReply(reply, true)).toEqual(value);
  });

  test('reads a JSON block among other text only for agents with an output schema', () => {
    const reply = 'Here it is:\n\n```json\n{"a": 1}\n```\n\nAnything else?';
    expect(parseReply(reply, true)).toEqual({ a: 1 });
    expect(parseReply(reply, false)).toEqual({ result: reply });
  });

  test.each(['Hello!', '', '{"a": ', '```json\n{"a": \n```', `${'['.repeat(1000)}${']'.repeat(1000)}`, '1e999'])(
    'returns other text as the result: %j',
    (reply) => {
      expect(parseReply(reply, true)).toEqual({ result: reply });
    },
  );

  test('returns the text if it has two JSON blocks', () => {
    const reply = '```json\n1\n```\nor\n```json\n2\n```';
    expect(parseReply(reply, true)).toEqual({ result: reply });
  });
});
