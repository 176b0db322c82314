import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { HastyClock } from '#test/helpers/hasty-clock.ts';
import { loopRun } from '#test/helpers/loop-run.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedToolCall, ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { EngineRun } from './engine.ts';
import { runLoop } from './managed-loop.ts';

/**
 * Faults of models and providers, against a server that refuses what the real providers refuse: each loop must still
 * end with its result.
 */
const ANTHROPIC: ModelChoice = { provider: 'anthropic', model: 'claude-sonnet-5-5', apiKey: 'key-of-anthropic' };
const OPENAI: ModelChoice = { provider: 'openai', model: 'gpt-6.2-sol', apiKey: 'key-of-openai' };
const GEMINI: ModelChoice = { provider: 'gemini', model: 'gemini-3.8-flash', apiKey: 'key-of-gemini' };
const LOCAL: ModelChoice = { provider: 'ollama', model: 'llama3.2' };

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(() => server.close());

/** Runs a loop whose tools need no sandbox: the model calls tools that do not exist. */
async function play(
  turns: readonly ScriptedTurn[],
  { models = [ANTHROPIC], definition = {}, ...change }: Partial<EngineRun> & { definition?: object } = {},
) {
  const clock = new HastyClock();
  const memory = memoryDeps(
    {
      anthropicUrl: `${server.url}/anthropic/v1`,
      openaiUrl: `${server.url}/openai/v1`,
      geminiUrl: `${server.url}/gemini/v1beta`,
      ollamaUrl: `${server.url}/ollama/v1`,
    },
    clock,
  );
  const { run, events } = loopRun({ clock, maxTurns: 25, change: { models, ...change } });
  const agent = { definition: { ...run.agent.definition, ...definition } } as unknown as AgentVersion;
  server.queue(...turns);
  const result = await runLoop(memory, { ...run, agent });
  return { result, events };
}

const look = (more: Partial<ScriptedToolCall> = {}): ScriptedToolCall => ({
  name: 'look_up',
  input: { x: 1 },
  ...more,
});
const LOOK: ScriptedTurn = { toolCalls: [look()] };
const submit = (result: unknown = 'done'): ScriptedTurn => ({
  toolCalls: [{ name: 'submit_result', input: { result } }],
});
const DONE = submit();
const NASTY = {
  type: 'object',
  properties: {
    'Total (EUR)': { type: 'number' },
    'straße nr': { type: 'integer' },
    pair: { type: 'array', items: [{ type: 'string' }, { type: 'number' }] },
  },
  anyOf: [{ required: ['Total (EUR)'] }, { required: ['pair'] }],
};

/** Expected result, if it is not `done`, and changes of the agent. */
interface Special {
  readonly result?: unknown;
  readonly definition?: object;
}
type Fault = readonly [fault: string, turns: readonly ScriptedTurn[], special: Special];

/** Faults that every framework for agents meets. */
const SHARED = (
  [
    ['status 529 once', [LOOK, { status: 529 }, DONE]],
    ['status 529 twice', [LOOK, { status: 529, times: 2 }, DONE]],
    ['status 529 three times', [LOOK, { status: 529, times: 3 }, DONE]],
    ['status 429 with retry-after', [LOOK, { status: 429, retryAfter: 2 }, DONE]],
    ['status 500', [LOOK, { status: 500 }, DONE]],
    ['a page of a proxy with status 502', [LOOK, { contentType: 'text/html', status: 502 }, DONE]],
    ['a reset before the answer', [LOOK, { resetBeforeHeaders: true }, DONE]],
    ['a page with status 200', [LOOK, { contentType: 'text/html' }, DONE]],
    ['an answer that breaks off in a call', [{ ...LOOK, breakOff: 'reset' }, LOOK, DONE]],
    ['an answer without its last event', [{ ...LOOK, breakOff: 'end' }, LOOK, DONE]],
    ['parameters that are not JSON', [{ toolCalls: [look({ rawInput: '{"x": ' })] }, DONE]],
    ['128 calls in a turn', [{ toolCalls: Array.from({ length: 128 }, (_, x) => look({ input: { x } })) }, DONE]],
    ['an unknown tool', [LOOK, DONE]],
    ['an id that occurs twice in a turn', [{ toolCalls: [look({ id: 'call_1' }), look({ id: 'call_1' })] }, DONE]],
    ['an answer cut in a call', [{ toolCalls: [look({ rawInput: '{"x": "y' })], finish: 'length' }, DONE]],
    ['an empty answer', [LOOK, { text: '' }, DONE]],
    [
      'an empty answer with a schema',
      [{ text: '' }, { toolCalls: [{ name: 'submit_result', input: { n: 5 } }] }],
      { definition: { output_schema: { type: 'object', properties: { n: { type: 'integer' } } } }, result: { n: 5 } },
    ],
    ['a blank text beside a call', [{ ...LOOK, text: '\n\n' }, DONE]],
    ['a lone surrogate in parameters', [{ toolCalls: [look({ input: { x: 'cut \ud83d' } })] }, DONE]],
    ['a conversation that is too long', [LOOK, { refusal: 'overflow' }, { text: 'My notes.' }, DONE]],
    [
      'no usage',
      [
        { ...LOOK, noUsage: true },
        { ...DONE, noUsage: true },
      ],
    ],
    ['a turn that pauses', [LOOK, { text: 'I go', finish: 'pause' }, { text: ' on.', ...DONE }]],
    [
      'no result in all turns',
      [...Array.from({ length: 24 }, (_, x) => ({ toolCalls: [look({ input: { x } })] })), DONE],
    ],
    [
      'a schema with keys, combinations and tuples that providers refuse',
      [{ toolCalls: [{ name: 'submit_result', input: { result: { Total_EUR: 5 } } }] }],
      { definition: { output_schema: NASTY }, result: { 'Total (EUR)': 5 } },
    ],
    [
      'a wrong result, then a right one',
      [submit('five'), submit(5)],
      { definition: { output_schema: { type: 'integer' } }, result: 5 },
    ],
  ] as [string, ScriptedTurn[], Special?][]
).map(([fault, turns, special = {}]): Fault => [fault, turns, special]);

