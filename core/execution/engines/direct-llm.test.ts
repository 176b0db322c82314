import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { PlatformError } from '#core/base/errors.ts';
import { unchecked } from '#core/manifest/field-error.ts';
import { validateAgainst } from '#core/manifest/json-schema/schema-validation.ts';
import { fillCommand } from '#core/manifest/tool-commands/fill-command.ts';
import { placesIn } from '#core/manifest/tool-commands/tool-command.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import type { AgentSettings } from '#core/models/model-settings.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { Trace } from '#core/runs/trace/trace.ts';
import { HastyClock } from '#test/helpers/hasty-clock.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { runPrompt } from './direct-llm.ts';
import type { EngineRun } from './engine.ts';
import type { ProgressEvent } from './progress.ts';

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(() => server.close());

const ANTHROPIC: ModelChoice = { provider: 'anthropic', model: 'claude-haiku-4-5', apiKey: 'key-of-anthropic' };
const OPENAI: ModelChoice = { provider: 'openai', model: 'gpt-4o', apiKey: 'key-of-openai' };

function prepare(change: Partial<EngineRun> = {}, definition: Partial<AgentVersion['definition']> = {}) {
  const urls = {
    anthropicUrl: `${server.url}/anthropic/v1`,
    openaiUrl: `${server.url}/openai/v1`,
    geminiUrl: `${server.url}/gemini/v1beta`,
    ollamaUrl: `${server.url}/ollama/v1`,
  };
  const deps: MemoryDeps = memoryDeps(urls, new HastyClock());
  const events: ProgressEvent[] = [];
  const run: EngineRun = {
    runId: 'r',
    workspaceId: 'w',
    validate: async (schema, value) => validateAgainst(schema, value),
    fillCommand: async (command, values) => fillCommand(command, placesIn(command), values),
    agent: {
      definition: { prompt: 'Say it.', output_schema: null, supported_providers: ['any'], ...definition },
    } as unknown as AgentVersion,
    input: { document: {}, uploads: [], isMultipart: false },
    skills: [],
    models: [ANTHROPIC],
    isStrict: false,
    files: [],
    env: {},
    mask: new SecretMask({ TOKEN: 'very-secret' }),
    deadline: deps.clock.now() + 60_000,
    signal: new AbortController().signal,
    emit: (event) => events.push(event),
    trace: new Trace(deps.clock),
    ...change,
  };
  return { deps, run, events };
}

