import { expect, test } from 'vitest';
import { admit } from '#core/accounts/limits/admission.ts';
import { parseConfig } from '#core/base/config.ts';
import type { Table } from '#core/ports/table.ts';
import { emptyResult, endedWith, type NewRun } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { dynamoDbClient, newTables } from './helpers/aws.ts';
import { consumedUnits } from './helpers/consumed-units.ts';
import { ManualClock } from './helpers/manual-clock.ts';
import { memoryDeps } from './helpers/memory-deps.ts';
import { UnitCounter } from './helpers/unit-counter.ts';

const clock = new ManualClock();

/** Tables in DynamoDB Local whose write units are counted twice: from its own reports, and by `UnitCounter`. */
async function countedTables() {
  const reported = { writeUnits: 0 };
  const client = dynamoDbClient();
  client.middlewareStack.add(
    (next, { commandName }) =>
      async (args) => {
        const action = commandName!.replace(/Command$/, '');
        if (action === 'CreateTable') return next(args);
        const input = { ...args.input, ReturnConsumedCapacity: 'INDEXES' } as typeof args.input;
        let capacity: unknown;
        try {
          const answer = await next({ ...args, input });
          capacity = (answer.output as { ConsumedCapacity?: unknown }).ConsumedCapacity;
          return answer;
        } finally {
          reported.writeUnits += consumedUnits(action, capacity).writeUnits;
        }
      },
    { step: 'initialize' },
  );
  const { main, runs, counters } = await newTables(clock, client);
  const counter = new UnitCounter();
  const count = (table: Table, name: 'main' | 'runs' | 'counters') => counter.count(table, name);
  const tables = { main: count(main, 'main'), runs: count(runs, 'runs'), counters: count(counters, 'counters') };
  /** Counts the units of an action in both ways. */
  const units = async (act: () => Promise<unknown>): Promise<readonly [counted: number, reported: number]> => {
    const before = [counter.writeUnits, reported.writeUnits] as const;
    await act();
    return [counter.writeUnits - before[0], reported.writeUnits - before[1]];
  };
  return { tables, units };
}

test('a call takes 5 write units of DynamoDB, a sub-call 8, and each further KB of what is kept 2', async () => {
  const { tables, units } = await countedTables();
  const deps = { ...memoryDeps({}, clock), ...tables, config: parseConfig({}) };
  const workspace = { id: crypto.randomUUID(), slug: 'acme', name: 'acme', type: 'team', createdAt: '' } as const;
  const runs = new RunStore(deps, workspace.id);
  const call = async (changes: Partial<NewRun> = {}) => {
    const run: NewRun = { ...runOf(workspace.id), ...changes };
    const isCounted = run.parentRunId === undefined;
    const request = { workspace, kind: 'llm', isPaid: false, isCounted, runId: run.id } as const;
    const admission = await admit(deps, { ...request, deadline: run.deadline });
    await runs.start(run, { hasLease: isCounted });
    expect(await runs.finish(run, emptyResult(endedWith(undefined), run.input))).toBe(true);
    await admission.release();
  };
  expect(await units(() => call())).toEqual([5, 5]);
  const root = crypto.randomUUID();
  // Its start is a transaction with its place in the tree, and it stands in an index while it is open.
  expect(await units(() => call({ parentRunId: root, rootRunId: root }))).toEqual([8, 8]);
  expect(await units(() => call({ input: 'x'.repeat(3000) }))).toEqual([11, 11]);
});

test('units are counted as DynamoDB Local reports them', async () => {
  const { tables, units } = await countedTables();
  const key = { pk: 'p', sk: 's' };
  const indexed = { gsi1pk: 'a', gsi1sk: 'b' };
  for (const table of [tables.main, tables.runs]) {
    const acts: readonly (() => Promise<unknown>)[] = [
      () => table.put({ ...key, ...indexed, text: 'x'.repeat(2500) }),
      () => table.update(key, { set: { text: 'y' } }),
      () => table.update(key, { set: { gsi1sk: 'c', gsi2pk: 'd', gsi2sk: 'e' } }),
      () => table.update(key, { set: { text: 'z' } }),
      () => table.update(key, { remove: ['gsi2pk'] }),
      () =>
        table.transact([
          { op: 'update', key, changes: { set: { gsi1pk: 'b' } } },
          { op: 'put', item: { pk: 'q', sk: 's' } },
        ]),
      () => table.delete(key),
      () => table.delete(key),
    ];
    for (const [position, act] of acts.entries()) {
      const [counted, reported] = await units(act);
      expect(counted, `act ${position}`).toBe(reported);
    }
  }
});

function runOf(workspaceId: string): NewRun {
  const startedAt = clock.now();
  return {
    id: crypto.randomUUID(),
    agentId: crypto.randomUUID(),
    agentWorkspaceId: workspaceId,
    agentOrg: 'acme',
    agentName: 'greeter',
    agentVersion: 'v1',
    engine: 'direct_llm',
    endpoint: 'run',
    triggerSource: 'api',
    startedAt,
    deadline: startedAt + 60_000,
    input: { name: 'Ada' },
  };
}
