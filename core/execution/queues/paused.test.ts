import { expect, test } from 'vitest';
import { headKey } from '#core/runs/items.ts';
import { sweepQueues } from '#core/runs/queues/sweep.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { IMMORTAL, type Life } from '#test/helpers/durable-histories.ts';
import { expectNothingLeft, gated } from '#test/helpers/queue-world.ts';
import { runHeads } from '#test/helpers/run-heads.ts';
import { settled, waitingWorld } from '#test/helpers/waiting-world.ts';
import { resumeRuns } from '../durable/resume.ts';

/** Runs that wait for people or times, and take their turn again to continue. */

const DAY_MS = 24 * 3600_000;
const DETACHED = { prefer: 'respond-async' };
const ASKS = { name: 'ask_human', input: { question: 'May I?' } } as const;

type World = Awaited<ReturnType<typeof gated>>;

const answered = ({ send, user }: Pick<World, 'send' | 'user'>, id: string) =>
  send('POST', `/workspaces/${user.workspaceId}/approvals/${id}.1.1/decision`, { decision: 'answer', answer: 'Yes' });

/** A run that was answered, while another one has the only place. */
async function answeredTooLate(concurrency: object = { limit: 1 }, more: object = {}) {
  const world = await gated(concurrency, { more, first: ASKS });
  const { begin, asked, open, ended, run, ticked } = world;
  const waits = await begin({}, {}, 'lasting');
  await asked(1);
  const next = await begin({}, {}, 'lasting');
  expect(next.status).toBe('queued');
  await open();
  await ended(waits.run_id, 'waiting');
  // Its place is free at once.
  await ticked(2);
  expect(await run(next.run_id)).toMatchObject({ status: 'running', held_by: null });
  expect((await answered(world, waits.run_id)).status).toBe(200);
  await ticked(2);
  expect(world.seen.most).toBe(1);
  return { world, waits: waits.run_id, next: next.run_id };
}

/** Lets the run in progress wait for its own answer. */
async function pauseNext({ world, next }: Awaited<ReturnType<typeof answeredTooLate>>) {
  await world.open();
  await world.ended(next, 'waiting');
}

test('a run that waits for an answer leaves its place, and takes its turn again to continue', async () => {
  // A rate counts a run once: two may begin in this window.
  const paused = await answeredTooLate({ limit: 1 }, { rate: { count: 2, seconds: 36_000 } });
  const { world, waits, next } = paused;
  const { deps, run, open, ended, ticked } = world;
  const held_by = { rule: 'concurrency', limit: 1, until: expect.any(String) };
  const held = await run(waits);
  expect(held).toMatchObject({ status: 'queued', held_by });
  expect(held.started_at).not.toBeNull();
  expect(await world.waitingEntries()).toBe(1);
  // Both wait: one for its turn, and then one for its answer.
  expect(await world.waiting.count()).toBe(1);
  await sweepQueues(deps);
  await pauseNext(paused);
  await ticked(3);
  expect(await run(waits)).toMatchObject({ status: 'running', held_by: null, started_at: held.started_at });
  await open();
  await ended(waits);
  const { trace } = (await world.runs.body(waits))!;
  expect(trace.map(({ event_type }) => event_type)).not.toContain('interrupted');
  expect((await answered(world, next)).status).toBe(200);
  await ticked(4);
  await open();
  await ended(next);
  expect(world.seen.most).toBe(1);
  await expectNothingLeft(world);
});

test('a run whose place is free continues at once, when its time has come', async () => {
  const world = await gated({ limit: 1 }, { first: { name: 'wait', input: { seconds: 60 } } });
  const { deps, begin, asked, open, ended, ticked } = world;
  const { run_id } = await begin({}, {}, 'lasting');
  await asked(1);
  await open();
  await ended(run_id, 'waiting');
  await deps.clock.advance(61_000);
  await ticked(2);
  await open();
  await ended(run_id);
  await expectNothingLeft(world);
});