describe('runPrompt', () => {
  test('sends one message and returns the answer as data, with tokens and cost', async () => {
    server.queue({ text: '{"greeting": "Hello, Ada!"}', usage: { input: 1000, output: 100 } });
    const { deps, run, events } = prepare(
      { input: { document: { name: 'Ada' }, uploads: [], isMultipart: false } },
      { prompt: 'Greet {{name}}.' },
    );
    const result = await runPrompt(deps, run);
    expect(result).toMatchObject({
      data: { greeting: 'Hello, Ada!' },
      warnings: [],
      exitCode: null,
      usage: { input_tokens: 1000, output_tokens: 100 },
      model: { provider: 'anthropic', model: 'claude-haiku-4-5' },
    });
    expect(result.error).toBeUndefined();
    expect(result.costUsd).toBeCloseTo(0.0015);
    expect(server.requests[0]!.body).toEqual({
      model: 'claude-haiku-4-5',
      max_tokens: 32_000,
      messages: [
        {
          role: 'user',
          content: [{ type: 'text', text: 'Greet Ada.\n\nInput:\n```json\n{\n  "name": "Ada"\n}\n```' }],
        },
      ],
    });
    expect(events).toMatchObject([{ type: 'done', usage: { input_tokens: 1000, output_tokens: 100 } }]);
    expect(run.trace.events).toMatchObject([
      { event_type: 'llm_call_started', provider: 'anthropic', model: 'claude-haiku-4-5' },
      { event_type: 'llm_call_succeeded', token_input: 1000, token_output: 100, cost_usd: 0.0015 },
    ]);
  });

  test('emits the text of a watched run as it comes, with secrets masked', async () => {
    const text = 'It is very-secret, they say, and very-secret again.';
    server.queue({ text, chunkDelayMs: 5 });
    const { deps, run, events } = prepare({ isWatched: true });
    const masked = text.replaceAll('very-secret', '[secret TOKEN]');
    expect((await runPrompt(deps, run)).data).toEqual({ result: masked });
    const pieces = events.flatMap((event) => (event.type === 'text_delta' ? event.text : []));
    expect(pieces.length).toBeGreaterThan(1);
    expect(pieces.join('')).toBe(masked);
    expect(events.at(-1)).toMatchObject({ type: 'done' });
    expect(server.requests[0]!.stream).toBe(true);
  });

  test('asks for JSON mode if the output is an object and the prompt mentions JSON', async () => {
    const ask = async (definition: Partial<AgentVersion['definition']>) => {
      const { deps, run } = prepare({ models: [OPENAI] }, definition);
      await runPrompt(deps, run);
      return server.requests.at(-1)!.body.text?.format?.type;
    };
    const prompt = 'Answer in JSON.';
    expect(await ask({ prompt, output_schema: { type: 'object' } })).toBe('json_object');
    expect(await ask({ prompt })).toBeUndefined();
    expect(await ask({ prompt, output_schema: { type: 'array' } })).toBeUndefined();
    // OpenAI rejects this schema.
    expect(await ask({ prompt: 'Answer.', output_schema: { type: 'object' } })).toBeUndefined();
  });

  test('a partial answer at the end of the context window has a warning; an empty one is an error', async () => {
    server.queue({ text: 'Half an', finish: 'window' }, { text: '', thinking: 'Hm.', finish: 'window' });
    const first = prepare();
    expect(await runPrompt(first.deps, first.run)).toMatchObject({
      data: { result: 'Half an' },
      warnings: [{ code: 'TRUNCATED' }],
    });
    const second = prepare();
    const { error, usage } = await runPrompt(second.deps, second.run);
    expect(error).toMatchObject({
      code: 'UNPROCESSABLE',
      message: 'The conversation is longer than the model of Anthropic reads.',
    });
    expect(usage!.input_tokens).toBeGreaterThan(0);
    expect(server.requests).toHaveLength(2);
  });

  test('warns about a truncated answer', async () => {
    server.queue({ text: '{"a": ', finish: 'length' });
    const { deps, run } = prepare();
    expect(await runPrompt(deps, run)).toMatchObject({ data: { result: '{"a": ' }, warnings: [{ code: 'TRUNCATED' }] });
  });

  test('returns an error with the cost if the model declines', async () => {
    server.queue({ text: 'I', finish: 'content_filter', usage: { input: 10, output: 1 } });
    const { deps, run } = prepare();
    const result = await runPrompt(deps, run);
    expect(result.error).toMatchObject({ code: 'LLM_ERROR', message: 'The model of Anthropic declined to answer.' });
    expect(result.usage).toEqual({ input_tokens: 10, output_tokens: 1 });
  });

  test('throws MISSING_INPUT_FIELDS for missing values', async () => {
    const { deps, run } = prepare({}, { prompt: 'Greet {{name}}.' });
    await expect(runPrompt(deps, run)).rejects.toMatchObject({ code: 'MISSING_INPUT_FIELDS' });
    expect(server.requests).toHaveLength(0);
  });

  test('returns an error of the provider with secrets masked', async () => {
    server.queue({ status: 500, message: 'No very-secret today.', times: 4 });
    const { deps, run } = prepare();
    const result = await runPrompt(deps, run);
    expect(result.error).toMatchObject({
      code: 'LLM_ERROR',
      message: 'Anthropic answered with status 500: No [secret TOKEN] today.',
    });
    expect(result.model).toEqual({ provider: 'anthropic', model: 'claude-haiku-4-5' });
    expect(JSON.stringify(run.trace.events)).toContain('No [secret TOKEN] today.');
  });
});

