import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { SandboxPool } from '#aws/fargate/pool.ts';
import { expectError, expectOk } from '#test/e2e/expect.ts';
import { streamCall } from '#test/helpers/events.ts';
import { type Answer, clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { POOL, type Rehearsal } from './platform.ts';

/** Prints that it has started, then its input. */
const ECHO = `read -r input
echo begun >&2
case "$input" in *wait*) sleep 60 ;; esac
echo "$input"
`;
/** A count larger than the number of RunTask calls in a test. */
const REFUSALS = 1000;

/** When tasks die, ECS refuses or events are lost, calls still get results and nothing leaks. */
export function chaosSuite(target: () => Rehearsal): void {
  describe('chaos in the sandboxes', () => {
    let workspaceId: string;
    let pool: SandboxPool;
    /** Address of the task for each command sent. */
    let commands: string[];
    const runIds: string[] = [];

    beforeAll(async () => {
      const client = clientOf(target());
      const { workspaces } = await client.listWorkspaces({});
      workspaceId = workspaces.find(({ slug }) => slug === 'acme')!.id;
      const runtime = { command: 'bash main.sh' };
      await publishCode(client, 'survivor', { 'main.sh': ECHO }, { runtime });
      await publishCode(client, 'survivor-brief', { 'main.sh': ECHO }, { runtime, timeout_seconds: 8 });
      pool = new SandboxPool(target().deps, { max: POOL.max, startMs: POOL.startSeconds * 1000 });
    });
    beforeEach(async () => {
      commands = [];
      target().chaos.onCall = (_, event) => {
        if (event?.path === '/exec') commands.push(event.to.address);
      };
      await untilIdle();
    });
    afterEach(() => {
      target().chaos.onTaskEvent = undefined;
      target().chaos.onCall = undefined;
    });

    const tick = () => target().tick('pool-keeper');
    async function untilIdle(): Promise<void> {
      const idle = async () => (await pool.read()).slots.filter(({ state }) => state === 'idle').length;
      await expect.poll(() => tick().then(idle), { timeout: 60_000, interval: 500 }).toBeGreaterThanOrEqual(POOL.idle);
    }
    const running = () => target().ecs.tasks.filter(({ desiredStatus }) => desiredStatus === 'RUNNING');
    const killAt = (address: string) => {
      const at = running().find(({ attachments }) => JSON.stringify(attachments).includes(`"${address}"`));
      target().ecs.kill(at!.taskArn);
    };
    async function killIdle(): Promise<void> {
      const idle = (await pool.read()).slots.filter(({ state }) => state === 'idle').map(({ taskArn }) => taskArn!);
      for (const taskArn of idle) target().ecs.kill(taskArn);
      const left = () => running().filter(({ taskArn }) => idle.includes(taskArn)).length;
      await expect.poll(left).toBe(0);
    }
    async function call(json: object, agent = 'survivor'): Promise<Answer> {
      const answer = await request(target(), 'POST', `/acme/${agent}/v1/run`, { key: target().key, json });
      runIds.push(answer.headers.get('x-run-id')!);
      return answer;
    }
    /** Advances the clock until a call is answered. */
    async function withClock<Result>(work: Promise<Result>): Promise<Result> {
      let isOver = false;
      const over = work.finally(() => {
        isOver = true;
      });
      await expect.poll(() => tick().then(() => isOver), { timeout: 90_000, interval: 500 }).toBe(true);
      return over;
    }
    const runOf = async (id: string | null) =>
      expectOk(await request(target(), 'GET', `/workspaces/${workspaceId}/runs/${id}`, { key: target().key }));
    const logsOf = async (id: string | null) =>
      expectOk(await request(target(), 'GET', `/workspaces/${workspaceId}/runs/${id}/logs`, { key: target().key }));

    test('all idle tasks die without an event: the call is answered by new tasks', async () => {
      target().chaos.onTaskEvent = () => {};
      await killIdle();
      expect(expectOk(await withClock(call({ n: 1 }))).data).toEqual({ n: 1 });
      expect(commands).toHaveLength(1);
    });

    test('a task dies between its claim and its job: 500, to be repeated by the caller, and a failed run', async () => {
      target().chaos.onCall = (_, event) => {
        if (event?.path !== '/exec') return;
        commands.push(event.to.address);
        killAt(event.to.address);
      };
      const answer = await call({ n: 2 });
      expect(expectError(answer, 500, 'INTERNAL_ERROR')).toMatchObject({ is_retryable: true });
      const run = await runOf(answer.headers.get('x-run-id'));
      expect(run).toMatchObject({ status: 'failed', error_code: 'INTERNAL_ERROR', output_data: null });
      expect(commands).toHaveLength(1);
    });

    test('a task dies during its job: its caller is told at once, and what was printed is kept', async () => {
      const stream = await streamCall(target(), '/acme/survivor/v1/run', { key: target().key, json: { wait: 60 } });
      const runId = stream.headers.get('x-run-id');
      runIds.push(runId!);
      let last: unknown;
      for await (const record of stream.records) {
        if (record.data.type === 'stderr') killAt(commands[0]!);
        last = record;
      }
      expect(last).toMatchObject({ event: 'error', data: { error: { code: 'INTERNAL_ERROR', is_retryable: true } } });
      expect(await runOf(runId)).toMatchObject({ status: 'failed', error_code: 'INTERNAL_ERROR' });
      expect(await logsOf(runId)).toMatchObject({ stderr: 'begun\n' });
      expect(commands).toHaveLength(1);
    });

    test('RunTask throttles: who cannot wait is told when to come again, who can is answered', async () => {
      target().ecs.refuse(REFUSALS, 'throttle');
      // Includes tasks that were starting when the others were killed.
      const left = async () => {
        await killIdle();
        return (await pool.read()).slots.filter(({ state }) => state === 'idle' || state === 'starting').length;
      };
      await expect.poll(left, { timeout: 60_000, interval: 500 }).toBe(0);
      const refused = await call({ n: 4 }, 'survivor-brief');
      const error = expectError(refused, 429, 'RATE_LIMITED', 'No sandbox became available');
      expect(error).toMatchObject({ is_retryable: true, suggested_wait_time: expect.any(Number) });
      expect(commands).toEqual([]);
      target().ecs.stopRefusing();
      expect(expectOk(await withClock(call({ n: 5 }))).data).toEqual({ n: 5 });
      expect(commands).toHaveLength(1);
    });

    test.each(['twice', 'late', 'never'] as const)('events of tasks come %s: each call runs once', async (how) => {
      const late: (() => Promise<void>)[] = [];
      target().chaos.onTaskEvent = async (deliver) => {
        if (how === 'late') late.push(deliver);
        if (how === 'twice') await deliver().then(deliver);
      };
      const numbers = [0, 1, 2, 3, 4];
      const answers = await withClock(Promise.all(numbers.map((n) => call({ n }))));
      expect(answers.map((answer) => expectOk(answer).data)).toEqual(numbers.map((n) => ({ n })));
      expect(commands).toHaveLength(numbers.length);
      for (const deliver of late) await deliver();
      await untilIdle();
      const idle = (await pool.read()).slots.filter(({ state }) => state === 'idle').map(({ address }) => address);
      // No used task was reused for calls of another kind.
      expect(commands.filter((address) => idle.includes(address))).toEqual([]);
    });

    test('two calls of one kind use one task, and calls of another tenant and of another workspace have others', async () => {
      const { key } = await target().addUser('neighbour');
      const client = clientOf(target(), key);
      const runtime = { command: 'bash main.sh' };
      await publishCode(client, 'survivor', { 'main.sh': ECHO }, { runtime });
      const tenant = { 'x-platform-tenant': 'another' };
      const calls = [
        () => call({ n: 1 }),
        () => call({ n: 2 }),
        () =>
          request(target(), 'POST', '/acme/survivor/v1/run', { key: target().key, json: { n: 3 }, headers: tenant }),
        () => request(target(), 'POST', '/neighbour/survivor/v1/run', { key, json: { n: 4 } }),
        () => call({ n: 5 }),
      ];
      for (const [index, act] of calls.entries()) {
        expect(expectOk(await withClock(act())).data).toEqual({ n: index + 1 });
        const isClaimed = async () => (await pool.read()).slots.some(({ state }) => state === 'claimed');
        await expect.poll(isClaimed, { timeout: 20_000 }).toBe(false);
      }
      const [first, second, ofTenant, ofNeighbour, last] = commands;
      expect([second, last]).toEqual([first, first]);
      expect(new Set([first, ofTenant, ofNeighbour]).size).toBe(3);
    });

    test('six calls race for three tasks: each runs once', async () => {
      const numbers = [0, 1, 2, 3, 4, 5];
      const answers = await withClock(Promise.all(numbers.map((n) => call({ n }))));
      expect(answers.map((answer) => expectOk(answer).data)).toEqual(numbers.map((n) => ({ n })));
      expect(commands).toHaveLength(6);
    });

    test('nothing is left: no run goes on, no task is claimed, and there is no task that the pool does not know', async () => {
      for (const id of runIds) expect((await runOf(id)).status).toMatch(/^(completed|failed)$/);
      const left = async () => {
        await tick();
        await target().ecs.settled();
        const { slots, waits } = await pool.read();
        const known = slots.map(({ taskArn }) => taskArn);
        return {
          claimed: slots.filter(({ state }) => state === 'claimed'),
          waits: waits.length,
          unknown: running().filter(({ taskArn }) => !known.includes(taskArn)).length,
        };
      };
      await expect.poll(left, { timeout: 60_000, interval: 500 }).toEqual({ claimed: [], waits: 0, unknown: 0 });
    });
  });
}
