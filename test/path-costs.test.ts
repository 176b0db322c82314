import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { runLoop } from '#core/execution/engines/managed-loop.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { OperationCounter } from './helpers/counting-table.ts';
import { loopRun } from './helpers/loop-run.ts';
import { memoryDeps } from './helpers/memory-deps.ts';
import { type CountedPlatform, countedPlatform, type PathCost } from './helpers/path-costs.ts';
import { type ScriptedLlm, startScriptedLlm } from './helpers/scripted-llm/server.ts';

/*
 * What a path costs, by counts: they are the same on every machine, however busy. A change that raises one makes the
 * path slower, on AWS also dearer. Raise a bound only for something that users get for it, and say here what.
 */
type Bounds = Omit<PathCost, 'operations'>;
const BOUNDS: { readonly [Path in Exclude<keyof CountedPlatform, 'program'>]: Bounds } = {
  // Key and version; count and lease; the run; its end, with its row in the feed of ended runs; the lease back. Sums follow, for
  // many runs at once.
  prompt: { items: 6, statements: 1, rows: 5, groups: 4 },
  // The cost is the same, because streamed output is not written.
  stream: { items: 6, statements: 1, rows: 5, groups: 4 },
  // The call. Before it, in one query: the session with the three turns that it has. With the record and its end: the turn,
  // which begins and ends.
  session: { items: 12, statements: 2, rows: 7, groups: 4 },
  // The same, and first the session alone, by whose agent the call is made.
  message: { items: 14, statements: 2, rows: 7, groups: 4 },
  // Key, the allowance of its requests, the version's place, the version.
  getAgent: { items: 4, statements: 0, rows: 0, groups: 0 },
  // The call, without its key. Before it: the webhook's place and schedule, which takes the note of the run; the
  // version's place and the workspace. With it: the run's place in the schedule's history. While its lease goes back:
  // the note, with a check of the schedule. Looked for besides: whether another process has begun the run.
  webhook: { items: 14, statements: 2, rows: 9, groups: 5 },
  // The same without the webhook's place: a list of what is due has shown the schedule.
  schedule: { items: 12, statements: 2, rows: 9, groups: 5 },
};

let llm: ScriptedLlm;
beforeAll(async () => {
  llm = await startScriptedLlm();
});
afterAll(() => llm.close());

test.each(Object.entries(BOUNDS))(
  '%s: items, statements, rows and groups stay within their bounds',
  async (path, bounds) => {
    const platform = await countedPlatform({ anthropicUrl: `${llm.url}/anthropic/v1` });
    expectWithin(bounds, await platform[path as keyof CountedPlatform]());
  },
);

test.each(['prompt', 'stream'] as const)('%s: nothing is aborted, which makes an error with a stack', async (path) => {
  const abort = vi.spyOn(AbortController.prototype, 'abort');
  onTestFinished(() => abort.mockRestore());
  const platform = await countedPlatform({ anthropicUrl: `${llm.url}/anthropic/v1` });
  const asked = llm.asked;
  await platform[path]();
  // The scripted model aborts a signal of its own for each request.
  expect(abort.mock.calls.length).toBeLessThanOrEqual(llm.asked - asked);
});

function expectWithin(bounds: Bounds, { operations, ...cost }: PathCost): void {
  for (const [name, bound] of Object.entries(bounds) as [keyof Bounds, number][]) {
    expect(cost[name], `${name} of ${operations.join(', ')}`).toBeLessThanOrEqual(bound);
  }
}

const folder = mkdtempSync(join(tmpdir(), 'path-costs-'));
const blobs = new FolderBlobs(join(folder, 'blobs'));
const sandbox = await createLocalSandbox({ cacheFolder: join(folder, 'cache'), blobs, kind: 'auto', prestart: 1 });
const { problem } = await sandbox.status();
afterAll(async () => {
  await sandbox.close();
  rmSync(folder, { recursive: true, force: true });
});

test.skipIf(problem !== undefined)(
  'a program: items, statements, rows and groups stay within their bounds',
  async () => {
    // As a prompt call: what the sandbox does is in no table.
    const bounds: Bounds = { items: 6, statements: 1, rows: 5, groups: 4 };
    const platform = await countedPlatform({ sandboxEgress: 'none' }, { sandbox, blobs });
    expectWithin(bounds, await platform.program());
  },
);

describe.skipIf(problem !== undefined)('a turn of a tool loop', () => {
  test('asks the model once, and neither reads nor writes a table', async () => {
    onTestFinished(() => llm.reset());
    const turns = 6;
    const read = (turn: number) => ({ toolCalls: [{ name: 'read_file', input: { path: `none-${turn}.txt` } }] });
    const submit = { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] };
    llm.queue(...Array.from({ length: turns - 1 }, (_, turn) => read(turn)), submit);
    const counter = new OperationCounter();
    const memory = memoryDeps({ anthropicUrl: `${llm.url}/anthropic/v1`, sandboxEgress: 'none' });
    const deps = {
      ...memory,
      main: counter.count(memory.main, 'main'),
      runs: counter.count(memory.runs, 'runs'),
      counters: counter.count(memory.counters, 'counters'),
      sandbox,
      clock: new SystemClock(),
    };
    const models = [{ provider: 'anthropic', model: 'claude-haiku-4-5', apiKey: 'key' } as const];
    const asked = llm.asked;
    const { error } = await runLoop(deps, loopRun({ clock: deps.clock, maxTurns: 10, change: { models } }).run);
    expect(error).toBeUndefined();
    expect(llm.asked - asked).toBe(turns);
    expect(counter.operations).toEqual([]);
  });
});
