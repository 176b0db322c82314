import { ECSClient } from '@aws-sdk/client-ecs';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Clock } from '#core/ports/clock.ts';
import { type FakeEvent, startFakeEcs } from '#test/helpers/fake-ecs/fake-ecs.ts';
import type { FakeTask } from '#test/helpers/fake-ecs/tasks.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { PoolKeeper, type PoolSettings } from './keeper.ts';
import { SandboxPool } from './pool.ts';

const DEFINITION = 'arn:aws:ecs:eu-west-1:111122223333:task-definition/sandbox:1';
const NEXT_DEFINITION = 'arn:aws:ecs:eu-west-1:111122223333:task-definition/sandbox:2';
const SETTINGS: PoolSettings = {
  cluster: 'sandboxes',
  taskDefinition: DEFINITION,
  subnets: ['subnet-1', 'subnet-2'],
  securityGroup: 'sg-1',
  hasPublicIp: true,
  idle: 0,
  max: 10,
  startMs: 60_000,
};

/** Creates a keeper and a fake ECS whose tasks do nothing; `deliver` decides the fate of an event. */
async function setUp(
  settings: Partial<PoolSettings> = {},
  deliver: 'once' | 'twice' | 'never' | 'late' = 'once',
  starts = true,
) {
  const deps = memoryDeps();
  const late: FakeEvent[] = [];
  const ecs = await startFakeEcs({
    clusters: [SETTINGS.cluster],
    taskDefinitions: [DEFINITION, NEXT_DEFINITION],
    async start() {
      const { promise, resolve } = Promise.withResolvers<void>();
      if (!starts) await promise;
      return { exited: promise, kill: () => resolve() };
    },
    async onEvent(event) {
      if (deliver === 'late') late.push(event);
      if (deliver === 'once' || deliver === 'twice') await keeper.onTask(event.detail as never);
      if (deliver === 'twice') await keeper.onTask(event.detail as never);
    },
  });
  onTestFinished(() => ecs.close());
  const client = new ECSClient({
    region: 'eu-west-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: ecs.url,
    maxAttempts: 1,
  });
  const keeperOf = (more: Partial<PoolSettings> = {}) =>
    new PoolKeeper(client, deps, { ...SETTINGS, ...settings, ...more });
  const keeper = keeperOf();
  const pool = new SandboxPool(deps, { ...SETTINGS, ...settings });
  return {
    ...deps,
    ecs,
    keeper,
    keeperOf,
    pool,
    late,
    running: (): FakeTask[] => ecs.tasks.filter(({ desiredStatus }) => desiredStatus === 'RUNNING'),
    states: async () => (await pool.read()).slots.map(({ state }) => state).sort(),
    async refill() {
      await keeper.refill();
      await ecs.settled();
    },
    async minute() {
      await keeper.reconcile();
      await keeper.refill();
      await ecs.settled();
    },
    /** Waits until all started tasks have reported that they run. */
    async upAndRunning() {
      await expect
        .poll(() => ecs.tasks.every(({ lastStatus }) => ['RUNNING', 'STOPPED'].includes(lastStatus)))
        .toBe(true);
      await ecs.settled();
    },
  };
}

const times = (clock: Clock) => ({
  until: clock.now() + 300_000,
  patience: clock.now() + 200_000,
  since: clock.now(),
});

