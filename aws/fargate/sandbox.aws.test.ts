import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { restoreSnapshot, takeSnapshot } from '#core/execution/durable/files.ts';
import type { SandboxSpec } from '#core/ports/sandbox.ts';
import { ran, specOf } from '#test/conformance/sandbox.ts';
import { warmProgramConformance } from '#test/conformance/warm-programs.ts';
import { type Fargate, type FargateOptions, startFargate } from '#test/helpers/fargate.ts';
import { startRunner } from '#test/helpers/runner.ts';
import { asContainer } from '#test/helpers/runner-task.ts';

// Each test starts runner processes.
vi.setConfig({ testTimeout: 60_000 });
const root = mkdtempSync(join(tmpdir(), 'fargate-test-'));
afterAll(() => rmSync(root, { recursive: true }));

async function start(options: Omit<FargateOptions, 'folder'> = {}): Promise<Fargate> {
  const fargate = await startFargate({ folder: join(root, crypto.randomUUID()), ...options });
  onTestFinished(() => fargate.close());
  return fargate;
}
/** Returns a spec whose deadline is this many seconds from now. */
const within = (seconds: number) => specOf({ deadline: Date.now() + seconds * 1000 });
const states = async ({ pool }: Fargate) => (await pool.read()).slots.map(({ state }) => state).sort();

describe('a session', () => {
  test('has a task of its own, and each request is one call of the function', async () => {
    const fargate = await start({ pool: { idle: 1 } });
    await fargate.idle(1);
    const session = await fargate.sandbox.open(within(60));
    await session.writeFile('a/b.txt', Buffer.from('hello'));
    expect((await ran(session, 'cat a/b.txt; echo oh >&2; exit 3')).exit).toMatchObject({
      reason: 'exited',
      exitCode: 3,
    });
    expect(await session.listFiles('.', { recursive: true })).toContainEqual(
      expect.objectContaining({ path: 'a/b.txt' }),
    );
    await session.close();
    expect(fargate.lambda.calls.filter((call) => call.startsWith('stream'))).toHaveLength(5);
    await expect.poll(() => fargate.ecs.tasks[0]!.lastStatus).toBe('STOPPED');
  });

  test('is used by any process that knows it, and ends for all', async () => {
    const fargate = await start({ pool: { idle: 1 } });
    await fargate.idle(1);
    const opened = await fargate.sandbox.open(within(60));
    await opened.writeFile('mark', Buffer.from('first'));
    const again = await fargate.sandbox.attach(JSON.parse(JSON.stringify(opened.ref)));
    expect((await ran(again, 'cat mark')).out).toBe('first');
    await again.close();
    await expect.poll(() => fargate.ecs.tasks[0]!.lastStatus).toBe('STOPPED');
    expect((await ran(opened, 'cat mark')).exit.reason).toBe('sandbox_lost');
  });

  test('takes and returns more bytes than an event can hold', async () => {
    const fargate = await start({ pool: { idle: 1 } });
    await fargate.idle(1);
    const session = await fargate.sandbox.open(within(60));
    const large = Buffer.alloc(9 * 1024 ** 2, 'x');
    await session.writeFile('large', large);
    const { out } = await ran(session, 'wc -c < large; wc -c', { stdin: large });
    expect(out.split('\n').map(Number).slice(0, 2)).toEqual([large.length, large.length]);
    const read = Buffer.concat(await Array.fromAsync(await session.readFile('large')));
    expect(read.equals(large)).toBe(true);
    await session.close();
  });

  test('goes on in another task by a snapshot', async () => {
    const fargate = await start({ pool: { idle: 2 } });
    await fargate.idle(2);
    const session = await fargate.sandbox.open(within(60));
    await ran(session, 'head -c 9000000 /dev/urandom > ~/large; mkfifo ~/pipe');
    const { out } = await ran(session, 'md5sum < ~/large');
    const snapshot = await takeSnapshot(session, { maxBytes: 20 * 1024 ** 2 });
    if (!('content' in snapshot)) throw new Error(JSON.stringify(snapshot));
    await session.close();
    const next = await fargate.sandbox.open(within(60));
    expect(await restoreSnapshot(next, snapshot.content, { maxBytes: 20 * 1024 ** 2 })).toHaveProperty('mark');
    expect((await ran(next, 'md5sum < ~/large')).out).toBe(out);
    await next.close();
  });

  test('keeps its job out of ECS, the log and the table', async () => {
    const fargate = await start({ pool: { idle: 1 } });
    await fargate.idle(1);
    const session = await fargate.sandbox.open({ ...within(60), env: { TOKEN: 'hush-hush' } });
    expect((await ran(session, 'echo $TOKEN')).out).toBe('hush-hush\n');
    await session.close();
    expect(JSON.stringify([fargate.ecs.tasks, fargate.log, await fargate.pool.read()])).not.toContain('hush');
  });
});