describe('output tokens', () => {
  const model = (provider: ModelChoice['provider'], name: string): ModelChoice => ({
    provider,
    model: name,
    apiKey: `key-of-${name}`,
  });
  const SONNET = model('anthropic', 'claude-sonnet-5-5');
  const limits = () =>
    server.requests.map(({ body: { max_tokens, max_output_tokens, generationConfig } }) =>
      Number(max_tokens ?? max_output_tokens ?? generationConfig.maxOutputTokens),
    );
  /** Requested thinking effort, in each provider's form. */
  const efforts = () =>
    server.requests.map(
      ({ body: { output_config, reasoning, generationConfig } }) =>
        output_config?.effort ?? reasoning?.effort ?? generationConfig?.thinkingConfig?.thinkingLevel,
    );

  test.each([
    [SONNET, 32_000, 'medium'],
    [model('openai', 'gpt-6.2-sol'), 32_000, 'medium'],
    [model('gemini', 'gemini-3.8-flash'), 32_000, 'medium'],
    [OPENAI, 16_384, undefined],
    [model('openai', 'not-in-the-table'), 32_000, undefined],
  ])('of $model are 32,000, or as many as it writes; the effort is medium', async (choice, limit, effort) => {
    const { deps, run } = prepare({ models: [choice] });
    expect((await runPrompt(deps, run)).error).toBeUndefined();
    expect(limits()).toEqual([limit]);
    expect(efforts()).toEqual([effort]);
  });

  test.each([false, true])('thoughts of 5,000 tokens leave room for the answer; watched: %s', async (isWatched) => {
    server.queue({ thinkingTokens: 5000, text: 'The answer.' });
    const { deps, run } = prepare({ models: [SONNET], isWatched });
    expect(await runPrompt(deps, run)).toMatchObject({
      data: { result: 'The answer.' },
      warnings: [],
      usage: { output_tokens: 5003 },
    });
    expect(server.requests).toHaveLength(1);
  });

  describe.each([SONNET, model('openai', 'gpt-6.2-sol'), model('gemini', 'gemini-3.8-flash')])(
    'if $model has used them up thinking',
    (choice) => {
      test.each([false, true])('it is asked once more, with 64,000 and low effort; watched: %s', async (isWatched) => {
        const thought = { thinkingTokens: 40_000, text: 'The answer.', usage: { input: 1000 } };
        server.queue(thought, thought);
        const { deps, run, events } = prepare({ models: [choice], isWatched });
        const result = await runPrompt(deps, run);
        expect(result).toMatchObject({
          data: { result: 'The answer.' },
          warnings: [],
          usage: { input_tokens: 2000, output_tokens: 72_003 },
        });
        expect(result.costUsd).toBeCloseTo(
          deps.modelTable.costOf(choice.provider, choice.model, {
            inputTokens: 2000,
            outputTokens: 72_003,
          })!,
        );
        expect(limits()).toEqual([32_000, 64_000]);
        expect(efforts()).toEqual(['medium', 'low']);
        expect(run.trace.events.map(({ event_type }) => event_type)).toEqual([
          'llm_call_started',
          'llm_call_succeeded',
          'decision',
          'llm_call_started',
          'llm_call_succeeded',
        ]);
        expect(run.trace.events[2]!.payload).toMatchObject({ max_output_tokens: 64_000, effort: 'low' });
        expect(events.filter(({ type }) => type === 'text_delta').length > 0).toBe(isWatched);
      });

      test('twice, the run fails, with the tokens of both', async () => {
        const thought = { thinkingTokens: 70_000, text: 'Never said.', usage: { input: 1000 } };
        server.queue(thought, thought);
        const { deps, run } = prepare({ models: [choice] });
        const result = await runPrompt(deps, run);
        expect(result.data).toBeUndefined();
        expect(result.error).toMatchObject({
          code: 'LLM_ERROR',
          message: expect.stringMatching(/used up its tokens thinking\.$/),
          extra: { is_retryable: false },
        });
        expect(result.usage).toEqual({ input_tokens: 2000, output_tokens: 96_000 });
        expect(server.requests).toHaveLength(2);
      });
    },
  );

  test('a model that writes no more and takes no effort is not asked again', async () => {
    server.queue({ thinkingTokens: 70_000 });
    const { deps, run } = prepare({ models: [OPENAI] });
    expect((await runPrompt(deps, run)).error?.message).toMatch(/used up its tokens thinking/);
    expect(server.requests).toHaveLength(1);
  });

  test('a failure of the second request does not lose the tokens of the first', async () => {
    server.queue({ thinkingTokens: 40_000, usage: { input: 1000 } }, { status: 400, message: 'Not now.' });
    const { deps, run } = prepare({ models: [SONNET] });
    const result = await runPrompt(deps, run);
    expect(result.error).toMatchObject({ code: 'LLM_ERROR', message: expect.stringContaining('Not now.') });
    expect(result.usage).toEqual({ input_tokens: 1000, output_tokens: 32_000 });
  });

  test('text that is cut is answered with a warning, and not asked for again', async () => {
    server.queue({ thinkingTokens: 31_998, text: 'Eight tokens would be needed.' });
    const { deps, run } = prepare({ models: [SONNET] });
    expect(await runPrompt(deps, run)).toMatchObject({
      data: { result: 'Eight to' },
      warnings: [{ code: 'TRUNCATED' }],
    });
    expect(server.requests).toHaveLength(1);
  });

  test('an empty text that is not cut is answered with a warning', async () => {
    server.queue({ text: '' });
    const { deps, run } = prepare();
    expect(await runPrompt(deps, run)).toMatchObject({
      data: { result: '' },
      warnings: [{ code: 'VALIDATION_SKIPPED' }],
    });
  });

  test.each(['anthropic', 'openai', 'gemini'] as const)(
    'a model of %s that takes fewer is asked once more with as many, and a fallback is not asked',
    async (provider) => {
      const small = model(provider, 'small-max-8192');
      server.script({ key: small.apiKey, turns: [{ text: 'The answer.' }] });
      const { deps, run } = prepare({ models: [small, OPENAI] });
      expect(await runPrompt(deps, run)).toMatchObject({
        data: { result: 'The answer.' },
        model: { model: small.model },
      });
      expect(limits()).toEqual([32_000, 8192]);
      expect(run.trace.events.map(({ event_type }) => event_type)).toEqual([
        'llm_call_started',
        'llm_call_failed',
        'llm_call_started',
        'llm_call_succeeded',
      ]);
    },
  );
});

describe('a provider that limits its rate', () => {
  test('is replaced by the next one', async () => {
    server.script({ key: ANTHROPIC.apiKey, turns: [{ status: 429 }] });
    server.script({ key: OPENAI.apiKey, turns: [{ text: 'Hello.', usage: { input: 5, output: 2 } }] });
    const { deps, run } = prepare({ models: [ANTHROPIC, OPENAI] });
    expect(await runPrompt(deps, run)).toMatchObject({
      data: { result: 'Hello.' },
      model: { provider: 'openai', model: 'gpt-4o' },
      usage: { input_tokens: 5, output_tokens: 2 },
    });
    expect(run.trace.events.map(({ event_type }) => event_type)).toEqual([
      'llm_call_started',
      'llm_call_failed',
      'fallback_transition',
      'llm_call_started',
      'llm_call_succeeded',
    ]);
    expect(run.trace.events[2]!.payload).toMatchObject({ from_provider: 'anthropic', to_provider: 'openai' });
  });

  test('is named in the error with the other choices if all do', async () => {
    server.script({ key: ANTHROPIC.apiKey, turns: [{ status: 429, retryAfter: 30 }] });
    server.script({ key: OPENAI.apiKey, turns: [{ status: 429, retryAfter: 27 }] });
    const { deps, run } = prepare({ models: [ANTHROPIC, OPENAI] });
    const { error } = await runPrompt(deps, run);
    expect(error).toMatchObject({ code: 'LLM_RATE_LIMITED', extra: { suggested_wait_time: 27 } });
    expect(error!.message).toMatch(/Anthropic.*OpenAI.*Gemini.*GEMINI_API_KEY/);
  });
});

