import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { LoopLimits } from '#core/manifest/definition.ts';
import { validateAgainst } from '#core/manifest/json-schema/schema-validation.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { Trace } from '#core/runs/trace/trace.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { ONLY_TOOLS, type ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { EngineRun } from '../engine.ts';
import { runLoop } from '../managed-loop.ts';
import type { ProgressEvent } from '../progress.ts';

/** Supports a forced tool choice. */
const HAIKU: ModelChoice = { provider: 'anthropic', model: 'claude-haiku-4-5', apiKey: 'key-of-anthropic' };
/** Supports no forced choice, but removal of tools. */
const SONNET: ModelChoice = { ...HAIKU, model: 'claude-sonnet-5-5' };
/** Not in the model table, so it supports neither. */
const UNKNOWN: ModelChoice = { ...HAIKU, model: 'claude-of-tomorrow' };
const OPENAI: ModelChoice = { provider: 'openai', model: 'gpt-4o', apiKey: 'key-of-openai' };
const OPENAI_UNFORCED: ModelChoice = { ...OPENAI, model: 'gpt-unforced' };
const GEMINI: ModelChoice = { provider: 'gemini', model: 'gemini-3.8-flash', apiKey: 'key-of-gemini' };
const OLLAMA: ModelChoice = { provider: 'ollama', model: 'llama3.2' };

const SUBMIT: ScriptedTurn = { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] };
/** Result of other tool calls in a turn that accepts only a result. */
const REFUSED = '[ERROR] This was the last turn; only submit_result is taken.';

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(() => server.close());

/** Runs a loop whose tools need no sandbox: the model calls tools that do not exist. */
function play(model: ModelChoice, limits: Partial<LoopLimits>, change: Partial<EngineRun> = {}) {
  const deps = memoryDeps({
    anthropicUrl: `${server.url}/anthropic/v1`,
    openaiUrl: `${server.url}/openai/v1`,
    geminiUrl: `${server.url}/gemini/v1beta`,
    ollamaUrl: `${server.url}/ollama/v1`,
  });
  const events: ProgressEvent[] = [];
  const run: EngineRun = {
    runId: 'r',
    workspaceId: 'w',
    validate: async (schema, value) => validateAgainst(schema, value),
    fillCommand: async (command) => ({ command }),
    agent: {
      definition: {
        prompt: 'Do it.',
        output_schema: null,
        supported_providers: ['any'],
        custom_tools: [],
        manifest: null,
        loop: { max_turns: 25, ...limits },
      },
    } as unknown as AgentVersion,
    input: { document: { question: 'why?' }, uploads: [], isMultipart: false },
    skills: [],
    models: [model],
    isStrict: false,
    files: [],
    env: {},
    mask: new SecretMask({}),
    deadline: deps.clock.now() + 100_000,
    signal: new AbortController().signal,
    emit: (event) => events.push(event),
    trace: new Trace(deps.clock),
    ...change,
  };
  return { deps, run, events, result: () => runLoop(deps, run) };
}

/** Text that each request after the first added to the conversation. */
function added(): string[] {
  const texts = server.requests.map(({ text }) => text);
  return texts.slice(1).map((text, index) => text.slice(texts[index]!.length));
}

/** Expects that each request begins with the last answered request before it. */
function expectAppendOnly(): void {
  const all = server.requests.filter(({ outcome }) => outcome === 'answered').map(({ prefixes }) => prefixes);
  for (const [index, prefixes] of all.slice(1).entries()) {
    expect(prefixes.slice(0, all[index]!.length)).toEqual(all[index]);
  }
}

