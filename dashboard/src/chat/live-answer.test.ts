import { describe, expect, test } from 'vitest';
import type { ProgressRecord } from '../live/read-records.ts';
import { answerAfter, lastTextOf, NO_ANSWER } from './live-answer.ts';

const after = (...records: readonly ProgressRecord[]) =>
  records.reduce((answer, record, at) => answerAfter(answer, record, at), NO_ANSWER);
const text = (value: string, type = 'text_delta') => ({ type, text: value });
const tool = (name: string, turn = 1) => ({ type: 'tool_call', tool: name, turn, args_brief: '{"a":1}' });
const result = (name: string, status = 'ok') => ({ type: 'tool_result', tool: name, turn: 1, status });

describe('an answer that is being made', () => {
  test('joins pieces of a text, and keeps thoughts and tools in their order', () => {
    const answer = after(
      { type: 'turn_start', turn: 1 },
      text('Hm', 'reasoning_delta'),
      text('m', 'reasoning_delta'),
      text('I look '),
      text('it up.'),
      tool('look'),
      result('look'),
      text('Sunny.'),
    );
    expect(answer.parts).toMatchObject([
      { kind: 'thought', text: 'Hmm' },
      { kind: 'text', text: 'I look it up.' },
      { kind: 'tool', tool: 'look', brief: '{"a":1}', status: 'ok', startedAt: 5, endedAt: 6 },
      { kind: 'text', text: 'Sunny.' },
    ]);
    expect(lastTextOf(answer)).toBe('Sunny.');
  });

  test('ends calls of one tool in their order, and ignores a result without a call', () => {
    const answer = after(tool('look'), tool('look'), result('look', 'error'), result('other'));
    expect(answer.parts).toMatchObject([{ status: 'error' }, { status: 'running' }]);
  });

  test.each([
    ['a request that is made again voids the text of its turn', { type: 'retry', turn: 2 }, ['text', 'tool']],
    ['another process voids the text of the last turn', { type: 'resumed', reason: 'host_lost' }, ['text', 'tool']],
    ['a decision voids nothing', { type: 'resumed', reason: 'decision' }, ['text', 'tool', 'text']],
    ['a run that is tried again begins anew', { type: 'resumed', reason: 'retry' }, []],
    ['a program that begins again voids everything', { type: 'interrupted', attempt: 2 }, []],
  ])('%s', (_, record, kinds) => {
    const answer = after(
      { ...text('First.'), turn: 1 } as ProgressRecord,
      tool('look'),
      { ...text('Half'), turn: 2 } as ProgressRecord,
      record,
    );
    expect(answer.parts.map(({ kind }) => kind)).toEqual(kinds);
  });

  test('waits until it is decided', () => {
    expect(after({ type: 'waiting' }).isWaiting).toBe(true);
    expect(after({ type: 'waiting' }, { type: 'resumed', reason: 'decision' }).isWaiting).toBe(false);
  });

  test('keeps the end of a text without end, and a bounded number of parts', () => {
    const long = after(text('a'.repeat(200_000)), text('b'));
    expect(long.parts[0]).toMatchObject({ text: `${'a'.repeat(199_999)}b` });
    expect(after(...Array.from({ length: 600 }, () => tool('look'))).parts).toHaveLength(500);
  });

  test('says what happens, until something is there', () => {
    expect(after({ type: 'sandbox_start' }).note).toBe('Starting the sandbox');
    expect(after({ type: 'sandbox_start' }, { type: 'stdout', text: 'hi' })).toMatchObject({
      note: undefined,
      output: 'hi',
    });
  });
});
