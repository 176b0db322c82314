import { beforeAll, describe, expect, test } from 'vitest';
import { streamCall } from '#test/helpers/events.ts';
import { clientOf, needsModel, publishCode, request, type Target } from '#test/helpers/platform.ts';
import { ONLY_TOOLS, type ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';
import type { Languages } from '../languages.ts';

const TOKEN = 'tok-loops-91be';
const HELPER = 'python3 /home/user/helpers/platform_call.py';
const NUMBERS = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] };

const call = (name: string, input: Record<string, unknown> = {}) => ({ name, input });
const bash = (command: string) => call('bash', { command });
const submit = (result: unknown) => call('submit_result', { result });

/** Agents that are a loop of a model and its tools (`docs/interface/loops.md`). */
export function loopsSuite(target: () => Target, has: Languages): void {
  let user: TestUser;

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('loops');
    for (const [name, value] of Object.entries({ TOKEN, ANTHROPIC_API_KEY: 'sk-ant-loops-0123456789' })) {
      const json = { name, value };
      expectOk(await request(target(), 'PUT', `/workspaces/${user.workspaceId}/secrets`, { key: user.key, json }));
    }
  });

  /** Publishes an agent whose model answers with these turns. */
  async function publish(name: string, turns: readonly ScriptedTurn[], manifest: Record<string, unknown> = {}) {
    const prompt = `Do it. [[llm ${JSON.stringify(turns)}]]`;
    const json = {
      name,
      type: 'agent',
      description: `tests ${name}`,
      prompt,
      required_secrets: ['TOKEN'],
      ...manifest,
    };
    return request(target(), 'POST', '/agents', { key: user.key, json });
  }
  const run = (name: string, json: unknown = {}) =>
    request(target(), 'POST', `/loops/${name}/v1/run?verbose=true`, { key: user.key, json });

  describe.concurrent('loops', () => {
    test('a model may answer without any tool', async () => {
      await publish('at-once', [{ text: '{"a": 1}', usage: { input: 20, output: 4 } }]);
      const answer = await run('at-once', { q: 1 });
      expect(expectOk(answer)).toMatchObject({
        data: { a: 1 },
        metadata: { version: 'v1', usage: { input_tokens: 20, output_tokens: 4 }, stdout: '', stderr: '' },
      });
    });

    test('a model that used up its tokens thinking is asked again with more; the tokens of both count', async () => {
      await publish('thinker', [{ thinkingTokens: 40_000, text: '{"a": 1}', usage: { input: 10 } }]);
      const { data, metadata } = expectOk(await run('thinker'));
      expect(data).toEqual({ a: 1 });
      expect(metadata.usage).toEqual({ input_tokens: 20, output_tokens: 32_000 + 40_002 });
      await publish('dreamer', [{ thinkingTokens: 70_000 }]);
      const error = expectError(await run('dreamer'), 502, 'LLM_ERROR');
      expect(error).toMatchObject({ message: expect.stringContaining('used up its tokens'), is_retryable: false });
    });

    test('a result that does not match the schema goes back to the model', async () => {
      const output_schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
      const turns = [
        { toolCalls: [call('submit_result', { n: 'x' })] },
        { toolCalls: [call('submit_result', { n: 1 })] },
      ];
      await publish('corrects', turns, { output_schema });
      const body = expectOk(await run('corrects'));
      expect(body.data).toEqual({ n: 1 });
      expect(body.warnings).toBeUndefined();
      expect(body.metadata.stderr).toMatch(/^turn 1: submit_result error, \d+ ms\nturn 2: submit_result ok, \d+ ms\n$/);
    });

    test('turns are limited; the last ones are for the result', async () => {
      await publish('limited', [ONLY_TOOLS], { loop: { max_turns: 2 } });
      const error = expectError(await run('limited'), 422, 'UNPROCESSABLE', 'reached maximum turns (2)');
      expect(error).toMatchObject({ is_retryable: false, cause: 'max_turns' });
      await publish('late', [ONLY_TOOLS, ONLY_TOOLS, { toolCalls: [submit('late')] }], { loop: { max_turns: 2 } });
      expect(expectOk(await run('late')).data).toEqual({ result: 'late' });
    });

    test('a loop that goes in circles, or spends too much, is ended', async () => {
      await publish('circles', [{ toolCalls: [call('nothing')] }]);
      expect(expectError(await run('circles'), 422, 'UNPROCESSABLE', 'is stuck')).toMatchObject({ cause: 'stuck' });
      const turn = { ...ONLY_TOOLS, usage: { input: 500_000, output: 0 } };
      await publish('spends', [turn], { loop: { max_cost_usd: 3 } });
      const error = expectError(await run('spends'), 422, 'UNPROCESSABLE', 'reached its cost limit ($3)');
      expect(error).toMatchObject({ cause: 'max_cost_usd' });
      const unpriced = { default_models: { anthropic: 'claude-of-tomorrow' }, loop: { max_cost_usd: 3 } };
      expect(expectOk(await publish('unpriced', [{}], unpriced), 201).warnings).toEqual([
        'loop.max_cost_usd has no effect with claude-of-tomorrow: the price of that model is not known.',
      ]);
    });

    test('a model that does not answer is abandoned at the deadline', async () => {
      await publish('hangs', [{ hang: true }], { timeout_seconds: 3 });
      expectError(await run('hangs'), 504, 'TIMEOUT', 'still running at the deadline');
    });

    test('a turn that fails for a moment is asked again', async () => {
      await publish('stumbles', [
        { toolCalls: [call('nothing')] },
        { text: 'Half of it.', breakOff: 'end', times: 1 },
        { status: 529, retryAfter: 0, times: 1 },
        { toolCalls: [submit('done')] },
      ]);
      const streamed = await streamCall(target(), '/loops/stumbles/v1/run', { key: user.key, json: {} });
      const records = await Array.fromAsync(streamed.records);
      const retry = { type: 'retry', turn: 2, reason: 'LLM_ERROR', wait_ms: expect.any(Number), discard_text: true };
      expect(records.flatMap(({ data }) => (data.type === 'retry' ? [data] : []))).toEqual([
        { ...retry, attempt: 2 },
        { ...retry, attempt: 3 },
      ]);
      expect(records.at(-1)).toMatchObject({ event: 'result', data: { data: { result: 'done' } } });
    });

    test('settings come from the author and, where the author allows it, from the caller', async () => {
      const model_settings = {
        effort: 'high',
        temperature: 0.1,
        anthropic: { stop: ['THE END'] },
        callers_may_set: ['effort'],
      };
      const published = await publish('set', [{ thinking: 'Hm.', text: '{"a": 1}' }], { model_settings });
      expect(expectOk(published, 201).warnings).toEqual([
        'model_settings: claude-sonnet-5-5 does not support temperature: it is omitted.',
      ]);
      const answer = await run('set', { llm_credentials: { settings: { effort: 'low' } } });
      expect(expectOk(answer).data).toEqual({ a: 1 });
      const path = `/workspaces/${user.workspaceId}/traces/${answer.headers.get('x-run-id')}/events`;
      const { events } = expectOk(await request(target(), 'GET', path, { key: user.key }));
      expect(events[1].payload).toEqual({
        warnings: ['claude-sonnet-5-5 does not support temperature: it is omitted.'],
      });
      const { body } = target().llm.requests.findLast(({ body }) => JSON.stringify(body).includes('THE END'))!;
      expect(body).toMatchObject({ output_config: { effort: 'low' }, stop_sequences: ['THE END'] });
      const refused = await run('set', { llm_credentials: { settings: { seed: 1 } } });
      expectError(refused, 400, 'INVALID_INPUT', 'its author allows only effort');
      const wrong = await run('set', { llm_credentials: { settings: { effort: 'most' } } });
      expectError(wrong, 400, 'INVALID_INPUT', '"llm_credentials.settings.effort" must be one of none, low');
      const unknown = await run('set', { llm_credentials: { settings: { efort: 'low' } } });
      expectError(unknown, 400, 'INVALID_INPUT', '"llm_credentials.settings" has no setting "efort"');
    });

    test('what the model thinks is shown to a client that watches', async () => {
      await publish('ponders', [{ thinking: `Is it ${TOKEN}?`, text: '{"a": 1}' }]);
      const streamed = await streamCall(target(), '/loops/ponders/v1/run', { key: user.key, json: {} });
      const records = await Array.fromAsync(streamed.records);
      const thoughts = records.flatMap(({ data }) => (data.type === 'reasoning_delta' ? data.text : [])).join('');
      expect(thoughts).toBe('Is it [secret TOKEN]?');
      expect(records.at(-1)).toMatchObject({ event: 'result', data: { data: { a: 1 } } });
    });

    test('what was read before is read from the cache: answer, run, trace and usage say so', async () => {
      const turns = [
        { toolCalls: [call('nothing')] },
        { toolCalls: [call('nothing')] },
        { toolCalls: [submit('done')] },
      ];
      const prompt = `${'x'.repeat(8000)} [[llm ${JSON.stringify(turns)}]]`;
      await publish('caches', turns, { prompt });
      const answer = await run('caches');
      const { usage } = expectOk(answer).metadata;
      const { cache_read_tokens: read, cache_write_tokens: write, input_tokens: input } = usage;
      expect(read).toBeGreaterThan(4000);
      expect(write).toBeGreaterThan(2000);
      expect(read + write).toBeLessThanOrEqual(input);
      const runId = answer.headers.get('x-run-id');
      const get = async (path: string) => expectOk(await request(target(), 'GET', path, { key: user.key }));
      const record = await get(`/workspaces/${user.workspaceId}/runs/${runId}`);
      expect(record).toMatchObject({ input_tokens: input, cache_read_tokens: read, cache_write_tokens: write });
      // Claude Sonnet 5.5, in US dollars per million tokens.
      const rest = input - read - write;
      expect(record.cost_usd).toBeCloseTo((rest * 2 + read * 0.1 + write * 2.5 + usage.output_tokens * 10) / 1e6, 9);
      const { events } = await get(`/workspaces/${user.workspaceId}/traces/${runId}/events`);
      const asked = events.filter((event: { event_type: string }) => event.event_type === 'llm_call_succeeded');
      const sum = (name: string) =>
        asked.reduce((all: number, event: Record<string, number>) => all + (event[name] ?? 0), 0);
      expect([sum('cache_read_tokens'), sum('cache_write_tokens')]).toEqual([read, write]);
      expect((await get('/usage')).cache_read_tokens).toBeGreaterThanOrEqual(read);
      expect((await get('/usage')).cache_write_tokens).toBeGreaterThanOrEqual(write);
    });

    test('what cannot succeed is not to be repeated', async () => {
      // Prompt agents need no sandbox, and both engines call models in the same way.
      await publish('overflows', [{ refusal: 'overflow' }], { type: 'prompt' });
      expect(expectError(await run('overflows'), 422, 'UNPROCESSABLE', 'longer than').is_retryable).toBe(false);
      await publish('locked-out', [{ status: 401 }], { type: 'prompt' });
      expect(expectError(await run('locked-out'), 400, 'LLM_KEY_REQUIRED').is_retryable).toBe(false);
    });

    test('a failing provider and a rate limit are reported', async () => {
      await publish('fails', [{ status: 500 }]);
      expectError(await run('fails'), 502, 'LLM_ERROR');
      await publish('busy', [{ status: 429, retryAfter: 27 }]);
      expect(expectError(await run('busy'), 429, 'LLM_RATE_LIMITED').suggested_wait_time).toBe(27);
    });

    test('a loop without a key of its provider is refused', async () => {
      const { key } = await target().addUser('loops-keyless');
      const json = {
        name: 'keyless',
        type: 'agent',
        description: 'x',
        prompt: 'x',
        required_secrets: [],
        is_public: true,
      };
      const headers = { 'x-platform-bypass': 'true' };
      expectOk(await request(target(), 'POST', '/agents', { key, json, headers }), 201);
      const path = '/loops-keyless/keyless/v1/run';
      expectError(
        await request(target(), 'POST', path, { key, json: {} }),
        400,
        'LLM_KEY_REQUIRED',
        'ANTHROPIC_API_KEY',
      );
    });

    test('a tool whose values would be read as shell is refused', async () => {
      const custom_tools = [
        {
          name: 'find',
          description: 'x',
          command: "bash -c 'grep {{pattern}} notes'",
          input_schema: { type: 'object', properties: { pattern: { type: 'string' } } },
        },
      ];
      const answer = await publish('unsafe', [], { custom_tools });
      expectError(answer, 400, 'INVALID_INPUT', 'custom_tools[0].command: has {{pattern}} in the program text of bash');
    });
  });

  const hasSandbox = has.python || has.node;
  describe.skipIf(!hasSandbox).concurrent('tools of loops (skipped without a sandbox on this host)', () => {
    test('share one sandbox, and each call is an event', async () => {
      const turns = [
        {
          text: `The token is ${TOKEN}.`,
          toolCalls: [bash('cat /tmp/uploads/*; echo $TOKEN $LLM_MODEL > token')],
        },
        {
          toolCalls: [
            call('shout', { text: `it's "$(id)"` }),
            call('read_file', { path: 'token' }),
            call('list_files'),
          ],
        },
        { echo: true, toolCalls: [submit(`seen ${TOKEN}`)] },
      ];
      const custom_tools = [
        {
          name: 'shout',
          description: 'x',
          command: `echo '{{text}}' {{text}} | tr a-z A-Z; cat /tmp/__tool_input.json`,
          input_schema: { type: 'object', properties: { text: { type: 'string' } } },
        },
      ];
      await publish('works', turns, { custom_tools, default_models: { anthropic: 'claude-haiku-4-5' } });
      const call_ = await streamCall(target(), '/loops/works/v1/run?verbose=true', { key: user.key, json: {} });
      const records = await Array.fromAsync(call_.records);
      const progress = records.filter(({ event }) => event === 'progress').map(({ data }) => data);
      const text = progress.flatMap((each) => (each.type === 'text_delta' ? each.text : [])).join('');
      expect(text).toContain('The token is [secret TOKEN].');
      expect(text).toContain(`IT'S "$(ID)" IT'S "$(ID)"\n{"text":"it's \\"$(id)\\""}`);
      expect(text).toContain('claude-haiku-4-5');
      const types = progress.filter(({ type }) => type !== 'text_delta' && type !== 'heartbeat');
      expect(types.map(({ type, tool = '' }) => `${type} ${tool}`.trim())).toEqual([
        'turn_start',
        'sandbox_start',
        'tool_call bash',
        'tool_result bash',
        'turn_start',
        'tool_call shout',
        'tool_call read_file',
        'tool_call list_files',
        ...types.slice(8, 11).map(({ tool }) => `tool_result ${tool}`),
        'turn_start',
        'tool_call submit_result',
        'tool_result submit_result',
        'done',
      ]);
      expect(records.at(-1)).toMatchObject({ event: 'result', data: { data: { result: 'seen [secret TOKEN]' } } });
      expect(call_.text()).not.toContain(TOKEN);
    });

    test('find the files of the call', async () => {
      await publish('files', [{ toolCalls: [bash('cat /tmp/uploads/*')] }, { echo: true }]);
      const body = new FormData();
      body.append('files[]', new Blob(['from the file']), 'a.txt');
      const answer = await request(target(), 'POST', '/loops/files/v1/run', { key: user.key, body });
      expect(expectOk(answer).data).toEqual({ result: 'from the file' });
    });

    test('that hang are stopped at the deadline', async () => {
      const command = `trap '' TERM; echo begun; while :; do sleep 1; done`;
      await publish('hanging-tool', [{ toolCalls: [bash(command)] }], { timeout_seconds: 10 });
      const answer = await run('hanging-tool');
      expectError(answer, 504, 'TIMEOUT');
      const path = `/workspaces/${user.workspaceId}/runs/${answer.headers.get('x-run-id')}`;
      const { stderr } = expectOk(await request(target(), 'GET', `${path}/logs`, { key: user.key }));
      expect(stderr).toMatch(/^turn 1: bash error, \d+ ms\n\[ERROR\] The command was stopped[\s\S]*begun/);
    });
  });

  describe.skipIf(!has.python)('loops that call agents (skipped without Python in the sandbox)', () => {
    const orchestrates = (names: string[], mode = 'strict') => ({
      custom_tools: names.map((name) => ({
        name: `ask_${name.replace('-', '_')}`,
        description: 'x',
        command: `${HELPER} loops/${name}@v1`,
        input_schema: { type: 'object' },
      })),
      manifest: {
        manifest_version: 1,
        dependencies: names.map((name) => ({ id: `loops/${name}`, version: 'v1' })),
        max_hops: 2,
        timeout_ms: 60_000,
        orchestration_mode: mode,
      },
    });

    beforeAll(async () => {
      const main = `import json, sys
numbers = json.load(sys.stdin)
if numbers["a"] < 0:
    print(json.dumps({"error": "no negative numbers"}))
    sys.exit(1)
print(json.dumps({"sum": numbers["a"] + numbers["b"]}))`;
      await publishCode(clientOf(target(), user.key), 'loop-add', { 'main.py': main }, { input_schema: NUMBERS });
      expectOk(await publish('loop-child', [{ toolCalls: [bash('id')] }, { echo: true }]), 201);
    });

    test('strict mode: no bash, and no result before a dependency was called', async () => {
      const add = (a: number, b: number) => call('ask_loop_add', { a, b });
      const turns = [
        { toolCalls: [bash('id'), submit('early')] },
        { toolCalls: [add(-1, 0)] },
        { toolCalls: [submit('early')] },
        { toolCalls: [add(1, 2), add(3, 4)] },
        { echo: true, toolCalls: [submit('done')] },
      ];
      expectOk(await publish('strict', turns, orchestrates(['loop-add'])), 201);
      expect(expectOk(await run('strict')).data).toEqual({ result: 'done' });
      const { text } = target().llm.requests.findLast((asked) => asked.text.includes('STRICT_MODE_BASH_DISABLED'))!;
      expect(text.match(/\[ERROR\] STRICT_MODE_DEPENDENCY_REQUIRED/g)).toHaveLength(2);
      expect(text).toContain('{"error": "SANDBOX_ERROR: no negative numbers"}\n[exit code: 1]');
      expect(text).toMatch(/\{"sum": 3\}[\s\S]*\{"sum": 7\}/);
    });

    test('flexible mode: bash calls agents, too; a sub-agent of a strict loop has no bash', async () => {
      const command = `echo '{"a": 5, "b": 6}' > in.json; PLATFORM_TOOL_INPUT=in.json ${HELPER} loops/loop-add@v1`;
      const flexible = orchestrates(['loop-add'], 'flexible');
      expectOk(await publish('flexible', [{ toolCalls: [bash(command)] }, { echo: true }], flexible), 201);
      expect(expectOk(await run('flexible')).data).toEqual({ sum: 11 });

      const turns = [{ toolCalls: [call('ask_loop_child')] }, { echo: true, toolCalls: [submit('ok')] }];
      expectOk(await publish('parent', turns, orchestrates(['loop-child'])), 201);
      expect(expectOk(await run('parent')).data).toEqual({ result: 'ok' });
      const { text } = target().llm.requests.findLast((asked) => asked.text.includes('ask_loop_child'))!;
      expect(text).toContain('STRICT_MODE_BASH_DISABLED');
      expect(expectOk(await run('loop-child')).data.result).toMatch(/^uid=/);
    });
  });
}
