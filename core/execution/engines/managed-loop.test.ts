import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { PlatformError } from '#core/base/errors.ts';
import type { LoopLimits } from '#core/manifest/definition.ts';
import { validateAgainst } from '#core/manifest/json-schema/schema-validation.ts';
import { fillCommand } from '#core/manifest/tool-commands/fill-command.ts';
import { placesIn } from '#core/manifest/tool-commands/tool-command.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { LlmFailure } from '#core/ports/llm.ts';
import type { Sandbox, SandboxSession } from '#core/ports/sandbox.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { Trace } from '#core/runs/trace/trace.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedToolCall, ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { EngineRun } from './engine.ts';
import { runLoop } from './managed-loop.ts';
import type { ProgressEvent } from './progress.ts';

const ANTHROPIC: ModelChoice = { provider: 'anthropic', model: 'claude-haiku-4-5', apiKey: 'key-of-anthropic' };
const OPENAI: ModelChoice = { provider: 'openai', model: 'gpt-4o', apiKey: 'key-of-openai' };

const folder = mkdtempSync(join(tmpdir(), 'managed-loop-'));
const blobs = new FolderBlobs(join(folder, 'blobs'));
const sandbox = await createLocalSandbox({ cacheFolder: join(folder, 'cache'), blobs, kind: 'auto', prestart: 2 });
const { problem } = await sandbox.status();

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(async () => {
  await Promise.all([server.close(), sandbox.close()]);
  rmSync(folder, { recursive: true, force: true });
});

type Definition = Partial<AgentVersion['definition']> & Partial<LoopLimits>;

/** Open sessions. */
const open = new Set<SandboxSession>();
const counted: Sandbox = {
  status: () => sandbox.status(),
  close: () => sandbox.close(),
  async open(spec) {
    const session = await sandbox.open(spec);
    open.add(session);
    const close = session.close.bind(session);
    session.close = () => close().then(() => void open.delete(session));
    return session;
  },
};

function prepare(change: Partial<EngineRun> = {}, { max_turns = 25, tools, ...definition }: Definition = {}) {
  const deps = {
    ...memoryDeps({
      anthropicUrl: `${server.url}/anthropic/v1`,
      openaiUrl: `${server.url}/openai/v1`,
      geminiUrl: `${server.url}/gemini/v1beta`,
      sandboxEgress: 'none',
    }),
    sandbox: counted,
    clock: new SystemClock(),
  };
  const events: ProgressEvent[] = [];
  const run: EngineRun = {
    runId: 'r',
    workspaceId: 'w',
    validate: async (schema, value) => validateAgainst(schema, value),
    fillCommand: async (command, values) => fillCommand(command, placesIn(command), values),
    agent: {
      definition: {
        prompt: 'Do it.',
        output_schema: null,
        supported_providers: ['any'],
        custom_tools: [],
        manifest: null,
        loop: { max_turns, tools },
        ...definition,
      },
    } as unknown as AgentVersion,
    input: { document: { question: 'why?' }, uploads: [], isMultipart: false },
    skills: [],
    models: [ANTHROPIC],
    isStrict: false,
    files: [],
    env: { TOKEN: 'very-secret' },
    mask: new SecretMask({ TOKEN: 'very-secret' }),
    deadline: Date.now() + 30_000,
    signal: new AbortController().signal,
    emit: (event) => events.push(event),
    trace: new Trace(deps.clock),
    ...change,
  };
  return { deps, run, events };
}

const call = (name: string, input: Record<string, unknown> = {}): ScriptedToolCall => ({ name, input });
const bash = (command: string): ScriptedToolCall => call('bash', { command });
const submit = (result: unknown = 'done'): ScriptedTurn => ({ toolCalls: [call('submit_result', { result })] });

/** Tool results in the last request to the model. */
const lastResults = () => resultsIn(server.requests.length - 1);

/** Tool results in the last message of a request, counted from 0. */
function resultsIn(request: number): { text: string; isError: boolean }[] {
  const { content } = server.requests[request]!.body.messages.at(-1);
  return (
    content
      .filter(({ type }: { type: string }) => type === 'tool_result')
      // biome-ignore lint/suspicious/noExplicitAny: the provider's own form.
      .map(({ content: parts, is_error }: any) => ({
        text: typeof parts === 'string' ? parts : parts.map(({ text }: { text: string }) => text).join(''),
        isError: is_error === true,
      }))
  );
}

/** Runs the tools in one turn and submits in the next; returns the results as the model got them. */
async function resultsOf(calls: ScriptedToolCall[], change: Partial<EngineRun> = {}, definition: Definition = {}) {
  server.queue({ toolCalls: calls }, submit());
  const { deps, run } = prepare(change, definition);
  const result = await runLoop(deps, run);
  expect(result.error).toBeUndefined();
  return lastResults();
}
const textsOf = async (...given: Parameters<typeof resultsOf>) => (await resultsOf(...given)).map(({ text }) => text);

const tool = (name: string, command: string, properties: Record<string, unknown> = {}) => ({
  name,
  description: `${name} it`,
  command,
  input_schema: { type: 'object', properties },
});

describe('a turn that is all thought', () => {
  const SONNET: ModelChoice = { ...ANTHROPIC, model: 'claude-sonnet-5-5' };

  test('is asked for again with more room, and is no turn of its own', async () => {
    const thought: ScriptedTurn = { thinkingTokens: 40_000, ...submit(), usage: { input: 100 } };
    server.queue(thought, thought);
    const { deps, run, events } = prepare({ models: [SONNET] });
    const result = await runLoop(deps, run);
    expect(result).toMatchObject({ data: { result: 'done' }, usage: { input_tokens: 200, output_tokens: 72_001 } });
    const [first, second] = server.requests.map(({ body }) => body);
    expect([first.max_tokens, second.max_tokens]).toEqual([32_000, 64_000]);
    expect(second.output_config).toEqual({ effort: 'low' });
    expect(second.messages).toEqual(first.messages);
    expect(events.filter(({ type }) => type === 'turn_start')).toHaveLength(1);
  });

  test('twice ends the run, with the tokens of both', async () => {
    const thought: ScriptedTurn = { thinkingTokens: 70_000, usage: { input: 100 } };
    server.queue(thought, thought);
    const { deps, run } = prepare({ models: [SONNET] });
    const { error, usage } = await runLoop(deps, run);
    expect(error).toMatchObject({
      code: 'LLM_ERROR',
      message: expect.stringMatching(/used up its tokens thinking\.$/),
    });
    expect(usage).toEqual({ input_tokens: 200, output_tokens: 96_000 });
    expect(server.requests).toHaveLength(2);
  });
});