describe('tasks whose program stays', () => {
  let fargate: Fargate;
  warmProgramConformance(
    async () => {
      fargate = await startFargate({ folder: join(root, 'warm'), pool: { idle: 4, max: 40 } });
      return fargate;
    },
    { isOfOneProcess: false },
  );
  afterAll(() => fargate.close());
});

describe('a further session of the same kind', () => {
  const specFor = (owner: string, more: Partial<SandboxSpec> = {}) => {
    const deadline = Date.now() + 300_000;
    return specOf({ owner, deadline, turn: { owner, deadline }, kind: async () => ['agent', null], ...more });
  };
  /** Opens a session, closes it, and returns the address of its task. */
  const use = async ({ sandbox, pool }: Fargate, spec: SandboxSpec) => {
    const session = await sandbox.open(spec);
    const claimed = (await pool.read()).slots.find(({ state }) => state === 'claimed');
    expect((await ran(session, 'ls -A /home/user; touch /home/user/left')).out).toBe('');
    await session.close();
    return claimed!.address;
  };

  test('has the same task, and one of another workspace, kind or egress another', async () => {
    const fargate = await start({ pool: { idle: 5 } });
    await fargate.idle(5);
    const first = await use(fargate, specFor('a'));
    expect(await states(fargate)).toContain('warm');
    expect(await use(fargate, specFor('a', { env: { OTHER: 'x' } }))).toBe(first);
    const others = [
      specFor('b'),
      specFor('a', { kind: async () => ['agent', 'tenant'] }),
      specFor('a', { egress: 'open' }),
      specFor('a', { kind: undefined }),
    ];
    const used = [first];
    for (const other of others) used.push(await use(fargate, other));
    expect(new Set(used).size).toBe(5);
    expect(await use(fargate, specFor('a'))).toBe(first);
  });

  test('has another task after an installation, an unclean end, and where the stage says so', async () => {
    const fargate = await start({ pool: { idle: 2 } });
    await fargate.idle(2);
    await use(fargate, specFor('a', { purpose: 'install' }));
    const session = await fargate.sandbox.open(specFor('a'));
    expect((await ran(session, 'sleep 60', { timeoutMs: 100 })).exit.reason).toBe('timeout');
    await session.close();
    expect(await states(fargate)).not.toContain('warm');
    const never = await start({ pool: { idle: 1 }, config: { sandboxReuse: 'never' } });
    await never.idle(1);
    await use(never, specFor('a'));
    expect(await states(never)).not.toContain('warm');
  });

  test('has another task when its own died meanwhile, without an event', async () => {
    let isSilent = false;
    const fargate = await start({ pool: { idle: 2 }, onEvent: (_, deliver) => (isSilent ? undefined : deliver()) });
    await fargate.idle(2);
    const first = await use(fargate, specFor('a'));
    await fargate.idle(2);
    isSilent = true;
    const warm = (await fargate.pool.read()).slots.find(({ state }) => state === 'warm')!;
    fargate.ecs.kill(warm.taskArn!);
    await expect
      .poll(() => fargate.ecs.tasks.find(({ taskArn }) => taskArn === warm.taskArn)!.lastStatus)
      .toBe('STOPPED');
    expect(await use(fargate, specFor('a'))).not.toBe(first);
  });

  test('has another task while calls wait for which there is no place', async () => {
    const fargate = await start({ pool: { idle: 1, max: 1 } });
    await fargate.idle(1);
    const session = await fargate.sandbox.open(specFor('a'));
    const waiting = fargate.sandbox.open(specFor('b'));
    await expect.poll(async () => (await fargate.pool.read()).waits.length).toBe(1);
    await session.close();
    expect(await states(fargate)).not.toContain('warm');
    await (await waiting).close();
  });
});

