import { describe, expect, test } from 'vitest';
import type { LlmMessage, LlmRequest } from '#core/ports/llm.ts';
import { breakpointsOf } from './breakpoints.ts';

const user = (text: string): LlmMessage => ({ role: 'user', text });
const model: LlmMessage = { role: 'assistant', text: 'Well.', toolCalls: [] };
const tool = (text: string): LlmMessage => ({ role: 'tool', results: [{ id: '1', name: 'a', text, isError: false }] });
const long = 'x'.repeat(4000);

const marksOf = (messages: LlmMessage[], change: Partial<LlmRequest> = {}) => {
  const {
    system,
    shared,
    messages: marked,
  } = breakpointsOf({
    provider: 'anthropic',
    model: 'm',
    maxOutputTokens: 1,
    signal: new AbortController().signal,
    cache: { key: 'k', again: 'conversation' },
    messages,
    ...change,
  });
  return [...(system ? ['system'] : []), ...(shared ? ['shared'] : []), ...[...marked].map((m) => messages.indexOf(m))];
};

describe('breakpoints of a conversation', () => {
  test('come at the ends of the two newest turns of the user', () => {
    expect(marksOf([user(long)])).toEqual([0]);
    expect(marksOf([user(long), model, tool('a')])).toEqual([0, 2]);
    expect(marksOf([user(long), model, tool('a'), model, tool('b'), model, tool('c')])).toEqual([4, 6]);
    // Results and the text after them form one turn.
    expect(marksOf([user(long), model, tool('a'), user('Go on.'), model, tool('b')])).toEqual([3, 5]);
    expect(marksOf([user(long), model, tool('a')], { system: long })).toEqual(['system', 0, 2]);
  });

  test('come only from the least number of tokens on that the provider keeps', () => {
    expect(marksOf([user('a')])).toEqual([]);
    expect(marksOf([user('a')], { system: long })).toEqual(['system', 0]);
    expect(marksOf([user('a'), model, tool(long)])).toEqual([2]);
    const tools = [{ name: 'a', description: long, inputSchema: {} }];
    expect(marksOf([user('a')], { tools })).toEqual([0]);
    expect(marksOf([user('a')], { tools, system: 'Be brief.' })).toEqual(['system', 0]);
    const fromTokens = 4096;
    expect(marksOf([user(long)], { cache: { key: 'k', again: 'conversation', fromTokens } })).toEqual([]);
    expect(marksOf([user(long.repeat(4))], { cache: { key: 'k', again: 'conversation', fromTokens } })).toEqual([0]);
  });
});

test('nothing is marked that need not come again, nor for providers that find it themselves', () => {
  expect(marksOf([user(long)], { cache: undefined })).toEqual([]);
  expect(marksOf([user(long)], { cache: { key: 'k' } })).toEqual([]);
  expect(marksOf([user(long)], { cache: { key: 'k', again: 'shared' } })).toEqual(['shared']);
  for (const provider of ['openai', 'gemini', 'ollama'] as const)
    expect(marksOf([user(long)], { provider })).toEqual([]);
});