describe('a provider that fails', () => {
  const failing = async (turns: ScriptedTurn[], change: Partial<EngineRun> = {}) => {
    server.script({ key: ANTHROPIC.apiKey, turns });
    server.script({ key: OPENAI.apiKey, turns: [{ text: 'Hello.', usage: { input: 5, output: 2 } }] });
    const { deps, run, events } = prepare(change);
    const result = await runPrompt(deps, run);
    const traced = run.trace.events.map(({ event_type }) => event_type);
    return { result, events, trace: run.trace.events, traced, asked: server.requests.map(({ provider }) => provider) };
  };

  test('is asked again, as its trace shows', async () => {
    const { result, trace, asked } = await failing([{ status: 529, retryAfter: 2 }, { text: 'Here.' }]);
    expect(result).toMatchObject({ data: { result: 'Here.' }, warnings: [] });
    expect(asked).toEqual(['anthropic', 'anthropic']);
    expect(trace).toMatchObject([
      { event_type: 'llm_call_started' },
      { event_type: 'llm_call_failed', error_type: 'LLM_ERROR', payload: { retried_after_ms: 2000 } },
      { event_type: 'llm_call_started', payload: { attempt: 2 } },
      { event_type: 'llm_call_succeeded' },
    ]);
  });

  test('is replaced after two requests', async () => {
    const { result, asked, traced } = await failing([{ status: 500, times: 9 }], { models: [ANTHROPIC, OPENAI] });
    expect(result).toMatchObject({ data: { result: 'Hello.' }, model: { provider: 'openai' } });
    expect(asked).toEqual(['anthropic', 'anthropic', 'openai']);
    expect(traced).toContain('fallback_transition');
  });

  test.each([400, 401, 403, 404])('is not replaced for status %s', async (status) => {
    const { result, asked } = await failing([{ status }], { models: [ANTHROPIC, OPENAI] });
    expect(result.error).toMatchObject({ code: status === 401 || status === 403 ? 'LLM_KEY_REQUIRED' : 'LLM_ERROR' });
    expect(asked).toEqual(['anthropic']);
  });

  test('is named with the next one if both fail', async () => {
    const { deps, run } = prepare({ models: [ANTHROPIC, OPENAI] });
    server.script({ key: ANTHROPIC.apiKey, turns: [{ status: 529, times: 2 }] });
    server.script({ key: OPENAI.apiKey, turns: [{ status: 401 }] });
    const { error } = await runPrompt(deps, run);
    // The first provider may have recovered, so a client may retry.
    expect(error).toMatchObject({
      code: 'LLM_ERROR',
      message: expect.stringMatching(/Anthropic.*529.*OpenAI refused/),
    });
    expect(error!.extra.is_retryable).toBeUndefined();
  });

  test('is not asked again once its text was shown; what it made is counted by estimate', async () => {
    const text = 'A long answer, of which one half is seen.';
    const turn = { text, usage: { input: 4000 }, breakOff: 'reset' } as const;
    const { result, events, trace, asked } = await failing([turn], { models: [ANTHROPIC, OPENAI], isWatched: true });
    expect(result.error).toMatchObject({ code: 'LLM_ERROR' });
    expect(asked).toEqual(['anthropic']);
    expect(events.some(({ type }) => type === 'text_delta')).toBe(true);
    expect(result.usage).toMatchObject({ input_tokens: 4000 });
    expect(result.costUsd).toBeGreaterThan(0.004);
    expect(trace.at(-1)).toMatchObject({
      event_type: 'llm_call_failed',
      payload: { estimated: true },
      token_input: 4000,
      cost_usd: result.costUsd,
    });
  });

  test('the tokens of all requests are summed', async () => {
    const half = { text: 'Half of it.', usage: { input: 4000 }, breakOff: 'end' } as const;
    const { result, trace } = await failing([half, { text: 'Here.', usage: { input: 100, output: 10 } }]);
    const estimated = trace[1]!.token_input!;
    expect(estimated).toBeGreaterThan(10);
    expect(result.usage!.input_tokens).toBe(estimated + 100);
  });
});