test('a run that finds no room among the calls of its plan leaves its place to others meanwhile', async () => {
  const world = await gated({ limit: 1 }, { plan: { concurrent_calls: 1 }, first: ASKS });
  const { deps, begin, asked, open, ended, run, ticked } = world;
  const { run_id } = await begin({}, {}, 'lasting');
  await asked(1);
  await open();
  await ended(run_id, 'waiting');
  // Another agent has the only place of the plan.
  const other = await begin();
  await asked(2);
  await answered(world, run_id);
  await ticked(2);
  expect(await run(run_id)).toMatchObject({ status: 'waiting', held_by: null });
  const places = async () => {
    const head = await deps.runs.get(headKey(world.user.workspaceId, run_id));
    const state = await deps.runs.get({ pk: `WS#${world.user.workspaceId}#QUEUE#${head!.queue}`, sk: 'STATE' });
    return state!.active;
  };
  await world.until(async () => (await places()) === 0);
  await open();
  await ended(other.run_id);
  await deps.clock.advance(11_000);
  await ticked(3);
  await open();
  await ended(run_id);
  await expectNothingLeft(world);
});

test('a run that waits for its turn to continue can be cancelled, and keeps what it has cost', async () => {
  const paused = await answeredTooLate();
  const { world, waits, next } = paused;
  await world.send('DELETE', `/workspaces/${world.user.workspaceId}/runs/${waits}`);
  await world.ticked(2);
  await world.ended(waits, 'cancelled');
  expect(await world.runs.find(waits)).toMatchObject({ inputTokens: 1, heldBy: null });
  expect(await world.waitingEntries()).toBe(0);
  await pauseNext(paused);
  await world.send('DELETE', `/workspaces/${world.user.workspaceId}/runs/${next}`);
  await world.ticked(2);
  await world.ended(next, 'cancelled');
  await expectNothingLeft(world);
});

test('a run whose turn to continue does not come in a day ends, and says why', async () => {
  // The one that has the place may work for longer than a day.
  const { world, waits, next } = await answeredTooLate();
  await world.deps.clock.advance(DAY_MS + 4 * 60_000);
  const overdue: number[] = [];
  const host = { ...world.processOf().process, onRunsOverdue: (count: number) => void overdue.push(count) };
  await settled(world.deps, resumeRuns(host));
  await world.ended(waits, 'timeout');
  expect(await world.run(waits)).toMatchObject({
    error_message: expect.stringMatching(/waited for its turn .* the concurrency of its agent allows 1 run/),
  });
  await settled(world.deps, resumeRuns(host));
  // Operators see that nothing looked for four minutes.
  expect(overdue).toEqual([1, 0]);
  expect(await world.waitingEntries()).toBe(0);
  await world.open();
  await world.until(async () => (await world.run(next)).status !== 'running');
});

test('with reject, a run that has begun waits for its turn', async () => {
  const world = await gated({ limit: 1, on_limit: 'reject' }, { first: ASKS });
  const { begin, asked, open, ended, run, ticked } = world;
  const first = await begin({}, {}, 'lasting');
  await asked(1);
  await open();
  await ended(first.run_id, 'waiting');
  const second = await begin({}, {}, 'lasting');
  await asked(2);
  await answered(world, first.run_id);
  await ticked(2);
  expect(await run(first.run_id)).toMatchObject({ status: 'queued', held_by: { rule: 'concurrency' } });
  expect((await world.call({}, 'lasting')).status).toBe(429);
  await open();
  await ended(second.run_id, 'waiting');
  await ticked(3);
  await open();
  await ended(first.run_id);
});

