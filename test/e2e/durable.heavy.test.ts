import { once } from 'node:events';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { writeBackup } from '#local/backup/backup.ts';
import { VAULT_KEY } from '#local/backup/format.ts';
import { restoreBackup } from '#local/backup/restore.ts';
import { clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { dataFolder, kill, startProcess, startWithGreeter } from '#test/helpers/platform-process.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { expectOk } from './expect.ts';
import { sandboxOf } from './interruptions.ts';

/** Durable loops on a real platform, whose process is stopped or killed while they work. */

const MARKER = 'write a long log';
const UNKNOWN = 'Whether it took effect is unknown';
const NEW_SANDBOX = 'continues in a new sandbox';

const bash = (command: string): ScriptedTurn => ({
  thinking: 'What next?',
  toolCalls: [{ name: 'bash', input: { command } }],
});

const submit: ScriptedTurn = { toolCalls: [{ name: 'submit_result', input: { result: 'written' } }] };

/** Appends a line to a file in each of `count` turns, and reads the file. */
const writing = (count: number, seconds: number): ScriptedTurn[] => [
  ...Array.from({ length: count }, () => bash(`echo "line $TURN" >> log.txt; sleep ${seconds}`)),
  bash('cat log.txt'),
  submit,
];

/**
 * Starts a platform with a durable loop, and calls it. `fallback` are turns of another provider, for when the first one
 * has no more turns: it is overloaded then.
 */
async function startLongLoop(
  turns: readonly ScriptedTurn[],
  { fallback }: { fallback?: readonly ScriptedTurn[] } = {},
) {
  const folder = dataFolder();
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const settings = { ...llm.settings, PLATFORM_DEFAULT_PLAN: 'enterprise' };
  const { platform, key, workspaceId } = await startWithGreeter(folder, settings);
  if (fallback === undefined) {
    llm.script({ rules: [{ marker: MARKER, turns }] });
  } else {
    llm.queue(...turns);
    const secret = { name: 'OPENAI_API_KEY', value: 'sk-fallback' };
    llm.script({ key: secret.value, turns: fallback, default: { status: 503 } });
    expectOk(await request(platform, 'PUT', `/workspaces/${workspaceId}/secrets`, { key, json: secret }), 200);
  }
  const agent = {
    name: 'long',
    type: 'prompt',
    description: 'x',
    prompt: `You ${MARKER}.`,
    required_secrets: [],
    supported_providers: ['anthropic', 'openai'],
    durable: { max_active_seconds: 3600 },
    loop: { max_turns: turns.length + 10 },
  };
  expectOk(await request(platform, 'POST', '/agents', { key, json: agent }), 201);
  const headers = { prefer: 'respond-async' };
  const called = await request(platform, 'POST', '/main/long/latest/run', { key, json: {}, headers });
  const { run_id } = expectOk(called, 202);
  return {
    llm,
    platform,
    folder,
    start: (data = folder) => startProcess(data, settings),
    usage: async (at: { url: string }) => expectOk(await request(at, 'GET', '/usage', { key })),
    show: async (at: { url: string }) =>
      expectOk(await request(at, 'GET', `/workspaces/${workspaceId}/runs/${run_id}`, { key })),
    trace: async (at: { url: string }) =>
      expectOk(await request(at, 'GET', `/workspaces/${workspaceId}/traces/${run_id}/events?limit=1000`, { key })),
    /** Resolves when the model was asked for this many answers. */
    asked: (count: number) =>
      expect.poll(() => llm.requests.length, { timeout: 60_000, interval: 20 }).toBeGreaterThanOrEqual(count),
  };
}

const linesOf = (text: string): string[] => text.match(/(?<=^|\n|")line \d+(?=$|\n|")/g) ?? [];

test('60 turns over three restarts lose nothing: each stop lets the turn end and takes the files along', async () => {
  const turns = 60;
  const { llm, platform: first, start, show, asked } = await startLongLoop(writing(turns, 0.05));
  let platform = first;
  for (const turn of [10, 25, 45]) {
    await asked(turn);
    const ended = once(platform.child, 'exit');
    const stoppedAt = performance.now();
    platform.child.kill('SIGTERM');
    const [code] = await ended;
    expect(code).toBe(0);
    expect(performance.now() - stoppedAt).toBeLessThan(15_000);
    platform = await start();
  }
  await expect.poll(async () => (await show(platform)).status, { timeout: 60_000, interval: 200 }).toBe('completed');
  const last = llm.requests.at(-1)!;
  expect(last.text).not.toContain(UNKNOWN);
  expect(last.text.split(NEW_SANDBOX).length - 1).toBe(3);
  // The model was asked once for each answer.
  expect(llm.requests.length).toBe(turns + 2);
  // The last result is the whole file.
  const shown = linesOf(JSON.stringify(last.body.messages.at(-1)).replaceAll('\\n', '\n'));
  expect(shown).toEqual(Array.from({ length: turns }, (_, index) => `line ${index + 1}`));
  await kill(platform.child);
}, 180_000);

test('a call that begins later waits through kill -9, and runs once', async () => {
  const folder = dataFolder();
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const { platform: first, key, workspaceId } = await startWithGreeter(folder, llm.settings);
  const call = async (headers: Record<string, string>): Promise<{ run_id: string; run_at: string }> => {
    const sent = { prefer: 'respond-async', ...headers };
    return expectOk(await request(first, 'POST', '/main/greet/latest/run', { key, json: {}, headers: sent }), 202);
  };
  const soon = await call({ 'x-platform-delay-seconds': '2' });
  const later = await call({ 'x-platform-run-at': new Date(Date.now() + 20_000).toISOString() });
  await kill(first.child);
  const platform = await startProcess(folder, llm.settings);
  const show = async (id: string) =>
    expectOk(await request(platform, 'GET', `/workspaces/${workspaceId}/runs/${id}`, { key }));
  await expect.poll(async () => (await show(soon.run_id)).status, { timeout: 20_000 }).toBe('completed');
  expect((await show(later.run_id)).status).toBe('queued');
  await expect.poll(async () => (await show(later.run_id)).status, { timeout: 40_000 }).toBe('completed');
  const { started_at, duration_ms } = await show(later.run_id);
  const late = Date.parse(started_at) - Date.parse(later.run_at);
  expect(late).toBeGreaterThanOrEqual(0);
  expect(late).toBeLessThan(7_000);
  expect(duration_ms).toBeLessThan(10_000);
  expect(llm.requests.length).toBe(2);
  await kill(platform.child);
}, 120_000);

test('a run under way in a backup continues where the backup is restored, and counts once', async () => {
  const turns = 8;
  const { llm, platform, folder, start, show, asked, trace, usage } = await startLongLoop(writing(turns, 1));
  await asked(4);
  const [restored, place] = [dataFolder(), dataFolder()];
  const file = join(place, 'backup.tar.gz');
  const keyFile = (data: string) => join(data, VAULT_KEY);
  await writeBackup({ dataFolder: folder, keyFile: keyFile(folder), file, withKey: true, version: '0.1.0' });
  await asked(6);
  // The machine is lost after the backup was made.
  await kill(platform.child);
  const before = llm.requests.length;
  await restoreBackup({ file, dataFolder: restored, keyFile: keyFile(restored) });
  const second = await start(restored);
  await expect.poll(async () => (await show(second)).status, { timeout: 60_000, interval: 200 }).toBe('completed');
  expect((await usage(second)).total_calls).toBe(1);
  expect(JSON.stringify(await trace(second))).toContain('host_lost');
  // What was done after the backup is done again: the restored platform cannot know of it.
  expect(llm.requests.length - before).toBeGreaterThan(turns - 6);
  expect(llm.requests[before]!.text).toContain(UNKNOWN);
  await kill(second.child);
}, 120_000);

test('kill -9 in the middle of tools: the run continues by itself, and says what is not known', async () => {
  const turns = 24;
  const { llm, platform: first, start, show, asked, trace } = await startLongLoop(writing(turns, 0.4));
  let platform = first;
  for (const turn of [4, 9, 17]) {
    await asked(turn);
    // The tool of the turn works by now.
    await new Promise((resolve) => setTimeout(resolve, 250));
    await kill(platform.child);
    platform = await start();
  }
  await expect.poll(async () => (await show(platform)).status, { timeout: 60_000, interval: 200 }).toBe('completed');
  const last = llm.requests.at(-1)!;
  expect(last.text.split(UNKNOWN).length - 1).toBeLessThanOrEqual(3);
  expect(last.text.split(NEW_SANDBOX).length - 1).toBe(3);
  // No answer was bought twice, except one that was being written when its process died.
  expect(llm.requests.length).toBeLessThanOrEqual(turns + 2 + 3);
  // Each conversation begins as the one before it was sent: the provider's cache and its signatures hold.
  for (const [index, { prefixes }] of llm.requests.entries()) {
    const before = llm.requests[index - 1]?.prefixes ?? [];
    const same = before.findLastIndex((hash, place) => prefixes[place] === hash) + 1;
    expect(before.length - same, `request ${index}`).toBeLessThanOrEqual(2);
  }
  const events: { event_type: string; payload?: { reason?: string } }[] = (await trace(platform)).events;
  expect(events.filter(({ event_type }) => event_type === 'interrupted').length).toBe(3);
  await kill(platform.child);
}, 180_000);

test('a model provider that is gone when a run is taken up is replaced by another, without the thoughts of the first', async () => {
  const turns = [bash('true'), bash('sleep 60')];
  const fallback = [submit];
  const { llm, platform: first, start, show, asked, trace } = await startLongLoop(turns, { fallback });
  await asked(turns.length);
  // The second tool works by now.
  await new Promise((resolve) => setTimeout(resolve, 500));
  await kill(first.child);
  const platform = await start();
  await expect.poll(async () => (await show(platform)).status, { timeout: 60_000, interval: 200 }).toBe('completed');
  expect(await show(platform)).toMatchObject({ output_data: { result: 'written' } });
  const { events }: { events: { event_type: string; payload?: object }[] } = await trace(platform);
  expect(events).toContainEqual(
    expect.objectContaining({
      event_type: 'fallback_transition',
      payload: { from_provider: 'anthropic', to_provider: 'openai', reason: 'LLM_ERROR' },
    }),
  );
  const [continued] = llm.requests.filter(({ provider }) => provider === 'openai');
  expect(JSON.stringify(continued!.body)).not.toContain('What next?');
  expect(continued!.text).toContain(UNKNOWN);
  expect(
    llm.requests.filter(({ provider, outcome }) => provider === 'anthropic' && outcome === 'answered').length,
  ).toBe(turns.length);
  await kill(platform.child);
}, 120_000);

test('a sandbox that is lost while its platform lives is replaced, with the files that were kept', async () => {
  const slow = Array.from({ length: 5 }, () => bash('echo "line $TURN" >> log.txt; sleep 0.5'));
  const marker = String(Math.random()).slice(1, 12);
  const turns = [...slow, bash(`sleep 60${marker}`), bash('cat log.txt'), submit];
  const { llm, platform, show } = await startLongLoop(turns);
  await expect.poll(() => sandboxOf(marker), { timeout: 60_000 }).toBeDefined();
  process.kill(sandboxOf(marker)!, 'SIGKILL');
  await expect.poll(async () => (await show(platform)).status, { timeout: 60_000, interval: 200 }).toBe('completed');
  const last = llm.requests.at(-1)!;
  expect(last.text).toContain(UNKNOWN);
  expect(last.text).toContain(NEW_SANDBOX);
  const shown = linesOf(JSON.stringify(last.body.messages.at(-1)).replaceAll('\\n', '\n'));
  expect(shown).toEqual(slow.map((_, index) => `line ${index + 1}`));
  expect(llm.requests.length).toBe(turns.length);
  await kill(platform.child);
}, 120_000);

test('a chain of durable agents survives as a chain: the caller finds the run that it started', async () => {
  const folder = dataFolder();
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const settings = { ...llm.settings, PLATFORM_DEFAULT_PLAN: 'enterprise' };
  const [asks, works] = ['ask another agent', 'work for another agent'];
  llm.script({
    rules: [
      { marker: asks, turns: [{ toolCalls: [{ name: 'child', input: { text: 'go' } }] }, submit] },
      { marker: works, turns: writing(8, 0.4) },
    ],
  });
  const { platform, key, workspaceId } = await startWithGreeter(folder, settings);
  const loop = { type: 'agent', description: 'x', required_secrets: [], durable: true };
  const publish = async (agent: object) =>
    expectOk(await request(platform, 'POST', '/agents', { key, json: { ...loop, ...agent } }), 201);
  await publish({ name: 'child', prompt: `You ${works}.` });
  await publish({
    name: 'parent',
    prompt: `You ${asks}.`,
    manifest: {
      manifest_version: 1,
      max_hops: 1,
      timeout_ms: 600_000,
      dependencies: [{ id: 'main/child', version: 'v1' }],
    },
    custom_tools: [
      {
        name: 'child',
        description: 'x',
        command: 'python3 "$HOME/helpers/platform_call.py" main/child@v1',
        input_schema: { type: 'object', properties: { text: { type: 'string' } } },
      },
    ],
  });
  const called = await request(platform, 'POST', '/main/parent/v1/run', {
    key,
    json: {},
    headers: { prefer: 'respond-async' },
  });
  const { run_id } = expectOk(called, 202);
  // The child works in its third turn.
  await expect.poll(() => llm.requests.length, { timeout: 60_000, interval: 20 }).toBeGreaterThanOrEqual(4);
  await kill(platform.child);
  const next = await startProcess(folder, settings);
  const list = async () => expectOk(await request(next, 'GET', `/workspaces/${workspaceId}/runs`, { key })).runs;
  const show = async () => expectOk(await request(next, 'GET', `/workspaces/${workspaceId}/runs/${run_id}`, { key }));
  await expect.poll(async () => (await show()).status, { timeout: 90_000, interval: 200 }).toBe('completed');
  const runs: { agent_name: string; status: string }[] = await list();
  expect(runs.map(({ agent_name, status }) => [agent_name, status]).sort()).toEqual([
    ['child', 'completed'],
    ['parent', 'completed'],
  ]);
  const asked = llm.requests.filter(({ text }) => text.includes(asks)).at(-1)!;
  expect(asked.text).toContain('written');
  expect(asked.text).not.toContain(UNKNOWN);
  await kill(next.child);
}, 180_000);

test.for([true, false])(
  'a program whose process is killed begins again if it may (%s), else it says why not',
  { timeout: 90_000 },
  async (mayRepeat) => {
    const folder = dataFolder();
    const llm = await startScriptedLlm();
    onTestFinished(() => llm.close());
    const { platform: first, key, workspaceId } = await startWithGreeter(folder, llm.settings);
    const command =
      'echo "attempt $PLATFORM_ATTEMPT" >&2; if [ $PLATFORM_ATTEMPT = 1 ]; then sleep 60; fi; echo "[$PLATFORM_ATTEMPT]"';
    const manifest = { runtime: { command }, durable: true, ...(mayRepeat && { retry_on_interruption: true }) };
    await publishCode(clientOf({ url: first.url, key }), 'hours', { 'main.sh': '' }, manifest);
    const headers = { prefer: 'respond-async' };
    const { run_id } = expectOk(
      await request(first, 'POST', '/main/hours/latest/run', { key, json: {}, headers }),
      202,
    );
    const path = `/workspaces/${workspaceId}/runs/${run_id}`;
    const printed = async () => JSON.stringify((await request(first, 'GET', `${path}/events`, { key })).body);
    await expect.poll(printed, { timeout: 20_000 }).toContain('attempt 1');
    await kill(first.child);
    const platform = await startProcess(folder, llm.settings);
    const show = async () => expectOk(await request(platform, 'GET', path, { key }));
    await expect.poll(async () => (await show()).completed_at, { timeout: 30_000 }).not.toBeNull();
    expect(await show()).toMatchObject(
      mayRepeat
        ? { status: 'completed', output_data: [2] }
        : {
            status: 'failed',
            error_code: 'INTERNAL_ERROR',
            error_message: expect.stringContaining('sandbox was lost'),
          },
    );
    await kill(platform.child);
  },
);
