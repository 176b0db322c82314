import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { resumeRuns } from '#core/execution/durable/resume.ts';
import { clientOf, type LocalTarget, publishCode, request, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, type Settings, signedInAt } from './command-line.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

const TALK = `read -r input
for line in 1 2 3 4 5 6; do echo "line $line" >&2; sleep 0.4; done
case "$input" in *fail*) exit 3 ;; esac
echo '{"ok": true}'
`;
const LINES = [1, 2, 3, 4, 5, 6].map((line) => `line ${line}\n`).join('');

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  const client = clientOf(target);
  await publishCode(client, 'talk', { 'talk.sh': TALK }, { runtime: { command: 'bash talk.sh' } });
  const waits = { runtime: { command: 'bash talk.sh' }, debounce: { seconds: 3600 } };
  await publishCode(client, 'waits', { 'talk.sh': TALK }, waits);
});
afterAll(() => target?.close());

const platform = (line: string, settings?: Settings) => commandLine(line.split(' '), signedInAt(target, settings));
async function begin(json: unknown): Promise<string> {
  const headers = { prefer: 'respond-async' };
  return (await request(target, 'POST', '/main/talk/v1/run', { key: target.key, json, headers })).body.run_id;
}

/**
 * Cuts each event stream after its first event, with `isEach` also streams of calls; after `refuseAfter` streams, the key
 * is refused.
 */
function cutting({ refuseAfter = Number.POSITIVE_INFINITY, isEach = false } = {}) {
  let streams = 0;
  const cut: typeof fetch = async (input, init) => {
    const isStream = new Headers(init?.headers).get('accept') === 'text/event-stream';
    if (isStream && ++streams > refuseAfter) {
      return Response.json({ error: { code: 'UNAUTHORIZED', message: 'The key was revoked.' } }, { status: 401 });
    }
    const response = await fetch(input, init);
    if (!isStream || !response.ok) return response;
    const source = response.body!.getReader();
    let text = '';
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        const { done, value } = await source.read();
        if (done) return controller.close();
        text += new TextDecoder().decode(value);
        controller.enqueue(value);
        const isEvent = isEach ? /^event: .*\n.*line 2/m : /^id: .*\n.*\n.*\n\n/m;
        if (!isEvent.test(text) || /^event: end$/m.test(text)) return;
        await source.cancel();
        controller.error(new TypeError('terminated'));
      },
    });
    return new Response(body, { headers: response.headers });
  };
  return { fetch: cut, streams: () => streams };
}

test('logs -f shows all that a run prints, though its connection is cut again and again', async (context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  const cuts = cutting();
  const ended = await platform(`logs ${await begin({})} -f`, { columns: 100, fetch: cuts.fetch });
  expect(ended).toMatchObject({ status: 0, stdout: `${LINES}{"ok": true}\n` });
  expect(ended.stderr).toContain('completed after');
  expect(cuts.streams()).toBeGreaterThan(1);
});

test('logs -f of a run that fails says why, and its status is 1; trace draws it', async (context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  const runId = await begin({ fail: 1 });
  const ended = await platform(`logs ${runId} -f`);
  expect(ended.status).toBe(1);
  const events = ended.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(events.at(-1)).toMatchObject({ type: 'end', data: { status: 'failed' } });
  const drawn = await platform(`trace ${runId} --watch`, { columns: 120 });
  expect(drawn.stderr).toContain('sandbox_started');
  const steps = drawn.stdout.split('\n').map((line) => line.trimEnd().split(/ {2,}/).slice(0, 2).join('>'));
  expect(steps.slice(1, 4).map((step) => step.replace(/█.*/, '').replace(/>$/, ''))).toEqual([
    'run',
    '>sandbox',
    '>setup_step',
  ]);
});

test('runs --watch tells each run once, though its connection is cut', async (context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  const cuts = cutting({ refuseAfter: 8 });
  const watching = platform('runs --watch --agent-name talk', { fetch: cuts.fetch });
  await expect.poll(cuts.streams).toBeGreaterThan(0);
  const runId = await begin({});
  const ended = await watching;
  expect(ended.status).toBe(2);
  const events = ended.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ data }) => data.run_id === runId);
  expect(events.map(({ type }) => type)).toEqual(['run.started', 'run.ended']);
});

