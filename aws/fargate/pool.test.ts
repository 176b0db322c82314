import { describe, expect, test } from 'vitest';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { type Claim, SandboxPool, type Slot } from './pool.ts';

const DEFINITION = 'arn:aws:ecs:eu-west-1:111122223333:task-definition/sandbox:1';
const START_MS = 60_000;

const WARM_MS = 30_000;

function setUp(max = 8) {
  const deps = memoryDeps();
  const pool = new SandboxPool(deps, { max, startMs: START_MS });
  let claims = 0;
  return {
    ...deps,
    pool,
    /** Adds `count` tasks that are ready to be claimed. */
    async addIdle(count: number, isInterruptible = false): Promise<Slot[]> {
      const numbers = pool.free(await pool.read()).slice(0, count);
      return Promise.all(
        numbers.map(async (number) => {
          const part = pool.of({ number });
          const slot = (await part.reserve(number, DEFINITION, isInterruptible))!;
          await part.ready(slot, `arn:task/${slot.id}`, `10.0.0.${number}`);
          return slot;
        }),
      );
    },
    claimOf: (owner?: string, id = `claim-${claims++}`, key?: string): Claim => ({
      id,
      owner,
      key,
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

  test('asks again each second when it has its turn, and less often behind many of its owner', async () => {
    const { pool, claimOf } = setUp(2);
    const asked: unknown[] = [];
    for (let i = 0; i < 14; i++) asked.push(await pool.claim({ ...claimOf('a'), since: i }));
    const seconds = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5];
    expect(asked).toMatchObject(seconds.map((each) => ({ askInMs: each * 1000 })));
    expect(await pool.claim({ ...claimOf('b'), since: 14 })).toMatchObject({ askInMs: 1000 });
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
    expect(await pool.claim(claim)).toEqual({ readyInMs: START_MS, askInMs: 1000 });
    await pool.parts[0]!.reserve(7, DEFINITION);
    await clock.advance(20_000);
    expect(await pool.claim(claim)).toEqual({ readyInMs: START_MS - 20_000, askInMs: 1000 });
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
    expect((await pool.read()).demand.lasting).toBe(2);
  });

  test('whose patience ends before a task is ready does not wait', async () => {
    const { pool, claimOf, clock } = setUp();
    const claim = { ...claimOf('a'), patience: clock.now() + START_MS + 5000 };
    expect(await pool.claim(claim)).toEqual({ readyInMs: START_MS, askInMs: 1000 });
    expect((await pool.read()).waits).toHaveLength(1);
    await clock.advance(5001);
    expect(await pool.claim(claim)).toEqual({ readyInMs: START_MS, askInMs: 1000 });
    expect((await pool.read()).waits).toEqual([]);
  });

  test('never gets a task that is starting, has ended, or is gone', async () => {
    const { pool, addIdle, claimOf } = setUp();
    await pool.parts[0]!.reserve(5, DEFINITION);
    const [ended, gone] = await addIdle(2);
    await pool.end(ended!);
    await pool.parts[0]!.release(gone!);
    expect(await pool.claim(claimOf('a'))).toHaveProperty('readyInMs');
  });
});

describe('a warm task', () => {
  /** Creates a pool whose tasks were used by claims of owner and key `a`. Returns also these claims. */
  async function setUpWarm({ max, warm = 1 }: { max?: number; warm?: number } = {}) {
    const given = setUp(max);
    await given.addIdle(warm);
    const uses = await Promise.all(
      Array.from({ length: warm }, async () => {
        const claim = given.claimOf('a', undefined, 'key-a');
        const answer = await given.pool.claim(claim);
        if (!('slot' in answer)) throw new Error('no task');
        return { ...answer.slot, claim: claim.id };
      }),
    );
    for (const use of uses) await given.pool.keepWarm(use, WARM_MS);
    const states = async () => (await given.pool.read()).slots.map(({ state }) => state).sort();
    return { ...given, uses, states };
  }

  test('goes to claims with its key before an idle one does, as often as it is kept', async () => {
    const { pool, addIdle, claimOf, uses, states } = await setUpWarm();
    await addIdle(1);
    for (let round = 0; round < 3; round++) {
      const claim = claimOf('a', undefined, 'key-a');
      const answer = await pool.claim(claim);
      expect(answer).toMatchObject({ wasWarm: true, slot: { number: uses[0]!.number, claim: claim.id, owner: 'a' } });
      expect(await states()).toEqual(['claimed', 'idle']);
      await pool.keepWarm({ ...uses[0]!, claim: claim.id }, WARM_MS);
    }
    expect((await pool.read()).demand.lasting).toBe(1);
  });

  test('never goes to a claim with another key, or without one', async () => {
    const { pool, claimOf, states } = await setUpWarm();
    for (const key of ['key-b', undefined]) {
      expect(await pool.claim(claimOf('a', undefined, key))).toEqual({ readyInMs: START_MS, askInMs: 1000 });
    }
    expect(await states()).toEqual(['warm']);
  });

  test('that had no key stays with nobody', async () => {
    const { pool, addIdle, claimOf } = setUp();
    await addIdle(1);
    const claim = claimOf('a');
    const answer = await pool.claim(claim);
    if (!('slot' in answer)) throw new Error('no task');
    await pool.keepWarm({ ...answer.slot, claim: claim.id }, WARM_MS);
    expect(await pool.claim(claimOf('a'))).toHaveProperty('readyInMs');
  });

  test.each([1, 2, 5])('is never shared: ten claims of its key at once, %i warm tasks', async (warm) => {
    const { pool, claimOf } = await setUpWarm({ max: 20, warm });
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => pool.claim(claimOf(`owner-${i}`, undefined, 'key-a'))),
    );
    const got = answers.flatMap((answer) => ('slot' in answer ? answer.slot.number : []));
    expect(new Set(got).size).toBe(got.length);
    expect(got).toHaveLength(warm);
    const { slots, waits } = await pool.read();
    expect(slots.every(({ state }) => state === 'claimed')).toBe(true);
    expect(waits).toHaveLength(10 - warm);
  });

  test('and an idle one: ten claims of two kinds at once share none', async () => {
    const { pool, addIdle, claimOf } = await setUpWarm({ max: 20, warm: 3 });
    await addIdle(3);
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => pool.claim(claimOf(`owner-${i}`, undefined, i % 2 ? 'key-a' : 'key-b'))),
    );
    const got = answers.flatMap((answer) => ('slot' in answer ? [answer] : []));
    expect(new Set(got.map(({ slot }) => slot.number)).size).toBe(got.length);
    expect(got.filter(({ wasWarm }) => wasWarm).every(({ slot }) => slot.key === 'key-a')).toBe(true);
  });

  test('is not claimed when it is about to end', async () => {
    const { pool, claimOf, clock } = await setUpWarm();
    await clock.advance(WARM_MS - 2000);
    expect(await pool.claim(claimOf('a', undefined, 'key-a'))).toHaveProperty('readyInMs');
  });

  test('is not touched by late news of an earlier use, nor by its keeper once it is claimed', async () => {
    const { pool, claimOf, uses, states } = await setUpWarm();
    const [warm] = (await pool.read()).slots;
    const claim = claimOf('a', undefined, 'key-a');
    await pool.claim(claim);
    await pool.end(uses[0]!);
    await pool.keepWarm(uses[0]!, WARM_MS);
    expect(await pool.parts[0]!.retire(warm!)).toBe(false);
    expect((await pool.read()).slots).toMatchObject([{ state: 'claimed', claim: claim.id }]);
    await pool.end({ ...uses[0]!, claim: claim.id });
    await pool.keepWarm({ ...uses[0]!, claim: claim.id }, WARM_MS);
    expect(await states()).toEqual(['ended']);
  });

  test('is claimed or retired, never both', async () => {
    const { pool, claimOf, states } = await setUpWarm();
    const [warm] = (await pool.read()).slots;
    const [answer, isRetired] = await Promise.all([
      pool.claim(claimOf('a', undefined, 'key-a')),
      pool.parts[0]!.retire(warm!),
    ]);
    expect('slot' in answer).toBe(!isRetired);
    expect(await states()).toEqual([isRetired ? 'ended' : 'claimed']);
  });

  test('waits for its owner while there are places for those before, and not while there are none', async () => {
    const { pool, claimOf } = await setUpWarm({ max: 4, warm: 2 });
    const others = [claimOf('b', undefined, 'key-b'), claimOf('c', undefined, 'key-c')];
    for (const other of others) expect(await pool.claim(other)).toHaveProperty('readyInMs');
    expect(await pool.hasRoom({ number: 0 })).toBe(true);
    const first = claimOf('a', undefined, 'key-a');
    expect(await pool.claim(first)).toHaveProperty('slot');
    // A third one waits, and no slot is left for it.
    expect(await pool.claim(claimOf('d', undefined, 'key-d'))).toHaveProperty('readyInMs');
    expect(await pool.hasRoom({ number: 0 })).toBe(false);
    expect(await pool.claim(claimOf('a', undefined, 'key-a'))).toHaveProperty('readyInMs');
  });
});

