import { afterAll, describe, expect, test, vi } from 'vitest';
import { clientOf, publishCode, startLocalTarget } from '#test/helpers/platform.ts';
import { startFront } from './front.ts';
import { clients, type Job } from './languages.ts';

/** Runs that go on after the answer to their call, on a real platform: the clients follow them by themselves. */
const target = await startLocalTarget();
afterAll(() => target.close());
const client = clientOf(target);

const TALK = `let text = ''; process.stdin.on('data', (part) => { text += part; }).on('end', async () => {
  const { lines = 0, fail } = JSON.parse(text);
  for (let line = 1; line <= lines; line++) {
    console.error('line ' + line);
    await new Promise((done) => setTimeout(done, 700));
  }
  if (fail) { console.log('{"error":"no luck"}'); process.exit(1); }
  console.log(JSON.stringify({ lines }));
});`;
await publishCode(client, 'talk', { 'main.js': TALK });

/** Calls `acme/talk@v1`, and is answered before its run has ended. */
const SUB_CALLS = {
  JavaScript: {
    'main.mjs': `import { AgentClient } from 'agent-platform-sdk';
const plain = globalThis.fetch;
globalThis.fetch = (url, options) => plain(url, { ...options, headers: { ...options.headers, Prefer: 'respond-async' } });
const client = new AgentClient();
const failed = await client.call('acme/talk@v1', { fail: true }).catch((error) => error);
const late = await client.call('acme/talk@v1', { lines: 9 }, { timeout: 1500 }).catch((error) => error);
console.log(JSON.stringify([
  await client.call('acme/talk@v1', { lines: 1 }),
  failed.constructor.name, failed.code, failed.message, failed.status,
  late.constructor.name,
]));`,
  },
  Python: {
    'main.py': `import json
from agent_platform import AgentClient, PlatformError, _context
plain = _context.to_headers
_context.to_headers = lambda context: {**plain(context), "Prefer": "respond-async"}
client = AgentClient()
def failure(*args, **options):
    try:
        client.call_sync(*args, **options)
    except PlatformError as error:
        return error
failed = failure("acme/talk@v1", {"fail": True})
late = failure("acme/talk@v1", {"lines": 9}, timeout=1.5)
data = client.call_sync("acme/talk@v1", {"lines": 1})
print(json.dumps([data, type(failed).__name__, failed.code, str(failed), failed.status, type(late).__name__]))`,
  },
};

/** Runs itself once more. */
const LATER = {
  JavaScript: {
    'main.mjs': `import { readFileSync } from 'node:fs';
import { AgentClient } from 'agent-platform-sdk';
const { count } = JSON.parse(readFileSync(0, 'utf8'));
const later = count > 1 ? null : await new AgentClient().later({ count: count + 1 }, { delaySeconds: 1 });
console.log(JSON.stringify({ later }));`,
  },
  Python: {
    'main.py': `import json, sys
from agent_platform import AgentClient
count = json.load(sys.stdin)["count"]
later = None if count > 1 else AgentClient().later_sync({"count": count + 1}, delay_seconds=1)
print(json.dumps({"later": later}))`,
  },
};

/** A durable loop whose calls are answered after two seconds, and which takes longer. */
const call = (name: string, input: object) => ({ toolCalls: [{ name, input }] });
const turns = [
  call('bash', { command: 'sleep 1' }),
  call('bash', { command: 'sleep 2' }),
  call('submit_result', { result: 'done' }),
];
await client.putSecret({
  params: { workspace_id: (await client.getOrg({})).id },
  body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-follow-0123456789' },
});
await client.createAgent({
  body: {
    name: 'lasts',
    type: 'agent',
    description: 'x',
    prompt: `Do it. [[llm ${JSON.stringify(turns)}]]`,
    required_secrets: [],
    durable: true,
    timeout_seconds: 2,
  },
});

