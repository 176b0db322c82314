import { beforeEach, describe, expect, test } from 'vitest';
import { type AdmissionRequest, admit, callsLeft } from '#core/accounts/limits/admission.ts';
import { type Config, parseConfig } from '#core/base/config.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Table } from '#core/ports/table.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';

const DAY_MS = 24 * 3600 * 1000;

/** The rules of `core/accounts/limits/admission.ts`, on the tables of a host. */
export function admissionSuite(makeCounters: (clock: ManualClock) => Promise<Table>): void {
  let deps: { counters: Table; clock: ManualClock; config: Config };
  let workspace: Workspace;
  let runs = 0;

  const setUp = async (free: Record<string, number>) => {
    const clock = new ManualClock();
    const config = parseConfig({ PLATFORM_PLANS: JSON.stringify({ free }) });
    deps = { clock, config, counters: await makeCounters(clock) };
  };
  const ask = (changes: Partial<AdmissionRequest> = {}) =>
    admit(deps, {
      workspace,
      kind: 'llm',
      isPaid: false,
      isCounted: true,
      runId: crypto.randomUUID(),
      deadline: deps.clock.now() + 60_000,
      ...changes,
    });
  const askMany = (count: number, changes: Partial<AdmissionRequest> = {}) =>
    Promise.allSettled(Array.from({ length: count }, () => ask(changes)));
  const admitted = (answers: PromiseSettledResult<Awaited<ReturnType<typeof ask>>>[]) =>
    answers.filter((answer) => answer.status === 'fulfilled').map(({ value }) => value);
  const refusals = (answers: PromiseSettledResult<unknown>[]) =>
    answers.filter((answer) => answer.status === 'rejected').map(({ reason }) => reason);

  beforeEach(() => {
    runs += 1;
    workspace = { id: `ws-${runs}`, slug: 'acme', name: 'acme', type: 'team', createdAt: '', plan: 'free' };
  });

  describe('the daily limit', () => {
    test('admits exactly the calls of the plan out of 200 concurrent calls', async () => {
      await setUp({ daily_calls: 120, concurrent_calls: 200 });
      const answers = await askMany(200);
      const passed = admitted(answers);
      expect(passed).toHaveLength(120);
      const left = passed.map(({ rateLimit }) => rateLimit!.remaining).sort((a, b) => a - b);
      expect(left).toEqual(Array.from({ length: 120 }, (_, i) => i));
      for (const error of refusals(answers)) expect(error).toMatchObject({ code: 'RATE_LIMITED' });
      // Refused calls hold no lease.
      await Promise.all(passed.map((admission) => admission.release()));
      expect(await deps.counters.get({ pk: `WS#${workspace.id}#LIMITS`, sk: 'CALLS' })).toMatchObject({ active: 0 });
    });

    test('starts again at midnight UTC, which the error names', async () => {
      await setUp({ daily_calls: 1 });
      await (await ask()).release();
      const refused = await ask().catch((error) => error);
      const midnight = (Math.floor(deps.clock.now() / DAY_MS) + 1) * DAY_MS;
      expect(refused).toMatchObject({
        code: 'RATE_LIMITED',
        message: expect.stringContaining(new Date(midnight).toISOString()),
        extra: { suggested_wait_time: (midnight - deps.clock.now()) / 1000 },
        rateLimit: { limit: 1, remaining: 0, resetAt: midnight },
      });
      await deps.clock.advance(midnight - deps.clock.now() - 1);
      await expect(ask()).rejects.toMatchObject({ code: 'RATE_LIMITED' });
      await deps.clock.advance(1);
      const { rateLimit, release } = await ask();
      expect(rateLimit).toEqual({ limit: 1, remaining: 0, resetAt: midnight + DAY_MS });
      await release();
      const item = (await deps.counters.get({ pk: `WS#${workspace.id}#LIMITS`, sk: 'CALLS' }))!;
      expect(Object.keys(item).filter((name) => name.startsWith('llm_'))).toHaveLength(1);
    });

    test('counts each class separately', async () => {
      await setUp({ daily_calls: 1, daily_sandbox_calls: 2, daily_paid_calls: 3 });
      const passed = [];
      for (const changes of [{ kind: 'llm' }, { kind: 'sandbox' }, { kind: 'llm', isPaid: true }] as const) {
        passed.push(admitted([...(await askMany(2, changes)), ...(await askMany(2, changes))]).length);
      }
      expect(passed).toEqual([1, 2, 3]);
      expect(await callsLeft(deps, workspace)).toMatchObject({ limit: 1, remaining: 0 });
    });

    test('of zero admits no call', async () => {
      await setUp({ daily_sandbox_calls: 0 });
      await expect(ask({ kind: 'sandbox' })).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    });

    test('neither counts nor limits sub-calls', async () => {
      await setUp({ daily_calls: 0, concurrent_calls: 1 });
      const answers = admitted(await askMany(5, { isCounted: false }));
      expect(answers.map(({ rateLimit }) => rateLimit)).toEqual(Array(5).fill(undefined));
      expect(await deps.counters.get({ pk: `WS#${workspace.id}#LIMITS`, sk: 'CALLS' })).toBeUndefined();
    });
  });

  describe('concurrency', () => {
    test('admits exactly the concurrency of the plan out of 200 concurrent calls, and does not count the others', async () => {
      await setUp({ concurrent_calls: 37, daily_calls: 1000 });
      const answers = await askMany(200);
      expect(admitted(answers)).toHaveLength(37);
      for (const error of refusals(answers)) expect(error.extra).toEqual({ suggested_wait_time: 1 });
      expect(await callsLeft(deps, workspace)).toMatchObject({ limit: 1000, remaining: 963 });
    });

    test('a call that has ended releases its lease once', async () => {
      await setUp({ concurrent_calls: 2 });
      const [first, second] = [await ask(), await ask()];
      await Promise.all([first.release(), first.release()]);
      await first.release();
      expect(admitted(await askMany(3))).toHaveLength(1);
      await second.release();
      expect(admitted(await askMany(3))).toHaveLength(1);
    });

    test('leases of calls whose host died expire after the deadline', async () => {
      await setUp({ concurrent_calls: 60 });
      const lost = admitted(await askMany(60));
      await deps.clock.advance(60_000);
      expect(admitted(await askMany(1))).toHaveLength(0);
      await deps.clock.advance(32_000);
      expect(admitted(await askMany(200))).toHaveLength(60);
      // The late release of a slow call must not remove the lease of another call.
      await lost[0]!.release();
      expect(admitted(await askMany(1))).toHaveLength(0);
    });

    test('refuses none of 200 calls that come and go within the concurrency', async () => {
      await setUp({ concurrent_calls: 200, daily_calls: 600 });
      const answers = await Promise.allSettled(
        Array.from({ length: 200 }, async () => {
          for (let call = 0; call < 3; call++) await (await ask()).release();
        }),
      );
      expect(refusals(answers)).toEqual([]);
      expect(await callsLeft(deps, workspace)).toMatchObject({ remaining: 0 });
    });

    test('a write that is sent again because its answer was lost counts once', async () => {
      await setUp({ concurrent_calls: 2, daily_calls: 10 });
      const { counters } = deps;
      const twice: Table['update'] = async (...args) => {
        await counters.update(...args);
        return counters.update(...args);
      };
      deps.counters = new Proxy(counters, {
        get: (table, name) => {
          if (name === 'update') return twice;
          const member = Reflect.get(table, name);
          return typeof member === 'function' ? member.bind(table) : member;
        },
      });
      const [first] = [await ask(), await ask()];
      await expect(ask()).rejects.toMatchObject({ extra: { suggested_wait_time: 1 } });
      await first.release();
      expect((await ask()).rateLimit).toMatchObject({ remaining: 7 });
    });
  });
}