test('a slot is reserved once, and late events of its last task do not touch the next task', async () => {
  const { pool } = setUp();
  const [first, second] = await Promise.all([
    pool.parts[0]!.reserve(0, DEFINITION),
    pool.parts[0]!.reserve(0, DEFINITION),
  ]);
  expect([first, second].filter(Boolean)).toHaveLength(1);
  const old = (first ?? second)!;
  await pool.parts[0]!.release(old);
  expect(await pool.parts[0]!.ready(old, 'arn', '10.0.0.1')).toBe(false);
  const next = (await pool.parts[0]!.reserve(0, DEFINITION))!;
  await pool.end(old);
  await pool.parts[0]!.started(old, 'arn');
  await pool.parts[0]!.release(old);
  expect(await pool.parts[0]!.ready(old, 'arn', '10.0.0.1')).toBe(false);
  expect((await pool.read()).slots).toEqual([next]);
});

test('demand is that of the busiest of the last five minutes', async () => {
  const { pool, claimOf, clock } = setUp();
  for (let i = 0; i < 4; i++) await pool.claim(claimOf('a'));
  await clock.advance(60_000);
  await pool.claim(claimOf('a'));
  expect((await pool.read()).demand.lasting).toBe(4);
  await clock.advance(5 * 60_000);
  expect((await pool.read()).demand.lasting).toBe(1);
  await clock.advance(60_000);
  expect((await pool.read()).demand.lasting).toBe(0);
});

