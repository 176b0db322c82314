import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ScriptedLlm, startScriptedLlm } from './server.ts';
import { ONLY_TOOLS } from './turns.ts';

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(() => server.close());

const USER = { role: 'user', content: 'Do it.' };
const REMOVAL = { type: 'tool_removal', tool: { type: 'tool_reference', name: 'look' } };
const TOOLS = ['look', 'submit'].map((name) => ({ name, input_schema: { type: 'object' } }));

/** Returns the called tools, or the problem. */
async function ask(body: object, beta = 'mid-conversation-tool-changes-2026-07-01'): Promise<string[] | string> {
  const headers = { 'x-api-key': 'k', 'anthropic-version': '2023-06-01', 'anthropic-beta': beta };
  const asked = { model: 'claude-sonnet-5-5', max_tokens: 100, messages: [USER], tools: TOOLS, ...body };
  const init = { method: 'POST', headers, body: JSON.stringify(asked) };
  const answer = (await (await fetch(`${server.url}/anthropic/v1/messages`, init)).json()) as {
    content?: { name: string; input: object }[];
    error?: { message: string };
  };
  return answer.error?.message ?? answer.content!.map(({ name, input }) => `${name} ${JSON.stringify(input)}`);
}

test('a forced tool is called, whatever the script says, and calls of it stay as they are', async () => {
  const tool_choice = { type: 'tool', name: 'submit' };
  const forced = { model: 'claude-haiku-4-5', tool_choice };
  server.queue(ONLY_TOOLS, { ...ONLY_TOOLS, forcedInput: { n: 1 } }, { toolCalls: [{ name: 'submit' }] });
  expect(await ask(forced)).toEqual(['submit {"result":"forced"}']);
  expect(await ask(forced)).toEqual(['submit {"n":1}']);
  expect(await ask(forced)).toEqual(['submit {}']);
  expect(await ask({ ...forced, tools: TOOLS.slice(0, 1) })).toMatch(/there is no tool submit/);
});

test('models that take no forced choice refuse it', async () => {
  expect(await ask({ tool_choice: { type: 'tool', name: 'submit' } })).toMatch(/not supported by claude-sonnet-5-5/);
  expect(await ask({ tool_choice: { type: 'any' } })).toMatch(/not supported by claude-sonnet-5-5/);
  server.queue(ONLY_TOOLS);
  expect(await ask({ tool_choice: { type: 'auto' } })).toEqual(['nothing {"turn":"1"}']);
});

test.each([
  ['on a model that takes none', [USER, REMOVAL], { model: 'claude-sonnet-4-6' }, 'not supported by claude-sonnet-4-6'],
  ['first', [REMOVAL, USER], {}, 'must follow a user message'],
  ['behind an answer', [USER, { role: 'assistant', content: 'hm' }, REMOVAL], {}, 'must follow a user message'],
  ['before a user message', [USER, REMOVAL, USER], {}, 'must precede an assistant message'],
  ['of a tool that is not there', [USER, REMOVAL], { tools: TOOLS.slice(1) }, 'there is no tool look'],
])('a removal of tools %s is refused', async (_, messages, change, problem) => {
  const inside = messages.map((message) => (message === REMOVAL ? { role: 'system', content: [REMOVAL] } : message));
  expect(await ask({ messages: inside, ...change })).toContain(problem);
});

test('a removal of tools needs its beta, and may stand before an answer or at the end', async () => {
  const messages = [USER, { role: 'system', content: [REMOVAL] }];
  expect(await ask({ messages }, 'other')).toMatch(/needs the anthropic-beta header/);
  server.script({ default: { toolCalls: [{ name: 'submit' }] } });
  expect(await ask({ messages })).toEqual(['submit {}']);
  const later = [...messages, { role: 'assistant', content: 'hm' }, USER];
  expect(await ask({ messages: later })).toEqual(['submit {}']);
});