describe('when no task is idle', () => {
  test('a call with enough time starts a task and gets it', async () => {
    const fargate = await start();
    const session = await fargate.sandbox.open(within(300));
    expect((await ran(session, 'echo cold')).out).toBe('cold\n');
    await session.close();
    expect(fargate.lambda.calls).toContain('Event pool-keeper');
  });

  test('a call with little time is told when to call again, and finds a task then', async () => {
    const fargate = await start();
    await expect(fargate.sandbox.open(within(30))).rejects.toMatchObject({
      code: 'RATE_LIMITED',
      message: expect.stringMatching(/^No sandbox became available in time: call again in about 60 s/),
      extra: { suggested_wait_time: 60 },
    });
    await fargate.idle(1);
    const session = await fargate.sandbox.open(within(30));
    expect((await ran(session, 'echo warm')).out).toBe('warm\n');
    await session.close();
  });

  test.each([
    ['a call', 'a'],
    ['a sub-call', undefined],
  ])('%s that is cancelled waits no longer', async (_, owner) => {
    const fargate = await start({ start: () => new Promise(() => {}) });
    const stop = new AbortController();
    const deadline = Date.now() + 300_000;
    const turn = owner === undefined ? undefined : { owner, deadline };
    const opening = fargate.sandbox.open(specOf({ deadline, turn, signal: stop.signal }));
    await expect.poll(() => fargate.ecs.tasks.length).toBeGreaterThan(0);
    stop.abort(new Error('cancelled'));
    await expect(opening).rejects.toThrow('cancelled');
  });

  test('a call that is cancelled while it claims a task gives the task back', async () => {
    const stop = new AbortController();
    const fargate = await start({ pool: { idle: 1 } });
    await fargate.idle(1);
    const deadline = Date.now() + 300_000;
    const opening = fargate.sandbox.open(specOf({ deadline, turn: { owner: 'a', deadline }, signal: stop.signal }));
    await expect.poll(() => states(fargate), { interval: 5 }).toContain('claimed');
    stop.abort(new Error('cancelled'));
    await expect(opening).rejects.toThrow('cancelled');
    await expect.poll(() => states(fargate)).not.toContain('claimed');
    await expect.poll(() => fargate.ecs.tasks[0]!.lastStatus).toBe('STOPPED');
  });
});

test('a task that does not answer is given up at the deadline', async () => {
  const silent = createServer(() => {});
  const fargate = await start({
    pool: { idle: 1 },
    async start(_, address) {
      silent.listen(8080, address);
      const exited = Promise.withResolvers<void>();
      return { exited: exited.promise, kill: () => exited.resolve() };
    },
  });
  onTestFinished(() => void silent.close().closeAllConnections());
  await fargate.idle(1);
  await expect(fargate.sandbox.open(within(1))).rejects.toMatchObject({ code: 'TIMEOUT' });
});

