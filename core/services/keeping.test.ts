import { describe, expect, onTestFinished, test } from 'vitest';
import { retryDeliveries } from '#core/api/sweeps.ts';
import type { ServiceReport } from '#core/ports/service-host.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { startReceiver } from '#test/helpers/receiver.ts';
import { serviceWorld } from '#test/helpers/services.ts';
import { Random } from '#test/simulation/random.ts';
import { takeReports } from './reports.ts';
import { recoverServices } from './sweep.ts';

const MINUTE = 60_000;

async function deployed(body: object = {}) {
  const world = await serviceWorld();
  const { id: agent_id } = await world.publish();
  const { service } = await world.deploy({ agent_id, ...body });
  const id = service.id as string;
  const get = async () => (await world.service('GET', id)).service;
  return { ...world, id, agent_id, get };
}

describe('crash loops', () => {
  test('a warning at half, a pause at all of it, each with a signed alert and an entry, and a restart begins anew', async () => {
    const receiver = await startReceiver();
    onTestFinished(() => receiver.close());
    const { host, id, get, deps, service, send, owner } = await deployed({
      alert_webhook_url: `${receiver.url}/alerts`,
      max_restart_failures: 5,
    });
    await send('POST', `/workspaces/${owner.workspaceId}/signing-secret`);
    const told: unknown[] = [];
    for (let count = 1; count <= 5; count++) {
      await host.crash(id);
      const { consecutive_restart_failures: failures, current_state: state } = await get();
      told.push([failures, state]);
    }
    expect(told).toEqual([
      [1, 'provisioning'],
      [2, 'provisioning'],
      [3, 'provisioning'],
      [4, 'provisioning'],
      [5, 'paused'],
    ]);
    expect(await get()).toMatchObject({
      auto_paused_at: expect.any(String),
      restart_count: 5,
      desired_state: 'stopped',
    });
    expect(host.orders).toEqual(['deploy 1', 'pause']);
    await expect.poll(() => receiver.at('/alerts').length).toBe(2);
    const common = {
      event: 'service.crash_loop',
      service_id: id,
      workspace_id: owner.workspaceId,
      service_name: 'bot',
    };
    const bodies = receiver.at('/alerts').map(({ body }) => body);
    expect(bodies.sort((a, b) => a.restart_count - b.restart_count)).toEqual([
      {
        ...common,
        restart_count: 3,
        consecutive_restart_failures: 3,
        threshold: 5,
        auto_paused: false,
        last_error: 'exit code 1',
      },
      {
        ...common,
        restart_count: 5,
        consecutive_restart_failures: 5,
        threshold: 5,
        auto_paused: true,
        last_error: 'exit code 1',
      },
    ]);
    expect(receiver.at('/alerts')[0]?.headers['webhook-signature']).toMatch(/^v1,/);
    const types = async () => (await get()).events.map(({ event_type }: { event_type: string }) => event_type);
    await expect.poll(async () => (await types()).filter((type: string) => type === 'alert_sent').length).toBe(2);
    expect(await types()).toEqual(expect.arrayContaining(['crash_loop_warning', 'auto_paused', 'restart_failed']));
    await service('POST', `${id}/restart`);
    expect(await get()).toMatchObject({
      auto_paused_at: null,
      consecutive_restart_failures: 0,
      desired_state: 'running',
    });
    expect(host.orders).toEqual(['deploy 1', 'pause', 'resume 3']);
    expect(deps.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('an alert whose receiver fails is tried again, and its end is in the timeline', async () => {
    const receiver = await startReceiver();
    onTestFinished(() => receiver.close());
    const { host, id, get, deps } = await deployed({
      alert_webhook_url: `${receiver.url}/500`,
      max_restart_failures: 1,
    });
    await host.crash(id);
    for (let tries = 1; tries <= 3; tries++) {
      await expect.poll(() => receiver.at('/500').length).toBe(tries);
      await deps.clock.advance(10 * MINUTE);
      await retryDeliveries(deps);
    }
    const { events } = await get();
    expect(events[0]).toMatchObject({ event_type: 'alert_failed', message: expect.stringContaining('after 3 tries') });
  });
});

describe('the comparison with the host', () => {
  test('brings back services that the host has lost, such as after its restart', async () => {
    const { host, id, sweep, deps, get } = await deployed();
    await host.ready(id);
    await deps.clock.advance(MINUTE);
    host.kill();
    await sweep();
    expect(host.orders).toEqual(['deploy 1', 'update 1']);
    expect((await get()).health_status).toBe('unhealthy');
    await host.ready(id);
    expect((await get()).health_status).toBe('healthy');
    await sweep();
    expect(host.orders).toHaveLength(2);
  });

  test('removes services that no record has', async () => {
    const { host, id, sweep } = await deployed();
    const { order } = host.services.get(id)!;
    await host.deploy({ ...order, id: '0f2504e0-4f89-41d3-9a0c-0305e82c3301' });
    await sweep();
    expect([...host.services.keys()]).toEqual([id]);
  });

  test('ends what runs although it was paused or deleted', async () => {
    const { host, id, service, sweep, deps } = await deployed();
    const { order } = host.services.get(id)!;
    await service('PATCH', id, { desired_state: 'stopped' });
    await host.resume({ ...order, revision: 9 });
    await deps.clock.advance(MINUTE);
    await sweep();
    expect(host.services.get(id)).toMatchObject({ isPaused: true, instances: [] });
    await service('DELETE', id);
    await host.deploy(order);
    await deps.clock.advance(MINUTE);
    await sweep();
    expect(host.services.size).toBe(0);
  });

  test('notices instances whose reports were lost', async () => {
    const { host, id, sweep, deps, get } = await deployed();
    const kept = host.services.get(id)!;
    kept.instances[0]!.report = { ...kept.instances[0]!.report, phase: 'ready', sequence: 7 };
    await deps.clock.advance(MINUTE);
    await sweep();
    expect((await get()).health_status).toBe('healthy');
    kept.instances.length = 0;
    await deps.clock.advance(MINUTE);
    await sweep();
    expect((await get()).health_status).toBe('unhealthy');
  });

  test('an order whose process died is given again once its time is over', async () => {
    const { host, id, service, sweep, deps } = await deployed();
    let die: ((error: Error) => void) | undefined;
    const { restart } = host;
    host.restart = () => new Promise((_, reject) => (die = reject));
    const lost = service('POST', `${id}/restart`);
    await expect.poll(() => die).toBeDefined();
    host.restart = restart;
    await sweep();
    expect(host.orders).toEqual(['deploy 1']);
    await deps.clock.advance(2 * MINUTE);
    await sweep();
    expect(host.orders).toEqual(['deploy 1', 'restart 2']);
    die!(new Error('killed'));
    await lost;
  });

  test('a host that starts anew learns of paused services, and orders that were under way do not keep it waiting', async () => {
    const { host, id, service, sweep, deps, deploy, agent_id } = await deployed();
    const other = (await deploy({ agent_id })).service.id as string;
    await service('PATCH', other, { desired_state: 'stopped' });
    let die: ((error: Error) => void) | undefined;
    const { remove } = host;
    host.remove = () => new Promise((_, reject) => (die = reject));
    const lost = service('DELETE', id);
    await expect.poll(() => die).toBeDefined();
    Object.assign(host, { remove });
    host.kill();
    host.orders.length = 0;
    await recoverServices(deps);
    expect(host.orders).toEqual(['pause']);
    await sweep();
    expect((await service('GET', id)).service).toMatchObject({ current_state: 'deleted' });
    expect((await service('GET', other)).service).toMatchObject({ current_state: 'paused' });
    die!(new Error('killed'));
    await lost;
  });
});

describe('usage', () => {
  const minutes = async ({ send }: Awaited<ReturnType<typeof deployed>>) =>
    (await send('GET', '/usage/compute')).total_service_minutes as number;

  test('is the time of all instances, from start to end, however often it is counted', async () => {
    const world = await deployed({ min_instances: 2 });
    const { deps, sweep, service, id, host, send } = world;
    for (let minute = 0; minute < 3; minute++) {
      await deps.clock.advance(MINUTE);
      await Promise.all([sweep(), sweep()]);
    }
    expect(await minutes(world)).toBe(6);
    await deps.clock.advance(MINUTE / 2);
    await service('PATCH', id, { desired_state: 'stopped' });
    await deps.clock.advance(5 * MINUTE);
    await sweep();
    expect(await minutes(world)).toBe(7);
    const { by_service } = await send('GET', '/usage/compute');
    expect(by_service).toEqual([{ service_id: id, service_name: 'bot', agent_name: 'bot', runtime_minutes: 7 }]);
    expect(host.orders).toEqual(['deploy 1', 'pause']);
  });

  test('after a kill of the platform an instance counts until it was last seen, and not twice', async () => {
    const world = await deployed();
    const { deps, sweep, host, id } = world;
    await deps.clock.advance(MINUTE);
    await sweep();
    await deps.clock.advance(MINUTE / 2);
    // The platform and its processes are killed, and restart an hour later.
    host.kill();
    await deps.clock.advance(60 * MINUTE);
    await sweep();
    expect(await minutes(world)).toBe(1);
    await deps.clock.advance(MINUTE);
    await sweep();
    expect(await minutes(world)).toBe(2);
    expect(host.services.get(id)?.instances).toHaveLength(1);
  });

  test('is split at midnight', async () => {
    const world = await deployed();
    const { deps, sweep, send } = world;
    const { timestamp } = { timestamp: deps.clock.now() };
    const untilMidnight = 24 * 60 * MINUTE - (timestamp % (24 * 60 * MINUTE));
    await deps.clock.advance(untilMidnight + 10 * MINUTE);
    await sweep();
    expect((await send('GET', '/usage/compute?days=1')).total_service_minutes).toBe(10);
    expect(await minutes(world)).toBe(untilMidnight / MINUTE + 10);
    await deps.clock.advance(10 * MINUTE);
    await sweep();
    expect(await minutes(world)).toBe(untilMidnight / MINUTE + 20);
  });
});

describe('cost', () => {
  test('a heartbeat reads two items and writes none; a list is one query', async () => {
    const { host, id, deps, service } = await deployed();
    await host.ready(id);
    const counter = new OperationCounter();
    const counted = { ...deps, main: counter.count(deps.main, 'main'), runs: counter.count(deps.runs, 'runs') };
    const { report } = host.services.get(id)!.instances[0]!;
    await takeReports(counted, [{ ...report, sequence: 99, at: deps.clock.now() }]);
    expect(counter.operations.map(({ table, method }) => `${table}.${method}`)).toEqual(['main.get', 'main.get']);
    expect((await service('GET', '')).total).toBe(1);
  });
});

test('whatever the host does with reports and orders, it ends as the records say, and nothing counts twice', async () => {
  for (let seed = 1; seed <= 25; seed++) await playSeed(seed);
});

/** Requests, crashes, lost and doubled reports, failing orders and a killed host, by a seed; then all becomes quiet. */
async function playSeed(seed: number): Promise<void> {
  const random = new Random(seed);
  const { host, id, deps, service, sweep, send, get, agent_id, deploy } = await deployed({ max_restart_failures: 50 });
  const late: ServiceReport[][] = [];
  // Reports that the host sends pass through here from now on.
  host.listener = async (reports) => {
    if (random.chance(0.3)) late.push([...reports]);
    if (random.chance(0.6)) await takeReports(deps, reports);
  };
  let crashes = 0;
  let requests = 0;
  const hasInstance = () => (host.services.get(id)?.instances.length ?? 0) > 0;
  const acts = [
    async () => void (await service('PATCH', id, { env: { N: String(random.between(0, 5)) } })),
    async () => void (await service('PATCH', id, { desired_state: random.pick(['running', 'stopped']) })),
    async () => {
      requests += 1;
      await service('POST', `${id}/restart`);
    },
    async () => void (hasInstance() && (await host.ready(id))),
    async () => {
      if (!hasInstance()) return;
      crashes += 1;
      await (random.chance(0.5) ? host.crash(id) : host.die(id));
    },
    async () => void host.refusals.push(new Error('throttled')),
    async () => host.kill(),
    async () => sweep(),
    async () => {
      for (const reports of random.shuffle(late.splice(0))) await takeReports(deps, reports);
    },
  ];
  for (let n = 0; n < 40; n++) {
    await deps.clock.advance(random.between(1, 20_000));
    await random.pick(acts)();
  }
  host.refusals.length = 0;
  host.listener = (reports) => takeReports(deps, reports);
  for (const reports of random.shuffle(late)) await takeReports(deps, reports);
  for (let n = 0; n < 3; n++) {
    await deps.clock.advance(2 * MINUTE);
    await sweep();
  }
  const record = await get();
  const kept = host.services.get(id);
  const context = `seed ${seed}`;
  expect(kept?.isPaused ?? true, context).toBe(record.desired_state === 'stopped');
  expect(kept?.instances ?? [], context).toHaveLength(record.desired_state === 'stopped' ? 0 : 1);
  // A report that never came may hide a crash; none shows one that was not.
  expect(record.restart_count, context).toBeLessThanOrEqual(crashes + requests);
  expect(record.restart_count, context).toBeGreaterThanOrEqual(requests);
  const { total_service_minutes: metered } = await send('GET', '/usage/compute');
  expect(metered, context).toBeLessThanOrEqual(host.lifeMs(deps.clock.now()) / MINUTE + 0.001);
  await service('DELETE', id);
  await sweep();
  expect([...host.services.keys()], context).toEqual([]);
  expect((await deploy({ agent_id })).status, context).toBe(201);
}
