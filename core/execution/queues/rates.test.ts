import { expect, test } from 'vitest';
import { leasesOf } from '#core/accounts/limits/admission.ts';
import { sweepQueues } from '#core/runs/queues/sweep.ts';
import { expectNothingLeft, gated } from '#test/helpers/queue-world.ts';
import { settled } from '#test/helpers/waiting-world.ts';
import { resumeRuns } from '../durable/resume.ts';

test('a rate lets so many runs begin in each window, and others in the next ones', async () => {
  const world = await gated(null, { more: { rate: { count: 2, seconds: 60, key: '/account' } } });
  const { deps, run, begin, gates, ticked } = world;
  await deps.clock.advance(60_000 - (deps.clock.now() % 60_000));
  const window = Math.floor(deps.clock.now() / 60_000) * 60_000;
  const calls = [];
  for (let count = 0; count < 5; count++) calls.push(await begin({ account: 'a' }));
  expect(calls.map(({ status }) => status)).toEqual(['running', 'running', 'queued', 'queued', 'queued']);
  const at = (windows: number) => new Date(window + windows * 60_000).toISOString();
  expect(calls.slice(2).map(({ held_by }) => held_by)).toMatchObject([
    { rule: 'rate', limit: 2, seconds: 60, begins_at: at(1) },
    { rule: 'rate', begins_at: at(1) },
    { rule: 'rate', begins_at: at(2) },
  ]);
  expect((await begin({ account: 'b' })).status).toBe('running');
  const refused = await world.call({ prefer: '' }, 'plain', world.user, { account: 'a' });
  expect([refused.status, refused.body.error.code]).toEqual([429, 'RATE_LIMITED']);
  expect(refused.body.error.message).toMatch(/The rate of later\/plain lets 2 runs begin in 60 seconds/);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(60);
  await world.asked(3);
  await ticked(3);
  // The process was away: what is late begins no faster.
  await deps.clock.advance(10 * 60_000);
  await ticked(5);
  const late = await Promise.all(calls.slice(2).map(({ run_id }) => run(run_id)));
  expect(late.map(({ status }) => status).sort()).toEqual(['queued', 'running', 'running']);
  const [waits] = late.filter(({ status }) => status === 'queued');
  expect(Date.parse(waits!.held_by!.begins_at!)).toBeGreaterThan(deps.clock.now());
  await deps.clock.advance(61_000);
  await ticked(6);
  for (const open of gates) open();
  for (const { run_id } of calls) await world.ended(run_id);
  await world.until(async () => (await Array.fromAsync(leasesOf(deps, { all: true }))).length === 0);
  await expectNothingLeft(world);
});

test('a run keeps its place while it waits for its rate, and gives it back when it is cancelled', async () => {
  const world = await gated({ limit: 1 }, { more: { rate: { count: 1, seconds: 600 } } });
  const { deps, user, send, run, begin, open, ended, ticked } = world;
  const first = await begin();
  await world.asked(1);
  const [second, third] = [await begin(), await begin()];
  await open();
  await ended(first.run_id);
  await settled(deps, resumeRuns(world.processOf().process));
  expect((await run(second.run_id)).held_by).toMatchObject({ rule: 'rate' });
  expect((await run(third.run_id)).held_by).toMatchObject({ rule: 'concurrency' });
  await send('DELETE', `/workspaces/${user.workspaceId}/runs/${second.run_id}`);
  await settled(deps, resumeRuns(world.processOf().process));
  expect((await run(third.run_id)).held_by).toMatchObject({ rule: 'rate' });
  await deps.clock.advance(1_300_000);
  await sweepQueues(deps);
  await ticked(2);
  await open();
  await ended(third.run_id);
  await expectNothingLeft(world);
});

test('of the calls that follow each other, only the last one runs', async () => {
  const world = await gated(null, { more: { debounce: { seconds: 30, key: '/order' } } });
  const { deps, run, begin, open, ended, ticked } = world;
  const calls = [];
  for (let count = 0; count < 3; count++) {
    calls.push(await begin({ order: 'a' }));
    await deps.clock.advance(20_000);
    await world.tick();
  }
  const [first, second, last] = calls as [(typeof calls)[0], (typeof calls)[0], (typeof calls)[0]];
  expect(first).toMatchObject({ status: 'queued', held_by: { rule: 'debounce', seconds: 30 } });
  expect(new Set(calls.map(({ run_id }) => run_id)).size).toBe(3);
  for (const [each, by] of [
    [first, second],
    [second, last],
  ] as const) {
    expect(await run(each.run_id)).toMatchObject({
      ...{ status: 'cancelled', error_code: 'RUN_CANCELLED' },
      error_message: `The run was replaced by the run ${by.run_id}.`,
    });
  }
  const other = await begin({ order: 'b' });
  // Whose caller waits runs at once.
  const held = world.appOf(world.processOf().process)(
    world.requestOf(world.user, 'POST', '/later/plain/latest/run', { order: 'a' }),
  );
  await open();
  expect((await settled(deps, held)).status).toBe(200);
  await deps.clock.advance(31_000);
  await ticked(3);
  await open();
  await open();
  await ended(last.run_id);
  await ended(other.run_id);
  // The next call is the first one of another series.
  const next = await begin({ order: 'a' });
  await deps.clock.advance(31_000);
  await ticked(4);
  await open();
  await ended(next.run_id);
  expect((await run(last.run_id)).status).toBe('completed');
});