test('run shows each line once and the answer, though its streams are cut again and again', async (context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  const cuts = cutting({ isEach: true });
  const ended = await platform('run talk', { fetch: cuts.fetch });
  expect(ended).toMatchObject({ status: 0, json: { data: { ok: true }, metadata: { version: 'v1' } } });
  expect(linesOf(ended.stderr)).toEqual(LINES.trim().split('\n'));
  expect(ended.stderr).toContain('Connection lost. Reconnecting.');
  expect(cuts.streams()).toBeGreaterThan(2);
});

test('run follows a call that is answered before its end, and a stream that continues elsewhere', async (context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  for (const kind of ['accepted', 'continues'] as const) {
    const ended = await platform('run talk', { fetch: goingOn(kind) });
    expect(ended).toMatchObject({ status: 0, json: { data: { ok: true }, metadata: { version: 'v1' } } });
    expect(linesOf(ended.stderr)).toEqual(LINES.trim().split('\n'));
    const failed = await commandLine(
      ['run', 'talk', '--data', '{"fail": 1}'],
      signedInAt(target, { fetch: goingOn(kind) }),
    );
    const direct = await commandLine(['run', 'talk', '--data', '{"fail": 1}'], signedInAt(target));
    expect(failed.status).toBe(direct.status);
    expect(JSON.parse(failed.stderr.trim().split('\n').at(-1)!).error).toMatchObject({ code: 'SANDBOX_ERROR' });
  }
});

test('run --detach prints the run and how to follow it, and logs -f survives a restart of the platform', async (context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  const detached = await platform('run talk --detach');
  expect(detached).toMatchObject({ status: 0, json: { run_id: expect.any(String), status: 'running' } });
  const later = await platform('run talk --delay 10m');
  expect(later).toMatchObject({ status: 0, json: { status: 'queued', run_at: expect.any(String) } });
  expect(later.stderr).toContain('It begins at 20');
  const held = await platform('run waits --detach --priority 7');
  expect(held).toMatchObject({ status: 0, json: { status: 'queued', held_by: { rule: 'debounce', priority: 7 } } });
  expect(held.stderr).toContain('It waits for its turn (debounce 3600 s).');
  expect((await platform('runs --agent waits', { columns: 200 })).stdout).toContain(
    'waits for its turn (debounce 3600 s)',
  );
  expect((await platform('run waits --priority 7')).stderr).toContain('--priority needs --detach.');
  const asked = await platform('run talk --async', { columns: 100 });
  expect(asked.stdout).toMatch(/^[0-9a-f-]{36}\n$/);
  const short = asked.stdout.slice(0, 8);
  expect(asked.stderr).toContain(`platform logs ${short} -f`);
  expect(asked.stderr).toContain(`platform cancel ${short}`);

  let refusals = 0;
  const away: typeof fetch = async (input, init) => {
    const isStream = new Headers(init?.headers).get('accept') === 'text/event-stream';
    if (isStream && ++refusals <= 4) throw new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } });
    return fetch(input, init);
  };
  const ended = await platform(`logs ${short} -f`, { columns: 100, fetch: away });
  expect(ended).toMatchObject({ status: 0, stdout: `${LINES}{"ok": true}\n` });
  expect(ended.stderr.match(/Connection lost/g)).toHaveLength(1);
  expect(refusals).toBe(5);
});

test.for([
  [404, 'NOT_FOUND', 4],
  [401, 'UNAUTHORIZED', 2],
] as const)('logs -f ends once its stream is answered %i', async ([status, code, exitStatus], context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  const error = { code, message: 'No more.' };
  let streams = 0;
  const cuts = cutting();
  const refusing: typeof fetch = async (input, init) => {
    const isStream = new Headers(init?.headers).get('accept') === 'text/event-stream';
    return isStream && ++streams > 1 ? Response.json({ error }, { status }) : cuts.fetch(input, init);
  };
  const ended = await platform(`logs ${await begin({})} -f`, { fetch: refusing });
  expect(ended.status).toBe(exitStatus);
  expect(ended.stderr).toContain('No more.');
});

test('a terminal shows what a run does in a line of its own, which is gone at the end', async (context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  for (const line of ['run talk', `logs ${await begin({})} -f`]) {
    const { stderr } = await platform(line, { columns: 100 });
    expect(stderr).toMatch(/program, \d s, (\d min )?\d+ s left/);
    expect(stderr).not.toContain('\u001b');
    expect(stderr.slice(stderr.lastIndexOf(' left'))).toMatch(/^ left\r +\r/);
    expect((await platform(line)).stderr).not.toContain(' left');
  }
});

