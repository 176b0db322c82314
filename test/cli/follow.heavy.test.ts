import { afterAll, beforeAll, expect, test, vi } from 'vitest';
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
});
afterAll(() => target?.close());

const platform = (line: string, settings?: Settings) => commandLine(line.split(' '), signedInAt(target, settings));
async function begin(json: unknown): Promise<string> {
  const headers = { prefer: 'respond-async' };
  return (await request(target, 'POST', '/main/talk/v1/run', { key: target.key, json, headers })).body.run_id;
}

/** Cuts each event stream after its first event; after `refuseAfter` streams, the key is refused. */
function cutting({ refuseAfter = Number.POSITIVE_INFINITY } = {}) {
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
        if (!/^id: .*\n.*\n.*\n\n/m.test(text)) return;
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
