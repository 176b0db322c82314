import { describe, expect, test } from 'vitest';
import type { InstanceReport } from '#core/ports/service-host.ts';
import { serviceWorld } from '#test/helpers/services.ts';

/** Creates a service whose host has its first order, and returns functions for requests of its instances. */
async function deployed(body: object = {}) {
  const world = await serviceWorld();
  const { id: agent_id } = await world.publish();
  const links = { get: async (key: string) => `https://blobs.example/${key}?signature=made-up` };
  Object.assign(world.deps, { blobLinks: links });
  const { service } = await world.deploy({ agent_id, ...body });
  const id = service.id as string;
  const token = () => world.host.orderOf(id)!.token;
  const boot = (bearer: string, serviceId = id) => world.send('POST', `/runner/services/${serviceId}/boot`, {}, bearer);
  const reports = (bearer: string, ...list: object[]) =>
    world.send('POST', `/runner/services/${id}/reports`, { reports: list }, bearer);
  let sequence = 0;
  const report = (change: Partial<InstanceReport> = {}): InstanceReport => {
    sequence += 1;
    return {
      type: 'instance',
      serviceId: id,
      instanceId: 'task-1',
      revision: 1,
      sequence,
      at: world.deps.clock.now(),
      startedAt: world.deps.clock.now(),
      phase: 'ready',
      isWorker: false,
      restarts: 0,
      failures: 0,
      steadyAt: null,
      lastEnd: null,
      ...change,
    };
  };
  const get = async () => (await world.service('GET', id)).service;
  return { ...world, id, agent_id, token, boot, reports, report, get };
}

const refused = { status: 401, error: { code: 'UNAUTHORIZED' } };