describe('a loop ends with its result despite', () => {
  test.each(SHARED)('%s', async (_, turns, special) => {
    const { result: expected = 'done', definition } = special;
    const { result } = await play(turns, { definition });
    expect(result.error).toBeUndefined();
    expect(result.data).toEqual(expected === 'done' ? { result: 'done' } : expected);
  });
});

const ALL = [ANTHROPIC, OPENAI, GEMINI, LOCAL] as const;
const lastResult = (): string => server.requests.at(-1)!.text;

describe.each(ALL)('with $provider, a loop ends with its result despite', (model) => {
  test.each<[string, ...ScriptedTurn[]]>([
    ['an id that occurs twice in a turn', { toolCalls: [look({ id: 'call_1' }), look({ id: 'call_1' })] }],
    ['an id that occurs in two turns', { toolCalls: [look({ id: 'a' })] }, { toolCalls: [look({ id: 'a' })] }],
    ['an id that no provider accepts', { toolCalls: [look({ id: 'call:1 x' }), look({ id: 'x'.repeat(300) })] }],
    ['a blank text beside a call', { ...LOOK, text: ' \n' }],
    ['a blank answer', { text: ' \n' }],
    [
      'lone surrogates in text and parameters',
      { text: 'cut \ud83d', toolCalls: [look({ input: { '\ud83d': '\ude00' } })] },
    ],
    ['a NUL in text and parameters', { text: 'a\0b', toolCalls: [look({ input: { x: '\0' } })] }],
    ['an answer compressed unasked', { ...LOOK, gzip: true }],
    [
      'ten single failures, one in each turn',
      ...Array.from({ length: 10 }, (_, x): ScriptedTurn[] => [
        { status: 529 },
        { toolCalls: [look({ input: { x } })] },
      ]).flat(),
    ],
  ])('%s', async (_, ...turns) => {
    const { result } = await play([...turns, DONE], { models: [model] });
    expect(result.error).toBeUndefined();
    expect(result.data).toEqual({ result: 'done' });
  });

  test('custom tools whose schemas its API refuses', async () => {
    const input = { type: 'object', properties: { p: { $ref: '#/$defs/p' } }, $defs: { p: NASTY } };
    const schemas = [
      { ...NASTY, $schema: 'http://json-schema.org/draft-07/schema#' },
      { $ref: '#/$defs/p', $defs: { p: NASTY } },
      { oneOf: [{ $ref: '#' }, NASTY], not: { required: ['x'] }, if: {}, else: {} },
      input,
    ];
    const custom_tools = schemas.map((input_schema, index) => ({
      name: `tool_${index}`,
      description: 'x',
      command: './tool',
      input_schema,
    }));
    const { result } = await play([LOOK, DONE], { models: [model], definition: { custom_tools } });
    expect(result.error).toBeUndefined();
    expect(result.data).toEqual({ result: 'done' });
  });
});