describe('chaos', () => {
  test('a task dies before it is claimed, without an event: the call gets another task', async () => {
    let isSilent = false;
    const fargate = await start({ pool: { idle: 2 }, onEvent: (_, deliver) => (isSilent ? undefined : deliver()) });
    await fargate.idle(2);
    isSilent = true;
    const { slots } = await fargate.pool.read();
    const first = [...slots].sort((a, b) => a.createdAt - b.createdAt)[0]!;
    fargate.ecs.kill(first.taskArn!);
    await expect.poll(() => fargate.ecs.tasks.some(({ lastStatus }) => lastStatus === 'STOPPED')).toBe(true);
    for (const text of ['one']) {
      const session = await fargate.sandbox.open(within(60));
      expect((await ran(session, `echo ${text}`)).out).toBe(`${text}\n`);
      await session.close();
    }
    await fargate.minute();
    expect((await fargate.pool.read()).slots.map(({ id }) => id)).not.toContain(first.id);
  });

  test('a task dies between its claim and its job: the run fails at once', async () => {
    const fargate = await start({ pool: { idle: 1 } });
    await fargate.idle(1);
    const session = await fargate.sandbox.open(within(60));
    fargate.ecs.kill(fargate.ecs.tasks[0]!.taskArn);
    await expect.poll(() => fargate.ecs.tasks[0]!.lastStatus).toBe('STOPPED');
    expect((await ran(session, 'echo never')).exit.reason).toBe('sandbox_lost');
    await expect(session.writeFile('x', Buffer.from('x'))).rejects.toMatchObject({ code: 'SANDBOX_FILE' });
    await session.close();
  });

  test('a task dies during its job: the run ends, and its output so far is kept', async () => {
    const fargate = await start({ pool: { idle: 1 } });
    await fargate.idle(1);
    const session = await fargate.sandbox.open(within(60));
    let out = '';
    for await (const event of session.exec({ command: 'echo begun; sleep 60', timeoutMs: 60_000 })) {
      if (event.type === 'stdout') {
        out += Buffer.from(event.data);
        fargate.ecs.kill(fargate.ecs.tasks[0]!.taskArn);
      } else if (event.type === 'exit') expect(event.exit.reason).toBe('sandbox_lost');
    }
    expect(out).toBe('begun\n');
    await session.close();
    await expect.poll(() => states(fargate)).not.toContain('claimed');
  });

  test('the dispatcher dies during a job: the run ends, the job is not run again, and its task is stopped', async () => {
    const fargate = await start({ pool: { idle: 1 } });
    await fargate.idle(1);
    const session = await fargate.sandbox.open(within(60));
    fargate.lambda.breakOff(1);
    const { exit } = await ran(session, 'echo x >> count; echo begun; sleep 60');
    expect(exit.reason).toBe('sandbox_lost');
    expect((await ran(session, 'cat count')).out).toBe('x\n');
    await session.close();
    await expect.poll(() => fargate.ecs.tasks[0]!.lastStatus).toBe('STOPPED');
  });

  test('the dispatcher dies while it opens a session: the call gets another task', async () => {
    const fargate = await start({ pool: { idle: 2 } });
    await fargate.idle(2);
    fargate.lambda.fail(1);
    const session = await fargate.sandbox.open(within(60));
    expect((await ran(session, 'echo on')).out).toBe('on\n');
    await session.close();
  });

  test('the dispatcher dies twice: the sandbox counts as lost', async () => {
    const fargate = await start({ pool: { idle: 1 } });
    await fargate.idle(1);
    fargate.lambda.fail(2);
    await expect(fargate.sandbox.open(within(60))).rejects.toMatchObject({ code: 'SANDBOX_LOST' });
  });

  test('Lambda is busy: requests that did not run are sent again', async () => {
    const fargate = await start({ pool: { idle: 1 } });
    await fargate.idle(1);
    const session = await fargate.sandbox.open(within(60));
    fargate.lambda.throttle(2);
    expect((await ran(session, 'echo x >> count; cat count')).out).toBe('x\n');
    await session.close();
  });

  test('six calls for three tasks: each runs once, in a task of its own', async () => {
    const fargate = await start({ pool: { idle: 3, max: 12 } });
    await fargate.idle(3);
    const outs = await Promise.all(
      Array.from({ length: 6 }, async (_, i) => {
        const deadline = Date.now() + 250_000;
        const session = await fargate.sandbox.open(specOf({ deadline, turn: { owner: `owner-${i % 2}`, deadline } }));
        const { out } = await ran(session, `echo ${i} >> mine; cat mine`);
        await session.close();
        return out;
      }),
    );
    expect(outs).toEqual(Array.from({ length: 6 }, (_, i) => `${i}\n`));
  });
});