describe('a model that calls only tools', () => {
  test.each([
    ['Anthropic, by a forced choice', HAIKU],
    ['OpenAI, by the tools allowed', OPENAI],
    ['Gemini, by a forced choice', GEMINI],
    ['a local server, by a forced choice', OLLAMA],
  ])('has to submit in its last turn: %s', async (_, model) => {
    server.script({ default: { ...ONLY_TOOLS, forcedInput: { result: 'so far' } } });
    const { result } = play(model, { max_turns: 4 });
    const { error, data } = await result();
    expect(error).toBeUndefined();
    expect(data).toEqual({ result: 'so far' });
    expect(server.requests).toHaveLength(4);
    expectAppendOnly();
    const choices = server.requests.map(({ body }) => body.tool_choice ?? body.toolConfig);
    expect(choices.slice(0, 3).filter((choice) => /submit_result/.test(JSON.stringify(choice ?? '')))).toEqual([]);
    expect(JSON.stringify(choices[3])).toContain('submit_result');
  });

  test('has the other tools withdrawn where the model takes no forced choice', async () => {
    const thought = { thinking: 'hm', ...ONLY_TOOLS };
    server.queue(thought, thought, SUBMIT);
    const { data } = await play(SONNET, { max_turns: 3 }).result();
    expect(data).toEqual({ result: 'done' });
    const { body, headers } = server.requests.at(-1)!;
    const { role, content } = body.messages.at(-1);
    expect(role).toBe('system');
    const withdrawn = content.map(({ type, tool }: { type: string; tool: { name: string } }) => [type, tool.name]);
    const names = body.tools.map(({ name }: { name: string }) => name);
    expect(names).toHaveLength(5);
    expect(withdrawn).toEqual(names.slice(0, -1).map((name: string) => ['tool_removal', name]));
    expect(headers['anthropic-beta']).toContain('mid-conversation-tool-changes-2026-07-01');
    expect(body.tool_choice).toBeUndefined();
    expectAppendOnly();
  });

  test.each([SONNET, UNKNOWN, OPENAI_UNFORCED])('may submit in one turn more: $model', async (model) => {
    const thought = { thinking: 'hm', ...ONLY_TOOLS };
    server.script({ turns: [thought, thought, thought, SUBMIT] });
    const { result, events } = play(model, { max_turns: 3 });
    expect((await result()).data).toEqual({ result: 'done' });
    expectAppendOnly();
    expect(added().at(-1)).toContain(REFUSED);
    expect(events.flatMap((event) => (event.type === 'turn_start' ? event.turn : []))).toEqual([1, 2, 3, 4]);
    expect(events.at(-2)).toEqual({ type: 'tool_result', turn: 4, call: 1, tool: 'submit_result', status: 'ok' });
  });

  test('is asked without a restriction by a provider that refuses it, once for the run', async () => {
    server.script({ turns: [ONLY_TOOLS, ONLY_TOOLS, SUBMIT] });
    const { run, result } = play(OPENAI_UNFORCED, { max_turns: 2 });
    expect((await result()).data).toEqual({ result: 'done' });
    const choices = server.requests.map(({ body, outcome }) => [body.tool_choice?.type, outcome]);
    expect(choices).toEqual([
      [undefined, 'answered'],
      ['allowed_tools', 'failed'],
      [undefined, 'answered'],
      [undefined, 'answered'],
    ]);
    const failed = run.trace.events.filter(({ event_type }) => event_type === 'llm_call_failed');
    expect(failed).toHaveLength(1);
  });

  test('has to submit to the provider that goes on when another fails in the last turn', async () => {
    server.script({ key: 'key-of-anthropic', turns: [ONLY_TOOLS, { status: 429 }] });
    server.script({ key: 'key-of-openai', turns: [ONLY_TOOLS] });
    const { result } = play(SONNET, { max_turns: 2 }, { models: [SONNET, OPENAI] });
    expect((await result()).data).toEqual({ result: 'forced' });
    const [, anthropic, openai] = server.requests.map(({ body }) => body);
    expect(anthropic.messages.at(-1).role).toBe('system');
    expect(openai.tool_choice).toMatchObject({ type: 'allowed_tools', tools: [{ name: 'submit_result' }] });
    expect(JSON.stringify(openai.input)).not.toContain('tool_removal');
  });

  test('is asked again in the same way when its last turn breaks off', async () => {
    server.script({ turns: [ONLY_TOOLS, { ...ONLY_TOOLS, breakOff: 'end', times: 1 }, SUBMIT] });
    const played = play(SONNET, { max_turns: 2 });
    const running = played.result();
    await expect.poll(() => server.asked).toBe(2);
    await expect.poll(() => played.events.some(({ type }) => type === 'retry')).toBe(true);
    await played.deps.clock.advance(8_000);
    expect((await running).data).toEqual({ result: 'done' });
    const [, broken, again] = server.requests.map(({ body }) => body);
    expect(again).toEqual(broken);
  });

  test('may answer with a text in its last turn', async () => {
    server.script({ turns: [ONLY_TOOLS, { text: 'All I found.' }] });
    expect((await play(SONNET, { max_turns: 2 }).result()).data).toEqual({ result: 'All I found.' });
  });

  test('and never submits ends with the limit that it reached', async () => {
    server.script({ default: { ...ONLY_TOOLS, usage: { input: 1, output: 1 } } });
    const { result, events } = play(SONNET, { max_turns: 3 });
    const { error, usage } = await result();
    expect(error).toMatchObject({
      code: 'UNPROCESSABLE',
      message: 'The agent reached maximum turns (3) without submitting a result.',
      extra: { cause: 'max_turns' },
    });
    expect(usage).toEqual({ input_tokens: 4, output_tokens: 4 });
    expect(events.at(-1)).toMatchObject({ type: 'error', usage });
  });

  test('may have a single turn', async () => {
    server.script({ default: ONLY_TOOLS });
    expect((await play(HAIKU, { max_turns: 1 }).result()).data).toEqual({ result: 'forced' });
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]!.text).toMatch(/\[turn 0 of 1, 100 s left\] The next turn is the last one\./);
  });
});