describe('a run that waits for its model ends', () => {
  test('at the deadline', async () => {
    server.queue({ hang: true });
    const { deps, run } = prepare();
    const result = runPrompt(deps, run);
    await expect.poll(() => server.open).toBe(1);
    await deps.clock.advance(60_000);
    expect((await result).error).toMatchObject({ code: 'TIMEOUT' });
    await expect.poll(() => server.requests[0]!.outcome).toBe('gone');
  });

  test('when it is cancelled', async () => {
    server.queue({ hang: true });
    const cancel = new AbortController();
    const { deps, run } = prepare({ signal: cancel.signal });
    const result = runPrompt(deps, run);
    await expect.poll(() => server.open).toBe(1);
    const reason = new PlatformError('RUN_CANCELLED', 'The run was cancelled.');
    cancel.abort(reason);
    expect((await result).error).toMatchObject({ code: 'RUN_CANCELLED' });
    await expect.poll(() => server.requests[0]!.outcome).toBe('gone');
    expect(deps.clock.sleepers).toBe(0);
  });

  test.each(['deadline', 'cancellation'])(
    'in the middle of an answer, by its %s: the tokens so far are counted',
    async (end) => {
      server.queue({ text: 'A long answer, of which one half is seen.', usage: { input: 4000 }, hangAfter: 6 });
      const cancel = new AbortController();
      const { deps, run, events } = prepare({ signal: cancel.signal, isWatched: true });
      const result = runPrompt(deps, run);
      await expect.poll(() => events.length).toBeGreaterThan(0);
      if (end === 'deadline') await deps.clock.advance(60_000);
      else cancel.abort(new PlatformError('RUN_CANCELLED', 'The run was cancelled.'));
      const { error, usage, costUsd } = await result;
      expect(error).toMatchObject({ code: end === 'deadline' ? 'TIMEOUT' : 'RUN_CANCELLED' });
      expect(usage).toMatchObject({ input_tokens: 4000 });
      expect(costUsd).toBeGreaterThan(0.004);
    },
  );

  test('at once if it was cancelled before', async () => {
    const reason = new PlatformError('RUN_CANCELLED', 'The run was cancelled.');
    const { deps, run } = prepare({ signal: AbortSignal.abort(reason) });
    expect((await runPrompt(deps, run)).error).toMatchObject({ code: 'RUN_CANCELLED' });
    expect(server.requests).toHaveLength(0);
  });
});

describe('skills that many calls begin with', () => {
  const skill = (size: number) => ({
    org: 'acme',
    name: 'rules',
    version: 'v1',
    description: '',
    text: 'x'.repeat(size),
    files: [],
  });
  const sonnet: ModelChoice = { ...ANTHROPIC, model: 'claude-sonnet-5-5' };

  test('are marked for the cache from the second call within five minutes on', async () => {
    const { deps, run } = prepare({ models: [sonnet], skills: [skill(20_000)] });
    const ask = async (change: Partial<EngineRun> = {}) => {
      const result = await runPrompt(deps, { ...run, deadline: deps.clock.now() + 60_000, ...change });
      const { cache_read_tokens, cache_write_tokens } = result.usage!;
      return [cache_read_tokens, cache_write_tokens];
    };
    const tokens = 20_005 / 4;
    const written = Math.ceil(tokens);
    expect(await ask()).toEqual([undefined, undefined]);
    expect(await ask()).toEqual([undefined, written]);
    expect(await ask({ input: { document: { a: 1 }, uploads: [], isMultipart: false } })).toEqual([written, undefined]);
    expect(run.trace.events.at(-1)).toMatchObject({ cache_read_tokens: written });
    expect(run.trace.events.at(-1)!.cost_usd).toBeLessThan(0.002);
    await deps.clock.advance(5 * 60_000 - 1);
    expect(await ask()).toEqual([written, undefined]);
    await deps.clock.advance(5 * 60_000);
    expect(await ask()).toEqual([undefined, undefined]);
    // Other workspaces and other skills have entries of their own.
    expect(await ask({ workspaceId: 'other' })).toEqual([undefined, undefined]);
    expect(await ask({ skills: [skill(20_001)] })).toEqual([undefined, undefined]);
    const other = { ...run.agent, id: 'other' } as AgentVersion;
    expect(await ask({ agent: other })).toEqual([undefined, undefined]);
  });

  test('are not worth it under 4,096 tokens', async () => {
    const { deps, run } = prepare({ models: [sonnet], skills: [skill(14_000)] });
    for (const _ of [1, 2, 3]) await runPrompt(deps, run);
    expect(JSON.stringify(server.requests.map(({ body }) => body))).not.toContain('cache_control');
  });

  test('reach OpenAI with the version as the key of its cache', async () => {
    const { deps, run } = prepare({ models: [OPENAI] });
    await runPrompt(deps, { ...run, agent: { ...run.agent, id: 'version-1' } as AgentVersion });
    expect(server.requests[0]!.body.prompt_cache_key).toBe('version-1');
  });
});

