import { describe, expect, test } from 'vitest';
import { turnsOf } from './turns.ts';

const model = (tokens: number) => ({
  ...{ kind: 'llm_call', status: 'succeeded', payload: {}, token_input: tokens, token_output: 1 },
});
const tool = (turn: number, tool_name: string, status = 'succeeded') =>
  ({ kind: 'tool_call', status, payload: { turn, tool_name } }) as const;
const called = (name: string, status = 'succeeded') => ({ name, status });

test('turns have the requests before their tools, and those that were copied have nothing', () => {
  const steps = [model(9), tool(3, 'a'), tool(3, 'b', 'failed'), model(4), model(5), tool(4, 'a'), model(7)] as const;
  expect(turnsOf(steps as never, 3)).toEqual([
    { number: 1, isCopied: true, tokens: 0, tools: [] },
    { number: 2, isCopied: true, tokens: 0, tools: [] },
    { number: 3, isCopied: false, tokens: 10, tools: [called('a'), called('b', 'failed')] },
    { number: 4, isCopied: false, tokens: 11, tools: [called('a')] },
    { number: 5, isCopied: false, tokens: 8, tools: [] },
  ]);
});

test('a run without steps has its first turn', () => {
  expect(turnsOf([], 1)).toEqual([{ number: 1, isCopied: false, tokens: 0, tools: [] }]);
});

describe('a call that has to wait', () => {
  const asked = (call: number, tool_name: string) => ({
    ...{ kind: 'approval_requested', status: 'event', started_at: '2026-11-26T08:00:00.000Z' },
    payload: { turn: 1, tool_name, kind: 'approve', approval_id: `r.1.${call}` },
  });
  const decided = (call: number, decision: string) => ({
    ...{ kind: 'approval_decided', status: 'event', started_at: '2026-11-26T09:00:00.000Z' },
    payload: { turn: 1, approval_id: `r.1.${call}`, decision, by: 'ann' },
  });
  const toolsOf = (...steps: readonly object[]) => turnsOf(steps as never, 1)[0]!.tools;

  test('is a call of its turn before it is made', () => {
    expect(turnsOf([model(9), asked(1, 'pay')] as never, 1)).toEqual([
      { number: 1, isCopied: false, tokens: 10, tools: [called('pay', 'waiting')] },
    ]);
  });

  test('is one call with its decision and its end', () => {
    const steps = [asked(1, 'pay'), tool(1, 'look'), decided(1, 'approve'), tool(1, 'pay')];
    expect(toolsOf(...steps)).toEqual([{ ...called('pay'), decision: 'approved' }, called('look')]);
  });

  test('keeps its own decision beside others of its tool', () => {
    const steps = [asked(1, 'pay'), asked(2, 'pay'), decided(2, 'deny'), tool(1, 'pay', 'failed')];
    expect(toolsOf(...steps)).toEqual([called('pay', 'waiting'), { ...called('pay', 'failed'), decision: 'denied' }]);
  });
});