test('a durable loop is followed after its call, and the terminal shows its turns, tools and money', async (context) => {
  context.skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox on this host');
  const client = clientOf(target);
  const { id: workspace_id } = await client.getOrg({});
  const value = 'sk-ant-follow-0123456789';
  await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value } });
  const call = (name: string, input: object) => ({ toolCalls: [{ name, input }], usage: { input: 5000, output: 100 } });
  const turns = [
    call('bash', { command: 'sleep 1' }),
    call('bash', { command: 'sleep 4' }),
    call('submit_result', { result: 'done' }),
  ];
  const prompt = `Do it. [[llm ${JSON.stringify(turns)}]]`;
  const lasting = { durable: true, timeout_seconds: 2, required_secrets: [] };
  await client.createAgent({ body: { name: 'lasts', type: 'agent', description: 'x', prompt, ...lasting } });
  const ended = await platform('run lasts', { columns: 100 });
  expect(ended.status).toBe(0);
  expect(ended.stdout).toContain('"result": "done"');
  const started = ended.stderr.split(/[\r\n]+/).filter((line) => /^turn \d of \d+$/.test(line));
  expect(started.map((line) => line.slice(0, 6))).toEqual(['turn 1', 'turn 2', 'turn 3']);
  expect(ended.stderr).toMatch(/turn 2 of \d+, bash, \$0\.0\d+, \d s, .* left/);
});

test('a durable loop whose process is lost is followed, and trace and logs say that another one continued', async () => {
  const client = clientOf(target);
  const { id: workspace_id } = await client.getOrg({});
  await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-lost' } });
  const submit = { name: 'submit_result', input: { result: 'done' } };
  // The first process waits for its second answer, for as long as it lives. There is no tool `look`: no sandbox is needed.
  const turns = [{ toolCalls: [{ name: 'look', input: {} }] }, { hang: true, times: 1 }, { toolCalls: [submit] }];
  target.llm.script({ rules: [{ marker: 'Go on elsewhere.', turns }] });
  const lasting = { durable: true, timeout_seconds: 2, required_secrets: [], loop: { tools: [] } };
  await client.createAgent({
    body: { name: 'moves', type: 'agent', description: 'x', prompt: 'Go on elsewhere.', ...lasting },
  });
  const running = platform('run moves');
  const query = { agent_name: 'moves' };
  const runs = async () => (await client.listRuns({ params: { workspace_id }, query })).runs;
  await expect.poll(runs, { timeout: 10_000 }).toHaveLength(1);
  const params = { workspace_id, run_id: (await runs())[0]!.id };
  const seen = async () => JSON.stringify(await client.listRunEvents({ params }));
  await expect.poll(seen, { timeout: 10_000 }).toContain('"turn":2');
  await resumeRuns(target.deps, { all: true });

  const text = 'Continued by another process (attempt 2): host lost';
  const ended = await running;
  expect(ended.status, ended.stderr).toBe(0);
  expect(ended.stderr).toContain(text);
  expect((await platform('logs moves -f', { columns: 100 })).stderr).toContain(text);
  const traced = await platform('trace moves --watch', { columns: 100 });
  expect(traced.stderr).toContain(text);
  expect(traced.stdout).toMatch(/^[\d.]+ m?s {2}.*: Continued by another process \(attempt 2\): host lost$/m);
});

const linesOf = (stderr: string): string[] => stderr.split('\n').filter((line) => line.startsWith('line '));

/** Answers each streamed call as if its run outlasted the connection. */
function goingOn(kind: 'accepted' | 'continues'): typeof fetch {
  return async (input, init) => {
    const headers = new Headers(init?.headers);
    if (init?.method !== 'POST' || headers.get('accept') !== 'text/event-stream') return fetch(input, init);
    headers.set('prefer', 'respond-async');
    const accepted = await fetch(input, { ...init, headers });
    if (kind === 'accepted') return accepted;
    const { run_id, url } = (await accepted.json()) as Record<string, string>;
    const data = JSON.stringify({ run_id, url: `${url}/events`, after: 0 });
    const stream = `event: progress\ndata: {"type":"sandbox_start"}\n\nevent: continues\ndata: ${data}\n\n`;
    return new Response(stream, { headers: { 'content-type': 'text/event-stream', 'x-run-id': run_id! } });
  };
}
