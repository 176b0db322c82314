import { Worker } from 'node:worker_threads';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Workspace } from '#core/base/workspace.ts';
import { hostilePattern, newWorkspace, repeated, withLittleTime, withThreads } from '#test/helpers/checks.ts';
import type { MemoryDeps } from '#test/helpers/memory-deps.ts';
import { zip } from '#test/helpers/zip.ts';
import { checkBundle, checkDefinition, fillToolCommand, validate } from './checks.ts';
import { Threads } from './pool.ts';

type Checks = typeof import('./checks.ts');

// Other hostile values, which take a second each, are in checks.heavy.test.ts.
test('a hostile value is checked elsewhere, and uses up the time of its workspace until that comes back', async () => {
  const deps = withLittleTime();
  const hostile = newWorkspace('free');
  // The burst is a sixth of a minute's budget, and the check that exceeds it still completes.
  const { tasks, result } = await withThreads(() => validate(deps, hostile, ...hostilePattern));
  expect(result).toHaveLength(1);
  expect(tasks).toEqual(['validate']);
  await expect(validate(deps, hostile, ...hostilePattern)).rejects.toMatchObject({
    code: 'RATE_LIMITED',
    message: expect.stringContaining('60 ms per minute (plan "free")'),
    extra: { suggested_wait_time: expect.any(Number) },
  });
  // This includes checks on this thread, and manifests.
  await expect(validate(deps, hostile, { type: 'string' }, 'x')).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  await expect(checkDefinition(deps, hostile, {})).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  expect(await validate(deps, newWorkspace('free'), { pattern: 'x' }, 'x')).toEqual([]);
  await deps.clock.advance(60 * 60_000);
  expect(await validate(deps, hostile, { pattern: 'x' }, 'x')).toEqual([]);
});

test('a small schema is checked on this thread, at once', async () => {
  const deps = withLittleTime();
  const workspace = newWorkspace();
  const schema = { type: 'object', properties: { name: { type: 'string', maxLength: 20 } }, required: ['name'] };
  expect(await validate(deps, workspace, schema, { name: 'Ada' })).toEqual([]);
  // A worker thread answers in a later tick of the event loop.
  let isLater = false;
  setImmediate(() => {
    isLater = true;
  });
  for (let i = 0; i < 100; i++) await validate(deps, workspace, schema, {});
  expect(isLater).toBe(false);
});

test.each<[string, (checks: Checks, workspace: Workspace, deps: MemoryDeps) => Promise<readonly unknown[]>]>([
  ['a value', ({ validate }, workspace, deps) => validate(deps, workspace, { pattern: 'x' }, 'y')],
  [
    'an assert',
    ({ checkEvalOutput }, workspace, deps) => {
      const assert = { type: 'is-json', isNot: false, weight: 1, value: { type: 'object' } } as const;
      return checkEvalOutput(deps, workspace, [assert], { output: {}, costUsd: 0, latencyMs: 0, tools: [], turns: 1 });
    },
  ],
])('%s is not charged with what a new thread does for all checks of schemas', async (_, check) => {
  vi.resetModules();
  const checks = await import('./checks.ts');
  // A thread takes 100 ms to make the meta-schemas' validators; the check takes 2.
  const deps = withLittleTime('enterprise', 300);
  const workspace = newWorkspace('free');
  for (let i = 0; i < 2; i++) expect(await check(checks, workspace, deps)).toHaveLength(1);
});

describe('a bundle', () => {
  const use = {
    version: { workspaceId: 'w', definition: { execution_engine: 'code_runtime' } as never },
    interpreters: { python: '3.12' },
    registries: [],
  };

  test('is read elsewhere, with all that an upload needs of it', async () => {
    const deps = withLittleTime();
    const bytes = zip([
      { name: 'main.py', content: 'print(1)' },
      { name: 'requirements.txt', content: 'agent-platform-sdk\nrich\n' },
    ]);
    expect(await checkBundle(deps, newWorkspace('free'), bytes, use)).toEqual({
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      fileCount: 2,
      entrypoint: 'main.py',
      layerHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      warnings: [],
    });
  });

  test('is refused as it is elsewhere', async () => {
    const refused = checkBundle(withLittleTime(), newWorkspace(), Buffer.from('no zip'), use);
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_INPUT', message: 'The bundle is not a zip archive.' });
  });

  // A large file is tested in checks.heavy.test.ts.
  test('of many files is read elsewhere, and counts as time of the workspace', async () => {
    const deps = withLittleTime();
    const workspace = newWorkspace('free');
    const bytes = zip([
      { name: 'main.py' },
      ...repeated(4_000, (i) => ({ name: `f${i}`, content: 'hello', method: 0 })),
    ]);
    const { tasks } = await withThreads(() => checkBundle(deps, workspace, bytes, use));
    expect(tasks).toEqual(['readContents']);
    await expect(checkBundle(deps, workspace, bytes, use)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  });
});

describe('the command of a tool', () => {
  test('is read elsewhere and once', async () => {
    const deps = withLittleTime();
    const owner = newWorkspace('free');
    const filled = { command: `PLATFORM_ARGUMENT_x='a b'\necho "\${PLATFORM_ARGUMENT_x}"` };
    expect(await fillToolCommand(deps, owner, 'echo {{x}}', { x: 'a b' })).toEqual(filled);
    let isLater = false;
    setImmediate(() => {
      isLater = true;
    });
    expect(await fillToolCommand(deps, owner, 'echo {{x}}', { x: 'a b' })).toEqual(filled);
    expect(isLater).toBe(false);
  });

  test('that takes long takes the time of its owner, then is a problem for the model', async () => {
    const deps = withLittleTime();
    const owner = newWorkspace('free');
    const slow = (i: number) => `${repeated(1_000, (n) => `a${n}=$a${n + i}`).join(';')};echo {{x}}`;
    const { tasks } = await withThreads(() => fillToolCommand(deps, owner, slow(1), { x: 'text' }));
    expect(tasks).toEqual(['placesIn']);
    expect(await fillToolCommand(deps, owner, slow(2), { x: 'text' })).toEqual({
      problem: expect.stringContaining('has used up its time for checks'),
    });
  });
});

test('a thread that is no longer needed ends, and the next check gets another', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const ended = vi.spyOn(Worker.prototype, 'terminate');
  onTestFinished(() => {
    ended.mockRestore();
    vi.useRealTimers();
  });
  const threads = new Threads();
  const check = () =>
    threads.run({ group: 'a', task: 'placesIn', args: ['echo {{x}}'], limitMs: 2000, onTurn() {}, onEnd() {} });
  const places = await check();
  vi.advanceTimersByTime(20_000);
  expect(await check()).toEqual(places);
  vi.advanceTimersByTime(20_000);
  expect(ended).not.toHaveBeenCalled();
  vi.advanceTimersByTime(20_000);
  expect(ended).toHaveBeenCalledOnce();
  expect(vi.getTimerCount()).toBe(0);
  expect(await check()).toEqual(places);
});