describe('Fargate Spot', () => {
  const SPOT = { config: { sandboxSpot: 'retried' } } as const;
  const interruptible = { ...specOf(), isInterruptible: true };
  const claimed = async ({ pool, ecs }: Fargate) => {
    const slot = (await pool.read()).slots.find(({ state }) => state === 'claimed')!;
    return ecs.tasks.find(({ taskArn }) => taskArn === slot.taskArn)!;
  };

  test('runs a session that may be interrupted, and lets it go on when AWS takes the task back', async () => {
    const fargate = await start(SPOT);
    const session = await fargate.sandbox.open({ ...interruptible, deadline: Date.now() + 250_000 });
    const task = await claimed(fargate);
    expect(task).toMatchObject({ capacityProviderName: 'FARGATE_SPOT' });
    let out = '';
    for await (const event of session.exec({ command: 'echo begun; sleep 1; echo done', timeoutMs: 60_000 })) {
      if (event.type === 'exit') expect(event.exit).toMatchObject({ reason: 'exited', exitCode: 0 });
      else {
        if (out === '') fargate.ecs.reclaim(task.taskArn);
        out += Buffer.from(event.data);
      }
    }
    expect(out).toBe('begun\ndone\n');
    await session.close();
    await expect
      .poll(async () => (await fargate.pool.read()).slots.map((slot) => slot.taskArn))
      .not.toContain(task.taskArn);
  });

  test('ends a session that is still at work at the end of the notice: it is lost', async () => {
    const fargate = await start({
      ...SPOT,
      start: async (_, address) => asContainer(await startRunner({ PLATFORM_RUNNER_NOTICE_SECONDS: '0.5' }), address),
    });
    const session = await fargate.sandbox.open({ ...interruptible, deadline: Date.now() + 250_000 });
    const { taskArn } = await claimed(fargate);
    let out = '';
    for await (const event of session.exec({ command: 'echo begun; sleep 600', timeoutMs: 600_000 })) {
      if (event.type === 'exit') expect(event.exit).toMatchObject({ reason: 'sandbox_lost', exitCode: 137 });
      else {
        out += Buffer.from(event.data);
        fargate.ecs.reclaim(taskArn);
      }
    }
    expect(out).toBe('begun\n');
    await session.close();
  });

  test('takes a warm or idle task back at once', async () => {
    const fargate = await start(SPOT);
    const spec = { ...interruptible, owner: 'w', kind: async () => ['k'] };
    const session = await fargate.sandbox.open({ ...spec, deadline: Date.now() + 250_000 });
    await session.close();
    await expect.poll(() => states(fargate)).toEqual(['idle', 'warm']);
    await expect.poll(() => fargate.ecs.tasks.every(({ lastStatus }) => lastStatus === 'RUNNING')).toBe(true);
    const before = fargate.ecs.tasks.map(({ taskArn }) => taskArn);
    for (const taskArn of before) fargate.ecs.reclaim(taskArn);
    const stopped = () => fargate.ecs.tasks.filter(({ lastStatus }) => lastStatus === 'STOPPED').length;
    await expect.poll(stopped, { timeout: 20_000 }).toBeGreaterThanOrEqual(2);
    const next = await fargate.sandbox.open({ ...spec, deadline: Date.now() + 250_000 });
    expect((await ran(next, 'echo on')).out).toBe('on\n');
    await next.close();
  });

  test('is not used where the stage does not want it', async () => {
    const fargate = await start();
    const session = await fargate.sandbox.open({ ...interruptible, deadline: Date.now() + 250_000 });
    expect(fargate.ecs.tasks.map(({ capacityProviderName }) => capacityProviderName)).not.toContain('FARGATE_SPOT');
    await session.close();
  });
});