describe('an output with a schema', () => {
  const SCHEMA = {
    type: 'object',
    properties: { n: { type: 'integer' }, note: { type: 'string' } },
    required: ['n'],
    additionalProperties: false,
  };
  const GEMINI: ModelChoice = { provider: 'gemini', model: 'gemini-3.8-flash', apiKey: 'key-of-gemini' };
  const OLLAMA: ModelChoice = { provider: 'ollama', model: 'llama3.2', apiKey: undefined };
  const asking = async (
    turns: ScriptedTurn[],
    change: Partial<EngineRun> = {},
    output_schema: Record<string, unknown> = SCHEMA,
  ) => {
    server.queue(...turns);
    const { deps, run, events } = prepare(change, { output_schema });
    const result = await runPrompt(deps, run);
    const repairs = run.trace.events.flatMap(({ event_type, payload }) =>
      event_type === 'output_repair' ? [payload] : [],
    );
    return { deps, result, events, repairs, trace: run.trace.events };
  };
  /** The last message of the last request. */
  const lastAsked = () => {
    const { messages, input, contents } = server.requests.at(-1)!.body;
    const { content, parts } = (messages ?? input ?? contents).at(-1);
    return typeof content === 'string'
      ? content
      : (content ?? parts).map(({ text }: { text: string }) => text).join('');
  };

  test.each([ANTHROPIC, OPENAI, GEMINI, OLLAMA])(
    'is told to $provider, and a right answer is asked for once',
    async (choice) => {
      const { result } = await asking([{ text: '{"n": 5}' }], { models: [choice] });
      expect(result).toMatchObject({ data: { n: 5 }, warnings: [], dataProblems: [] });
      expect(server.requests).toHaveLength(1);
      expect(JSON.stringify(server.requests[0]!.body)).toContain('additionalProperties');
    },
  );

  test.each(
    [ANTHROPIC, OPENAI, GEMINI, OLLAMA].flatMap((choice) => [false, true].map((isWatched) => ({ choice, isWatched }))),
  )(
    'is asked for once more if it does not match: $choice.provider, watched: $isWatched',
    async ({ choice, isWatched }) => {
      const turns = [
        { text: '{"n": "five"}', usage: { input: 100, output: 10 } },
        { text: '{"n": 5}', usage: { input: 120, output: 8 } },
      ];
      const { result, events, repairs, trace } = await asking(turns, { models: [choice], isWatched });
      expect(result).toMatchObject({
        data: { n: 5 },
        warnings: [],
        dataProblems: [],
        usage: { input_tokens: 220, output_tokens: 18 },
      });
      expect(lastAsked()).toBe(
        'Your answer does not match its schema: n must be integer, but is string. Answer with the corrected JSON only.',
      );
      expect(server.requests[1]!.text).toContain('{"n": "five"}');
      expect(repairs).toEqual([{ problems: ['n must be integer, but is string'], ok: true }]);
      expect(trace.map(({ event_type }) => event_type)).toEqual([
        'llm_call_started',
        'llm_call_succeeded',
        'llm_call_started',
        'llm_call_succeeded',
        'output_repair',
      ]);
      const text = events.flatMap((event) => (event.type === 'text_delta' ? [event.text] : [])).join('');
      expect(text).toBe(isWatched ? '{"n": "five"}' : '');
      expect(server.requests.map(({ stream }) => stream)).toEqual([isWatched, false]);
      expect(events).toContainEqual({
        type: 'retry',
        turn: 1,
        attempt: 2,
        reason: 'VALIDATION_SKIPPED',
        wait_ms: 0,
        discard_text: true,
      });
    },
  );

  test('is asked for in JSON if the answer is none', async () => {
    const { result, repairs } = await asking([{ text: 'It is five.' }, { text: '```json\n{"n": 5}\n```' }]);
    expect(result).toMatchObject({ data: { n: 5 }, dataProblems: [] });
    expect(lastAsked()).toBe('Your answer is not JSON. Answer with the corrected JSON only.');
    expect(repairs).toEqual([{ problems: ['is not JSON'], ok: true }]);
  });

  test('that is wrong twice is the one with fewer problems, and keeps them', async () => {
    const wrong = { text: '{"n": "five", "x": 1}' };
    const { result, repairs } = await asking([wrong, { text: '{"n": "six"}' }, { text: '{"n": 5}' }]);
    expect(result).toMatchObject({ data: { n: 'six' }, dataProblems: [{ field: 'n' }] });
    expect(repairs).toMatchObject([{ ok: false }]);
    expect(server.requests).toHaveLength(2);
    server.reset();
    // If both answers are equally wrong, the first counts: a client may have seen it.
    expect((await asking([wrong, { text: '{"n": "six", "y": 1}' }])).result.data).toEqual({ n: 'five', x: 1 });
    server.reset();
    expect((await asking([{ text: 'Five.' }, { text: 'Six.' }])).result.data).toEqual({ result: 'Five.' });
    server.reset();
    expect((await asking([wrong, { text: '{"n": 5', finish: 'length' }])).result).toMatchObject({
      data: { n: 'five', x: 1 },
      warnings: [],
    });
  });

  test('is not asked for again if it was cut', async () => {
    const { result } = await asking([{ text: '{"n": "fi', finish: 'length' }]);
    expect(result).toMatchObject({ data: { result: '{"n": "fi' }, warnings: [{ code: 'TRUNCATED' }] });
    expect(server.requests).toHaveLength(1);
  });

  test('is kept if the provider fails then, or does not answer in time', async () => {
    const wrong = { text: '{"n": "five"}', usage: { input: 100, output: 10 } };
    const failed = await asking([wrong, { status: 400, message: 'No.' }]);
    expect(failed.result).toMatchObject({ data: { n: 'five' }, dataProblems: [{ field: 'n' }] });
    expect(failed.result.error).toBeUndefined();
    expect(failed.repairs).toMatchObject([{ ok: false }]);
    server.reset();
    server.queue(wrong, { hang: true });
    const { deps, run } = prepare({}, { output_schema: SCHEMA });
    const result = runPrompt(deps, run);
    await expect.poll(() => server.asked).toBe(2);
    await deps.clock.advance(59_500);
    expect(await result).toMatchObject({ data: { n: 'five' }, dataProblems: [{ field: 'n' }] });
    expect(deps.clock.sleepers).toBe(0);
  });

  test('ends with the run if that is cancelled', async () => {
    server.queue({ text: '{"n": "five"}' }, { hang: true });
    const cancel = new AbortController();
    const { deps, run } = prepare({ signal: cancel.signal }, { output_schema: SCHEMA });
    const result = runPrompt(deps, run);
    await expect.poll(() => server.asked).toBe(2);
    cancel.abort(new PlatformError('RUN_CANCELLED', 'The run was cancelled.'));
    expect((await result).error).toMatchObject({ code: 'RUN_CANCELLED' });
  });

  test('is not asked for again if its check does not end', async () => {
    const validate = async () => [unchecked(': no time is left')];
    await asking([{ text: '{"n": "five"}' }], { validate });
    expect(server.requests).toHaveLength(1);
  });

  test('has no null for what was left out', async () => {
    const { result } = await asking([{ text: '{"n": 5, "note": null}' }], { models: [OPENAI] });
    expect(result).toMatchObject({ data: { n: 5 }, dataProblems: [] });
    expect(server.requests[0]!.body.text.format).toMatchObject({ strict: true, schema: { required: ['n', 'note'] } });
  });

  test.each([ANTHROPIC, OPENAI, GEMINI, OLLAMA])(
    'that is a list is asked for as `result`, and taken as it comes: $provider',
    async (choice) => {
      const LIST = { type: 'array', items: { type: 'integer' } };
      for (const text of ['{"result": [1, 2]}', '[1, 2]', 'The list: [1, 2].']) {
        server.reset();
        const { result } = await asking([{ text }], { models: [choice] }, LIST);
        expect(result).toMatchObject({ data: [1, 2], dataProblems: [] });
        expect(server.requests).toHaveLength(1);
      }
      server.reset();
      const { result } = await asking([{ text: 'None.' }, { text: 'None at all.' }], { models: [choice] }, LIST);
      expect(result.data).toEqual({ result: 'None.' });
    },
  );

  test('with alternatives that have a member `result` keeps it', async () => {
    const either = { anyOf: [{ type: 'object', properties: { result: { type: 'integer' } }, required: ['result'] }] };
    expect((await asking([{ text: '{"result": 5}' }], {}, either)).result.data).toEqual({ result: 5 });
    server.reset();
    expect((await asking([{ text: '{"result": {"result": 5}}' }], {}, either)).result.data).toEqual({ result: 5 });
  });

  test('without members is not told, nor asked for again', async () => {
    const { result } = await asking(
      [{ text: '{"n": "five"}' }],
      {},
      { type: 'object', additionalProperties: { type: 'integer' } },
    );
    expect(result.data).toEqual({ n: 'five' });
    expect(result.dataProblems).toBeUndefined();
    expect(server.requests[0]!.body).toEqual({
      model: ANTHROPIC.model,
      max_tokens: 32_000,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Say it.' }] }],
    });
  });

  test('is told in a weaker form if the provider refuses it, as the trace shows', async () => {
    const { result, trace } = await asking([
      { status: 400, message: 'The compiled grammar is too large.' },
      { text: '{"n": 5}' },
    ]);
    expect(result).toMatchObject({ data: { n: 5 }, dataProblems: [] });
    expect(server.requests[1]!.body.tools).toMatchObject([{ name: 'json' }]);
    expect(trace.map(({ event_type }) => event_type)).toEqual([
      'llm_call_started',
      'llm_call_failed',
      'llm_call_started',
      'llm_call_succeeded',
    ]);
  });

  test('of a provider that refuses every form is an error with its words', async () => {
    const { result } = await asking([{ status: 400, message: 'Your schema is no good.', times: 9 }], {
      models: [OPENAI],
    });
    expect(result.error).toMatchObject({
      code: 'LLM_ERROR',
      message: expect.stringContaining('Your schema is no good.'),
    });
    expect(server.requests).toHaveLength(3);
  });
});