test('what a provider said about its limit of output tokens holds for later turns', async () => {
  server.queue({ toolCalls: [call('nothing')] }, { toolCalls: [call('nothing')] }, submit());
  const { deps, run } = prepare({ models: [{ ...ANTHROPIC, model: 'small-max-8192' }] });
  expect((await runLoop(deps, run)).error).toBeUndefined();
  expect(server.requests.map(({ body }) => body.max_tokens)).toEqual([32_000, 8192, 8192, 8192]);
});

const withSandbox = describe.skipIf(problem !== undefined);

describe('a text that does not match the schema of the output', () => {
  const output_schema = {
    type: 'object',
    properties: { n: { type: 'integer' }, why: { type: 'string' } },
    required: ['n', 'why'],
  };
  const wrong: ScriptedTurn = { text: '{"n": "five"}', usage: { input: 10, output: 5 } };
  const right: ScriptedTurn = { toolCalls: [call('submit_result', { n: 5, why: 'so' })] };
  const repairs = (run: EngineRun) => run.trace.events.filter(({ event_type }) => event_type === 'output_repair');

  test('is corrected once, by a result', async () => {
    server.queue(wrong, right);
    const { deps, run } = prepare({}, { output_schema });
    expect(await runLoop(deps, run)).toMatchObject({ data: { n: 5, why: 'so' }, warnings: [] });
    expect(server.requests.at(-1)!.text).toContain(
      'Your answer does not match its schema: why is required; n must be integer, but is string. Call submit_result with the corrected result.',
    );
    expect(repairs(run)).toMatchObject([{ payload: { ok: true } }]);
  });

  test('is the output if the next one is no better', async () => {
    server.queue(wrong, { text: 'I cannot say.' });
    const { deps, run } = prepare({}, { output_schema });
    const { data, dataProblems, error } = await runLoop(deps, run);
    expect({ data, error }).toEqual({ data: { n: 'five' }, error: undefined });
    expect(dataProblems).toHaveLength(2);
    expect(server.requests).toHaveLength(2);
    expect(repairs(run)).toMatchObject([{ payload: { ok: false } }]);
  });

  test.each<[string, ScriptedTurn[]]>([
    ['the provider fails', [{ status: 400, message: 'no' }]],
    ['the turns are used up', [{ toolCalls: [call('nothing')] }, { toolCalls: [call('nothing')] }]],
  ])('is the output if %s afterwards', async (_, turns) => {
    server.queue(wrong, ...turns);
    const { deps, run } = prepare({}, { output_schema, max_turns: 2 });
    expect(await runLoop(deps, run)).toMatchObject({ data: { n: 'five' } });
  });

  test('is the output if no time is left for another one', async () => {
    server.queue(wrong);
    const { deps, run } = prepare({ deadline: Date.now() + 60_000 }, { output_schema });
    // The model takes 50 seconds.
    const now = () => Date.now() + (server.requests.length > 0 ? 50_000 : 0);
    const clock = Object.assign(new SystemClock(), { now });
    expect(await runLoop({ ...deps, clock }, run)).toMatchObject({ data: { n: 'five' } });
    expect(server.requests).toHaveLength(1);
  });
});

test('a text without tool calls is the result, without a sandbox', async () => {
  server.queue({ text: '{"why": "because"}', usage: { input: 10, output: 5 } });
  const { deps, run, events } = prepare();
  const never = {
    ...deps,
    sandbox: { ...counted, open: () => Promise.reject(new Error('a sandbox is opened')) },
  };
  const result = await runLoop(never, run);
  expect(result).toMatchObject({
    data: { why: 'because' },
    usage: { input_tokens: 10, output_tokens: 5 },
    model: { provider: 'anthropic', model: 'claude-haiku-4-5' },
    exitCode: null,
    stdout: '',
    stderr: '',
    warnings: [],
  });
  expect(result.costUsd).toBeCloseTo(0.000035);
  expect(events).toEqual([
    { type: 'turn_start', turn: 1, max_turns: 25 },
    { type: 'done', usage: { input_tokens: 10, output_tokens: 5 } },
  ]);
  const { body } = server.requests[0]!;
  expect(body.max_tokens).toBe(32_000);
  expect(body.messages).toEqual([{ role: 'user', content: [{ type: 'text', text: '{\n  "question": "why?"\n}' }] }]);
  expect(body.tools.map(({ name }: { name: string }) => name)).toEqual([
    'bash',
    'read_file',
    'write_file',
    'list_files',
    'submit_result',
  ]);
  expect(body.tools.at(-1).input_schema).toMatchObject({ properties: { result: { type: 'string' } } });
});

describe('the sandbox', () => {
  /** Makes the model begin to call `name`, and answer after `goOn`. */
  const slowly = <D extends Pick<Deps, 'llm'>>(deps: D, name: string, goOn: () => Promise<unknown>): D => ({
    ...deps,
    llm: {
      async generate(request) {
        request.onTool?.(name);
        await goOn();
        return deps.llm.generate({ ...request, onTool: undefined });
      },
    },
  });

  test('is opened while the model still writes the call of a tool', async () => {
    server.queue({ toolCalls: [bash('echo $HOME')] }, { text: 'x' });
    const { deps, run } = prepare();
    const opened = Promise.withResolvers<void>();
    const sandbox: Sandbox = {
      ...counted,
      open(spec) {
        opened.resolve();
        return counted.open(spec);
      },
    };
    const result = await runLoop({ ...slowly(deps, 'bash', () => opened.promise), sandbox }, run);
    expect(result.error).toBeUndefined();
  });

  test('is closed if the model fails meanwhile', async () => {
    const { deps, run } = prepare();
    const closed: Promise<unknown>[] = [];
    const background = async (work: Promise<unknown>) => void closed.push(work);
    const fail = async () => {
      await expect.poll(() => open.size).toBe(1);
      throw new LlmFailure('refused', 'no');
    };
    const result = await runLoop({ ...slowly(deps, 'bash', fail), background }, run);
    expect(result.error).toMatchObject({ code: 'LLM_ERROR' });
    await Promise.all(closed);
    expect(open.size).toBe(0);
  });

  test('is not opened for a tool of the platform', async () => {
    server.queue({ toolCalls: [{ name: 'submit_result', input: { result: 'x' } }] });
    const { deps, run } = prepare();
    const sandbox: Sandbox = { ...counted, open: () => Promise.reject(new Error('a sandbox is opened')) };
    expect(await runLoop({ ...deps, sandbox }, run)).toMatchObject({ data: { result: 'x' } });
  });
});

