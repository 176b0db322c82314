import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { request } from '#test/helpers/platform.ts';
import { dataFolder, kill, startProcess, startWithGreeter } from '#test/helpers/platform-process.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { expectOk } from './expect.ts';

/** Durable loops on a real platform, whose process is stopped or killed while they work. */

const MARKER = 'write a long log';
const UNKNOWN = 'Whether it took effect is unknown';
const NEW_SANDBOX = 'goes on in a new sandbox';

const bash = (command: string): ScriptedTurn => ({
  thinking: 'What next?',
  toolCalls: [{ name: 'bash', input: { command } }],
});

/** Starts a platform with a durable loop that appends a line to a file in each of `turns` turns, and calls it. */
async function startLongLoop(turns: number, seconds: number) {
  const folder = dataFolder();
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const settings = { ...llm.settings, PLATFORM_DEFAULT_PLAN: 'enterprise' };
  llm.script({
    rules: [
      {
        marker: MARKER,
        turns: [
          ...Array.from({ length: turns }, () => bash(`echo "line $TURN" >> log.txt; sleep ${seconds}`)),
          bash('cat log.txt'),
          { toolCalls: [{ name: 'submit_result', input: { result: 'written' } }] },
        ],
      },
    ],
  });
  const { platform, key, workspaceId } = await startWithGreeter(folder, settings);
  const agent = {
    name: 'long',
    type: 'agent',
    description: 'x',
    prompt: `You ${MARKER}.`,
    required_secrets: [],
    durable: { max_active_seconds: 3600 },
    loop: { max_turns: turns + 10 },
  };
  expectOk(await request(platform, 'POST', '/agents', { key, json: agent }), 201);
  const headers = { prefer: 'respond-async' };
  const called = await request(platform, 'POST', '/main/long/latest/run', { key, json: {}, headers });
  const { run_id } = expectOk(called, 202);
  return {
    llm,
    platform,
    restart: () => startProcess(folder, settings),
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
  const { llm, platform: first, restart, show, asked } = await startLongLoop(turns, 0.05);
  let platform = first;
  for (const turn of [10, 25, 45]) {
    await asked(turn);
    const ended = once(platform.child, 'exit');
    const stoppedAt = performance.now();
    platform.child.kill('SIGTERM');
    const [code] = await ended;
    expect(code).toBe(0);
    expect(performance.now() - stoppedAt).toBeLessThan(15_000);
    platform = await restart();
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

test('kill -9 in the middle of tools: the run goes on by itself, and says what is not known', async () => {
  const turns = 24;
  const { llm, platform: first, restart, show, asked, trace } = await startLongLoop(turns, 0.4);
  let platform = first;
  for (const turn of [4, 9, 17]) {
    await asked(turn);
    // The tool of the turn works by now.
    await new Promise((resolve) => setTimeout(resolve, 250));
    await kill(platform.child);
    platform = await restart();
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
