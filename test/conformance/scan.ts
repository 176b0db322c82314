import { expect, test } from 'vitest';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Scan } from '#core/ports/scan.ts';
import type { Item, Table } from '#core/ports/table.ts';
import type { TableName } from '#core/ports/table-rules.ts';
import type { ManualClock } from '#test/helpers/manual-clock.ts';

interface Opened {
  readonly tables: Readonly<Record<TableName, Table>>;
  readonly scan: Scan;
  readonly clock: ManualClock;
}

/** Rules for every adapter of {@link Scan}. */
export function scanConformance(open: () => Promise<Opened>): void {
  const OWN = { partitions: ['WS#w1', 'IDEM#w1'], workspaceId: 'w1' };
  const found = async ({ scan }: Opened, table: TableName) =>
    (await Array.fromAsync(scan.items(table, OWN))).map(({ pk, sk }) => `${pk} ${sk}`).sort();

  test('yields the items of a workspace whole, once each, and of one table', async () => {
    const opened = await open();
    const { main, runs } = opened.tables;
    const own: Item[] = [
      { pk: 'WS#w1', sk: 'META', nested: { list: [1, { deep: null }] }, text: 'ü' },
      { pk: 'WS#w1#TASKS', sk: 'a', gsi1pk: 'g', gsi1sk: 's' },
      { pk: 'IDEM#w1#x', sk: 'ANSWER' },
      { pk: 'SLUG#acme', sk: 'META', workspace_id: 'w1' },
    ];
    for (const item of [...own, { pk: 'WS#w2', sk: 'META' }, { pk: 'SLUG#b', sk: 'META', workspace_id: 'w2' }]) {
      await main.put(item);
    }
    await runs.put({ pk: 'WS#w1', sk: 'elsewhere' });
    const items = (await Array.fromAsync(opened.scan.items('main', OWN))).filter(
      ({ pk, workspace_id }) => workspace_id === 'w1' || OWN.partitions.some((each) => pk.startsWith(each)),
    );
    const order = (a: Item, b: Item) => (a.pk < b.pk ? -1 : 1);
    expect(items.sort(order)).toEqual(own.sort(order));
    expect(await found(opened, 'counters')).toEqual([]);
  });

  test('yields more items than fit on a page, as they were written last', async () => {
    const opened = await open();
    const { runs } = opened.tables;
    const text = 'x'.repeat(2_000);
    await Promise.all(Array.from({ length: 1_200 }, (_, n) => runs.put({ pk: `WS#w1#${n % 40}`, sk: `${n}`, text })));
    await runs.update({ pk: 'WS#w1#0', sk: '0' }, { set: { text: 'new' } });
    await runs.delete({ pk: 'WS#w1#1', sk: '1' });
    const items = await Array.fromAsync(opened.scan.items('runs', OWN));
    expect(items).toHaveLength(1_199);
    expect(new Set(items.map(({ pk, sk }) => `${pk} ${sk}`)).size).toBe(1_199);
    expect(items.find(({ sk }) => sk === '0')).toMatchObject({ text: 'new' });
  });

  test('yields nothing that has expired', async () => {
    const opened = await open();
    const { main } = opened.tables;
    const now = epochSeconds(opened.clock.now());
    await main.put({ pk: 'WS#w1', sk: 'old', ttl: now - 1 });
    await main.put({ pk: 'WS#w1', sk: 'new', ttl: now + 60 });
    expect(await found(opened, 'main')).toEqual(['WS#w1 new']);
  });
}
