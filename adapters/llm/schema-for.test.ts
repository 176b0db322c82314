import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import {
  type JsonSchema,
  LLM_PROVIDERS,
  type Llm,
  type LlmAnswer,
  type LlmFailure,
  type LlmProvider,
  type LlmRequest,
} from '#core/ports/llm.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { createLlm } from './create-llm.ts';

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(() => server.close());

const MODELS = {
  anthropic: 'claude-haiku-5-5',
  openai: 'gpt-6.2-sol',
  gemini: 'gemini-3.8-flash',
  ollama: 'llama3.2',
} as const;
/** The row of these tables that fits a provider: one without a row speaks chat completions, as Ollama does. */
const rowOf = (provider: LlmProvider): keyof typeof MODELS =>
  provider in MODELS ? (provider as keyof typeof MODELS) : 'ollama';

/** Schema that every strict mode supports. */
const PLAIN: JsonSchema = {
  type: 'object',
  properties: { n: { type: 'integer', minimum: 1 }, note: { type: 'string' } },
  required: ['n'],
};
/** Schema that no strict mode supports. */
const OPEN: JsonSchema = {
  type: 'object',
  properties: { all: { type: 'object', additionalProperties: { type: 'number' } } },
};

/** Returns a client without any remembered schema. */
const fresh = (settings: Record<string, string> = {}): Llm =>
  createLlm(parseConfig({ ...server.settings, ...settings }));

const ask = (llm: Llm, provider: LlmProvider, request: Partial<LlmRequest> = {}): Promise<LlmAnswer> =>
  llm.generate({
    provider,
    model: MODELS[rowOf(provider)],
    apiKey: 'the-key',
    messages: [{ role: 'user', text: 'Count.' }],
    maxOutputTokens: 4096,
    signal: new AbortController().signal,
    ...request,
  });
const refusal = (llm: Llm, provider: LlmProvider, request: Partial<LlmRequest> = {}): Promise<LlmFailure> =>
  ask(llm, provider, request).then(
    () => expect.unreachable('the request succeeded'),
    (error: LlmFailure) => error,
  );

/** Returns the schema of the last request in its provider's format. */
const told = () => {
  const { body } = server.requests.at(-1)!;
  const message = JSON.stringify(body.messages ?? body.input ?? body.contents);
  const chat = body.response_format?.json_schema;
  const format = body.output_config?.format ?? body.text?.format ?? chat;
  return {
    schema: format?.schema ?? body.generationConfig?.responseJsonSchema,
    strict: format?.strict,
    tool: body.tools?.[0],
    choice: body.tool_choice?.type,
    isInMessage: message.includes('JSON Schema'),
    mode: body.text?.format?.type ?? body.response_format?.type ?? body.generationConfig?.responseMimeType,
  };
};

describe.each(LLM_PROVIDERS.flatMap((provider) => [false, true].map((stream) => ({ provider, stream }))))(
  'the schema of an answer, $provider, streamed: $stream',
  ({ provider, stream }) => {
    test.each([
      ['a plain schema', PLAIN, '{"n": 5}'],
      ['an open one', OPEN, '{"all": {"a": 1}}'],
    ])('%s is told in a form that the provider takes, and the answer is text', async (_, outputSchema, text) => {
      server.queue({ text });
      const pieces: string[] = [];
      const onText = stream ? (piece: string) => pieces.push(piece) : undefined;
      const answer = await ask(fresh(), provider, { outputSchema, ...(onText && { onText }) });
      expect(JSON.parse(answer.text)).toEqual(JSON.parse(text));
      expect(answer).toMatchObject({ finishReason: 'stop', toolCalls: [] });
      if (stream) expect(JSON.parse(pieces.join(''))).toEqual(JSON.parse(text));
    });
  },
);

