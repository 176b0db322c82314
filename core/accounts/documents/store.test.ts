import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import type { Plan } from '#core/base/plans.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { DocumentStore } from './store.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';

function setUp(limits: Partial<Plan> = {}) {
  const deps = { ...memoryDeps(), clock: new SystemClock() };
  const store = new DocumentStore(deps, WORKSPACE);
  const quota = { ...deps.config.plans.enterprise, ...limits };
  const put = (namespace: string, key: string, value: Json) =>
    store.write(namespace, key, { change: () => value, updatedBy: 'api', quota });
  const total = async () => {
    const item = await deps.main.get({ pk: `WS#${WORKSPACE}#STORAGE`, sk: 'TOTAL' });
    return [item?.bytes, item?.namespaces];
  };
  const blobs = () => Array.fromAsync(deps.blobs.list(''));
  return { deps, store, put, total, blobs };
}
const large = (letter: string) => ({ text: letter.repeat(200_000) });

test('concurrent writes stay within the quotas and are counted correctly', async () => {
  const { store, put, total } = setUp({ storage_namespaces: 3, storage_documents: 4, storage_bytes: 60 });
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const results = await Promise.allSettled(
    names.flatMap((namespace) => names.map((key) => put(namespace, key, { n: 1 }))),
  );
  for (const result of results) {
    if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'STORAGE_QUOTA_EXCEEDED' });
  }
  const namespaces = await store.namespaces();
  expect(namespaces.length).toBeLessThanOrEqual(3);
  const counts = await Promise.all(
    namespaces.map(async (name) => (await store.keys(name, { prefix: '', limit: 100 })).keys.length),
  );
  expect(Math.max(...counts)).toBeLessThanOrEqual(4);
  const documents = counts.reduce((sum, count) => sum + count, 0);
  // Each document takes seven bytes.
  expect(await total()).toEqual([documents * 7, namespaces.length]);
  expect(documents * 7).toBeLessThanOrEqual(60);
  for (const name of namespaces) await store.deleteNamespace(name);
  expect(await total()).toEqual([0, 0]);
});

test('a reader sees one whole version while the document is written repeatedly', async () => {
  const { store, put } = setUp();
  await put('a', 'b', large('a'));
  let isWriting = true;
  const write = async () => {
    for (const letter of 'bcdefghij') await put('a', 'b', letter < 'f' ? large(letter) : { text: letter });
    isWriting = false;
  };
  const read = async () => {
    while (isWriting) {
      // The database commits between iterations of the event loop.
      await setImmediate();
      const document = await store.get('a', 'b');
      const { text } = document!.value as { text: string };
      expect(new Set(text).size).toBe(1);
      expect('abcdefghij'.indexOf(text[0]!) + 1).toBe(document!.version);
    }
  };
  await Promise.all([write(), read(), read()]);
});

test('values of deleted documents and of failed writes are removed', async () => {
  const { store, put, blobs } = setUp({ storage_bytes: 500_000 });
  await put('a', 'one', large('x'));
  await put('a', 'two', large('x'));
  expect(await blobs()).toHaveLength(2);
  await put('a', 'one', large('y'));
  expect(await blobs()).toHaveLength(2);
  await expect(put('a', 'three', large('x'))).rejects.toMatchObject({ code: 'STORAGE_QUOTA_EXCEEDED' });
  await Promise.all(Array.from({ length: 5 }, (_, n) => put('a', 'one', large(String(n)))));
  expect(await blobs()).toHaveLength(2);
  await put('a', 'two', { small: true });
  expect(await blobs()).toHaveLength(1);
  expect(await store.deleteNamespace('a')).toBe(2);
  expect(await blobs()).toEqual([]);
});