describe('a claim that may be interrupted', () => {
  const spot = (claim: Claim): Claim => ({ ...claim, isInterruptible: true });

  test('takes a task of spare capacity, which no other claim gets', async () => {
    const { pool, addIdle, claimOf } = setUp();
    const [slot] = await addIdle(1, true);
    expect(await pool.claim(claimOf('a'))).toHaveProperty('readyInMs');
    expect(await pool.claim(spot(claimOf('b')))).toMatchObject({ slot: { id: slot!.id } });
  });

  test('waits for such a task beside idle ones that last, for which people may come, as long as it can', async () => {
    const { pool, addIdle, claimOf, clock } = setUp();
    const [slot] = await addIdle(1);
    const claim = spot(claimOf('a'));
    expect(await pool.claim(claim)).toEqual({ readyInMs: START_MS, askInMs: 1000 });
    expect((await pool.read()).waits).toMatchObject([{ claim: claim.id, isInterruptible: true }]);
    await clock.advance(300_000 - START_MS);
    expect(await pool.claim({ ...claim, isRepeated: true })).toMatchObject({ slot: { id: slot!.id } });
  });

  test('takes a warm task of either kind, and other claims take none that may go', async () => {
    const { pool, addIdle, claimOf, clock } = setUp();
    for (const isInterruptible of [true, false]) {
      // The waiting claim expires.
      await clock.advance(10_000);
      await addIdle(1, isInterruptible);
      const claim = { ...claimOf('a', undefined, 'key'), isInterruptible };
      const { slot } = (await pool.claim(claim)) as { slot: Slot };
      await pool.keepWarm({ ...slot, claim: claim.id }, WARM_MS);
      if (isInterruptible) expect(await pool.claim(claimOf('a', undefined, 'key'))).toHaveProperty('readyInMs');
      expect(await pool.claim(spot(claimOf('a', undefined, 'key')))).toMatchObject({
        wasWarm: true,
        slot: { number: slot.number },
      });
    }
  });

  test('counts as demand of its kind', async () => {
    const { pool, claimOf } = setUp();
    for (const claim of [claimOf('a'), spot(claimOf('a')), spot(claimOf('b'))]) await pool.claim(claim);
    expect((await pool.read()).demand).toEqual({ lasting: 1, interruptible: 2 });
  });
});