describe('the forms of a plain schema', () => {
  test('Anthropic', async () => {
    server.queue({ text: '{"n": 5}' });
    await ask(fresh(), 'anthropic', { outputSchema: PLAIN });
    expect(told()).toMatchObject({
      schema: {
        properties: { n: { type: 'integer', description: '(minimum 1)' }, note: { type: 'string' } },
        required: ['n'],
        additionalProperties: false,
      },
      tool: undefined,
      isInMessage: false,
    });
  });

  test('OpenAI', async () => {
    server.queue({ text: '{"n": 5}' });
    await ask(fresh(), 'openai', { outputSchema: PLAIN });
    expect(told()).toMatchObject({
      schema: {
        properties: { n: { type: 'integer', minimum: 1 }, note: { type: ['string', 'null'] } },
        required: ['n', 'note'],
        additionalProperties: false,
      },
      strict: true,
      isInMessage: false,
    });
  });

  test('Gemini', async () => {
    server.queue({ text: '{"n": 5}' });
    await ask(fresh(), 'gemini', { outputSchema: PLAIN });
    expect(told()).toMatchObject({ schema: PLAIN, mode: 'application/json', isInMessage: false });
  });

  test('a local server', async () => {
    server.queue({ text: '{"n": 5}' }, { text: '{"n": 5}' });
    await ask(fresh(), 'ollama', { outputSchema: PLAIN });
    expect(told()).toMatchObject({ schema: undefined, mode: 'json_object', isInMessage: true });
    await ask(fresh({ PLATFORM_OLLAMA_SCHEMAS: 'true' }), 'ollama', { outputSchema: PLAIN });
    expect(told()).toMatchObject({ schema: PLAIN, strict: true, mode: 'json_schema', isInMessage: false });
  });
});

describe('the forms of an open schema', () => {
  test('Anthropic: a tool, forced where the model bears it', async () => {
    server.queue({ text: '{"all": {}}' }, { text: '{"all": {}}' }, { text: 'No tool, just words.' });
    await ask(fresh(), 'anthropic', { outputSchema: OPEN });
    expect(told()).toMatchObject({ tool: { name: 'json', input_schema: OPEN }, choice: 'any' });
    await ask(fresh(), 'anthropic', { outputSchema: OPEN, model: 'claude-sonnet-5-5' });
    expect(told()).toMatchObject({ tool: { name: 'json', input_schema: OPEN }, choice: 'auto' });
    const answer = await ask(fresh(), 'anthropic', { outputSchema: OPEN, model: 'claude-sonnet-5-5' });
    expect(answer.text).toBe('No tool, just words.');
  });

  test('OpenAI: not strict', async () => {
    server.queue({ text: '{"all": {}}' });
    await ask(fresh(), 'openai', { outputSchema: OPEN });
    expect(told()).toMatchObject({ schema: OPEN, strict: false });
  });
});

