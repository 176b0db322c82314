import { expect, test } from 'vitest';
import type { Plan } from '#core/base/plans.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { MAX_MEMORY_BYTES, MAX_MEMORY_DOCUMENTS, MemoryStore, tenantsWithMemory } from './memory.ts';
import { isMemoryName } from './memory-names.ts';
import { DocumentStore, documentUse } from './store.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';

function setUp(limits: Partial<Plan> = {}) {
  const deps = { ...memoryDeps(), clock: new SystemClock() };
  const plan = { ...deps.config.plans.enterprise, ...limits };
  const of = (tenantId?: string) => new MemoryStore(deps, WORKSPACE, tenantId);
  const write = (memory: MemoryStore, name: string, text: string, expectedVersion?: number) =>
    memory.write(name, { text, expectedVersion, updatedBy: 'a/b@v1', plan });
  const all = async (memory: MemoryStore) => {
    const { heads } = await memory.list({ prefix: '', limit: 100 });
    return heads.map(({ key }) => key);
  };
  return { deps, plan, of, write, all };
}

test.each([
  ['notes.md', true],
  ['customers/acme/notes_1.md', true],
  ['-x', true],
  ['a'.repeat(200), true],
  ['a'.repeat(201), false],
  ['', false],
  ['/a', false],
  ['a/', false],
  ['a//b', false],
  ['..', false],
  ['a/../b', false],
  ['a/.hidden', false],
  ['a b', false],
  ['a#b', false],
  ['a~', false],
  ['ä', false],
  ['a\n', false],
])('the name %j is a name: %s', (name, expected) => {
  expect(isMemoryName(name)).toBe(expected);
});

test('tenants and the workspace see their own documents only', async () => {
  const { deps, of, write, all } = setUp();
  await write(of(), 'of-workspace.md', 'w');
  await write(of('ann'), 'of-ann.md', 'a');
  await write(of('ann2'), 'of-ann2.md', 'b');
  expect(await all(of())).toEqual(['of-workspace.md']);
  expect(await all(of('ann'))).toEqual(['of-ann.md']);
  expect(await of('ann').get('of-ann2.md')).toBeUndefined();
  expect(await of('ann').get('of-workspace.md')).toBeUndefined();
  expect(await of('ann').delete('of-workspace.md')).toBe(false);
  expect(await all(new MemoryStore(deps, 'other', 'ann'))).toEqual([]);
  const { tenants } = await tenantsWithMemory(deps, WORKSPACE, { limit: 10 });
  expect(tenants).toEqual([
    { tenantId: 'ann', documents: 1 },
    { tenantId: 'ann2', documents: 1 },
  ]);
  expect(await tenantsWithMemory(deps, WORKSPACE, { after: 'ann', limit: 1 })).toMatchObject({
    tenants: [{ tenantId: 'ann2' }],
    hasMore: false,
  });
});

test('memory is no namespace of users, and counts in the bytes of the plan only', async () => {
  const { deps, of, write, plan } = setUp();
  await write(of(), 'a.md', 'x');
  await write(of('ann'), 'b.md', 'y');
  const documents = new DocumentStore(deps, WORKSPACE);
  await documents.write('notes', 'today', { change: () => ({}), updatedBy: 'api', quota: plan });
  expect(await documents.namespaces()).toEqual(['notes']);
  expect(await documentUse(deps)(WORKSPACE)).toEqual({ storage_bytes: 8, storage_namespaces: 1 });
  expect(await of('ann').deleteAll()).toBe(1);
  expect(await documentUse(deps)(WORKSPACE)).toEqual({ storage_bytes: 5, storage_namespaces: 1 });
  expect((await tenantsWithMemory(deps, WORKSPACE, { limit: 10 })).tenants).toEqual([]);
});

test('of writers at the same time one wins, and the others are told', async () => {
  const { of, write } = setUp();
  await write(of(), 'list.md', 'begin');
  const results = await Promise.allSettled(Array.from({ length: 8 }, (_, i) => write(of(), 'list.md', `${i}`, 1)));
  const failed = results.filter(({ status }) => status === 'rejected');
  expect(failed).toHaveLength(7);
  for (const { reason } of failed as PromiseRejectedResult[]) expect(reason).toMatchObject({ code: 'CONFLICT' });
  expect(await of().get('list.md')).toMatchObject({ version: 2 });
  await expect(of().delete('list.md', 1)).rejects.toMatchObject({ code: 'CONFLICT' });
});

test('a write that is repeated is done once', async () => {
  const { of, plan } = setUp();
  const write = { text: 'one', expectedVersion: 0, requestId: 'run:1.1', updatedBy: 'a/b@v1', plan };
  expect(await of().write('a.md', write)).toMatchObject({ version: 1, text: 'one' });
  expect(await of().write('a.md', write)).toMatchObject({ version: 1, text: 'one' });
  await of().write('a.md', { ...write, text: 'two', expectedVersion: 1, requestId: 'run:2.1' });
  await expect(of().write('a.md', write)).rejects.toMatchObject({ code: 'CONFLICT' });
  expect(await of().get('a.md')).toMatchObject({ version: 2, text: 'two' });
});

test('a memory has bounds', async () => {
  const { deps, of, write } = setUp({ storage_bytes: 200_000 });
  await expect(write(of(), 'a.md', 'ä'.repeat(MAX_MEMORY_BYTES / 2 + 1))).rejects.toMatchObject({
    code: 'DOCUMENT_TOO_LARGE',
  });
  // Control characters are longer as JSON.
  const long = '\u0001'.repeat(20_000);
  await write(of(), 'a.md', long);
  expect(await of().get('a.md')).toMatchObject({ text: long });
  expect(await Array.fromAsync(deps.blobs.list(''))).toEqual([]);
  await write(of(), 'b.md', 'b'.repeat(MAX_MEMORY_BYTES));
  await expect(write(of(), 'c.md', 'c'.repeat(MAX_MEMORY_BYTES))).rejects.toMatchObject({
    code: 'STORAGE_QUOTA_EXCEEDED',
  });
  await deps.main.update(
    { pk: `WS#${WORKSPACE}#STORAGE`, sk: 'NS#~memory' },
    { set: { documents: MAX_MEMORY_DOCUMENTS } },
  );
  await expect(write(of(), 'd.md', 'd')).rejects.toMatchObject({
    code: 'STORAGE_QUOTA_EXCEEDED',
    message: 'A memory holds at most 1000 documents: delete some first.',
  });
  await write(of('ann'), 'd.md', 'd');
});
