import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { afterAll, expect, inject, test } from 'vitest';
import { startWriters, stopWriters, writersOf } from '#aws/release/writers.ts';
import { checkTables, takeDataVersion } from '#aws/tables/data-version.ts';
import { admit } from '#core/accounts/limits/admission.ts';
import { BACKGROUND_FUNCTIONS, backgroundFunction } from '#core/api/background.ts';
import { TABLE_NAMES } from '#core/ports/table-rules.ts';
import { emptyResult, LOST } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { expectOk } from '#test/e2e/expect.ts';
import { clientOf, request } from '#test/helpers/platform.ts';
import { makeDue } from '#test/helpers/schedules.ts';
import { accountFor } from './accounts.ts';
import { startRehearsal } from './platform.ts';
import { itemsOf, restoreTable } from './table-copies.ts';

/** Rehearses "Backup and restore" of docs/deploy.md on a running platform. */
const emulators = inject('awsEndpoints');
const target = await startRehearsal(emulators, { name: 'restored' });
afterAll(() => target.close());
target.chaos.holdsServiceClock = true;

const tables = new DynamoDBClient({ ...accountFor('deployment'), endpoint: emulators.dynamoDb });
const lambda = new LambdaClient({ ...accountFor('operator'), endpoint: target.lambdaAdmin });
const clocks = BACKGROUND_FUNCTIONS.filter((fn) => backgroundFunction(fn).everyMinutes !== undefined);

const data = async () =>
  Object.fromEntries(
    await Promise.all(
      TABLE_NAMES.map(async (name) => [name, await itemsOf(tables, `${target.platform}-${name}`)] as const),
    ),
  );