test("the system message has the platform's part, then skills, then the author's prompt", async () => {
  const skill = {
    org: 'a',
    name: 'brevity',
    version: 'v1',
    description: 'How to be brief.',
    text: 'Be brief.',
    files: [],
  };
  const output_schema = { type: 'object', properties: { answer: { type: 'string' } } };
  server.queue({ text: 'x' });
  const { deps, run } = prepare(
    { skills: [skill] },
    { output_schema, custom_tools: [tool('count', 'wc')], max_turns: 7 },
  );
  await runLoop(deps, run);
  const { body } = server.requests[0]!;
  const system: string = body.system.map(({ text }: { text: string }) => text).join('');
  expect(system).toMatch(
    /\/home\/user[\s\S]*\/tmp\/uploads\/[\s\S]*7 turns[\s\S]*- count: count it[\s\S]*- brevity: How to be brief\.[\s\S]*submit_result[\s\S]*"answer"[\s\S]*\n---\n\nBe brief\.\n\n---\n\nDo it\.$/,
  );
  expect(body.tools.at(-1)).toMatchObject({ name: 'submit_result', input_schema: output_schema });
});

describe('the list of allowed tools', () => {
  const limited: Definition = { tools: ['read_file', 'list_files'], custom_tools: [tool('count', 'wc')] };

  test('leaves the others out, and keeps custom tools and submit_result', async () => {
    const [refused] = await resultsOf([bash('id')], {}, limited);
    const text =
      '[ERROR] There is no tool "bash". The tools are read_file, list_files, count, submit_result: call one of these.';
    expect(refused).toEqual({ text, isError: true });
    const { body, text: asked } = server.requests[0]!;
    const names = body.tools.map(({ name }: { name: string }) => name);
    expect(names).toEqual(['read_file', 'list_files', 'count', 'submit_result']);
    expect(asked).toContain('- Of the platform: read_file, list_files, submit_result\n');
  });

  test('may be empty', async () => {
    await resultsOf([bash('id')], {}, { tools: [] });
    expect(server.requests[0]!.body.tools).toMatchObject([{ name: 'submit_result' }]);
    expect(server.requests[0]!.text).toContain('- Of the platform: submit_result\n');
  });
});

test('a truncated text has a warning, and declining is an error with its cost', async () => {
  server.queue({ text: 'half', finish: 'length' });
  const first = prepare();
  expect(await runLoop(first.deps, first.run)).toMatchObject({
    data: { result: 'half' },
    warnings: [{ code: 'TRUNCATED' }],
  });
  server.queue({ text: 'no', finish: 'content_filter', usage: { input: 3, output: 1 } });
  const { deps, run, events } = prepare();
  expect(await runLoop(deps, run)).toMatchObject({
    error: { code: 'LLM_ERROR' },
    usage: { input_tokens: 3, output_tokens: 1 },
  });
  expect(events.at(-1)).toMatchObject({ type: 'error', usage: { input_tokens: 3, output_tokens: 1 } });
});

describe('submit_result', () => {
  const ask = async (output_schema: Definition['output_schema'], ...inputs: Record<string, unknown>[]) => {
    for (const input of inputs) server.queue({ toolCalls: [call('submit_result', input)] });
    const { deps, run } = prepare({}, { output_schema });
    return runLoop(deps, run);
  };

  test('takes its parameters as the result', async () => {
    expect((await ask(null, { result: 'a text' })).data).toEqual({ result: 'a text' });
    const schema = { properties: { n: { type: 'integer' } }, required: ['n'] };
    expect((await ask(schema, { n: 1 })).data).toEqual({ n: 1 });
  });

  test('takes the parameter `result` if the schema is not an object', async () => {
    const schema = { type: 'array', items: { $ref: '#/$defs/item' }, $defs: { item: { type: 'string' } } };
    expect((await ask(schema, { result: ['a'] })).data).toEqual(['a']);
    const { input_schema } = server.requests.at(-1)!.body.tools.at(-1);
    expect(input_schema).toMatchObject({ type: 'object', required: ['result'], $defs: schema.$defs });
    expect((await ask({ anyOf: [{ type: 'object' }, { type: 'null' }] }, { result: null })).data).toBeNull();
  });

  test('returns an error to the model if the result does not match the schema', async () => {
    const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
    expect((await ask(schema, { n: 'one' }, { n: 1 })).data).toEqual({ n: 1 });
    expect(lastResults()).toEqual([{ text: expect.stringMatching(/^\[ERROR\] .*n must be integer/), isError: true }]);
  });

  test('is strict where its schema fits, custom tools never are; a null for what was left out is none', async () => {
    const schema = {
      type: 'object',
      properties: { n: { type: 'integer' }, note: { type: 'string' } },
      required: ['n'],
    };
    const custom_tools = [{ name: 'count', description: 'count it', command: 'true' }] as Definition['custom_tools'];
    const OPENAI: ModelChoice = { provider: 'openai', model: 'gpt-6.2-sol', apiKey: 'key-of-openai' };
    for (const models of [[ANTHROPIC], [OPENAI]]) {
      // The platform rejects the first submission: the tools stay as they were.
      server.queue({ toolCalls: [call('submit_result', { n: null, note: null })] });
      server.queue({ toolCalls: [call('submit_result', { n: 1, note: null })] });
      const { deps, run } = prepare({ models }, { output_schema: schema, custom_tools });
      expect((await runLoop(deps, run)).data).toEqual({ n: 1 });
      const [first, second] = server.requests.map(({ body }) => body.tools as { name: string; strict?: boolean }[]);
      expect(second).toEqual(first);
      const strict = first!.filter((tool) => tool.strict).map(({ name }) => name);
      expect(strict).toEqual(['submit_result']);
      server.reset();
    }
  });

  test('masks secrets in the result', async () => {
    expect((await ask(null, { result: 'it is very-secret' })).data).toEqual({ result: 'it is [secret TOKEN]' });
  });
});

