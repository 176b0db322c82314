import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { ServiceOrder, ServiceReport } from '#core/ports/service-host.ts';
import { serviceHostConformance } from '#test/conformance/service-host.ts';
import { ManualClock } from './manual-clock.ts';
import { MemoryServiceHost } from './memory-service-host.ts';

const order: ServiceOrder = {
  id: 'a',
  workspaceId: 'w',
  label: 'bot-123456',
  revision: 1,
  token: 't1',
  minInstances: 1,
  maxInstances: 1,
  overlap: true,
  limits: { memoryBytes: 1, processes: 1, fileBytes: 1, diskBytes: 1 },
};

test('an update replaces the instances, and an older order is ignored', async () => {
  const reports: ServiceReport[] = [];
  const host = new MemoryServiceHost({
    clock: new ManualClock(0),
    listener: async (some) => void reports.push(...some),
  });
  await host.deploy(order);
  await host.update({ ...order, revision: 2 });
  await host.update(order);
  expect(reports.map(({ type, revision }) => `${type} ${revision}`)).toEqual(['instance 1', 'ended 1', 'instance 2']);
  const [service] = await Array.fromAsync(host.list());
  expect(service).toMatchObject({ revision: 2, isPaused: false, instances: [{ revision: 2 }] });
});

describe('MemoryServiceHost', () => {
  serviceHostConformance(async () => ({
    host: new MemoryServiceHost({ clock: new ManualClock(0), listener: async () => {} }),
    newOrder: async () => ({ ...order, id: randomUUID() }),
  }));
});
