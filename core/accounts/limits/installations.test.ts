import { expect, test } from 'vitest';
import type { Workspace } from '#core/base/workspace.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { beginInstallation, endInstallation, installationsInUse } from './installations.ts';

const free: Workspace = { id: 'w', slug: 'acme', name: 'acme', type: 'team', createdAt: '', plan: 'free' };

function setUp() {
  const deps = memoryDeps();
  const begin = async (workspace = free) => {
    const runId = crypto.randomUUID();
    await beginInstallation(deps, workspace, { runId, deadline: deps.clock.now() + 240_000 });
    return runId;
  };
  return { deps, begin, inUse: () => installationsInUse(deps, free.id) };
}

test('of forty at once, as many begin as the plan allows, and those of another workspace', async () => {
  const { deps } = setUp();
  // Conflicting writes back off, so the clock must run.
  const clock = new SystemClock();
  const begin = (workspace = free) =>
    beginInstallation({ ...deps, clock }, workspace, {
      runId: crypto.randomUUID(),
      deadline: clock.now() + 240_000,
    });
  const answers = await Promise.allSettled(Array.from({ length: 40 }, () => begin()));
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
  for (const answer of answers) {
    if (answer.status === 'fulfilled') continue;
    expect(answer.reason).toMatchObject({
      code: 'RATE_LIMITED',
      message: expect.stringMatching(/"acme" has 2 installations .* plan "free" \(concurrent_installs\)/),
      extra: { suggested_wait_time: 30 },
    });
  }
  expect(await installationsInUse({ ...deps, clock }, free.id)).toBe(2);
  await begin({ ...free, id: 'other' });
});

test('an end frees one place, however often it is told', async () => {
  const { deps, begin } = setUp();
  const first = await begin();
  await begin();
  await endInstallation(deps, free.id, first);
  await endInstallation(deps, free.id, first);
  await begin();
  await expect(begin()).rejects.toMatchObject({ code: 'RATE_LIMITED' });
});

test('the place of an installation whose host died is free at its deadline', async () => {
  const { deps, begin, inUse } = setUp();
  await begin();
  await begin();
  await deps.clock.advance(241_000);
  expect(await inUse()).toBe(0);
  await begin();
  await begin();
  expect(await inUse()).toBe(2);
});
