import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  CreateServiceCommand,
  DeleteGatewayCommand,
  DeleteServiceCommand,
  DescribeServicesCommand,
  DisassociateGatewayFromClusterCommand,
  type ECSClient,
  type Service,
} from '@aws-sdk/client-ecs';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { app, ask as askAt, serviceUser, shows, until } from '#test/e2e/service-user.ts';
import type { FakeTask } from '#test/helpers/fake-ecs/tasks.ts';
import { startReceiver } from '#test/helpers/receiver.ts';
import type { Rehearsal } from './platform.ts';

const TEST_LIMIT_MS = 240_000;

/** When tasks of services die, events are lost or orders race, records and reality converge again. */
export function servicesChaosSuite(target: () => Rehearsal, ecsClient: () => ECSClient): void {
  const limit = { timeout: TEST_LIMIT_MS, skip: target().services === undefined };
  const ask = (address: string) => askAt(target(), address);
  const tasksOf = (id: string): FakeTask[] => target().ecs.tasks.filter(({ group }) => group === `service:${id}`);
  const running = (id: string) => tasksOf(id).filter(({ desiredStatus }) => desiredStatus === 'RUNNING');
  const definitionsOf = (id: string) =>
    target().ecs.definitions.all.filter(({ family, status }) => family.endsWith(id) && status === 'ACTIVE');
  const clusterOf = (id: string) => tasksOf(id)[0]!.clusterArn;
  async function ecsServiceOf(id: string): Promise<Service> {
    const command = new DescribeServicesCommand({ cluster: clusterOf(id), services: [id], include: ['TAGS'] });
    return (await ecsClient().send(command)).services![0]!;
  }

  async function deployed(name: string, more: object = {}) {
    const user = await serviceUser(target(), name);
    await user.publish('bot', { 'server.js': app(1) });
    const id = await user.deploy({ agent: `${user.slug}/bot`, ...more });
    const address = await user.addressOf(id);
    await shows(() => ask(address), { status: 200 });
    await shows(() => user.read(id), { current_state: 'running', health_status: 'healthy' });
    return { ...user, id, address };
  }
  const typesOf = async (read: (id: string) => Promise<{ events: { event_type: string }[] }>, id: string) =>
    (await read(id)).events.map(({ event_type }) => event_type);

  describe.concurrent('chaos among services', () => {
    test('a task dies: another takes its place, and one alert tells of it', limit, async ({ onTestFinished }) => {
      const receiver = await startReceiver();
      onTestFinished(() => receiver.close());
      // The limit is two failures, so the first one is worth a warning.
      const alerts = { max_restart_failures: 2, alert_webhook_url: `${receiver.url}/death` };
      const { id, address, read, remove } = await deployed('chaos-death', alerts);
      const [dead] = running(id);
      target().ecs.kill(dead!.taskArn);
      await until(async () => expect(running(id).map(({ taskArn }) => taskArn)).not.toContain(dead!.taskArn));
      await shows(() => ask(address), { status: 200 });
      await shows(() => read(id), { current_state: 'running', health_status: 'healthy', restart_count: 1 });
      await until(async () => expect(await typesOf(read, id)).toContain('alert_sent'));
      expect(await typesOf(read, id)).toContain('restart_failed');
      expect(receiver.at('/death')).toMatchObject([{ body: { service_id: id, auto_paused: false, threshold: 2 } }]);
      await remove(id);
    });

    test('two deploys and two changes at once: each service is one service, as its owner wants it', limit, async () => {
      const { slug, api, publish, deploy, addressOf, remove } = await serviceUser(target(), 'chaos-twice');
      await publish('bot', { 'server.js': app(1) });
      const ids = await Promise.all(['one', 'two'].map((name) => deploy({ agent: `${slug}/bot`, service_name: name })));
      const [first] = ids;
      await Promise.all(['x', 'y'].map((WORD) => api('PATCH', `/services/${first}`, { env: { WORD } })));
      const { service } = (await api('GET', `/services/${first}`)).body;
      for (const id of ids) await shows(async () => ask(await addressOf(id)), { status: 200 });
      const address = await addressOf(first!);
      await shows(() => ask(address), { word: service.env.WORD });
      await until(async () => expect(running(first!)).toHaveLength(1));
      await until(async () => expect(definitionsOf(first!)).toHaveLength(1));
      for (const id of ids) await remove(id);
    });

    test('a publish in mid-deploy: the new version runs, and nothing of the old one is left', limit, async () => {
      const { slug, publish, deploy, read, addressOf, remove } = await serviceUser(target(), 'chaos-publish');
      await publish('bot', { 'server.js': app(1) });
      const id = await deploy({ agent: `${slug}/bot` });
      const { upload } = await publish('bot', { 'server.js': app(2) });
      expect(upload.services_updated).toBe(1);
      const address = await addressOf(id);
      await shows(() => ask(address), { status: 200, version: 2 });
      await until(async () => expect(running(id)).toHaveLength(1));
      expect(await read(id)).toMatchObject({ agent_version: 'v2', current_state: 'running' });
      await until(async () => expect(definitionsOf(id)).toHaveLength(1));
      await remove(id);
    });

    test('what a service lost in ECS is made again', limit, async () => {
      const { id, address, read, addressOf, remove } = await deployed('chaos-lost');
      await ecsClient().send(new DeleteServiceCommand({ cluster: clusterOf(id), service: id, force: true }));
      await until(async () => expect((await ecsServiceOf(id)).status).toBe('ACTIVE'));
      // A gateway's route belongs to the ECS service, so the new service has a new address.
      await until(async () => expect(await addressOf(id)).not.toBe(address));
      await shows(async () => ask(await addressOf(id)), { status: 200 });
      await shows(() => read(id), { current_state: 'running', health_status: 'healthy' });
      await remove(id);
    });

    test('what no record knows is removed from ECS', limit, async () => {
      const { id, remove } = await deployed('chaos-unknown');
      const { taskDefinition, networkConfiguration, tags = [] } = await ecsServiceOf(id);
      const unknown = '3f2504e0-4f89-41d3-9a0c-0305e82c3301';
      const ofUnknown = tags.map(({ key, value }) => ({ key, value: value === id ? unknown : value }));
      await ecsClient().send(
        new CreateServiceCommand({
          ...{ cluster: clusterOf(id), serviceName: unknown, taskDefinition, networkConfiguration },
          ...{ desiredCount: 1, launchType: 'FARGATE', tags: ofUnknown.filter(({ key }) => !/^aws:/.test(key!)) },
        }),
      );
      await until(async () => expect(target().ecs.services.names).not.toContain(unknown));
      expect(target().ecs.services.names).toContain(id);
      await remove(id);
    });

    test('a deploy whose answer was lost is one service', limit, async () => {
      const { slug, publish, deploy, addressOf, remove } = await serviceUser(target(), 'chaos-answer');
      await publish('bot', { 'server.js': app(1) });
      target().ecs.loseAnswers(1, 'CreateService');
      const id = await deploy({ agent: `${slug}/bot` });
      await shows(async () => ask(await addressOf(id)), { status: 200 });
      expect(running(id)).toHaveLength(1);
      await remove(id);
    });
  });

  describe('chaos in the events of services', () => {
    afterEach(() => {
      target().chaos.onTaskEvent = undefined;
    });

    test.each(['twice', 'late', 'never'] as const)(
      'events come %s: a death counts once, and a pause stays one',
      limit,
      async (how) => {
        const { id, address, api, read, remove } = await deployed(`chaos-${how}`);
        const late: (() => Promise<void>)[] = [];
        target().chaos.onTaskEvent = async (deliver) => {
          if (how === 'late') late.push(deliver);
          if (how === 'twice') await deliver().then(deliver);
        };
        target().ecs.kill(running(id)[0]!.taskArn);
        await shows(() => read(id), { restart_count: 1, consecutive_restart_failures: 1 });
        await shows(() => ask(address), { status: 200 });
        expect((await api('PATCH', `/services/${id}`, { desired_state: 'stopped' })).status).toBe(200);
        await until(async () => expect(running(id)).toEqual([]));
        for (const deliver of late.toReversed()) await deliver();
        await target().tickServices();
        expect(running(id)).toEqual([]);
        const kinds = await typesOf(read, id);
        expect(kinds.filter((kind) => kind === 'restart_failed')).toHaveLength(1);
        expect(await read(id)).toMatchObject({ current_state: 'paused', auto_paused_at: null, restart_count: 1 });
        await remove(id);
      },
    );
  });
}