describe('the pool', () => {
  test('has as many idle tasks as the stage wants, and no more', async () => {
    const { refill, upAndRunning, states, ecs, pool } = await setUp({ idle: 3 });
    await refill();
    await refill();
    await upAndRunning();
    await refill();
    expect(await states()).toEqual(['idle', 'idle', 'idle']);
    expect(ecs.tasks).toHaveLength(3);
    const [slot] = (await pool.read()).slots;
    expect(slot).toMatchObject({ address: expect.stringMatching(/^127\./), taskArn: ecs.tasks[0]!.taskArn });
  });

  test('without idle tasks in the stage stays empty', async () => {
    const { minute, ecs } = await setUp();
    await minute();
    expect(ecs.requests).toEqual([]);
  });

  test('refills when tasks are claimed, grows with demand, and shrinks without', async () => {
    const { minute, upAndRunning, pool, states, running, clock } = await setUp({ idle: 1 });
    await minute();
    await upAndRunning();
    for (const id of ['a', 'b', 'c']) await pool.claim({ id, owner: id, ...times(clock) });
    await minute();
    await upAndRunning();
    // One is claimed; three were requested within a minute, and two of these still wait.
    expect(await states()).toEqual(['claimed', 'idle', 'idle', 'idle', 'idle', 'idle']);
    for (const id of ['b', 'c'])
      expect(await pool.claim({ id, owner: id, isRepeated: true, ...times(clock) })).toHaveProperty('slot');
    await clock.advance(7 * 60_000);
    await minute();
    await minute();
    expect(await states()).toEqual(['idle']);
    expect(running()).toHaveLength(1);
  });

  test('never has more tasks than its maximum, however many keepers run', async () => {
    const { keeperOf, upAndRunning, ecs, states } = await setUp({ idle: 6, max: 4 });
    await Promise.all([keeperOf().refill(), keeperOf().refill(), keeperOf().refill()]);
    await upAndRunning();
    expect(ecs.tasks).toHaveLength(4);
    expect(await states()).toEqual(['idle', 'idle', 'idle', 'idle']);
  });

  test('has only tasks of the new revision after a deployment', async () => {
    const { minute, upAndRunning, keeperOf, running } = await setUp({ idle: 2 });
    await minute();
    await upAndRunning();
    const next = keeperOf({ taskDefinition: NEXT_DEFINITION });
    await next.refill();
    await next.reconcile();
    await next.refill();
    await upAndRunning();
    expect(running().map(({ taskDefinitionArn }) => taskDefinitionArn)).toEqual([NEXT_DEFINITION, NEXT_DEFINITION]);
  });
});

describe('a warm task', () => {
  type Pool = Awaited<ReturnType<typeof setUp>>;
  /** Starts the pool, and leaves `count` of its tasks warm for the key `a`, for 30 s. */
  async function warmUp({ minute, upAndRunning, pool, clock }: Pool, count: number): Promise<void> {
    await minute();
    await upAndRunning();
    for (let i = 0; i < count; i++) {
      const claim = { id: `warm-${i}`, owner: 'a', key: 'a', isRepeated: true, ...times(clock) };
      expect(await pool.claim(claim)).toHaveProperty('slot');
    }
    for (const slot of (await pool.read()).slots)
      if (slot.claim !== undefined) await pool.keepWarm({ ...slot, claim: slot.claim }, 30_000);
  }

  test('is neither idle nor surplus', async () => {
    const given = await setUp({ idle: 2 });
    await warmUp(given, 2);
    await given.minute();
    await given.upAndRunning();
    expect(await given.states()).toEqual(['idle', 'idle', 'warm', 'warm']);
  });

  test('makes room for a call that waits when all places are taken, and for no more calls than wait', async () => {
    const given = await setUp({ idle: 4, max: 4 });
    await warmUp(given, 3);
    expect(await given.states()).toEqual(['idle', 'warm', 'warm', 'warm']);
    const { pool, clock, minute, upAndRunning } = given;
    for (const id of ['b', 'c']) await pool.claim({ id, owner: id, ...times(clock) });
    for (let i = 0; i < 3; i++) {
      await minute();
      await upAndRunning();
    }
    expect(await given.states()).toEqual(['claimed', 'idle', 'warm', 'warm']);
    const answer = await pool.claim({ id: 'c', owner: 'c', isRepeated: true, ...times(clock) });
    expect(answer).toHaveProperty('slot');
  });

  test('of an earlier revision is stopped after a deployment', async () => {
    const given = await setUp({ idle: 2 });
    await warmUp(given, 2);
    await given.keeperOf({ taskDefinition: NEXT_DEFINITION }).refill();
    await given.upAndRunning();
    expect(given.running().every(({ taskDefinitionArn }) => taskDefinitionArn === NEXT_DEFINITION)).toBe(true);
    expect(await given.states()).not.toContain('warm');
  });

  test('that ended is forgotten at its event, and one that does not end is stopped', async () => {
    const given = await setUp({ idle: 2 });
    await warmUp(given, 2);
    const [first] = (await given.pool.read()).slots.filter(({ state }) => state === 'warm');
    given.ecs.kill(first!.taskArn!);
    await given.upAndRunning();
    expect((await given.pool.read()).slots.map(({ id }) => id)).not.toContain(first!.id);
    await given.clock.advance(100_000);
    await given.minute();
    expect(await given.states()).not.toContain('warm');
  });
});