describe('settings', () => {
  const sonnet: ModelChoice = { ...ANTHROPIC, model: 'claude-sonnet-5-5' };
  const ask = async (model_settings: AgentSettings, change: Partial<EngineRun> = {}) => {
    const { deps, run, events } = prepare({ models: [sonnet], ...change }, { model_settings });
    const result = await runPrompt(deps, run);
    const warnings = run.trace.events.flatMap(({ payload }) => (payload?.warnings ?? []) as string[]);
    return { result, events, warnings, body: server.requests.at(-1)!.body };
  };

  test('are sent as the model takes them; what it does not take is left out, and the trace says so', async () => {
    const all = { effort: 'max', max_output_tokens: 900, temperature: 0.5, stop: ['END'], seed: 7 } as const;
    const { result, warnings, body } = await ask(all);
    expect(result.error).toBeUndefined();
    expect(body).toMatchObject({ max_tokens: 900, output_config: { effort: 'max' }, stop_sequences: ['END'] });
    expect(warnings).toEqual([
      'claude-sonnet-5-5 does not support temperature: it is omitted.',
      'claude-sonnet-5-5 does not support seed: it is omitted.',
    ]);
    const gemini = await ask(all, { models: [{ provider: 'gemini', model: 'gemini-3.8-flash', apiKey: 'k' }] });
    expect(gemini.body.generationConfig).toMatchObject({
      maxOutputTokens: 900,
      temperature: 0.5,
      stopSequences: ['END'],
      seed: 7,
      thinkingConfig: { thinkingLevel: 'high' },
    });
    expect(gemini.warnings).toEqual(['gemini-3.8-flash does not support effort "max": "high" is used.']);
  });

  test('below the name of a provider come before the others, and those of the caller before both', async () => {
    const own: AgentSettings = { effort: 'low', max_output_tokens: 900, anthropic: { effort: 'high' } };
    expect((await ask(own)).body).toMatchObject({ max_tokens: 900, output_config: { effort: 'high' } });
    const input = {
      document: {},
      uploads: [],
      isMultipart: false,
      llmCredentials: { settings: { effort: 'max' } },
    } as const;
    expect((await ask(own, { input })).body).toMatchObject({ output_config: { effort: 'max' } });
  });

  test('not to think is as little as the model can', async () => {
    const { body, warnings } = await ask({ effort: 'none' });
    expect(body.thinking).toEqual({ type: 'between_tools' });
    expect(warnings).toEqual([expect.stringContaining('thinking cannot be disabled')]);
    const sol = await ask({ effort: 'none', temperature: 1 }, { models: [{ ...OPENAI, model: 'gpt-6-sol' }] });
    expect(sol.body).toMatchObject({ reasoning: { effort: 'none' }, temperature: 1 });
    expect(sol.warnings).toEqual([]);
    const newer = await ask({ effort: 'none', temperature: 1 }, { models: [{ ...OPENAI, model: 'gpt-6.2-sol' }] });
    expect(newer.body).toMatchObject({ reasoning: { effort: 'low' } });
    expect(newer.body.temperature).toBeUndefined();
    expect(newer.warnings).toHaveLength(2);
  });

  test('a limit of the author is not raised for a model that used it up thinking', async () => {
    server.queue({ thinkingTokens: 1000 }, { text: 'Here.' });
    expect((await ask({ max_output_tokens: 900 })).result.data).toEqual({ result: 'Here.' });
    expect(server.requests.map(({ body }) => [body.max_tokens, body.output_config.effort])).toEqual([
      [900, 'medium'],
      [900, 'low'],
    ]);
    server.queue({ thinkingTokens: 1000 });
    const { result } = await ask({ max_output_tokens: 900, effort: 'low' });
    expect(result.error).toMatchObject({ code: 'LLM_ERROR', message: expect.stringContaining('used up its tokens') });
    expect(server.requests).toHaveLength(3);
  });

  test('that a provider rejects unexpectedly are dropped, and the run continues', async () => {
    server.queue({ status: 400, message: 'temperature: not supported here' }, { text: 'Here.' });
    const { result, warnings, body } = await ask(
      { temperature: 0.5, effort: 'low' },
      { models: [{ ...OPENAI, model: 'gpt-4o' }] },
    );
    expect(result.data).toEqual({ result: 'Here.' });
    expect(body.temperature).toBeUndefined();
    expect(warnings).toEqual([
      'gpt-4o does not support effort: it is omitted.',
      'gpt-4o rejected its settings and is asked without them.',
    ]);
    expect(server.requests).toHaveLength(2);
    // Other rejections are passed on unchanged.
    server.queue({ status: 400, message: 'No.' });
    expect((await ask({ temperature: 0.5 }, { models: [OPENAI] })).result.error).toMatchObject({ code: 'LLM_ERROR' });
    expect(server.requests).toHaveLength(3);
  });
});

test.each([
  { provider: 'anthropic', model: 'claude-sonnet-5-5' },
  { provider: 'gemini', model: 'gemini-3.8-flash' },
] as const)('the thoughts of $model are shown to a client that watches, masked', async (choice) => {
  const thinking = 'The token is very-secret, so I keep it.';
  for (const isWatched of [true, false]) {
    server.queue({ thinking, text: 'Done.' });
    const { deps, run, events } = prepare({ models: [{ ...choice, apiKey: 'k' }], isWatched });
    await runPrompt(deps, run);
    const thoughts = events.flatMap((event) => (event.type === 'reasoning_delta' ? event.text : [])).join('');
    expect(thoughts).toBe(isWatched ? thinking.replace('very-secret', '[secret TOKEN]') : '');
  }
  const [watched, plain] = server.requests.map(({ body }) => body.thinking ?? body.generationConfig?.thinkingConfig);
  expect(watched.display ?? watched.includeThoughts).toBeTruthy();
  expect(plain?.display ?? plain?.includeThoughts).toBeUndefined();
});
