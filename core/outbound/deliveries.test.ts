import { expect, test } from 'vitest';
import type { Table } from '#core/ports/table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import {
  type Delivery,
  type DeliveryListener,
  type DeliveryOutcome,
  deliveryOperation,
  newDelivery,
  sweepDeliveries,
} from './deliveries.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';

/** A delivery whose process died before the first attempt; the receiver accepts it. */
async function lostDelivery(kind: string) {
  const base = memoryDeps();
  const posted: string[] = [];
  const deps = {
    ...base,
    outbound: {
      post: async ({ url }: { url: string }) => {
        posted.push(url);
        return { ok: true as const, status: 200 };
      },
    },
  };
  const message = { kind, workspaceId: WORKSPACE, subjectId: 'subject', url: 'https://hooks.example.com/', body: '{}' };
  const delivery = newDelivery(deps, message);
  await deps.main.transact([deliveryOperation(deps, delivery)]);
  await deps.clock.advance(30_001);
  const key = { pk: `DELIVERY#${delivery.id}`, sk: 'META' };
  return { deps, posted, item: () => deps.main.get(key) };
}

/** Records each outcome in a separate table, in the transaction that ends the delivery. */
function recorder(main: Table, isKept = true) {
  const ended: [Delivery, DeliveryOutcome][] = [];
  const listener: DeliveryListener = {
    async deliveryEnded(delivery, outcome, end) {
      ended.push([delivery, outcome]);
      return isKept && (await main.transact([end])).ok;
    },
  };
  return { ended, listener };
}

test('the listener of its kind is told once how a delivery ended', async () => {
  const { deps, posted, item } = await lostDelivery('budget');
  const { ended, listener } = recorder(deps.main);
  const other = recorder(deps.main);
  await sweepDeliveries(deps, { budget: listener, schedule: other.listener });
  await sweepDeliveries(deps, { budget: listener, schedule: other.listener });
  expect(ended).toEqual([[expect.objectContaining({ kind: 'budget', subjectId: 'subject', tries: 1 }), { ok: true }]]);
  expect(other.ended).toEqual([]);
  expect(posted).toHaveLength(1);
  expect(await item()).toBeUndefined();
});

test('a delivery ends also if no listener records it', async () => {
  for (const listeners of ['none', 'refusing'] as const) {
    const { deps, posted, item } = await lostDelivery('budget');
    const { listener } = recorder(deps.main, false);
    await sweepDeliveries(deps, listeners === 'none' ? {} : { budget: listener });
    expect(posted).toHaveLength(1);
    expect(await item()).toBeUndefined();
  }
});