describe('when things go wrong', () => {
  test.each(['twice', 'never', 'late'] as const)('events come %s', async (deliver) => {
    const { minute, upAndRunning, states, late, keeper, running, ecs, pool, clock } = await setUp({ idle: 2 }, deliver);
    await minute();
    await upAndRunning();
    await minute();
    expect(await states()).toEqual(['idle', 'idle']);
    ecs.kill(running()[0]!.taskArn);
    await expect.poll(() => ecs.tasks.filter(({ lastStatus }) => lastStatus === 'STOPPED').length).toBe(1);
    await minute();
    await minute();
    await upAndRunning();
    await minute();
    expect(await states()).toEqual(['idle', 'idle']);
    await pool.claim({ id: 'a', ...times(clock) });
    // Repeats all past events: they must not revive anything.
    for (const { detail } of late) await keeper.onTask(detail as never);
    const { slots } = await pool.read();
    expect(slots.map(({ state }) => state).sort()).toEqual(['claimed', 'idle']);
    expect(slots.map(({ taskArn }) => taskArn).sort()).toEqual(
      running()
        .map(({ taskArn }) => taskArn)
        .sort(),
    );
    expect(ecs.tasks).toHaveLength(3);
  });

  test.each(['throttle', 'failure'] as const)('RunTask answers with a %s: the next minute tries again', async (how) => {
    const { minute, upAndRunning, ecs, states, lines } = await setUp({ idle: 2 });
    ecs.refuse(1, how);
    await minute();
    expect(await states()).toEqual([]);
    expect(lines).toContainEqual(expect.objectContaining({ level: 'error', message: 'task not started' }));
    await minute();
    await upAndRunning();
    expect(await states()).toEqual(['idle', 'idle']);
  });

  test('the answer of RunTask is lost: its task is found, and not started twice', async () => {
    const { minute, upAndRunning, ecs, states, clock } = await setUp({ idle: 1 }, 'never');
    ecs.loseAnswers(1);
    await minute();
    await upAndRunning();
    expect(await states()).toEqual(['starting']);
    await clock.advance(70_000);
    await minute();
    expect(await states()).toEqual(['idle']);
    expect(ecs.tasks).toHaveLength(1);
  });

  test('RunTask fails without saying whether a task started: the slot is free a minute later', async () => {
    const { minute, upAndRunning, ecs, states, clock } = await setUp({ idle: 1 });
    ecs.refuse(1, 'error');
    await minute();
    expect(await states()).toEqual(['starting']);
    await clock.advance(70_000);
    await minute();
    await upAndRunning();
    expect(await states()).toEqual(['idle']);
    expect(ecs.tasks).toHaveLength(1);
  });

  test('a task that dies idle is replaced', async () => {
    const { minute, upAndRunning, ecs, states, running, refill } = await setUp({ idle: 2 });
    await minute();
    await upAndRunning();
    ecs.kill(running()[0]!.taskArn);
    await expect.poll(() => running().length).toBe(1);
    await ecs.settled();
    await refill();
    await upAndRunning();
    expect(await states()).toEqual(['idle', 'idle']);
  });

  test('a claimed task that its call did not end is stopped after its deadline, not before', async () => {
    const { minute, upAndRunning, ecs, states, running, clock, pool } = await setUp({ idle: 1 });
    await minute();
    await upAndRunning();
    await pool.claim({ id: 'lost', owner: 'a', ...times(clock) });
    const { taskArn } = running()[0]!;
    await clock.advance(300_000);
    await minute();
    expect(await states()).toContain('claimed');
    await clock.advance(120_000);
    await minute();
    await expect.poll(() => running().map((task) => task.taskArn)).not.toContain(taskArn);
    await ecs.settled();
    expect(await states()).not.toContain('claimed');
  });

  test('a used task that did not end by itself is stopped', async () => {
    const { minute, upAndRunning, running, clock, pool, ecs } = await setUp({ idle: 1 });
    await minute();
    await upAndRunning();
    const answer = await pool.claim({ id: 'done', owner: 'a', ...times(clock) });
    const { slot } = answer as { slot: { number: number; id: string; taskArn: string } };
    await pool.end(slot);
    await minute();
    await expect.poll(() => running().map((task) => task.taskArn)).not.toContain(slot.taskArn);
    await ecs.settled();
    expect((await pool.read()).slots.map(({ id }) => id)).not.toContain(slot.id);
  });

  test('a task that never becomes ready is stopped', async () => {
    const { minute, clock, pool, running } = await setUp({ idle: 1 }, 'once', false);
    await minute();
    const slot = (await pool.read()).slots[0]!;
    await clock.advance(11 * 60_000);
    await minute();
    await expect
      .poll(() => running().map(({ startedBy }) => startedBy))
      .not.toContain(`pool/${slot.number}/${slot.id}`);
  });

  test("a foreign task's event changes nothing", async () => {
    const { keeper, states } = await setUp();
    const task = { taskArn: 'arn', startedBy: 'ecs-svc/1', lastStatus: 'RUNNING' } as never;
    await keeper.onTask(task);
    await keeper.onTask({ ...(task as object), startedBy: `pool/0/${'a'.repeat(24)}` } as never);
    expect(await states()).toEqual([]);
  });
});