test('the token of a revision opens its document, with links to its blobs', async () => {
  const { id, boot, token, owner } = await deployed({ env: { LOCALE: 'de' } });
  const { status, ...document } = await boot(token());
  expect(status).toBe(200);
  expect(document).toMatchObject({
    serviceId: id,
    workspaceId: owner.workspaceId,
    revision: 1,
    app: { kind: 'shell', line: 'node index.js' },
    env: { LOCALE: 'de', PORT: '3000' },
    secrets: {},
    bundle: { key: expect.stringMatching(/^bundles\//), sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    limits: { memoryBytes: expect.any(Number) },
  });
  expect(document.bundle.url).toBe(`https://blobs.example/${document.bundle.key}?signature=made-up`);
});

describe('a token opens one service, and only while it is to run', () => {
  test('a wrong one, none, and the key of an owner open nothing', async () => {
    const { boot, reports, report, owner } = await deployed();
    for (const bearer of ['wrong', '', 'a b', owner.key]) {
      expect(await boot(bearer)).toMatchObject(refused);
      expect(await reports(bearer, report())).toMatchObject(refused);
    }
  });

  test('that of another service opens nothing', async () => {
    const { boot, token, deploy, agent_id, host, id } = await deployed();
    const { service } = await deploy({ agent_id, service_name: 'other' });
    const other = host.orderOf(service.id)!.token;
    expect(await boot(other)).toMatchObject(refused);
    expect(await boot(token(), service.id)).toMatchObject(refused);
    expect(await boot(token(), 'nothing')).toMatchObject(refused);
    expect(await boot(other, service.id)).toMatchObject({ status: 200, serviceId: service.id });
    expect(await boot(token(), id)).toMatchObject({ status: 200, serviceId: id });
  });

  test('that of a paused or deleted service opens nothing, and a new one opens the service that runs again', async () => {
    const { boot, reports, report, token, service, id } = await deployed();
    const first = token();
    await service('PATCH', id, { desired_state: 'stopped' });
    expect(await boot(first)).toMatchObject(refused);
    expect(await reports(first, report())).toMatchObject(refused);
    await service('PATCH', id, { desired_state: 'running' });
    const second = token();
    expect(await boot(first)).toMatchObject(refused);
    expect(await boot(second)).toMatchObject({ status: 200 });
    await service('DELETE', id);
    expect(await boot(second)).toMatchObject(refused);
    expect(await reports(second, report())).toMatchObject(refused);
  });

  test('that of an old revision is good until its last instance is gone', async () => {
    const { boot, reports, report, token, service, id, host } = await deployed();
    host.keepsOld = true;
    await host.ready(id);
    const first = host.reportOf(id);
    const old = token();
    await service('PATCH', id, { env: { LOCALE: 'de' } });
    expect(await boot(old)).toMatchObject({ status: 200, revision: 1 });
    expect(await reports(old, report())).toMatchObject({ status: 200 });
    await host.end(first, 'stopped');
    expect(await boot(old)).toMatchObject({ status: 200, revision: 1 });
    await host.end(report(), 'stopped');
    expect(await boot(old)).toMatchObject(refused);
    expect(await reports(old, report())).toMatchObject(refused);
    expect(await boot(token())).toMatchObject({ status: 200, revision: 2 });
  });
});

describe('reports', () => {
  test('of another service or revision are refused, and nothing of them is kept', async () => {
    const { reports, report, token, get, id } = await deployed();
    const before = await get();
    const strange = { serviceId: '3f2504e0-4f89-41d3-9a0c-0305e82c3301' };
    for (const change of [strange, { revision: 2 }, { revision: -1 }, { phase: 'gone' as never }]) {
      const answer = await reports(token(), report(), report(change));
      expect(answer).toMatchObject({ status: 400, error: { code: 'INVALID_INPUT' } });
      expect(answer.error.message).toMatch(/serviceId|revision|phase/);
    }
    expect(await reports(token(), { ...report(), type: 'ended', reason: 'stopped', message: '' })).toMatchObject({
      status: 400,
    });
    expect(await get()).toEqual(before);
    expect(id).toBe(before.id);
  });

  test('doubled and out of order count once', async () => {
    const { reports, report, token, get, deps } = await deployed({ max_restart_failures: 10 });
    const end = (count: number) => ({
      phase: 'waiting' as const,
      failures: count,
      restarts: count - 1,
      lastEnd: { at: deps.clock.now() + count, exitCode: 1, message: `end ${count}` },
    });
    const [first, second, third] = [report(end(1)), report(end(2)), report(end(3))];
    for (const list of [[second], [second, first], [third, third], [first], [second, third]]) {
      expect(await reports(token(), ...list)).toEqual({ status: 200 });
    }
    expect(await get()).toMatchObject({ consecutive_restart_failures: 3, restart_count: 2, last_error: 'end 3' });
  });

  test('of an instance that has no document yet are of the revision of its token', async () => {
    const { reports, report, token, get, deps } = await deployed();
    const lastEnd = { at: deps.clock.now(), exitCode: 1, message: 'The secret BOT_KEY is missing.' };
    expect(await reports(token(), report({ revision: 0, phase: 'waiting', failures: 1, lastEnd }))).toEqual({
      status: 200,
    });
    expect(await get()).toMatchObject({
      consecutive_restart_failures: 1,
      last_error: 'The secret BOT_KEY is missing.',
    });
  });

  test('from a clock that is ahead make no usage that has not been', async () => {
    const { reports, report, token, deps, id, send, host } = await deployed();
    const hour = 3_600_000;
    expect(await reports(token(), report({ at: deps.clock.now() + 5 * hour }))).toEqual({ status: 200 });
    await deps.clock.advance(60_000);
    await host.end(report(), 'stopped');
    const { by_service: services } = await send('GET', '/usage/compute');
    expect(services).toMatchObject([{ service_id: id, runtime_minutes: 1 }]);
  });

  test('that lie about times and counts make no usage cheaper or dearer, and no record unreadable', async () => {
    const { reports, report, token, deps, id, send, host, get } = await deployed();
    const [start, farOff] = [deps.clock.now(), Number.MAX_SAFE_INTEGER];
    const lastEnd = { at: farOff, exitCode: 1, message: 'made up' };
    // Start times before the service existed, then later ones, then in the future.
    expect(await reports(token(), report({ startedAt: 0 }))).toEqual({ status: 200 });
    for (let minute = 0; minute < 5; minute++) {
      await deps.clock.advance(60_000);
      expect(await reports(token(), report())).toEqual({ status: 200 });
    }
    const last = report({ startedAt: farOff, steadyAt: farOff, restarts: 1, failures: 1, lastEnd });
    expect(await reports(token(), last)).toEqual({ status: 200 });
    expect(await reports(token(), report({ restarts: farOff }))).toMatchObject({ status: 400 });
    const { last_restart_at: restartedAt, restart_count: restarts } = await get();
    expect([restarts, Date.parse(restartedAt) - deps.clock.now()]).toEqual([1, 300_000]);
    await host.end(report(), 'stopped');
    const { by_service: services } = await send('GET', '/usage/compute');
    expect(services).toMatchObject([{ service_id: id, runtime_minutes: (deps.clock.now() - start) / 60_000 }]);
  });

  test('of ever more instances leave a record that its owner can still change', async () => {
    const { reports, report, token, service, id, deps } = await deployed();
    const lastEnd = { at: deps.clock.now(), exitCode: 1, message: '語'.repeat(2000) };
    const uuid = (batch: number, i: number) =>
      `${String(batch).padStart(8, '0')}-0000-4000-8000-${String(i).padStart(12, '0')}`;
    for (let batch = 0; batch < 12; batch++) {
      const list = Array.from({ length: 100 }, (_, i) => report({ instanceId: uuid(batch, i), lastEnd }));
      expect(await reports(token(), ...list)).toEqual({ status: 200 });
    }
    const item = await deps.main.get({ pk: `WS#${(await service('GET', id)).service.workspace_id}#SERVICES`, sk: id });
    // DynamoDB's item limit minus the maximum size of environment and arguments.
    expect(Buffer.byteLength(JSON.stringify(item))).toBeLessThan((400 - 2 * 64) * 1024);
    expect(await service('DELETE', id)).toMatchObject({ status: 200 });
  });
});