describe('the model is told', () => {
  test('its turns and its time before the last one', async () => {
    server.script({ default: ONLY_TOOLS });
    await play(SONNET, { max_turns: 5 }).result();
    const told = added().map((text) => /\[turn .*/.exec(text)?.[0]);
    expect(told).toEqual([
      undefined,
      undefined,
      '[turn 3 of 5, 100 s left] Call submit_result now or in the next turn.',
      '[turn 4 of 5, 100 s left] The next turn is the last one. Call submit_result now; no other tool is taken.',
      '[turn 5 of 5, 100 s left] One turn more, for the result only: call submit_result now.',
    ]);
    // The notice is a text after the results, in the same message.
    const types = server.requests[3]!.body.messages.at(-1).content.map(({ type }: { type: string }) => type);
    expect(types).toEqual(['tool_result', 'text']);
  });

  test('that its time is short, once a fifth of it is left', async () => {
    server.script({ turns: [ONLY_TOOLS, ONLY_TOOLS, ONLY_TOOLS, SUBMIT] });
    const played = play(HAIKU, {});
    const { emit } = played.run;
    const run = {
      ...played.run,
      emit(event: ProgressEvent) {
        emit(event);
        if (event.type === 'turn_start' && event.turn <= 3)
          void played.deps.clock.advance(event.turn === 1 ? 79_000 : 1_000);
      },
    };
    expect((await runLoop(played.deps, run)).data).toEqual({ result: 'done' });
    expect(added().map((text) => /\[turn .*/.exec(text)?.[0])).toEqual([
      undefined,
      '[turn 2 of 25, 20 s left] Call submit_result now or in the next turn.',
      '[turn 3 of 25, 19 s left] Call submit_result now or in the next turn.',
    ]);
  });
});

describe('strict mode with a tool that must still succeed', () => {
  const definition = {
    prompt: 'Do it.',
    output_schema: null,
    supported_providers: ['any'],
    custom_tools: [
      { name: 'fetch', description: 'x', command: 'python3 /home/user/helpers/platform_call.py acme/fetch@v1' },
    ],
    manifest: { dependencies: [{ id: 'acme/fetch', version: 'v1' }] },
    loop: { max_turns: 2 },
  };

  test('ends after its last turn, in which all tools are there', async () => {
    server.script({ default: SUBMIT });
    const agent = { definition } as unknown as AgentVersion;
    const { error } = await play(HAIKU, {}, { agent, isStrict: true }).result();
    expect(error).toMatchObject({ code: 'UNPROCESSABLE', extra: { cause: 'max_turns' } });
    expect(server.requests.map(({ body }) => body.tool_choice)).toEqual([undefined, undefined]);
    expect(added()[0]).toMatch(
      /\[turn 1 of 2, 100 s left\] The next turn is the last one\. Before a result is accepted, a call of one of these tools must succeed: fetch\. Do that and call submit_result in it\.$/,
    );
  });
});

describe('the limit of cost', () => {
  /** Tokens for one cent at the price of Claude Haiku 4.5. */
  const CENT = { input: 10_000, output: 0 };

  test('makes the next turn the last one before it is reached', async () => {
    server.script({ default: { ...ONLY_TOOLS, usage: CENT } });
    const { run, result } = play(HAIKU, { max_cost_usd: 0.039 });
    const { data, costUsd } = await result();
    expect(data).toEqual({ result: 'forced' });
    expect(costUsd).toBeCloseTo(0.04, 6);
    expect(added().at(-1)).toMatch(
      /\[turn 3 of 25, 100 s left\] The money for this run is nearly spent\. The next turn is the last one\./,
    );
    expect(run.trace.events).toContainEqual(
      expect.objectContaining({ event_type: 'decision', payload: { description: 'limit of cost', last_turn: 4 } }),
    );
  });

  test('ends a run that submits nothing, with an error that names it', async () => {
    server.script({ default: { ...ONLY_TOOLS, usage: CENT } });
    const { error, costUsd } = await play(SONNET, { max_cost_usd: 0.05 }).result();
    expect(error).toMatchObject({
      code: 'UNPROCESSABLE',
      message: 'The agent reached its cost limit ($0.05) without submitting a result.',
      extra: { cause: 'max_cost_usd', hint: expect.stringContaining('loop.max_cost_usd') },
    });
    // At two cents a turn, the third turn is the last one, followed by one more that may submit.
    expect(server.requests).toHaveLength(4);
    expect(costUsd).toBeCloseTo(0.08, 6);
  });

  test('of a model without a price does not hold, which the trace says', async () => {
    server.script({ turns: [ONLY_TOOLS, ONLY_TOOLS, SUBMIT] });
    const { run, result } = play(UNKNOWN, { max_cost_usd: 0.000001 });
    expect((await result()).data).toEqual({ result: 'done' });
    const decisions = run.trace.events.filter(({ event_type }) => event_type === 'decision');
    expect(decisions).toMatchObject([
      { payload: { description: 'the price is not known: max_cost_usd has no effect' } },
    ]);
  });
});
