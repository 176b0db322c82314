import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { AgentVersion } from '#core/agents/version.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { SecretMask } from '#core/runs/masking.ts';
import { Trace } from '#core/runs/trace.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
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
  const deps: MemoryDeps = memoryDeps({
    anthropicUrl: `${server.url}/anthropic/v1`,
    openaiUrl: `${server.url}/openai/v1`,
    geminiUrl: `${server.url}/gemini/v1beta`,
  });
  const events: ProgressEvent[] = [];
  const run: EngineRun = {
    runId: 'r',
    workspaceId: 'w',
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
      max_tokens: 4096,
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
    server.queue({ text });
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
    // OpenAI would refuse it.
    expect(await ask({ prompt: 'Answer.', output_schema: { type: 'object' } })).toBeUndefined();
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
    server.queue({ status: 500, message: 'No very-secret today.' });
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
    expect(run.trace.events[2]!.payload).toMatchObject({ from: 'anthropic', to: 'openai' });
  });

  test('is named in the error with the other choices if all do', async () => {
    server.script({ key: ANTHROPIC.apiKey, turns: [{ status: 429, retryAfter: 30 }] });
    server.script({ key: OPENAI.apiKey, turns: [{ status: 429, retryAfter: 7 }] });
    const { deps, run } = prepare({ models: [ANTHROPIC, OPENAI] });
    const { error } = await runPrompt(deps, run);
    expect(error).toMatchObject({ code: 'LLM_RATE_LIMITED', extra: { suggested_wait_time: 7 } });
    expect(error!.message).toMatch(/Anthropic.*OpenAI.*Gemini.*GEMINI_API_KEY/);
  });

  test('is replaced for no other error', async () => {
    server.queue({ status: 500 });
    const { deps, run } = prepare({ models: [ANTHROPIC, OPENAI] });
    expect((await runPrompt(deps, run)).error).toMatchObject({ code: 'LLM_ERROR' });
    expect(server.requests).toHaveLength(1);
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
    await expect(result).rejects.toBe(reason);
    await expect.poll(() => server.requests[0]!.outcome).toBe('gone');
    expect(deps.clock.sleepers).toBe(0);
  });

  test('at once if it was cancelled before', async () => {
    const reason = new PlatformError('RUN_CANCELLED', 'The run was cancelled.');
    const { deps, run } = prepare({ signal: AbortSignal.abort(reason) });
    await expect(runPrompt(deps, run)).rejects.toBe(reason);
    expect(server.requests).toHaveLength(0);
  });
});