describe('spare capacity', () => {
  const capacities = (tasks: readonly FakeTask[]) =>
    tasks.map(({ capacityProviderName = 'FARGATE' }) => capacityProviderName);
  const claimAll = async ({ pool, clock }: Awaited<ReturnType<typeof setUp>>, ...ids: string[]) => {
    const ask = (id: string) => pool.claim({ id, owner: id, isInterruptible: true, ...times(clock) });
    return Promise.all(ids.map(ask));
  };

  test('is for claims that may be interrupted, and only for them', async () => {
    const world = await setUp({ idle: 1 });
    await claimAll(world, 'a');
    await world.refill();
    await world.upAndRunning();
    // One more task for the next minute.
    expect(capacities(world.running())).toEqual(['FARGATE_SPOT', 'FARGATE', 'FARGATE_SPOT']);
    expect(await claimAll(world, 'a')).toMatchObject([{ slot: { isInterruptible: true } }]);
  });

  test.each(['none', 'fails', 'delayed'] as const)(
    'that is not there (%s) is made up for by other capacity',
    async (spot) => {
      const world = await setUp();
      const { ecs, minute, clock, running } = world;
      ecs.spot = spot;
      await claimAll(world, 'a');
      await minute();
      if (spot === 'fails')
        await expect.poll(() => ecs.tasks.every((task) => task.lastStatus === 'STOPPED')).toBe(true);
      if (spot === 'delayed') await clock.advance(4 * 60_000);
      await ecs.settled();
      await claimAll(world, 'a');
      await minute();
      await ecs.settled();
      await minute();
      await expect.poll(() => running().every((task) => task.lastStatus === 'RUNNING')).toBe(true);
      await ecs.settled();
      expect(new Set(capacities(running()))).toEqual(new Set(['FARGATE']));
      expect(await claimAll(world, 'a')).toMatchObject([{ slot: { isInterruptible: true } }]);
      // Later, spot capacity is requested again.
      ecs.spot = 'there';
      await clock.advance(6 * 60_000);
      await claimAll(world, 'b', 'c', 'd', 'e');
      await minute();
      expect(capacities(running())).toContain('FARGATE_SPOT');
    },
  );

  test('is not given up because ECS is busy', async () => {
    const world = await setUp();
    world.ecs.refuse(1, 'throttle');
    await claimAll(world, 'a');
    await world.refill();
    expect(world.running()).toEqual([]);
    await world.refill();
    expect(new Set(capacities(world.running()))).toEqual(new Set(['FARGATE_SPOT']));
  });

  test.each([
    { idle: 2, claims: ['lasting'], spot: true },
    { idle: 0, claims: ['spot', 'spot'], spot: false },
  ])('idle tasks of one kind make room for claims of the other: $claims', async ({ idle, claims, spot }) => {
    const world = await setUp({ idle, max: 2 });
    const { pool, clock, minute, upAndRunning, running } = world;
    for (const [index, kind] of claims.entries()) {
      if (kind === 'spot') await claimAll(world, `early-${index}`);
    }
    await minute();
    await upAndRunning();
    expect(new Set(capacities(running())).size).toBe(1);
    await clock.advance(10_000);
    const wanted = { id: 'late', owner: 'z', ...(spot && { isInterruptible: true }) };
    await pool.claim({ ...wanted, ...times(clock) });
    for (let looks = 0; looks < 3; looks++) {
      await minute();
      await expect
        .poll(() => world.ecs.tasks.every((task) => ['RUNNING', 'STOPPED'].includes(task.lastStatus)))
        .toBe(true);
      await world.ecs.settled();
      await pool.claim({ ...wanted, isRepeated: true, ...times(clock) });
    }
    expect(new Set(capacities(running()))).toContain(spot ? 'FARGATE_SPOT' : 'FARGATE');
  });

  test('that AWS takes back is replaced', async () => {
    const world = await setUp();
    const { ecs, refill, upAndRunning, running, states } = world;
    await claimAll(world, 'a');
    await refill();
    await upAndRunning();
    const [first] = running();
    ecs.reclaim(first!.taskArn);
    await expect.poll(() => ecs.tasks[0]!.lastStatus).toBe('STOPPED');
    await ecs.settled();
    await refill();
    await upAndRunning();
    expect(running().map(({ taskArn }) => taskArn)).not.toContain(first!.taskArn);
    expect(await states()).toEqual(['idle', 'idle']);
  });
});