/** Deletes the stack of services while some run: no service may remain, and nothing of the stack may be in use. */
export function servicesDestroySuite(target: () => Rehearsal, ecsClient: () => ECSClient): void {
  test('a stack is deleted while services run, and nothing is left', {
    timeout: TEST_LIMIT_MS,
    skip: target().services === undefined,
  }, async () => {
    const { slug, publish, deploy, addressOf } = await serviceUser(target(), 'destroyed');
    await publish('bot', { 'server.js': app(1) });
    const ids = await Promise.all(['one', 'two'].map((name) => deploy({ agent: `${slug}/bot`, service_name: name })));
    for (const id of ids) await shows(async () => askAt(target(), await addressOf(id)), { status: 200 });
    // CloudFormation deletes the keeper first.
    target().chaos.holdsServiceClock = true;
    target().chaos.onTaskEvent = () => {};
    const answers: string[] = [];
    const cloudFormation = createServer(async (request, response) => {
      answers.push(Buffer.concat(await request.toArray()).toString());
      response.end();
    }).listen(0, '127.0.0.1');
    await once(cloudFormation, 'listening');
    onTestFinished(() => void cloudFormation.close());
    const { port } = cloudFormation.address() as AddressInfo;
    await target().deleteResource('Custom::RemoveServices', `http://127.0.0.1:${port}/`);
    expect(
      answers.map((text) => JSON.parse(text).Status),
      answers.join(),
    ).toEqual(['SUCCESS']);

    const { ecs, logs } = target();
    expect(ecs.services.names).toEqual([]);
    const own = (name: string) => ids.some((id) => name.includes(id));
    expect(ecs.tasks.filter(({ group = '', lastStatus }) => own(group) && lastStatus !== 'STOPPED')).toEqual([]);
    expect(ecs.definitions.all.filter(({ family, status }) => own(family) && status !== 'DELETE_IN_PROGRESS')).toEqual(
      [],
    );
    expect(ecs.gateways.routes).toEqual([]);
    expect((await logs.groups('/platform/')).filter(own)).toEqual([]);
    for (const { gatewayArn: gateway, clusterArn: cluster } of ecs.gateways.associations) {
      await ecsClient().send(new DisassociateGatewayFromClusterCommand({ gateway, cluster }));
      await ecsClient().send(new DeleteGatewayCommand({ gateway }));
    }
  });
}
