import { expect, test } from 'vitest';
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
