import { beforeEach, describe, expect, test } from 'vitest';
import {
  type AdmissionRequest,
  admit,
  callsAboutLeft,
  callsInUse,
  callsLeft,
  leasesOf,
} from '#core/accounts/limits/admission.ts';
import { type Config, parseConfig } from '#core/base/config.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { type Item, queryAll, type Table } from '#core/ports/table.ts';
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

  /** Replaces `update` of the counters with what `change` returns. */
  const changeUpdates = (change: (table: Pick<Table, 'update'>) => Table['update']) => {
    const { counters } = deps;
    const update = change({ update: (...args) => counters.update(...args) });
    deps.counters = new Proxy(counters, {
      get: (table, name) => {
        if (name === 'update') return update;
        const member = Reflect.get(table, name);
        return typeof member === 'function' ? member.bind(table) : member;
      },
    });
  };

  const inUse = async () => {
    const { daily_calls: calls, concurrent_calls: running } = await callsInUse(deps, workspace);
    return { calls, running };
  };
  /** The items of the workspace, in the order of their shards. */
  const shards = async (): Promise<Item[]> => {
    const found = [...'0123456789abcdef'].map((digit) =>
      Array.fromAsync(queryAll(deps.counters, { pk: `CALLS#${digit}` })),
    );
    const own = (await Promise.all(found)).flat().filter(({ sk }) => sk.startsWith(`${workspace.id}#`));
    return own.sort((a, b) => (a.sk < b.sk ? -1 : 1));
  };

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
      expect(await inUse()).toEqual({ calls: 120, running: 0 });
      expect(await Array.fromAsync(leasesOf(deps, { all: true }))).toEqual([]);
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
      const [item] = await shards();
      expect(Object.keys(item!).filter((name) => name.startsWith('llm_'))).toHaveLength(1);
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

    test('of a divided plan shows what is left: exactly on one machine, about that elsewhere', async () => {
      await setUp({ daily_calls: 100_000, concurrent_calls: 200 });
      const left = async () => (await ask()).rateLimit!.remaining;
      const shown: number[] = [];
      for (let call = 0; call < 30; call++) shown.push(await left());
      shown.push((await callsAboutLeft(deps, workspace)).remaining);
      const exact = [...Array.from({ length: 30 }, (_, call) => 99_999 - call), 99_970];
      if (deps.counters.isOfOneProcess) expect(shown).toEqual(exact);
      // Each of the four shards estimates the total from its own count.
      else for (const each of shown) expect(99_999 - each).toBeLessThan(4 * 30);
      const together = admitted(await askMany(50)).map(({ rateLimit }) => rateLimit!.remaining);
      expect(together).toHaveLength(50);
      if (deps.counters.isOfOneProcess) expect(Math.min(...together)).toBe(99_920);
      // All begin in one shard, which cannot hold them.
      const oneHome = () => ask({ runId: crypto.randomUUID().replace(/.{6}$/, '000000') });
      const crowded = await Promise.all(Array.from({ length: 60 }, oneHome));
      const least = Math.min(...crowded.map(({ rateLimit }) => rateLimit!.remaining));
      if (deps.counters.isOfOneProcess) expect(least).toBe(99_860);
      // The classes have sums of their own.
      await askMany(30, { kind: 'sandbox' });
      const last = [(await ask({ kind: 'sandbox' })).rateLimit!, await callsAboutLeft(deps, workspace)];
      if (deps.counters.isOfOneProcess) {
        expect(last.map(({ limit, remaining }) => limit - remaining)).toEqual([31, 140]);
      }
    });

    test('of zero admits no call', async () => {
      await setUp({ daily_sandbox_calls: 0 });
      await expect(ask({ kind: 'sandbox' })).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    });

    test('neither counts nor limits sub-calls', async () => {
      await setUp({ daily_calls: 0, concurrent_calls: 1 });
      const answers = admitted(await askMany(5, { isCounted: false }));
      expect(answers.map(({ rateLimit }) => rateLimit)).toEqual(Array(5).fill(undefined));
      expect(await shards()).toEqual([]);
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

    test('leases whose places were given away still lead to their runs', async () => {
      await setUp({ concurrent_calls: 30 });
      const ids = Array.from({ length: 30 }, () => crypto.randomUUID());
      await Promise.all(ids.map((runId) => ask({ runId })));
      const digits = ids.map((id) => id.replaceAll('-', '').slice(0, 15)).sort();
      const found = async (all = false) =>
        (await Array.fromAsync(leasesOf(deps, { all }))).filter(({ workspaceId }) => workspaceId === workspace.id);
      const digitsOf = async (all = false) => (await found(all)).map(({ runDigits }) => runDigits).sort();
      expect(await digitsOf()).toEqual([]);
      expect(await digitsOf(true)).toEqual(digits);
      await deps.clock.advance(92_000);
      expect(await digitsOf()).toEqual(digits);
      const [late] = admitted(await askMany(1));
      expect(await digitsOf()).toEqual(digits);
      expect(await inUse()).toEqual({ calls: 31, running: 1 });
      for (const lease of await found()) {
        await lease.release();
        await lease.release();
      }
      expect(await digitsOf()).toEqual([]);
      expect(await inUse()).toEqual({ calls: 31, running: 1 });
      await late!.release();
      expect(await inUse()).toEqual({ calls: 31, running: 0 });
    });

    test('calls that begin or end at the same moment share a write, each with its own lease and count', async () => {
      await setUp({ concurrent_calls: 40, daily_calls: 100 });
      let updates = 0;
      changeUpdates(({ update }) => (...args) => {
        updates++;
        return update(...args);
      });
      const passed = admitted([...(await askMany(10)), ...(await askMany(8, { kind: 'sandbox' }))]);
      expect(updates).toBe(2);
      const left = passed.map(({ rateLimit }) => rateLimit!.remaining);
      expect(left.slice(0, 10)).toEqual([99, 98, 97, 96, 95, 94, 93, 92, 91, 90]);
      expect(await inUse()).toEqual({ calls: 10, running: 18 });
      // Two leases are released twice.
      await Promise.all([...passed, ...passed.slice(0, 2)].map((admission) => admission.release()));
      expect(updates).toBe(3);
      expect(await inUse()).toEqual({ calls: 10, running: 0 });
      await passed[0]!.release();
      expect(await inUse()).toEqual({ calls: 10, running: 0 });
    });

    test('of calls that begin at the same moment, and for which there is room for some only, as many are admitted', async () => {
      await setUp({ concurrent_calls: 13, daily_calls: 100, daily_sandbox_calls: 3 });
      const [prompts, programs] = await Promise.all([askMany(6), askMany(6, { kind: 'sandbox' })]);
      expect([admitted(prompts).length, admitted(programs).length]).toEqual([6, 3]);
      expect(admitted(await askMany(9))).toHaveLength(4);
      expect(await inUse()).toEqual({ calls: 10, running: 13 });
    });

    test('an admission that cannot be written is one of all that share the write', async () => {
      await setUp({ concurrent_calls: 40, daily_calls: 100 });
      changeUpdates(() => async () => Promise.reject(new Error('the table is away')));
      expect(refusals(await askMany(3)).map(({ message }) => message)).toEqual(Array(3).fill('the table is away'));
      expect(await inUse()).toEqual({ calls: 0, running: 0 });
    });

    test('a write that is sent again because its answer was lost counts once', async () => {
      await setUp({ concurrent_calls: 4, daily_calls: 10 });
      changeUpdates(({ update }) => async (...args) => {
        await update(...args);
        return update(...args);
      });
      const [first] = [await ask(), await ask()];
      expect(admitted(await askMany(2))).toHaveLength(2);
      await expect(ask()).rejects.toMatchObject({ extra: { suggested_wait_time: 1 } });
      await first.release();
      expect((await ask()).rateLimit).toMatchObject({ remaining: 5 });
      expect(await inUse()).toEqual({ calls: 5, running: 4 });
    });
  });

  describe('a plan that is divided into shards', () => {
    const BIG = { concurrent_calls: 200, daily_calls: 50_000 };
    /** Simulates this number of finished calls in each shard. */
    const use = async (counts: readonly number[]) => {
      const today = new Date(deps.clock.now()).toISOString().slice(0, 10);
      const keys = await shards();
      expect(keys).toHaveLength(counts.length);
      await Promise.all(
        keys.map(({ pk, sk, [`llm_${today}`]: used }, shard) =>
          deps.counters.update({ pk, sk }, { add: { [`llm_${today}`]: counts[shard]! - (used as number) } }),
        ),
      );
    };
    const askAndEnd = async (count: number) => {
      for (const admission of admitted(await askMany(count))) await admission.release();
    };

    test('admits exactly the concurrency of the plan out of 260 concurrent calls, in items below 1 KB', async () => {
      await setUp(BIG);
      const passed = admitted(await askMany(260));
      expect(passed).toHaveLength(200);
      const items = await shards();
      expect(items.map(({ active }) => active)).toEqual([50, 50, 50, 50]);
      for (const item of items) expect(sizeOf(item)).toBeLessThanOrEqual(1024);
      await Promise.all(passed.map((admission) => admission.release()));
      expect(await inUse()).toEqual({ calls: 200, running: 0 });
      expect(admitted(await askMany(200))).toHaveLength(200);
    });

    test('admits exactly the calls of the day, wherever they are left', async () => {
      await setUp(BIG);
      await askAndEnd(200);
      await use([12_500, 12_490, 12_500, 12_470]);
      const answers = await askMany(60);
      expect(admitted(answers)).toHaveLength(40);
      for (const error of refusals(answers))
        expect(error).toMatchObject({ rateLimit: { limit: 50_000, remaining: 0 } });
      expect(await inUse()).toEqual({ calls: 50_000, running: 40 });
      expect(await callsLeft(deps, workspace)).toMatchObject({ limit: 50_000, remaining: 0 });
    });

    test('calls that begin at the same moment are in one shard, as long as it has room', async () => {
      await setUp(BIG);
      const inEach = async () => (await shards()).map(({ active }) => active);
      await askMany(10);
      expect(await inEach()).toEqual([10]);
      admitted(await askMany(200));
      expect(await inEach()).toEqual([50, 50, 50, 50]);
    });

    test('counts a call in one shard and takes its place in another, if no shard has both', async () => {
      await setUp(BIG);
      await askAndEnd(200);
      // All slots of shard 0 are taken, and only shard 0 has calls left.
      await use([12_500 - 60, 12_500, 12_500, 12_500]);
      const inFirst = Array.from({ length: 50 }, () => ask({ runId: crypto.randomUUID().replace(/.$/, '4') }));
      await Promise.all(inFirst);
      expect((await shards())[0]).toMatchObject({ active: 50 });
      const [last, ...refused] = [admitted(await askMany(1)), ...refusals(await askMany(11))];
      expect(last).toHaveLength(1);
      expect(refused).toHaveLength(2);
      expect(await inUse()).toEqual({ calls: 50_000, running: 60 });
      await last![0]!.release();
      expect(await inUse()).toEqual({ calls: 50_000, running: 59 });
    });

    test('tells about how many calls are left', async () => {
      await setUp(BIG);
      await askAndEnd(200);
      const { rateLimit } = await ask();
      expect(rateLimit!.remaining).toBeGreaterThan(49_500);
      expect(rateLimit!.remaining).toBeLessThan(50_000);
      expect(await callsLeft(deps, workspace)).toMatchObject({ remaining: 49_799 });
    });
  });
}

/** Bytes of an item as DynamoDB counts them. */
const sizeOf = (item: Item): number =>
  Object.entries(item).reduce(
    (sum, [name, value]) =>
      sum + name.length + (typeof value === 'number' ? 1 + Math.ceil(String(value).length / 2) : String(value).length),
    0,
  );
