import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import { routes } from '#core/api/routes.ts';
import { clientOf, publishCode, startLocalTarget } from '#test/helpers/platform.ts';
import { type Job, languages } from './languages.ts';

/** Maximum body, as on AWS: larger content must be uploaded first. */
const target = await startLocalTarget({ PLATFORM_MAX_DIRECT_BODY_MB: '2.1' });
const LARGE = 'ü"'.repeat(1_500_000);
afterAll(() => target.close());
const client = clientOf(target);
const fileText = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');

const ADD = `let text = ''; process.stdin.on('data', (part) => { text += part; }).on('end', () => {
  const { a, b, files } = JSON.parse(text);
  if (a === undefined && files === undefined) { console.log('{"error":"no numbers"}'); process.exit(1); }
  console.error('adding');
  setTimeout(() => console.log(JSON.stringify(files ? { names: files.map((f) => f.original_name) } : { sum: a + b })), 50);
});`;
await publishCode(client, 'add', { 'main.js': ADD });
const WAIT = `setTimeout(() => console.log('{}'), 60_000)`;
await publishCode(client, 'wait', { 'main.js': WAIT });

/** Environment of an agent that may call `acme/add@v1`. */
const orchestrates = (command: string) => ({
  runtime: { command },
  manifest: {
    manifest_version: 1,
    dependencies: [{ id: 'acme/add', version: 'v1' }],
    max_hops: 2,
    timeout_ms: 60_000,
  },
});

/** Each adds three pairs concurrently, one of them invalid, and reports the results. */
const PROGRAMS = {
  JavaScript: {
    files: {
      'main.mjs': `import { AgentClient, CallChainCycleError } from 'agent-platform-sdk';
const client = new AgentClient();
const inputs = [{ a: 1, b: 2 }, {}, { a: 3, b: 4, note: 'x'.repeat(3_000_000) }];
const results = await Promise.allSettled(inputs.map((input) => client.call('acme/add@v1', input)));
const own = await client.call(process.env.PLATFORM_CALL_CHAIN, {}).catch((error) => error.constructor.name);
const other = await client.call('acme/wait@v1').catch((error) => error.code);
console.log(JSON.stringify([...results.map(({ value, reason }) => value?.sum ?? reason.code), own, other]));`,
      'platform_call.js': fileText('../../sdk/helpers/platform_call.js'),
    },
    command: 'node main.mjs',
    helper: 'node platform_call.js',
  },
  Python: {
    files: {
      'main.py': `import asyncio, json, os
from agent_platform import AgentClient, CallChainCycleError, DependencyCallError

async def main():
    client = AgentClient()
    inputs = [{"a": 1, "b": 2}, {}, {"a": 3, "b": 4, "note": "x" * 3_000_000}]
    results = await asyncio.gather(*(client.call("acme/add@v1", each) for each in inputs), return_exceptions=True)
    said = [result["sum"] if isinstance(result, dict) else result.code for result in results]
    for ref in (os.environ["PLATFORM_CALL_CHAIN"], "acme/wait@v1"):
        try:
            await client.call(ref)
        except CallChainCycleError as error:
            said.append(type(error).__name__)
        except DependencyCallError as error:
            said.append(error.code)
    print(json.dumps(said))

asyncio.run(main())`,
      'platform_call.py': fileText('../../sdk/helpers/platform_call.py'),
    },
    command: 'python3 main.py',
    helper: 'python3 platform_call.py',
  },
} as const;