describe.each(clients())('the client for $name follows a run', { concurrent: true }, ({ name, run }) => {
  const at =
    (url: string) =>
    (method: string, args: unknown[], options: Job['options'] = {}) =>
      run({ module: 'platform', method, args, options }, { PLATFORM_API_KEY: target.key, PLATFORM_API_URL: url });
  const platform = at(target.url);
  const headers = { Prefer: 'respond-async' };

  test('of a call that is answered before its end, and answers as if it had waited', async () => {
    const direct = (await platform('call', ['acme/talk', { lines: 1 }])).value;
    const { value, error } = await platform('call', ['acme/talk', { lines: 1 }], { headers });
    expect(error).toBeUndefined();
    const { execution_time_ms: _, ...metadata } = direct.metadata;
    expect(value).toEqual({
      ...direct,
      runId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      metadata: {
        ...metadata,
        request_id: `req_${value.runId.replaceAll('-', '')}`,
        processing_time_ms: expect.any(Number),
      },
    });
  });

  test('that fails, with the error of a call', async () => {
    const { error: direct } = await platform('call', ['acme/talk', { fail: true }]);
    const { error } = await platform('call', ['acme/talk', { fail: true }], { headers });
    for (const member of ['type', 'code', 'status', 'message', 'isRetryable', 'suggestedWaitTime'] as const) {
      expect(error![member], member).toEqual(direct![member]);
    }
    expect(error).toMatchObject({ type: 'RunFailedError', code: 'SANDBOX_ERROR', message: 'no luck' });
    expect(error!.runId).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('until the time of the call is over', async () => {
    const { error } = await platform('call', ['acme/talk', { lines: 9 }], { headers, timeout: 1.5 });
    expect(error).toMatchObject({ type: 'TimeoutExceededError', code: 'TIMEOUT', runId: expect.any(String) });
    expect((await platform('cancel', [error!.runId])).error).toBeUndefined();
  });

  test('of a durable agent, whose call and stream end before it', async () => {
    const { value, error } = await platform('call', ['acme/lasts', {}]);
    expect(error).toBeUndefined();
    expect(value).toMatchObject({ data: { result: 'done' }, metadata: { version: 'v1', usage: expect.any(Object) } });
    expect(value.metadata.processing_time_ms).toBeGreaterThan(2_900);
    const early = (await platform('request', ['POST', '/acme/lasts/v1/run'])).value;
    expect(early).toMatchObject({ status: 'running', url: expect.any(String) });
    const streamed = (await platform('stream', ['acme/lasts', {}])).value;
    expect(streamed.at(-1)).toMatchObject({ type: 'result', data: { result: 'done' } });
    const began = streamed.filter(({ type }: { type: string }) => type === 'turn_start');
    expect(began.map(({ turn }: { turn: number }) => turn)).toEqual([1, 2, 3]);
  });

  test('of a stream that goes on elsewhere, over lost and refused connections, without a gap', async ({
    onTestFinished,
  }) => {
    const front = await startFront(target.url);
    onTestFinished(() => front.close());
    const { value, error } = await at(front.url)('stream', ['acme/talk', { lines: 3 }]);
    expect(error).toBeUndefined();
    const printed = value
      .filter(({ type }: { type: string }) => type === 'stderr')
      .map(({ text }: { text: string }) => text);
    expect(printed.join('')).toBe('line 1\nline 2\nline 3\n');
    expect(value[0]).toEqual({ type: 'sandbox_start' });
    expect(value.at(-1)).toMatchObject({ type: 'result', data: { lines: 3 } });
    expect(value.filter(({ type }: { type: string }) => !PROGRESS.includes(type))).toEqual([]);
    expect(front.cursors.length).toBeGreaterThan(3);
    expect(front.cursors[0]).toBe('0');
    const failed = await at(front.url)('stream', ['acme/talk', { lines: 1, fail: true }]);
    expect(failed.error).toMatchObject({ type: 'RunFailedError', code: 'SANDBOX_ERROR', message: 'no luck' });
  });

  test('that begins later', async () => {
    const workspace_id = (await client.getOrg({})).id;
    const soon = new Date(Date.now() + 3_600_000).toISOString();
    for (const options of [{ delaySeconds: 3600 }, { runAt: soon }]) {
      const { value, error } = await platform('start', ['acme/talk', {}], options);
      expect(error).toBeUndefined();
      const run = await client.getRun({ params: { workspace_id, run_id: value.id } });
      expect(run).toMatchObject({ status: 'queued', started_at: null });
      expect(Math.abs(Date.parse(run.run_at!) - Date.parse(soon))).toBeLessThan(60_000);
      expect((await platform('cancel', [value.id])).error).toBeUndefined();
    }
    const { error } = await platform('start', ['acme/talk', {}], { runAt: '2035-01-01T00:00:00' });
    expect(error).toMatchObject({ code: 'INVALID_INPUT', status: 400 });
  });

  test('that waits for its turn, with a priority', async () => {
    const workspace_id = (await client.getOrg({})).id;
    const agent = `waits-${name.toLowerCase().replaceAll(' ', '-')}`;
    await publishCode(client, agent, { 'main.js': TALK }, { debounce: { seconds: 3600 } });
    const { value, error } = await platform('start', [`acme/${agent}`, {}], { priority: 7 });
    expect(error).toBeUndefined();
    const run = await client.getRun({ params: { workspace_id, run_id: value.id } });
    expect(run).toMatchObject({ status: 'queued', held_by: { rule: 'debounce', priority: 7 } });
    const { error: refused } = await platform('start', [`acme/${agent}`, {}], { priority: 11 });
    expect(refused).toMatchObject({ code: 'INVALID_INPUT', status: 400 });
  });

  // Asyncio makes no difference there.
  if (name === 'Python with asyncio') return;

  test('that asked for a later run of its agent', async () => {
    const agent = `again-${name.toLowerCase()}`;
    const command = name === 'Python' ? 'python3 main.py' : 'node main.mjs';
    await publishCode(client, agent, LATER[name as keyof typeof LATER], { runtime: { command } });
    const { value, error } = await platform('call', [`acme/${agent}`, { count: 1 }]);
    expect(error).toBeUndefined();
    const params = { workspace_id: (await client.getOrg({})).id, run_id: value.data.later };
    const later = () => client.getRun({ params });
    expect(await later()).toMatchObject({ trigger_source: 'agent', parent_run_id: null, input_data: { count: 2 } });
    await vi.waitFor(async () => expect(await later()).toMatchObject({ status: 'completed' }), { timeout: 20_000 });
    expect((await later()).output_data).toEqual({ later: null });
  });

  test('that a run started, from within a sandbox', async () => {
    const agent = `follows-${name.toLowerCase()}`;
    const files = SUB_CALLS[name as keyof typeof SUB_CALLS];
    const dependencies = [{ id: 'acme/talk', version: 'v1' }];
    const command = name === 'Python' ? 'python3 main.py' : 'node main.mjs';
    const manifest = { manifest_version: 1, max_hops: 1, timeout_ms: 60_000, dependencies };
    await publishCode(client, agent, files, { runtime: { command }, manifest });
    const { value, error } = await platform('call', [`acme/${agent}`, {}]);
    expect(error).toBeUndefined();
    expect(value.data).toEqual([
      { lines: 1 },
      'DependencyCallError',
      'SANDBOX_ERROR',
      'no luck',
      500,
      'TimeoutExceededError',
    ]);
  });
});

const PROGRESS = ['sandbox_start', 'setup_step', 'stdout', 'stderr', 'heartbeat', 'done', 'result'];
