import { afterAll, beforeAll, expect, test } from 'vitest';
import { callsInUse, leasesOf } from '#core/accounts/limits/admission.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { queryAll } from '#core/ports/table.ts';
import { RunStore } from '#core/runs/store.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { usagePartition } from '#core/runs/usage/rollup.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { mortal, patientDeps, settled } from '#test/helpers/mortal.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { listDue, ScheduleStore } from '../store.ts';
import { fireDue, sweepScheduleRuns } from './fire.ts';
import { listOpenScheduleRuns } from './open-runs.ts';

/**
 * The process dies at each call of a port, once before and once after its effect, while several due schedules of one
 * workspace run together and share the writes that count them and release their leases. Then another process starts.
 */

const MINUTE_MS = 60_000;
const TOGETHER = 2;

let llm: ScriptedLlm;
beforeAll(async () => {
  llm = await startScriptedLlm();
});
afterAll(() => llm.close());

async function setUp() {
  llm.reset();
  const deps = patientDeps({ anthropicUrl: `${llm.url}/anthropic/v1` });
  const { key, slug, workspaceId } = await addUser(deps, 'bursts');
  const app = createWebApp(deps, routes, allHandlers(deps));
  const send = async (method: string, path: string, json: object): Promise<{ readonly schedule: { id: string } }> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const response = await app(new Request(`http://127.0.0.1${path}`, { method, headers, body: JSON.stringify(json) }));
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()) as { readonly schedule: { id: string } };
  };
  await send('PUT', `/workspaces/${workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-crash' });
  const agent = {
    name: 'reader',
    type: 'prompt',
    description: 'x',
    prompt: 'Read.',
    supported_providers: ['anthropic'],
  };
  await send('POST', '/agents', agent);
  const ids: string[] = [];
  for (let count = 0; count < TOGETHER; count++) {
    const body = { agent: `${slug}/reader`, cron_expression: '* * * * *' };
    ids.push((await send('POST', `/workspaces/${workspaceId}/schedules`, body)).schedule.id);
  }
  await deps.clock.advance(MINUTE_MS);
  return { deps, workspaceId, ids };
}

/** Runs all due schedules concurrently, in a process that may die. Finding them only reads, hundreds of times. */
async function fireAll(deps: AllDeps, process = deps): Promise<void> {
  const due = await Array.fromAsync(listDue(deps, deps.clock.now()));
  await Promise.all(due.map(({ id, workspaceId, item }) => fireDue(process, { workspaceId, scheduleId: id, item })));
}

async function crashAt(lifetime: number, lastOneHappens: boolean): Promise<{ isAlive: boolean; asked: number }> {
  const { deps, workspaceId, ids } = await setUp();
  const doomed = mortal(deps, lifetime, lastOneHappens);
  const fired = fireAll(deps, doomed.process).then(() => true);
  const isAlive = await Promise.race([settled(deps, fired), doomed.death.then(() => false)]);

  // Another process with the same tables takes over.
  await settled(deps, sweepLostRuns(deps, { all: true }));
  const open = await Array.fromAsync(listOpenScheduleRuns(deps, { all: true }));
  await settled(deps, sweepScheduleRuns(deps, open));
  await settled(deps, fireAll(deps));

  const where = `died at ${lifetime}, ${lastOneHappens ? 'after' : 'before'} it`;
  const schedules = await new ScheduleStore(deps, workspaceId).findAll(ids);
  let ended = 0;
  for (const { id, runCount } of schedules) {
    const { runs } = await new RunStore(deps, workspaceId).listOfSchedule(id, { limit: 10, offset: 0 });
    expect(runs.length, where).toBe(runCount);
    for (const run of runs) expect(run, where).toMatchObject({ completedAt: expect.any(String) });
    ended += runs.length;
  }
  // The clock may have reached another minute.
  expect(ended, where).toBeGreaterThanOrEqual(TOGETHER);
  expect(await Array.fromAsync(listOpenScheduleRuns(deps, { all: true })), where).toEqual([]);
  expect(await Array.fromAsync(leasesOf(deps, { all: true })), where).toEqual([]);
  const workspace = (await findWorkspace(deps, workspaceId))!;
  const { daily_calls: counted, concurrent_calls: running } = await callsInUse(deps, workspace);
  expect(running, where).toBe(0);
  // A run that was counted before its process died, and never started, is counted again.
  expect(counted, where).toBeGreaterThanOrEqual(ended);
  expect(counted, where).toBeLessThanOrEqual(ended + TOGETHER);
  const rollups = await Array.fromAsync(queryAll(deps.runs, { pk: usagePartition(workspaceId) }));
  expect(
    rollups.reduce((sum, { runs }) => sum + ((runs as number | undefined) ?? 0), 0),
    where,
  ).toBe(ended);
  return { isAlive, asked: doomed.asked() };
}

test('each due minute has one run, counted once, at whichever port call the process of a burst dies', async () => {
  // Lazy loading on the first run takes real time, so one run comes before the frozen clock.
  const { deps } = await setUp();
  const counter = new OperationCounter();
  await fireAll({ ...deps, counters: counter.count(deps.counters, 'counters') });
  // All runs begin in one write. Their models answer at any time.
  expect(counter.operations.length).toBeLessThanOrEqual(1 + TOGETHER);
  const { asked } = await crashAt(Number.POSITIVE_INFINITY, false);
  expect(asked).toBeGreaterThan(20);
  let crashes = 0;
  for (let lifetime = 1; lifetime <= asked; lifetime++) {
    for (const lastOneHappens of [false, true]) {
      if (!(await crashAt(lifetime, lastOneHappens)).isAlive) crashes += 1;
    }
  }
  expect(crashes).toBeGreaterThan(asked);
}, 120_000);