describe.each(languages())('the SDK for $name, on a running platform', ({ name, run }) => {
  const env = { PLATFORM_API_KEY: target.key, PLATFORM_API_URL: target.url };
  const platform = (method: string, args: unknown[], options: Job['options'] = {}) =>
    run({ module: 'platform', method, args, options }, env);
  const { files, command, helper } = PROGRAMS[name as keyof typeof PROGRAMS];

  test('calls agents from within a sandbox, some at once, and tells how they fail', async () => {
    const agent = `orchestrate-${name.toLowerCase()}`;
    await publishCode(client, agent, files, orchestrates(command));
    const { value, error } = await platform('call', [`acme/${agent}`, {}]);
    expect(error).toBeUndefined();
    expect(value.data).toEqual([3, 'SANDBOX_ERROR', 7, 'CallChainCycleError', 'DEPENDENCY_NOT_ALLOWED']);
  });

  test('the helper of tools calls a dependency, and says why it could not', async () => {
    const agent = `helper-${name.toLowerCase()}`;
    const ask = `cat > /tmp/input.json; PLATFORM_TOOL_INPUT=/tmp/input.json ${helper} acme/add@v1; echo "$?" >&2`;
    await publishCode(client, agent, files, orchestrates(ask));
    const asked = async (input: object) =>
      (await platform('call', [`acme/${agent}@v1`, input], { headers: { 'X-Platform-Max-Hops': '3' } })).value;
    expect((await asked({ a: 1, b: 1 })).data).toEqual({ sum: 2 });
    expect((await asked({})).data).toEqual({ error: 'SANDBOX_ERROR: no numbers' });
  });

  test('calls from outside: data, metadata and the run', async () => {
    const { value } = await platform('call', ['acme/add', { a: 1, b: 2 }], { endpoint: 'sum' });
    expect(value).toMatchObject({ data: { sum: 3 }, warnings: [], metadata: { version: 'v1' } });
    expect(value.runId).toMatch(/^[0-9a-f]{8}-/);
  });

  test('uploads files, also large ones', async () => {
    const uploads = [{ name: 'résumé 1.txt', content: 'text' }, new URL(import.meta.url).pathname];
    const { value } = await platform('call', ['acme/add@v1', { note: 1 }], { files: uploads });
    expect(value.data.names).toEqual(['résumé 1.txt', 'platform.test.ts']);

    const large = [...uploads, { name: 'große.csv', content: LARGE }];
    const answer = await platform('call', ['acme/add@v1', { note: 1 }], { files: large });
    expect(answer.error).toBeUndefined();
    expect(answer.value.data.names).toEqual(['résumé 1.txt', 'platform.test.ts', 'große.csv']);
  });

  test('sends large inputs, and says when they are too large', async () => {
    const { value, error } = await platform('call', ['acme/add@v1', { a: 1, b: 2, note: LARGE }]);
    expect(error).toBeUndefined();
    expect(value.data).toEqual({ sum: 3 });
    const streamed = await platform('stream', ['acme/add@v1', { a: 2, b: 2, note: LARGE }]);
    expect(streamed.value.at(-1)).toMatchObject({ type: 'result', data: { sum: 4 } });

    const tooLarge = [{ name: 'x', content: 'x'.repeat(26 * 1024 ** 2) }];
    const refused = await platform('call', ['acme/add@v1', {}], { files: tooLarge });
    expect(refused.error).toMatchObject({ type: 'InvalidRequestError', code: 'DOCUMENT_TOO_LARGE', status: 413 });
  });

  test('reports a document that is too large, although the server stops reading it', async () => {
    const args = ['notes', 'large', { text: 'x'.repeat(12_000_000) }];
    const { error } = await run({ module: 'storage', method: 'set', args }, env);
    expect(error).toMatchObject({ type: 'StorageQuotaError', code: 'DOCUMENT_TOO_LARGE', status: 413 });
  });

  test('tells what was refused', async () => {
    expect((await platform('call', ['acme/nobody', {}])).error).toMatchObject({
      type: 'NotFoundError',
      code: 'NOT_FOUND',
      status: 404,
      isRetryable: false,
      requestId: expect.stringMatching(/^req_/),
    });
    expect((await platform('call', ['acme/add', {}])).error).toMatchObject({ code: 'SANDBOX_ERROR', status: 500 });
    const stranger = { ...env, PLATFORM_API_KEY: 'sk_live_wrong' };
    const { error } = await run({ module: 'platform', method: 'call', args: ['acme/add', {}] }, stranger);
    expect(error).toMatchObject({ code: 'UNAUTHORIZED', status: 401 });
  });

  test('streams what happens, and the answer', async () => {
    const { value } = await platform('stream', ['acme/add@v1', { a: 1, b: 2 }]);
    expect(value.at(-1)).toMatchObject({ type: 'result', data: { sum: 3 } });
    expect(value).toContainEqual({ type: 'stderr', text: 'adding\n' });
    expect((await platform('stream', ['acme/add@v1', {}])).error).toMatchObject({ code: 'SANDBOX_ERROR' });
  });

  const hasRuns = routes.some(({ path }: { path: string }) => path === '/workspaces/{workspace_id}/runs/{run_id}');
  test.skipIf(!hasRuns)('starts calls, waits for them and cancels them', async () => {
    expect((await platform('startAndWait', ['acme/add@v1', { a: 1, b: 2 }])).value.data).toEqual({ sum: 3 });
    expect((await platform('startAndWait', ['acme/add@v1', {}])).error).toMatchObject({ message: 'no numbers' });
    expect((await platform('startAndCancel', ['acme/wait@v1', {}])).error).toBeUndefined();
  });

  test('replays a run with another input, and creates, lists and revokes links to it', async () => {
    const { runId } = (await platform('call', ['acme/add@v1', { a: 1, b: 2 }])).value;
    const { id } = (await platform('replay', [runId], { input: { a: 2, b: 2 }, agentVersion: 'v1' })).value;
    expect((await platform('wait', [id])).value.data).toEqual({ sum: 4 });
    const branch = { fromTurn: 1, message: 'Again.', toolResults: [{ turn: 1, call: 1, text: 'x' }], model: 'any' };
    const { error } = await platform('replay', [runId], branch);
    expect(error?.message).toContain('body.tool_results.0.turn: must be before from_turn (1)');
    const { value: link } = await platform('share', [runId], { expiresInDays: 1 });
    expect(link.url).toContain('/dashboard/share/');
    const ids = async () => (await platform('shares', [runId])).value.map((each: { id: string }) => each.id);
    expect(await ids()).toEqual([link.id]);
    expect((await platform('revokeShare', [runId, link.id])).error).toBeUndefined();
    expect(await ids()).toEqual([]);
  });

  test('scores a run with a number or a label', async () => {
    const { runId } = (await platform('call', ['acme/add@v1', { a: 1, b: 2 }])).value;
    const comment = 'Just right.';
    expect((await platform('score', [runId, 'helpful', 0.5], { comment })).value).toMatchObject({
      value: 0.5,
      comment,
    });
    const label = (await platform('score', [runId, 'tone', 'too short'], { source: 'judge' })).value;
    expect(label).toMatchObject({ label: 'too short', source: 'judge' });
    expect((await platform('scores', [runId])).value).toMatchObject([{ name: 'helpful' }, label]);
    expect((await platform('score', [runId, 'Helpful', 1])).error?.message).toContain('body.name');
  });

  test('watches a run by its id, lists rows over pages, and names an upload twice', async () => {
    const { value } = await platform('call', ['acme/add@v1', { a: 1, b: 2 }]);
    const events = (await platform('watch', [value.runId])).value;
    expect(events.at(-1)).toMatchObject({ type: 'end', data: { status: 'completed' } });
    const runs = (await platform('runs', [{ agent_name: 'add', limit: 1 }])).value;
    expect(runs.length).toBeGreaterThan(1);
    expect(new Set(runs.map(({ id }: { id: string }) => id)).size).toBe(runs.length);
    const agents = (await platform('list', ['/agents', { latest: true, limit: 1 }])).value;
    expect(agents.map((each: { name: string }) => each.name)).toEqual(expect.arrayContaining(['add', 'wait']));
    const named = await platform('uploadTwice', [{ name: 'a.txt', content: 'text' }, 'acme/add@v1']);
    expect(named.value).toEqual([{ names: ['a.txt'] }, { names: ['a.txt'] }]);
  });
});