describe('a pool of several parts', () => {
  const many = () => {
    const given = setUp(1000);
    return {
      ...given,
      async addIdleIn(part: number, count: number): Promise<void> {
        const free = given.pool.parts[part]!.free(await given.pool.read());
        for (const number of free.slice(0, count)) {
          const slot = (await given.pool.parts[part]!.reserve(number, DEFINITION))!;
          await given.pool.parts[part]!.ready(slot, `arn:task/${slot.id}`, `10.0.${part}.${number % 100}`);
        }
      },
    };
  };

  test('has as many slots as the stage allows, in equal parts of at most a hundred', async () => {
    for (const [max, sizes] of [
      [100, [100]],
      [101, [51, 50]],
      [250, [84, 83, 83]],
      [10_000, Array(100).fill(100)],
    ] as const) {
      const { pool } = setUp(max);
      const snapshot = { slots: [] };
      expect(pool.parts.map((part) => part.free(snapshot).length)).toEqual(sizes);
      expect(new Set(pool.free(snapshot)).size).toBe(max);
      for (const part of pool.parts) for (const number of part.free(snapshot)) expect(pool.of({ number })).toBe(part);
    }
  });

  test('reads two partitions for a claim, whatever its size', async () => {
    const { counters, clock, ids } = memoryDeps();
    const read: string[] = [];
    const counted = {
      ...counters,
      query: (query: Parameters<typeof counters.query>[0]) => {
        read.push(query.pk);
        return counters.query(query);
      },
    };
    for (const method of ['get', 'put', 'update', 'delete', 'transact', 'batchGet'] as const) {
      counted[method] = (counters[method] as () => never).bind(counters);
    }
    for (const max of [200, 10_000]) {
      read.length = 0;
      const pool = new SandboxPool({ counters: counted, clock, ids }, { max, startMs: START_MS });
      const claim = { id: `claim ${max}`, until: 0, patience: clock.now() + 300_000, since: clock.now() };
      expect(await pool.claim(claim)).toMatchObject({ readyInMs: START_MS, part: expect.any(Number) });
      expect(read).toHaveLength(2);
      expect(new Set(read).size).toBe(2);
    }
  });

  test('spreads calls that wait, finds each again where it waits, and gives it a task of either of its parts', async () => {
    const { pool, addIdleIn, claimOf } = many();
    const claims = Array.from({ length: 100 }, (_, n) => claimOf(`owner ${n}`));
    const answers = await Promise.all(claims.map((claim) => pool.claim(claim)));
    const parts = answers.map((answer) => ('part' in answer ? answer.part! : -1));
    expect(new Set(parts).size).toBe(10);
    expect((await pool.read()).waits).toHaveLength(100);
    expect((await pool.read()).demand.lasting).toBe(100);
    for (const [n, claim] of claims.entries()) {
      expect(await pool.claim({ ...claim, isRepeated: true })).toMatchObject({ part: parts[n] });
    }
    expect((await pool.read()).waits).toHaveLength(100);
    for (let part = 0; part < 10; part++) await addIdleIn(part, 15);
    const got = await Promise.all(claims.map((claim) => pool.claim({ ...claim, isRepeated: true })));
    const slots = got.flatMap((answer) => ('slot' in answer ? answer.slot.number : []));
    expect(new Set(slots).size).toBe(slots.length);
    expect(slots.length).toBeGreaterThan(90);
    expect((await pool.read()).waits).toHaveLength(100 - slots.length);
    expect((await pool.read()).demand.lasting).toBe(100);
  });

  test('gives a warm task to calls of its key, wherever it was used, and a repeated claim its own task', async () => {
    const { pool, addIdleIn, claimOf } = many();
    for (let part = 0; part < 10; part++) await addIdleIn(part, 1);
    const first = claimOf('a', undefined, 'key-a');
    const { slot } = (await pool.claim(first)) as { slot: Slot };
    expect(await pool.claim({ ...first, isRepeated: true })).toMatchObject({ slot: { number: slot.number } });
    await pool.keepWarm({ ...slot, claim: first.id }, WARM_MS);
    for (let n = 0; n < 5; n++) {
      const next = claimOf('a', undefined, 'key-a');
      expect(await pool.claim(next)).toMatchObject({ wasWarm: true, slot: { number: slot.number } });
      expect(await pool.hasRoom(slot)).toBe(true);
      await pool.keepWarm({ ...slot, claim: next.id }, WARM_MS);
    }
  });

  test('serves one key from many parts once its own has no slot left', async () => {
    const { pool, addIdleIn, claimOf } = many();
    for (let part = 0; part < 10; part++) await addIdleIn(part, 60);
    const answers = [];
    for (let n = 0; n < 300; n++) answers.push(await pool.claim(claimOf('a', undefined, 'key-a')));
    const used = answers.flatMap((answer) => ('slot' in answer ? Math.floor(answer.slot.number / 100) : []));
    expect(used.length).toBeGreaterThan(295);
    expect(new Set(used).size).toBe(10);
  });

  test('keeps slots of a larger pool known until they end', async () => {
    const { pool, addIdleIn, counters, clock, ids } = many();
    await addIdleIn(1, 1);
    await addIdleIn(2, 1);
    const smaller = new SandboxPool({ counters, clock, ids }, { max: 100, startMs: START_MS });
    expect((await smaller.former()).map(({ number }) => number)).toEqual([1, 2]);
    const { slots } = await pool.read();
    for (const slot of slots) await smaller.of(slot).release(slot);
    expect(await smaller.former()).toEqual([]);
  });
});