test('a restore brings a moment back, and nothing writes meanwhile', { retry: 0 }, async () => {
  const owner = await target.addUser('restored');
  const client = clientOf(target, owner.key);
  const params = { workspace_id: owner.workspaceId };
  await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' } });
  const publish = (name: string) =>
    client.createAgent({
      body: { name, type: 'prompt', description: 'x', prompt: 'Say {{name}}.', supported_providers: ['anthropic'] },
    });
  const run = (agent: string, name: string) =>
    request(target, 'POST', `/restored/${agent}/v1/run`, { key: owner.key, json: { name } });
  const get = async (path: string) => expectOk(await request(target, 'GET', path, { key: owner.key }));
  const agents = async () => (await get('/agents')).map(({ name }: { name: string }) => name);
  const runs = async () => (await get(`/workspaces/${owner.workspaceId}/runs`)).total;
  const calls = async () => (await get('/usage')).total_calls;

  // State at the restored moment: runs, a schedule, and a run that ends later.
  await publish('kept');
  const { agent: later } = await publish('deleted-later');
  for (const name of ['a', 'b', 'c']) expectOk(await run('kept', name));
  const { schedule } = await client.createSchedule({
    params,
    body: { agent: 'restored/kept', cron_expression: '0 0 1 1 *' },
  });
  const store = new RunStore(target.deps, owner.workspaceId);
  const startedAt = Date.now() - 120_000;
  const open = {
    ...{ id: crypto.randomUUID(), agentId: crypto.randomUUID(), agentWorkspaceId: owner.workspaceId },
    ...{ agentOrg: 'restored', agentName: 'kept', agentVersion: 'v1', engine: 'direct_llm' as const, endpoint: 'run' },
    ...{ triggerSource: 'api', startedAt, deadline: startedAt + 1000, input: {} },
  };
  const workspace = { id: owner.workspaceId, slug: 'restored', name: 'restored', type: 'team', createdAt: '' } as const;
  const admission = await admit(target.deps, {
    ...{ workspace, kind: 'llm', isPaid: false, isCounted: true, runId: open.id, deadline: open.deadline },
  });
  await store.start(open, { hasLease: true });
  await target.lambda.settled();
  const moment = await data();
  expect(await runs()).toBe((await calls()) + 1);

  // These writes happen after the restored moment.
  await store.finish(open, emptyResult(LOST, {}));
  await admission.release();
  await publish('forgotten');
  for (const name of ['d', 'e']) expectOk(await run('forgotten', name));
  await client.deleteAgent({
    params: { id: later.id },
  });
  expect(await agents()).toEqual(expect.arrayContaining(['kept', 'forgotten']));
  expect([await runs(), await calls()]).toEqual([6, 6]);

  // Work in flight when the writers were stopped still ends and writes.
  const slow = run('kept', 'slow [[llm {"delayMs": 3000}]]');
  await expect.poll(() => target.llm.requests.some(({ text }) => text.includes('slow'))).toBe(true);
  const stopped = await stopWriters(lambda, target.platform, Date.now);
  const functions = stopped.map(({ name }) => name.slice(target.platform.length + 1));
  expect(functions).toEqual(
    expect.arrayContaining(['calls', 'sandbox-dispatch', 'pool-keeper', 'schedule-fired', ...BACKGROUND_FUNCTIONS]),
  );
  expect(stopped.every(({ idleFrom }) => idleFrom! > Date.now())).toBe(true);
  expectOk(await slow);
  await target.lambda.settled();
  const before = await data();
  expect(before).not.toEqual(moment);

  // Every writer is triggered: requests, a due schedule with its queued message, an event, and every clock.
  await makeDue(target.deps, owner.workspaceId, schedule.id);
  const due = await data();
  const [timer] = await target.scheduler.names(target.timerGroup, schedule.id);
  await target.scheduler.fire(target.timerGroup, timer!, new Date());
  expect(await target.sources.deliver()).toEqual([]);
  for (const refused of [
    await run('kept', 'x'),
    await request(target, 'PUT', `/workspaces/${owner.workspaceId}/secrets`, {
      key: owner.key,
      json: { name: 'A', value: 'b' },
    }),
    await request(target, 'GET', '/agents', { key: owner.key }),
  ]) {
    expect([refused.status, refused.body.error.code]).toEqual([429, 'RATE_LIMITED']);
  }
  for (const fn of [...clocks, 'pool-keeper'] as const) {
    await expect(target.tick(fn), fn).rejects.toMatchObject({ code: 'TooManyRequestsException' });
  }
  target.lambda.invokeLater(`${target.platform}-schedule-sweeper`, { source: 'aws.events' });
  expect(await data()).toEqual(due);
  // A second stop changes nothing.
  expect(await stopWriters(lambda, target.platform, Date.now)).toEqual(await writersOf(lambda, target.platform));

  for (const name of TABLE_NAMES) await restoreTable(tables, `${target.platform}-${name}`, moment[name]!);
  expect(await data()).toEqual(moment);
  await checkTables(tables, `${target.platform}-`);
  await takeDataVersion(tables, `${target.platform}-`);
  expect(await data()).toEqual(moment);
  expect(await startWriters(lambda, target.platform)).toEqual(stopped.map(({ name }) => name));
  expect(await startWriters(lambda, target.platform)).toEqual([]);

  // The queued message and event find nothing due.
  expect(await target.sources.deliver()).toEqual([]);
  await target.lambda.settled();
  for (const fn of clocks) await target.tick(fn);
  expect((await client.listScheduleRuns({ params: { ...params, schedule_id: schedule.id }, query: {} })).runs).toEqual(
    [],
  );
  expect((await agents()).sort()).toEqual(['deleted-later', 'kept']);
  // The open run is finished as a lost run.
  expect(await get(`/workspaces/${owner.workspaceId}/runs/${open.id}`)).toMatchObject({ status: 'failed' });
  expect([await runs(), await calls()]).toEqual([4, 4]);
  expectOk(await run('kept', 'f'));
  expectOk(await run('deleted-later', 'g'));
  expect([await runs(), await calls()]).toEqual([6, 6]);
});
