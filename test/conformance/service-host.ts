import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import type { HostedService, ServiceHost, ServiceOrder, ServiceRef } from '#core/ports/service-host.ts';

/** A host, and a function that creates an order it can execute. */
export interface HostUnderTest {
  readonly host: ServiceHost;
  newOrder(): Promise<ServiceOrder>;
}

/** Handling of orders by every host (`core/ports/service-host.ts`). Each host has its own tests of instances. */
export function serviceHostConformance(underTest: () => Promise<HostUnderTest>): void {
  const made: { host: ServiceHost; service: ServiceRef }[] = [];
  afterEach(async () => {
    for (const { host, service } of made.splice(0)) await host.remove(service);
  });

  async function setUp() {
    const { host, newOrder } = await underTest();
    const order = await newOrder();
    made.push({ host, service: order });
    const listed = async (): Promise<HostedService | undefined> =>
      (await Array.fromAsync(host.list())).find(({ serviceId }) => serviceId === order.id);
    const later = (revision: number, change: Partial<ServiceOrder> = {}): ServiceOrder => ({
      ...order,
      ...change,
      revision,
      token: randomUUID(),
    });
    return { host, order, listed, later };
  }

  describe('orders', () => {
    test('a service is listed with the revision that it follows, and whether it is paused', async () => {
      const { host, order, listed, later } = await setUp();
      expect(await listed()).toBeUndefined();
      await host.deploy(order);
      const { id: serviceId, workspaceId } = order;
      expect(await listed()).toMatchObject({ serviceId, workspaceId, revision: 1, isPaused: false });
      await host.update(later(2, { maxInstances: 2 }));
      expect(await listed()).toMatchObject({ revision: 2, isPaused: false });
      await host.pause(order);
      expect(await listed()).toMatchObject({ isPaused: true });
      await host.resume(later(4));
      expect(await listed()).toMatchObject({ revision: 4, isPaused: false });
      await host.restart(later(5, { overlap: false }));
      expect(await listed()).toMatchObject({ revision: 5, isPaused: false });
      await host.remove(order);
      expect(await listed()).toBeUndefined();
    });

    test('each may come twice', async () => {
      const { host, order, listed, later } = await setUp();
      for (const token of [order.token, order.token, randomUUID()]) await host.deploy({ ...order, token });
      await host.update(later(2));
      await host.update(later(2));
      expect(await listed()).toMatchObject({ revision: 2, isPaused: false });
      await host.pause(order);
      await host.pause(order);
      expect(await listed()).toMatchObject({ isPaused: true });
      // The record says that the service runs, but another process sent the host a different order.
      await host.update(later(2));
      expect(await listed()).toMatchObject({ revision: 2, isPaused: false });
      await host.remove(order);
      await host.remove(order);
      expect(await listed()).toBeUndefined();
    });

    test('one of an older revision changes nothing', async () => {
      const { host, listed, order, later } = await setUp();
      await host.deploy(later(3));
      await host.update(later(2));
      expect(await listed()).toMatchObject({ revision: 3, isPaused: false });
      await host.pause(order);
      await host.resume(later(2));
      expect(await listed()).toMatchObject({ isPaused: true });
    });

    test('an update of a service that is not there makes it', async () => {
      const { host, listed, later } = await setUp();
      await host.update(later(7));
      expect(await listed()).toMatchObject({ revision: 7, isPaused: false });
    });

    test('a pause or a removal of a service that is not there is none', async () => {
      const { host, order, listed } = await setUp();
      await host.pause(order);
      await host.remove(order);
      // The comparison may remove services of which it knows only the id.
      await host.remove({ ...order, label: '' });
      expect(await listed()).toBeUndefined();
    });
  });

  test('the address is an origin, and stays', async () => {
    const { host, order, later } = await setUp();
    await host.deploy(order);
    const address = await host.address(order);
    expect(new URL(address!).origin).toBe(address);
    await host.update(later(2));
    await host.pause(order);
    expect(await host.address(order)).toBe(address);
  });

  test('a service without a line has an empty log', async () => {
    const { host, order } = await setUp();
    expect(await host.logs(order, { limit: 10 })).toEqual([]);
  });
}
