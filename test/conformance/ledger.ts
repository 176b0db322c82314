import fc from 'fast-check';
import { beforeEach, expect, test } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import {
  type Charge,
  grantCredits,
  hold,
  type LedgerEntry,
  listEntries,
  balanceOf as readBalance,
  refund,
  settle,
  sweepHolds,
} from '#core/billing/credits/ledger.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { SystemIds } from '#core/ports/ids.ts';
import type { Table, TransactOperation } from '#core/ports/table.ts';
import { RunStore } from '#core/runs/store.ts';
import { testWhere } from '#test/helpers/test-where.ts';

type LedgerTables = { readonly main: Table; readonly runs: Table };

/**
 * The rules of `core/billing/credits/ledger.ts`, on the tables of a host. `rounds` scales the number of runs of the
 * property test.
 */
export function ledgerSuite(
  makeTables: () => Promise<LedgerTables>,
  { rounds, findsRareFaults = false }: { readonly rounds: number; readonly findsRareFaults?: boolean },
): void {
  let deps: LedgerTables & Pick<Deps, 'clock' | 'ids'>;
  let workspaceId: string;
  const authorId = crypto.randomUUID();

  beforeEach(async () => {
    deps = { ...(await makeTables()), clock: new SystemClock(), ids: new SystemIds() };
    workspaceId = crypto.randomUUID();
  });

  const charge = (cents: number, changes: Partial<Charge> = {}): Charge => ({
    workspace: { id: workspaceId, slug: 'acme' },
    runId: crypto.randomUUID(),
    cents,
    agentRef: 'acme/oracle@v1',
    author: { workspaceId: authorId, feeCents: 0 },
    expiresAt: Date.now() + 60_000,
    ...changes,
  });
  const balanceOf = async (on: typeof deps, id: string) => (await readBalance(on, id)).cents;
  const fill = async (cents: number) =>
    (await grantCredits(deps, workspaceId, { id: deps.ids.uuid(), cents, description: 'a present' })).balance.cents;
  const entries = () => listEntries(deps, workspaceId, { limit: 10_000, offset: 0 });

  /** Checks that each entry continues the balance of the one before, and that no balance is below zero. */
  const expectSound = async (): Promise<LedgerEntry[]> => {
    const all = (await entries()).reverse();
    let balance = 0;
    for (const { amountCents, balanceAfterCents } of all) {
      balance += amountCents;
      expect(balanceAfterCents).toBe(balance);
      expect(balance).toBeGreaterThanOrEqual(0);
    }
    expect(await balanceOf(deps, workspaceId)).toBe(balance);
    return all;
  };

  test('a call that completes is charged, and a call that fails is refunded', async () => {
    expect(await fill(100)).toBe(100);
    const [good, bad] = [charge(30), charge(25)];
    await hold(deps, good);
    await hold(deps, bad);
    expect(await balanceOf(deps, workspaceId)).toBe(45);
    await settle(deps, workspaceId, good.runId);
    await refund(deps, workspaceId, bad.runId);
    const all = await expectSound();
    expect(all.map(({ type, amountCents, referenceId }) => [type, amountCents, referenceId])).toEqual([
      ['top_up', 100, expect.stringMatching(/^[0-9a-f-]{36}$/)],
      ['charge', -30, good.runId],
      ['charge', -25, bad.runId],
      ['refund', 25, bad.runId],
    ]);
    expect(
      (await listEntries(deps, workspaceId, { limit: 2, offset: 1 })).map(({ amountCents }) => amountCents),
    ).toEqual([-25, -30]);
  });

  test('the error for a low balance names the price and the balance', async () => {
    await expect(hold(deps, charge(30))).rejects.toMatchObject({ code: 'INSUFFICIENT_CREDITS' });
    await fill(29);
    await expect(hold(deps, charge(30))).rejects.toMatchObject({
      message: 'A call of acme/oracle@v1 costs 30 cents, and the workspace "acme" has 29.',
    });
    expect(await entries()).toHaveLength(1);
  });

  test('repeating a step of a payment changes nothing', async () => {
    await fill(50);
    const [first, second] = [charge(50), charge(20)];
    await Promise.all([hold(deps, first), hold(deps, first), hold(deps, first)]);
    await hold(deps, first);
    expect(await balanceOf(deps, workspaceId)).toBe(0);
    await Promise.all([refund(deps, workspaceId, first.runId), refund(deps, workspaceId, first.runId)]);
    await refund(deps, workspaceId, first.runId);
    expect(await balanceOf(deps, workspaceId)).toBe(50);
    await hold(deps, second);
    await settle(deps, workspaceId, second.runId);
    await refund(deps, workspaceId, second.runId);
    await hold(deps, second);
    await refund(deps, workspaceId, crypto.randomUUID());
    expect(await balanceOf(deps, workspaceId)).toBe(30);
    await expectSound();
  });

  test.each([0, -5, 1.5, Number.NaN])('refuses to add %d cents', async (cents) => {
    await expect(fill(cents)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test('60 concurrent calls spend exactly the balance', async () => {
    await fill(40 * 7 + 3);
    const held = await Promise.allSettled(Array.from({ length: 60 }, () => hold(deps, charge(7))));
    expect(held.filter(({ status }) => status === 'fulfilled')).toHaveLength(40);
    for (const result of held) {
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'INSUFFICIENT_CREDITS' });
    }
    await expectSound();
    expect(await balanceOf(deps, workspaceId)).toBe(3);
  });

  test.each(['the next call', 'a look at the balance', 'the sweep'])(
    'what lost runs hold is given back by %s; a run that completed has been paid for',
    async (how) => {
      await fill(30);
      const expiresAt = Date.now() - 1;
      const [lost, never, completed] = [
        charge(10, { expiresAt }),
        charge(10, { expiresAt }),
        charge(10, { expiresAt }),
      ];
      const runs = new RunStore({ ...deps, config: parseConfig({}), blobs: undefined as never }, workspaceId);
      const record = ({ runId }: Charge) => ({
        id: runId,
        agentId: 'a',
        agentWorkspaceId: 'w',
        agentOrg: 'acme',
        agentName: 'oracle',
        agentVersion: 'v1',
        engine: 'direct_llm' as const,
        endpoint: 'run',
        triggerSource: 'api',
        startedAt: Date.now() - 600_000,
        deadline: Date.now() - 300_000,
        input: {},
      });
      for (const each of [lost, never, completed]) await hold(deps, { ...each, expiresAt: Date.now() + 60_000 });
      await runs.start(record(lost));
      await runs.start(record(completed));
      const ended = { exitCode: null, errorCode: null, errorMessage: null, executionMs: 1, creditsCents: 10 };
      const body = { input: {}, output: {}, stdout: '', stderr: '', trace: [] };
      await runs.finish(record(completed), { status: 'completed', ...ended, ...body });
      const later = { ...deps, clock: Object.assign(Object.create(deps.clock), { now: () => Date.now() + 120_000 }) };

      if (how === 'the next call') await hold(later, charge(20));
      if (how === 'a look at the balance') expect(await balanceOf(later, workspaceId)).toBe(20);
      if (how === 'the sweep') await sweepHolds(later);
      const all = await expectSound();
      const refunded = all.filter(({ type }) => type === 'refund').map(({ referenceId }) => referenceId);
      expect(refunded.sort()).toEqual([lost.runId, never.runId].sort());
      await refund(deps, workspaceId, completed.runId);
      expect(await balanceOf(deps, workspaceId)).toBe(how === 'the next call' ? 0 : 20);
    },
  );

  /**
   * Plays histories of concurrent steps, then checks that the ledger is consistent and has every successful step.
   * `main` is
   * the table of the ledger.
   */
  const playHistories = (main: Table, options: { numRuns: number; endOnFailure?: boolean }) => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('fill' as const), cents: fc.integer({ min: 1, max: 2000 }) }),
      // Most prices differ, so that each one can be identified.
      fc.record({ do: fc.constant('hold' as const), cents: fc.noBias(fc.nat(999)), run: fc.nat(7) }),
      fc.record({ do: fc.constantFrom('settle' as const, 'refund' as const), run: fc.nat(7) }),
    );
    const waves = fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { maxLength: 6 });
    const property = fc.asyncProperty(waves, async (played) => {
      workspaceId = crypto.randomUUID();
      const on = { ...deps, main };
      const runIds = Array.from({ length: 8 }, () => crypto.randomUUID());
      const held = new Set<string>();
      let filled = 0;
      for (const wave of played) {
        const results = await Promise.allSettled(
          wave.map(async (each) => {
            if (each.do === 'fill') {
              await grantCredits(on, workspaceId, { id: deps.ids.uuid(), cents: each.cents, description: 'a present' });
              filled += each.cents;
            } else if (each.do === 'hold') {
              await hold(on, charge(each.cents + 1, { runId: runIds[each.run]! }));
              held.add(runIds[each.run]!);
            } else await { settle, refund }[each.do](on, workspaceId, runIds[each.run]!);
          }),
        );
        for (const result of results) {
          if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'INSUFFICIENT_CREDITS' });
        }
      }
      const all = await expectSound();
      const given = all.filter(({ type }) => type === 'top_up');
      expect(given.reduce((sum, { amountCents }) => sum + amountCents, 0)).toBe(filled);
      for (const runId of runIds) {
        const own = all.filter(({ referenceId }) => referenceId === runId).map(({ type }) => type);
        expect(held.has(runId) ? [['charge'], ['charge', 'refund']] : [[]]).toContainEqual(own);
      }
    });
    return fc.check(property, options);
  };

  test('after concurrent steps, the balance is the sum of the entries, and never below zero', async () => {
    const result = await playHistories(deps.main, { numRuns: rounds });
    expect(result.failed, fc.defaultReportMessage(result)).toBe(false);
  });

  testWhere(findsRareFaults)('a ledger that loses one price of a thousand is found', async () => {
    const losesOne = new Proxy(deps.main, {
      get(table, name) {
        if (name !== 'transact') return (table[name as keyof Table] as () => unknown).bind(table);
        return async (operations: readonly TransactOperation[]) =>
          JSON.stringify(operations).includes(':-777,') ? { ok: true } : table.transact(operations);
      },
    });
    // A single run of the property test finds this fault in 19 of 20 cases.
    const { failed, errorInstance } = await playHistories(losesOne, { numRuns: 10 * rounds, endOnFailure: true });
    expect([failed, String(errorInstance)]).toEqual([true, expect.stringContaining('AssertionError')]);
  });
}