describe('a form that the provider refuses', () => {
  const GRAMMAR = { status: 400, message: 'The compiled grammar is too large, which would cause performance issues.' };

  test.each<[LlmProvider, string, object[]]>([
    [
      'anthropic',
      MODELS.anthropic,
      [{ tool: undefined }, { tool: { name: 'json' } }, { tool: undefined, isInMessage: true }],
    ],
    ['anthropic', 'claude-sonnet-5-5', [{ isInMessage: false }, { tool: undefined, isInMessage: true }]],
    [
      'openai',
      MODELS.openai,
      [{ strict: true }, { strict: false }, { schema: undefined, mode: 'json_object', isInMessage: true }],
    ],
    ['gemini', MODELS.gemini, [{ isInMessage: false }, { schema: undefined, isInMessage: true }]],
  ])('is followed by the next one, and not sent again: %s %s', async (provider, model, forms) => {
    const llm = fresh();
    const request = { model, outputSchema: PLAIN };
    for (const form of forms.slice(0, -1)) {
      server.queue(GRAMMAR);
      expect(await refusal(llm, provider, request)).toMatchObject({ kind: 'refused', isSchemaRefusal: true });
      expect(told()).toMatchObject(form);
    }
    for (let n = 0; n < 2; n++) {
      server.queue({ text: '{"n": 5}' });
      await ask(llm, provider, request);
      expect(told()).toMatchObject(forms.at(-1)!);
    }
    // The last form has no weaker one after it.
    server.queue(GRAMMAR);
    expect(await refusal(llm, provider, request)).toMatchObject({ kind: 'refused', isSchemaRefusal: false });
  });

  test('is remembered for this schema and model only', async () => {
    const llm = fresh();
    server.queue(GRAMMAR, {}, {}, {});
    await refusal(llm, 'openai', { outputSchema: PLAIN });
    await ask(llm, 'openai', { outputSchema: { ...PLAIN, title: 'Another' } });
    expect(told()).toMatchObject({ strict: true });
    await ask(llm, 'openai', { outputSchema: PLAIN, model: 'gpt-6-luna' });
    expect(told()).toMatchObject({ strict: true });
    await ask(llm, 'openai', { outputSchema: PLAIN });
    expect(told()).toMatchObject({ strict: false });
  });

  test('is one that the message names, not any bad request', async () => {
    const llm = fresh();
    server.queue({ status: 400, message: 'temperature: may not be set.' }, { status: 500, message: 'schema' }, {});
    expect(await refusal(llm, 'openai', { outputSchema: PLAIN })).toMatchObject({ isSchemaRefusal: false });
    expect(await refusal(llm, 'openai', { outputSchema: PLAIN })).toMatchObject({ kind: 'transient' });
    await ask(llm, 'openai', { outputSchema: PLAIN });
    expect(told()).toMatchObject({ strict: true });
  });

  test('does not change that of a conversation that goes on', async () => {
    const llm = fresh();
    server.queue({ text: '{"n": 0}' }, GRAMMAR, { text: '{"n": 5}' });
    const first = await ask(llm, 'openai', { outputSchema: PLAIN });
    await refusal(llm, 'openai', { outputSchema: PLAIN });
    const messages = [
      { role: 'user' as const, text: 'Count.' },
      first.message,
      { role: 'user' as const, text: 'Again.' },
    ];
    await ask(llm, 'openai', { outputSchema: PLAIN, messages });
    expect(told()).toMatchObject({ strict: true });
  });
});

describe('a strict tool', () => {
  const tools = (inputSchema: JsonSchema) => [
    { name: 'add', description: 'Adds.', inputSchema: { type: 'object', properties: { a: { type: 'number' } } } },
    { name: 'submit', description: 'Ends.', inputSchema, isStrict: true },
  ];
  const sent = () => {
    const all = server.requests.at(-1)!.body.tools as {
      name: string;
      strict?: boolean;
      input_schema?: unknown;
      parameters?: unknown;
    }[];
    return Object.fromEntries(
      all.map(({ name, strict, input_schema, parameters }) => [name, { strict, schema: input_schema ?? parameters }]),
    );
  };

  test('is told to Anthropic and OpenAI if its schema fits, and others never are', async () => {
    const llm = fresh();
    await ask(llm, 'anthropic', { tools: tools(PLAIN) });
    expect(sent()).toMatchObject({
      add: { strict: undefined },
      submit: { strict: true, schema: { additionalProperties: false } },
    });
    await ask(llm, 'openai', { tools: tools(PLAIN) });
    expect(sent()).toMatchObject({
      add: { strict: false },
      submit: { strict: true, schema: { required: ['n', 'note'] } },
    });
    await ask(llm, 'anthropic', { tools: tools(OPEN) });
    expect(sent().submit).toEqual({ strict: undefined, schema: OPEN });
    await ask(llm, 'openai', { tools: tools(OPEN) });
    expect(sent().submit).toEqual({ strict: false, schema: OPEN });
    await ask(llm, 'gemini', { tools: tools(PLAIN) });
    await ask(llm, 'ollama', { tools: tools(PLAIN) });
    expect(JSON.stringify(server.requests.slice(-2).map(({ body }) => body.tools))).not.toMatch(
      /strict|additionalProperties/,
    );
  });

  test.each(['anthropic', 'openai'] as const)('that %s refuses is an ordinary one from then on', async (provider) => {
    const llm = fresh();
    server.queue({ status: 400, message: 'Schema is too complex for compilation.' }, {});
    expect(await refusal(llm, provider, { tools: tools(PLAIN) })).toMatchObject({ isSchemaRefusal: true });
    await ask(llm, provider, { tools: tools(PLAIN) });
    expect(sent().submit!.strict).not.toBe(true);
    expect(sent().submit!.schema).toEqual(PLAIN);
  });
});