test('with replace, a newer call replaces a run that waits for its turn to continue', async () => {
  const world = await gated({ limit: 1, on_limit: 'replace' }, { first: ASKS });
  const { begin, asked, open, ended, run, ticked, deps } = world;
  const first = await begin({}, {}, 'lasting');
  await asked(1);
  await open();
  await ended(first.run_id, 'waiting');
  const second = await begin({}, {}, 'lasting');
  await asked(2);
  await answered(world, first.run_id);
  await ticked(2);
  // It does not replace what came after it.
  expect(await run(second.run_id)).toMatchObject({ status: 'running' });
  expect(await run(first.run_id)).toMatchObject({ status: 'queued' });
  await deps.clock.advance(1);
  const third = await begin({}, {}, 'lasting');
  await ticked(2);
  await ended(first.run_id, 'cancelled');
  expect((await run(first.run_id)).error_message).toBe(`The run was replaced by the run ${third.run_id}.`);
  await open();
  await ended(second.run_id, 'cancelled');
  await ticked(3);
  await open();
  await ended(third.run_id, 'waiting');
  await answered(world, third.run_id);
  await ticked(4);
  await open();
  await ended(third.run_id);
  expect(world.seen.most).toBe(1);
  await expectNothingLeft(world);
});

test('a run that waits and takes its turn again is asked once, and never one too many, wherever a process dies', {
  timeout: 300_000,
}, async () => {
  const history = async (life: Life) => {
    let [atOnce, most, lives] = [0, 0, 1];
    const world = await waitingWorld(
      {},
      {
        manifest: { concurrency: { limit: 1 } },
        first: ASKS,
        async ask() {
          const of = lives;
          atOnce += 1;
          most = Math.max(most, atOnce);
          await world.deps.clock.sleep(100);
          if (of === lives) atOnce -= 1;
        },
      },
    );
    const { deps, user, processOf, requestOf, appOf } = world;
    const path = `/workspaces/${user.workspaceId}/approvals`;
    const list = async (app: ReturnType<typeof appOf>) => {
      const response = await app(requestOf(user, 'GET', path));
      return ((await response.json()) as { approvals: { id: string; status: string }[] }).approvals;
    };
    const answerAll = async (app: ReturnType<typeof appOf>) => {
      for (const { id, status } of await list(app)) {
        const body = { decision: 'answer', answer: 'Yes' };
        if (status === 'waiting') await app(requestOf(user, 'POST', `${path}/${id}/decision`, body));
      }
    };
    const mortal = processOf(life);
    const app = appOf(mortal.process);
    let begun = 0;
    let hasWaited = false;
    const heads = async () => await runHeads(deps, user.workspaceId);
    const lived = async () => {
      for (; begun < 2; begun++) await app(requestOf(user, 'POST', '/later/lasting/latest/run', {}, DETACHED));
      await mortal.idle();
      for (let round = 0; round < 4; round++) {
        await resumeRuns(mortal.process);
        await answerAll(app);
        // What was answered finds the place taken.
        await resumeRuns(mortal.process);
        await deps.clock.sleep(50);
        hasWaited ||= (await heads()).some(({ continues }) => continues === true);
        await mortal.idle();
      }
    };
    await settled(deps, Promise.race([lived(), mortal.death.died]));
    // What the dead process asked of the model is asked no more.
    lives += 1;
    atOnce = 0;
    const next = processOf();
    const nextApp = appOf(next.process);
    for (let round = 0; round < 8; round++) {
      const recover = async () => {
        await sweepLostRuns(next.process, { all: round === 0 });
        await sweepQueues(next.process);
        await resumeRuns(next.process, { all: round === 0 });
        await next.idle();
        await answerAll(nextApp);
      };
      await settled(deps, recover());
      await deps.clock.advance(61_000);
    }
    const where = `died at ${life.lifetime} ${life.lastOneHappens ? 'after' : 'before'}`;
    const items = await heads();
    expect(
      items.map(({ status }) => status),
      where,
    ).toEqual(items.map(() => 'completed'));
    expect(items.length, where).toBeGreaterThanOrEqual(begun);
    expect(await settled(deps, list(nextApp)), where).toHaveLength(items.length);
    expect(most, where).toBeLessThanOrEqual(1);
    await expectNothingLeft(world);
    return { asked: mortal.death.asked, hasWaited };
  };
  const { asked, hasWaited } = await history(IMMORTAL);
  expect(hasWaited).toBe(true);
  for (let lifetime = 1; lifetime <= asked; lifetime += 5) {
    await history({ lifetime, lastOneHappens: lifetime % 2 === 1 });
  }
});