describe('turns', () => {
  test('unknown tools and invalid parameters are errors for the model', async () => {
    const calls = [call('nothing'), call('bash', { cmd: 'x' }), call('read_file', { path: 1 })];
    expect(await resultsOf(calls)).toEqual([
      {
        text: expect.stringMatching(/^\[ERROR\] There is no tool "nothing"\. The tools are bash, .*submit_result/),
        isError: true,
      },
      { text: expect.stringMatching(/^\[ERROR\] .*command is required/), isError: true },
      { text: expect.stringMatching(/^\[ERROR\] .*path must be string/), isError: true },
    ]);
    server.queue({ toolCalls: [{ name: 'bash', rawInput: '{"command": "ec' }], finish: 'length' }, submit());
    const { deps, run } = prepare({ isWatched: true });
    await runLoop(deps, run);
    expect(lastResults()[0]!.text).toMatch(
      /^\[ERROR\] .*no JSON, were cut off for their length, or were nested too deeply/,
    );
  });

  test('a provider that limits its rate is replaced for all later turns', async () => {
    server.script({
      key: 'key-of-anthropic',
      turns: [{ thinking: 'hm', toolCalls: [call('nothing')] }, { status: 429 }],
    });
    server.script({ key: 'key-of-openai', turns: [{ toolCalls: [call('nothing')] }, submit()] });
    const { deps, run } = prepare({ models: [ANTHROPIC, OPENAI] });
    const result = await runLoop(deps, run);
    expect(result).toMatchObject({ data: { result: 'done' }, model: { provider: 'openai', model: 'gpt-4o' } });
    expect(server.requests.map(({ provider }) => provider)).toEqual(['anthropic', 'anthropic', 'openai', 'openai']);
    expect(run.trace.events).toContainEqual(expect.objectContaining({ event_type: 'fallback_transition' }));
  });

  test('that repeat themselves are told so in the result, and end the run', async () => {
    server.script({ default: { toolCalls: [call('nothing'), bash('true')] } });
    const { deps, run } = prepare({}, { tools: [] });
    const { error, stderr } = await runLoop(deps, run);
    expect(error).toMatchObject({ code: 'UNPROCESSABLE', extra: { cause: 'stuck' } });
    expect(error!.message).toBe(
      'The agent is stuck: it called nothing 5 times with the same parameters and the same result.',
    );
    expect(server.requests).toHaveLength(5);
    expect(lastResults()[0]!.text).toMatch(
      /^\[ERROR\] There is no tool "nothing".*\n\[You called this with the same result 3 times before\. /,
    );
    expect(stderr.match(/turn \d: /g)).toHaveLength(10);
  });

  test('text is emitted as it comes, with secrets masked', async () => {
    server.queue({ text: 'I look at very-secret things.', toolCalls: [call('nothing')] }, submit());
    const { deps, run, events } = prepare({ isWatched: true });
    await runLoop(deps, run);
    const shown = events.flatMap((event) => (event.type === 'text_delta' ? event.text : [])).join('');
    expect(shown).toBe('I look at [secret TOKEN] things.');
  });
});

describe('a turn that fails', () => {
  const turn: ScriptedTurn = { thinking: 'hm', text: 'I look at it.', toolCalls: [call('nothing')] };

  test.each<ScriptedTurn>([
    { status: 529, retryAfter: 0 },
    { errorFirst: true },
    { ...turn, streamError: true },
    { ...turn, breakOff: 'reset' },
    { ...turn, breakOff: 'end' },
    { resetBeforeHeaders: true },
  ])('%j is asked again with the same messages', async (fault) => {
    server.queue(turn, fault, turn, submit());
    const { deps, run, events } = prepare({ isWatched: true });
    const result = await runLoop(deps, run);
    expect(result.data).toEqual({ result: 'done' });
    expect(server.asked).toBe(4);
    const [, failed, again] = server.requests.map(({ body }) => body);
    expect(again).toEqual(failed);
    const retries = events.filter(({ type }) => type === 'retry');
    expect(retries).toEqual([
      {
        type: 'retry',
        turn: 2,
        attempt: 2,
        reason: 'LLM_ERROR',
        wait_ms: expect.any(Number),
        discard_text: true,
      },
    ]);
    // Each tool ran once, and no turn was counted twice.
    expect(events.filter(({ type }) => type === 'tool_call')).toHaveLength(3);
    expect(events.filter(({ type }) => type === 'turn_start')).toHaveLength(3);
    const failures = run.trace.events.filter(({ event_type }) => event_type === 'llm_call_failed');
    expect(failures).toMatchObject([{ payload: { retried_after_ms: expect.any(Number) } }]);
  });

  test('counts the tokens of the broken answer', async () => {
    const spent = { input: 1000, output: 10 };
    server.queue(
      { ...turn, usage: spent },
      { ...turn, usage: spent, breakOff: 'reset' },
      { ...submit(), usage: spent },
    );
    const { deps, run } = prepare();
    const { usage, costUsd } = await runLoop(deps, run);
    expect(usage!.input_tokens).toBe(3000);
    const traced = run.trace.events.map(({ cost_usd }) => cost_usd ?? 0);
    expect(costUsd).toBeCloseTo(traced.reduce((sum, cost) => sum + cost, 0));
    expect(costUsd).toBeGreaterThan(0.003);
  });

  test('goes on with another provider after two requests', async () => {
    server.script({ key: 'key-of-anthropic', turns: [turn, { ...turn, breakOff: 'end', times: 2 }] });
    server.script({ key: 'key-of-openai', turns: [{ toolCalls: [call('nothing')] }, submit()] });
    const { deps, run, events } = prepare({ models: [ANTHROPIC, OPENAI], isWatched: true });
    expect((await runLoop(deps, run)).data).toEqual({ result: 'done' });
    const asked = server.requests.map(({ provider }) => provider);
    expect(asked).toEqual(['anthropic', 'anthropic', 'anthropic', 'openai', 'openai']);
    expect(events.filter(({ type }) => type === 'retry')).toMatchObject([{ attempt: 2 }, { attempt: 3, wait_ms: 0 }]);
  });

  test('for good ends the run with what was spent', async () => {
    // One rejection for the turn, one for its notes.
    server.queue({ ...turn, usage: { input: 70, output: 7 } }, { refusal: 'overflow' }, { refusal: 'overflow' });
    const { deps, run } = prepare();
    const { error, usage } = await runLoop(deps, run);
    expect(error).toMatchObject({ code: 'UNPROCESSABLE', extra: { hint: expect.any(String) } });
    expect(usage).toEqual({ input_tokens: 70, output_tokens: 7 });
    expect(server.asked).toBe(3);
  });

  test('is seen at once: answers are streamed, watched or not', async () => {
    server.queue(submit());
    const { deps, run } = prepare();
    await runLoop(deps, run);
    expect(server.requests[0]!.stream).toBe(true);
  });
});

describe('strict mode', () => {
  const HELPER = 'python3 /home/user/helpers/platform_call.py acme/fetch@v1';
  const dependent: Definition = {
    custom_tools: [
      tool('fetch', `: ${HELPER}; exit {{code}}`, { code: { type: 'integer' } }),
      tool('other', 'echo hi'),
    ],
    manifest: { dependencies: [{ id: 'acme/fetch', version: 'v1' }] } as Definition['manifest'],
  };
  const strict = { isStrict: true };

  test('has no bash', async () => {
    const [result] = await resultsOf([bash('id')], strict);
    expect(result).toEqual({ text: expect.stringMatching(/^\[ERROR\] STRICT_MODE_BASH_DISABLED/), isError: true });
    const names = server.requests[0]!.body.tools.map(({ name }: { name: string }) => name);
    expect(names).toEqual(['read_file', 'write_file', 'list_files', 'submit_result']);
    expect(server.requests[0]!.text).not.toMatch(/\bbash\b.*read_file/);
  });

  withSandbox('with dependencies', () => {
    test('accepts a result only after a dependency was called with success', async () => {
      const refused = submit();
      server.queue(
        refused,
        { toolCalls: [call('other'), call('submit_result', { result: 'early' })] },
        { text: 'I am done.' },
        { text: '' },
        { toolCalls: [call('fetch', { code: 1 })] },
        refused,
        { toolCalls: [call('submit_result', { result: 'ok' }), call('fetch', { code: 0 })] },
      );
      const { deps, run } = prepare(strict, dependent);
      const result = await runLoop(deps, run);
      expect(result.error).toBeUndefined();
      expect(result.data).toEqual({ result: 'ok' });
      expect(server.requests).toHaveLength(7);
      const { text } = server.requests.at(-1)!;
      expect(text.match(/\[ERROR\] STRICT_MODE_DEPENDENCY_REQUIRED: Before .*: fetch\./g)).toHaveLength(3);
      expect(text.match(/^Before a result is accepted.* fetch\. Then call submit_result/gm)).toHaveLength(2);
      expect(run.trace.events).toContainEqual(
        expect.objectContaining({
          event_type: 'policy_violation',
          payload: {
            tool_name: 'submit_result',
            turn: 1,
            violation_type: 'STRICT_MODE_DEPENDENCY_REQUIRED',
            detail: expect.stringMatching(/^Before .*: fetch\.$/),
          },
        }),
      );
    });
  });

  withSandbox('with dependencies, in the last turn', () => {
    test('calls one, and submits in one turn more', async () => {
      server.queue(submit(), { toolCalls: [call('fetch', { code: 0 })] }, submit());
      const { deps, run } = prepare(strict, { ...dependent, max_turns: 2 });
      expect((await runLoop(deps, run)).data).toEqual({ result: 'done' });
      const choices = server.requests.map(({ body }) => body.tool_choice?.name);
      expect(choices).toEqual([undefined, undefined, 'submit_result']);
    });
  });

  test('inherited from above requires nothing of an agent without dependencies', async () => {
    server.queue(submit());
    const { deps, run } = prepare(strict);
    expect((await runLoop(deps, run)).data).toEqual({ result: 'done' });
  });

  test('is off by default: dependencies need not be called', async () => {
    server.queue(submit());
    const { deps, run } = prepare({}, dependent);
    expect((await runLoop(deps, run)).data).toEqual({ result: 'done' });
  });
});

withSandbox(`tools in a sandbox${problem === undefined ? '' : ` cannot work here: ${problem}`}`, () => {
  afterEach(() => expect.poll(() => open.size).toBe(0));

  test('bash returns output, errors and exit status', async () => {
    const commands = ['pwd', 'echo out; echo err >&2; exit 3', 'true', 'echo "[ERROR] mine"', 'printf "a\\0b"'];
    expect(await resultsOf(commands.map(bash))).toEqual([
      { text: '/home/user', isError: false },
      { text: 'out\nSTDERR:\nerr\n[exit code: 3]', isError: false },
      { text: '(no output)', isError: false },
      { text: '[ERROR] mine', isError: true },
      { text: 'a\uFFFDb', isError: false },
    ]);
  });

  test('of a long result the model gets beginning and end; a file of the sandbox has all of it, with secrets masked', async () => {
    server.queue(
      { toolCalls: [bash('echo first $TOKEN; yes grüße | head -c 1000000; echo last $TOKEN; exit 9')] },
      {
        toolCalls: [
          call('read_file', { path: '/tmp/tool_output/1-1.txt', limit: 2 }),
          bash('wc -lc < /tmp/tool_output/1-1.txt; tail -n 2 /tmp/tool_output/1-1.txt'),
        ],
      },
      submit(),
    );
    const { deps, run } = prepare();
    expect((await runLoop(deps, run)).error).toBeUndefined();
    const [long] = resultsIn(1);
    const note = '[... 961 KB left out; all of it: /tmp/tool_output/1-1.txt ...]';
    const [head, tail] = long!.text.split(`\n${note}\n`);
    expect(head).toMatch(/^first very-secret\ngrüße\n/);
    expect(tail).toMatch(/grüße\nlast very-secret\n\[exit code: 9\]$/);
    expect(long!.text).not.toContain('\uFFFD');
    expect(Buffer.byteLength(head!) / 1024).toBeCloseTo(6, 0);
    expect(Buffer.byteLength(tail!) / 1024).toBeCloseTo(10, 0);
    expect(Buffer.byteLength(long!.text)).toBeLessThanOrEqual(16 * 1024);
    expect(lastResults().map(({ text }) => text)).toEqual([
      'first [secret TOKEN]\ngrüße\n[... the file goes on: offset 3 ...]',
      expect.stringMatching(/^ *125002 +1000055\nlast \[secret TOKEN\]\n\[exit code: 9\]$/),
    ]);
  });

  test('the results of one turn share their limit: short ones stay whole', async () => {
    const calls = [bash('echo short'), ...Array.from({ length: 5 }, () => bash('yes | head -c 15000; echo end'))];
    const texts = await textsOf(calls);
    expect(texts[0]).toBe('short');
    for (const [index, text] of texts.slice(1).entries()) {
      expect(text).toMatch(new RegExp(`left out; all of it: /tmp/tool_output/1-${index + 2}.txt[\\s\\S]*y\nend$`));
      expect(Buffer.byteLength(text) / 1024).toBeCloseTo(48 / 5, 0);
    }
    expect(Buffer.byteLength(texts.join(''))).toBeLessThanOrEqual(48 * 1024);
  });

  test('a result that cannot be kept is shortened all the same', async () => {
    const [, blocked] = await textsOf([
      bash('touch /tmp/tool_output; touch ready'),
      bash('until [ -e ready ]; do sleep 0.01; done; yes | head -c 20000'),
    ]);
    expect(blocked).toMatch(/^y\n[\s\S]*\n\[\.\.\. \d+ KB left out \.\.\.\]\n[\s\S]*y$/);
  });

  test('a command that prints too much is stopped', async () => {
    const [flood] = await textsOf([bash('yes')]);
    expect(flood).toMatch(/^\[ERROR\] The command printed more than 10 MB/);
  });

  test('read_file goes on at any line, and within a line', async () => {
    server.queue(
      {
        toolCalls: [
          bash(`seq 20000 > lines; printf 'a\\n%s\\nend' "$(yes 12345678 | head -n 3000 | tr -d '\\n')" > wide`),
        ],
      },
      {
        toolCalls: [
          call('read_file', { path: 'lines' }),
          call('read_file', { path: 'lines', offset: 19_998 }),
          call('read_file', { path: 'lines', offset: 10, limit: 2 }),
          call('read_file', { path: 'lines', offset: 20_001 }),
          call('read_file', { path: 'wide', offset: 4 }),
        ],
      },
      {
        toolCalls: [
          call('read_file', { path: 'wide', offset: 2 }),
          call('read_file', { path: 'wide', offset: 2, column: 16_285 }),
          call('read_file', { path: 'wide', offset: 2, column: 24_002 }),
          call('read_file', { path: 'wide', offset: 0 }),
        ],
      },
      submit(),
    );
    const { deps, run } = prepare();
    expect((await runLoop(deps, run)).error).toBeUndefined();
    const [long, end, few, ...beyond] = resultsIn(2).map(({ text }) => text);
    const numbers = long!.split('\n');
    const next = Number(/^\[\.\.\. the file goes on: offset (\d+) \.\.\.\]$/.exec(numbers.pop()!)![1]);
    expect(numbers).toEqual(Array.from({ length: next - 1 }, (_, index) => String(index + 1)));
    expect(Buffer.byteLength(long!)).toBeLessThanOrEqual(16 * 1024);
    expect(end).toBe('19998\n19999\n20000\n');
    expect(few).toBe('10\n11\n[... the file goes on: offset 12 ...]');
    expect(beyond).toEqual(['[ERROR] lines has 20000 lines, no line 20001.', '[ERROR] wide has 3 lines, no line 4.']);
    const [start, rest, past, zero] = lastResults().map(({ text }) => text);
    expect(start).toBe(`${'12345678'.repeat(2035)}1234\n[... the file goes on: offset 2, column 16285 ...]`);
    expect(rest).toBe(`5678${'12345678'.repeat(964)}\nend`);
    expect(past).toBe('[ERROR] Line 2 has 24000 characters.');
    expect(zero).toMatch(/^\[ERROR\] The parameters of read_file .*offset/);
  });

  test('files are written, read and listed; errors and endless files are handled', async () => {
    const results = await (async () => {
      server.queue(
        {
          toolCalls: [
            call('write_file', { path: 'notes/a b.txt', content: 'grüße\n' }),
            bash('mkdir -p .git x/y; touch .git/z; mkfifo pipe; head -c 9000 /dev/zero > zeros; seq 20000 > long'),
          ],
        },
        {
          toolCalls: [
            call('read_file', { path: '/home/user/notes/a b.txt' }),
            call('list_files'),
            call('list_files', { path: '.', recursive: true }),
            call('read_file', { path: 'nowhere' }),
            call('read_file', { path: 'zeros' }),
            call('read_file', { path: '/dev/zero' }),
            call('read_file', { path: 'pipe' }),
            call('read_file', { path: 'long' }),
            call('list_files', { path: 'long' }),
            call('write_file', { path: '/etc/passwd', content: 'x' }),
            call('read_file', { path: 'a\0b' }),
          ],
        },
        submit(),
      );
      const { deps, run } = prepare();
      await runLoop(deps, run);
      return lastResults();
    })();
    const [written, all, tree, none, zeros, endless, pipe, long, noFolder, refused, nul] = results;
    expect(written).toEqual({ text: 'grüße\n', isError: false });
    expect(all!.text.split('\n')).toEqual(['.git/', 'long', 'notes/', 'pipe', 'x/', 'zeros']);
    expect(tree!.text.split('\n')).toEqual(['long', 'notes/', 'notes/a b.txt', 'pipe', 'x/', 'x/y/', 'zeros']);
    for (const { text, isError } of [none!, zeros!, endless!, pipe!, noFolder!, refused!, nul!]) {
      expect({ text, isError }).toEqual({ text: expect.stringMatching(/^\[ERROR\] /), isError: true });
    }
    expect(long!.text).toMatch(/^1\n2\n[\s\S]*\n\[\.\.\. the file goes on: offset 3\d\d\d /);
    expect(server.requests[1]!.text).toContain('Wrote 8 bytes to notes/a b.txt.');
  });

  test('the sandbox has uploads, further files and the environment without model keys', async () => {
    const upload = { path: '/tmp/uploads/0_a.txt', content: Buffer.from('up'), name: 'a', contentType: 'text/plain' };
    const env = {
      TOKEN: 'very-secret',
      ANTHROPIC_API_KEY: 'key-of-anthropic',
      OTHER: 'key-of-anthropic',
      OPENAI_API_KEY: 'mine',
    };
    const change: Partial<EngineRun> = {
      input: { document: {}, uploads: [upload] as never, isMultipart: true },
      files: [{ path: '/home/user/platform/skills/a.md', content: Buffer.from('skill') }],
      env,
    };
    const shown = 'cat /tmp/uploads/* platform/skills/a.md; env | grep -E "KEY|TOKEN|LLM|OTHER" | sort';
    expect(await textsOf([bash(shown)], change)).toEqual([
      'upskillLLM_MODEL=claude-haiku-4-5\nLLM_PROVIDER=anthropic\nOPENAI_API_KEY=mine\nTOKEN=very-secret',
    ]);
  });

  test('tools of one turn run at the same time, with results in the order of the calls', async () => {
    // Each tool waits for a file of the other.
    const meet = (own: string, other: string) =>
      bash(`touch ${own}; until [ -e ${other} ]; do sleep 0.01; done; echo ${own}`);
    expect(await textsOf([meet('a', 'b'), meet('b', 'a')])).toEqual(['a', 'b']);
  });

  test('at most eight tools of a turn run at the same time', async () => {
    const counting = (n: number) =>
      bash(
        `mkdir -p up; touch up/${n}
         up() { ls up | wc -l; }
         until n=$(up); [ $n -ge 8 ] || [ -e full ]; do sleep 0.1; done
         touch full; sleep 0.05; more=$(up); echo $((n > more ? n : more)); rm up/${n}`,
      );
    const counts = await textsOf(Array.from({ length: 12 }, (_, n) => counting(n)));
    expect(counts).toHaveLength(12);
    expect(Math.max(...counts.map(Number))).toBe(8);
  });

  test('a result submitted in the same turn waits for the other tools', async () => {
    server.queue({ toolCalls: [call('submit_result', { result: 'r' }), bash('sleep 0.2; echo very-secret')] });
    const { deps, run, events } = prepare();
    const result = await runLoop(deps, run);
    expect(result.data).toEqual({ result: 'r' });
    expect(events.flatMap((event) => ('tool' in event ? `${event.type} ${event.tool}` : []))).toEqual([
      'tool_call bash',
      'tool_result bash',
      'tool_call submit_result',
      'tool_result submit_result',
    ]);
    expect(events).toContainEqual({
      type: 'tool_call',
      turn: 1,
      call: 2,
      tool: 'bash',
      args_brief: 'sleep 0.2; echo [secret TOKEN]',
    });
    expect(result.stderr).toMatch(/^turn 1: bash ok, \d+ ms\nturn 1: submit_result ok, \d+ ms\n$/);
    const types = run.trace.events.map(({ event_type }) => event_type);
    // The sandbox opens while the model is still writing.
    expect(types.filter((type) => type.includes('_call_'))).toEqual([
      'llm_call_started',
      'llm_call_succeeded',
      'tool_call_started',
      'tool_call_succeeded',
      'tool_call_started',
      'tool_call_succeeded',
    ]);
  });

  describe('custom tools', () => {
    const custom_tools = [
      tool('show', `printf '<%s>' '{{x}}' "{{x}}" {{x}} {{y}}; cat "$PLATFORM_TOOL_INPUT"`, { x: {}, y: {} }),
      tool('input', 'sleep 0.1; cat /tmp/__tool_input.json', { n: { type: 'integer' } }),
      tool('meet', 'touch {{a}}; until [ -e {{b}} ]; do sleep 0.01; done; cat "$PLATFORM_TOOL_INPUT"', {
        a: {},
        b: {},
      }),
      tool('unsafe', `sh -c 'echo {{x}}'`, { x: { type: 'string' } }),
      tool('fails', 'echo no >&2; exit 4'),
    ];

    test('get their parameters unchanged, and no parameter runs as a command', async () => {
      const x = `'; touch /tmp/x; "$(touch /tmp/x)" \`touch /tmp/x\``;
      expect(await textsOf([call('show', { x })], {}, { custom_tools })).toEqual([
        `<${x}><${x}><${x}>${JSON.stringify({ x })}`,
      ]);
      const [results] = await textsOf([call('unsafe', { x: 'a; id' })], {}, { custom_tools });
      expect(results).toMatch(/^\[ERROR\] the tool accepts only a number or a boolean as "x"/);
    });

    test('get their own parameters when several run in one turn', async () => {
      const calls = [1, 2, 3].map((n) => call('input', { n }));
      expect(await textsOf(calls, {}, { custom_tools })).toEqual(['{"n":1}', '{"n":2}', '{"n":3}']);
      const pair = [call('meet', { a: 'p', b: 'q' }), call('meet', { a: 'q', b: 'p' })];
      expect(await textsOf(pair, {}, { custom_tools })).toEqual(['{"a":"p","b":"q"}', '{"a":"q","b":"p"}']);
    });

    test('whose program stays get their parameters as inputs, of this run and of others of its kind', async () => {
      const program = `import json, os, sys
for uses, line in enumerate(sys.stdin, 1):
    given = json.loads(line)
    text = given["input"]["text"]
    if text == "fail": answer = {"error": "it failed"}
    elif text == "list": answer = {"output": [uses, os.environ["TOKEN"], given["environment"]]}
    elif text == "end": sys.exit(3)
    else: answer = {"output": f"{text} {uses}"}
    print(json.dumps({"call": given["call"], **answer}), flush=True)`;
      const stays = tool('stays', `python3 -c '${program}'`, { text: { type: 'string' } });
      const definition = { custom_tools: [{ ...stays, reuse: { mode: 'process' as const } }] };
      const of = (kind: string): Partial<EngineRun> => ({
        kind: async () => kind,
        env: { TOKEN: 't', RUN: kind },
        ownEnv: { RUN: '' },
      });
      const asked = (...texts: string[]) => texts.map((text) => call('stays', { text }));
      expect(await textsOf(asked('"hi"'), of('a'), definition)).toEqual(['"hi" 1']);
      expect(await textsOf(asked('again'), of('a'), definition)).toEqual(['again 2']);
      expect(await textsOf(asked('list'), of('a'), definition)).toEqual(['[3,"t",{"RUN":"a"}]']);
      expect(await textsOf(asked('other'), of('b'), definition)).toEqual(['other 1']);
      expect(await textsOf(asked('fail'), of('b'), definition)).toEqual(['{"error":"it failed"}\n[exit code: 1]']);
      expect(await textsOf(asked('end'), of('b'), definition)).toEqual(['[exit code: 3]']);
      expect(await textsOf(asked('new'), of('b'), definition)).toEqual(['new 1']);
      expect(open).toEqual(new Set());
    });

    test('start without a shell if there is nothing in them for one', async () => {
      const [plain, shell] = await textsOf(
        [call('plain'), call('shell')],
        {},
        {
          custom_tools: [tool('plain', 'env'), tool('shell', 'env;')],
        },
      );
      const variables = (text = '') => text.split('\n').filter((line) => !line.startsWith('PLATFORM_TOOL_INPUT='));
      expect(variables(plain).sort()).toEqual(variables(shell).sort());
      // A shell orders its variables differently.
      expect(plain).toMatch(/\nPLATFORM_TOOL_INPUT=\S+\nSHLVL=0\n_=\S+\/env$/);
      expect(shell).not.toMatch(/\nPLATFORM_TOOL_INPUT=\S+\nSHLVL=\d\n_=\S+$/);
    });

    test('get parameters longer than a command line in the file', async () => {
      const more = tool('size', 'wc -c < /tmp/__tool_input.json');
      const [size] = await textsOf([call('size', { text: 'x'.repeat(500_000) })], {}, { custom_tools: [more] });
      expect(size).toBe(String(500_000 + '{"text":""}'.length));
    });

    test('fail with their exit status, and do not run with invalid parameters', async () => {
      const calls = [call('fails'), call('input', { n: 'one' })];
      expect(await textsOf(calls, {}, { custom_tools })).toEqual([
        'STDERR:\nno\n[exit code: 4]',
        expect.stringMatching(/^\[ERROR\] .*n must be integer/),
      ]);
    });

    test('find the helpers if the agent has dependencies', async () => {
      const manifest = { dependencies: [{ id: 'acme/fetch', version: 'v1' }] } as Definition['manifest'];
      const command = 'ls helpers; grep -c AgentClient /home/user/helpers/platform_call.py';
      const [text] = await textsOf([bash(command)], {}, { manifest });
      expect(text).toMatch(/platform_call\.js\nplatform_call\.py\n\d/);
    });
  });

  describe('tools that do not end', () => {
    const HANG = `trap '' TERM; echo begun; echo "it is very-secret" >&2; while :; do sleep 1; done`;

    test('are stopped at the deadline, and the log keeps what they printed', async () => {
      server.queue({ toolCalls: [bash(HANG), bash('sleep 60')], usage: { input: 7, output: 2 } });
      // Enough time for the first tool to begin on a busy machine.
      const { deps, run, events } = prepare({ deadline: Date.now() + 5000 });
      const result = await runLoop(deps, run);
      expect(result.error).toMatchObject({ code: 'TIMEOUT', message: expect.stringContaining('still running') });
      expect(result.stderr).toMatch(
        /turn 1: bash error, \d+ ms\n\[ERROR\] The command was stopped[\s\S]*begun\nSTDERR:\nit is \[secret TOKEN\]\n/,
      );
      expect(result.usage).toEqual({ input_tokens: 7, output_tokens: 2 });
      expect(events.at(-1)).toMatchObject({ type: 'error' });
    });

    test('end when the run is cancelled', async () => {
      server.queue({ toolCalls: [bash(HANG)] });
      const cancel = new AbortController();
      const { deps, run, events } = prepare({ signal: cancel.signal });
      const running = runLoop(deps, run);
      await expect.poll(() => events.map(({ type }) => type)).toContain('tool_call');
      cancel.abort(new PlatformError('RUN_CANCELLED', 'The run was cancelled.'));
      expect((await running).error).toMatchObject({ code: 'RUN_CANCELLED' });
      await expect.poll(() => open.size).toBe(0);
    });
  });

  test('tools that run out of memory end the run', async () => {
    server.queue({ toolCalls: [bash('head -c 2000000000 /dev/zero | tail | wc -c')] }, submit());
    const { deps, run } = prepare();
    const result = await runLoop({ ...deps, config: { ...deps.config, sandboxMemoryBytes: 64 * 1024 ** 2 } }, run);
    expect(result.error).toMatchObject({ code: 'SANDBOX_ERROR', extra: { category: 'code_error' } });
  });
});

test('a run ends at its deadline if the model does not answer', async () => {
  server.queue({ hang: true });
  const { deps, run } = prepare({ deadline: Date.now() + 300 });
  expect((await runLoop(deps, run)).error).toMatchObject({ code: 'TIMEOUT' });
  await expect.poll(() => server.open).toBe(0);
});

test('without a sandbox on this host, a loop fails only at its first tool', async () => {
  server.queue(submit());
  const { deps, run } = prepare();
  const none = { ...deps, sandbox: memoryDeps().sandbox };
  expect((await runLoop(none, run)).data).toEqual({ result: 'done' });
  server.queue({ toolCalls: [bash('id')] });
  expect((await runLoop(none, run)).error).toMatchObject({
    code: 'SANDBOX_ERROR',
    extra: { category: 'setup_error' },
  });
});
