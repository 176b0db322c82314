import { describe, expect, test } from 'vitest';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { type Claim, SandboxPool, type Slot } from './pool.ts';

const DEFINITION = 'arn:aws:ecs:eu-west-1:111122223333:task-definition/sandbox:1';
const START_MS = 60_000;

function setUp(max = 8) {
  const deps = memoryDeps();
  const pool = new SandboxPool(deps, { max, startMs: START_MS });
  let claims = 0;
  return {
    ...deps,
    pool,
    /** Adds `count` tasks that are ready to be claimed. */
    async addIdle(count: number): Promise<Slot[]> {
      const numbers = pool.free(await pool.read()).slice(0, count);
      return Promise.all(
        numbers.map(async (number) => {
          const slot = (await pool.reserve(number, DEFINITION))!;
          await pool.ready(slot, `arn:task/${slot.id}`, `10.0.0.${number}`);
          return slot;
        }),
      );
    },
    claimOf: (owner?: string, id = `claim-${claims++}`): Claim => ({
      id,
      owner,
      until: deps.clock.now() + 600_000,
      patience: deps.clock.now() + 300_000,
      since: deps.clock.now(),
    }),
  };
}

describe('a claim', () => {
  test('gets a task of its own, and the same task when it is repeated', async () => {
    const { pool, addIdle, claimOf } = setUp();
    await addIdle(2);
    const claim = claimOf('a');
    const answer = await pool.claim(claim);
    expect(answer).toMatchObject({ slot: { state: 'claimed', claim: claim.id, owner: 'a', until: claim.until } });
    expect(await pool.claim(claim)).toEqual(answer);
    expect((await pool.read()).slots.map(({ state }) => state).sort()).toEqual(['claimed', 'idle']);
  });

  test.each([1, 2, 5])('never shares its task: ten claims at once, %i idle tasks', async (idle) => {
    const { pool, addIdle, claimOf } = setUp(20);
    await addIdle(idle);
    const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => pool.claim(claimOf(`owner-${i}`))));
    const got = answers.flatMap((answer) => ('slot' in answer ? answer.slot.number : []));
    expect(new Set(got).size).toBe(got.length);
    expect(got).toHaveLength(idle);
    const { slots, waits } = await pool.read();
    expect(slots.every(({ state }) => state === 'claimed')).toBe(true);
    expect(waits).toHaveLength(10 - idle);
  });

  test('that waits is told how long a task takes, gets a task once one is ready, and stops waiting', async () => {
    const { pool, addIdle, claimOf, clock } = setUp();
    const claim = claimOf('a');
    expect(await pool.claim(claim)).toEqual({ readyInMs: START_MS });
    await pool.reserve(7, DEFINITION);
    await clock.advance(20_000);
    expect(await pool.claim(claim)).toEqual({ readyInMs: START_MS - 20_000 });
    await addIdle(1);
    expect(await pool.claim(claim)).toHaveProperty('slot');
    expect((await pool.read()).waits).toEqual([]);
  });

  test('whose call stops asking is forgotten', async () => {
    const { pool, claimOf, clock } = setUp();
    await pool.claim(claimOf('a'));
    expect((await pool.read()).waits).toHaveLength(1);
    await clock.advance(10_000);
    expect((await pool.read()).waits).toEqual([]);
  });

  test('that is repeated after it was forgotten keeps its place in the queue, and is not counted twice', async () => {
    const { pool, addIdle, claimOf, clock } = setUp();
    const first = claimOf('a');
    await pool.claim(first);
    await clock.advance(10_000);
    const second = claimOf('b');
    await pool.claim(second);
    await pool.claim({ ...first, isRepeated: true });
    await addIdle(1);
    expect(await pool.claim({ ...second, isRepeated: true })).toHaveProperty('readyInMs');
    expect(await pool.claim({ ...first, isRepeated: true })).toHaveProperty('slot');
    expect((await pool.read()).demand).toBe(2);
  });

  test('whose patience ends before a task is ready does not wait', async () => {
    const { pool, claimOf, clock } = setUp();
    const claim = { ...claimOf('a'), patience: clock.now() + START_MS + 5000 };
    expect(await pool.claim(claim)).toEqual({ readyInMs: START_MS });
    expect((await pool.read()).waits).toHaveLength(1);
    await clock.advance(5001);
    expect(await pool.claim(claim)).toEqual({ readyInMs: START_MS });
    expect((await pool.read()).waits).toEqual([]);
  });

  test('never gets a task that is starting, has ended, or is gone', async () => {
    const { pool, addIdle, claimOf } = setUp();
    await pool.reserve(5, DEFINITION);
    const [ended, gone] = await addIdle(2);
    await pool.end(ended!);
    await pool.release(gone!);
    expect(await pool.claim(claimOf('a'))).toHaveProperty('readyInMs');
  });
});

test('a slot is reserved once, and late events of its last task do not touch the next task', async () => {
  const { pool } = setUp();
  const [first, second] = await Promise.all([pool.reserve(0, DEFINITION), pool.reserve(0, DEFINITION)]);
  expect([first, second].filter(Boolean)).toHaveLength(1);
  const old = (first ?? second)!;
  await pool.release(old);
  expect(await pool.ready(old, 'arn', '10.0.0.1')).toBe(false);
  const next = (await pool.reserve(0, DEFINITION))!;
  await pool.end(old);
  await pool.started(old, 'arn');
  await pool.release(old);
  expect(await pool.ready(old, 'arn', '10.0.0.1')).toBe(false);
  expect((await pool.read()).slots).toEqual([next]);
});

test('demand is that of the busiest of the last five minutes', async () => {
  const { pool, claimOf, clock } = setUp();
  for (let i = 0; i < 4; i++) await pool.claim(claimOf('a'));
  await clock.advance(60_000);
  await pool.claim(claimOf('a'));
  expect((await pool.read()).demand).toBe(4);
  await clock.advance(5 * 60_000);
  expect((await pool.read()).demand).toBe(1);
  await clock.advance(60_000);
  expect((await pool.read()).demand).toBe(0);
});