// Gemini's calls are signed with their names.
test.each([ANTHROPIC, OPENAI, LOCAL])(
  'a name that $provider does not accept is an error for the model',
  async (model) => {
    const calls = [look({ name: 'look.up()' }), look({ name: 'x'.repeat(300) })];
    const { result } = await play([{ toolCalls: calls }, DONE], { models: [model] });
    expect(result.error).toBeUndefined();
    for (const name of ['look_up__', 'x'.repeat(64)]) {
      expect(lastResult().replaceAll('\\"', '"')).toContain(`There is no tool "${name}".`);
    }
  },
);

test('parameters that are nested too deeply are an error for the model', async () => {
  const rawInput = `{"x": ${'['.repeat(200_000)}${']'.repeat(200_000)}}`;
  const { result } = await play([{ toolCalls: [{ name: 'read_file', rawInput }] }, DONE]);
  expect(result.error).toBeUndefined();
  expect(lastResult()).toContain('or were nested too deeply');
});

test('a text that is nested too deeply is the text of the result', async () => {
  const text = '['.repeat(60_000) + ']'.repeat(60_000);
  expect((await play([{ text }])).result.data).toEqual({ result: text });
});

test.each([
  [
    'a call written as text',
    { text: 'Let me see.\n<tool_call>\n{"name": "submit_result", "arguments": {"result": "{}"}}\n</tool_call>' },
  ],
  [
    'parameters as an object',
    { toolCalls: [{ name: 'submit_result', input: { result: '{}' } }], objectArguments: true },
  ],
])('a local server may send %s', async (_, turn) => {
  const { result } = await play([turn], { models: [LOCAL] });
  expect(result.error).toBeUndefined();
  expect(result.data).toEqual({ result: '{}' });
  expect(result.usage).toMatchObject({ input_tokens: expect.any(Number) });
});

test('a call of another tool in a text stays text, and so does one that another provider writes', async () => {
  const text = '<tool_call>{"name": "submit_result", "arguments": {"result": "x"}}</tool_call>';
  expect((await play([{ text }])).result.data).toEqual({ result: text });
  const unknown = text.replace('submit_result', 'nothing');
  expect((await play([{ text: unknown }], { models: [LOCAL] })).result.data).toEqual({ result: unknown });
});

test('a tool is also called by the namespace of OpenAI', async () => {
  const turn = { toolCalls: [{ name: 'functions.submit_result', input: { result: 'x' } }] };
  expect((await play([turn], { models: [OPENAI] })).result.data).toEqual({ result: 'x' });
});

test('an answer that stays empty ends the loop with a warning', async () => {
  const { result } = await play([{ text: '' }, { text: '' }, DONE]);
  expect(result).toMatchObject({ data: { result: '' }, warnings: [{ code: 'VALIDATION_SKIPPED' }] });
  expect(server.asked).toBe(2);
  expect(lastResult()).toContain('Your answer was empty.');
});

test('a turn that pauses is one turn, with the tokens of all its requests', async () => {
  const pause = { finish: 'pause', usage: { input: 100, output: 10 } } as const;
  const { result, events } = await play([
    { text: 'One, ', ...pause },
    { text: 'two, ', ...pause },
    { text: 'three.', usage: { input: 100, output: 10 } },
  ]);
  expect(result.data).toEqual({ result: 'One, two, three.' });
  expect(result.usage).toMatchObject({ input_tokens: 300, output_tokens: 30 });
  expect(events.filter(({ type }) => type === 'turn_start')).toHaveLength(1);
});

test('tokens are estimated if the provider sends no usage', async () => {
  const { result } = await play([{ ...DONE, noUsage: true }]);
  expect(result.usage!.input_tokens).toBeGreaterThan(500);
  expect(result.usage!.output_tokens).toBeGreaterThan(5);
});

test.each(ALL.slice(0, 3))('a key of $provider with a line break is refused before it is sent', async (model) => {
  const apiKey = 'the-secret\nkey';
  const { result } = await play([], { models: [{ ...model, apiKey }] });
  expect(result.error).toMatchObject({ code: 'LLM_KEY_REQUIRED', message: expect.stringContaining('a line break') });
  expect(JSON.stringify(result.error)).not.toContain('the-secret');
  expect(server.asked).toBe(0);
  const padded = await play([DONE], { models: [{ ...model, apiKey: 'the-key\n' }] });
  expect(padded.result.data).toEqual({ result: 'done' });
  expect(server.requests[0]!.apiKey).toBe('the-key');
});