describe('a pool of several parts', () => {
  test('has its idle tasks in all parts, and stops all of them once it is small and wants none', async () => {
    const { minute, upAndRunning, pool, keeperOf, ecs, running } = await setUp({ idle: 5, max: 250 });
    await minute();
    await upAndRunning();
    const { slots } = await pool.read();
    expect(slots.map(({ number }) => Math.floor(number / 100)).sort()).toEqual([0, 0, 1, 1, 2]);
    const small = keeperOf({ idle: 0, max: 10 });
    await small.reconcile();
    await small.refill();
    await ecs.settled();
    await small.reconcile();
    expect(running()).toEqual([]);
    expect((await pool.read()).slots).toEqual([]);
  });

  test('starts a task where a call waits, and reads only that part', async () => {
    const { pool, keeper, ecs, upAndRunning, clock } = await setUp({ max: 1000 });
    const claim = { id: 'waits', owner: 'a', ...times(clock) };
    const { part } = (await pool.claim(claim)) as { part: number };
    await keeper.refill((part + 1) % 10);
    expect(ecs.tasks).toEqual([]);
    await keeper.refill(part);
    await upAndRunning();
    expect(await pool.claim({ ...claim, isRepeated: true })).toHaveProperty('slot');
    expect((await pool.read()).waits).toEqual([]);
  });

  test('learns from an event to which part a task belongs', async () => {
    const { pool, keeper } = await setUp({ max: 1000 });
    const slot = (await pool.of({ number: 742 }).reserve(742, DEFINITION))!;
    const event = { taskArn: 'arn:task/1', startedBy: `pool/742/${slot.id}`, lastStatus: 'STOPPED' };
    expect(await keeper.onTask(event)).toBe(7);
    expect((await pool.read()).slots).toEqual([]);
    expect(await keeper.onTask({ ...event, startedBy: 'somebody' })).toBeUndefined();
  });
});
