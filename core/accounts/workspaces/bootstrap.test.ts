import { expect, test } from 'vitest';
import { authenticate } from '#core/api/auth.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { revokeKey } from '../keys/store.ts';
import { bootstrap, createOwnerKey, findOwnerKey } from './bootstrap.ts';
import { countMembers, listMemberships } from './store.ts';

const present = (key: string) => new Headers({ authorization: `Bearer ${key}` });

test('creates a workspace, its owner and a valid key', async () => {
  const deps = memoryDeps({ workspaceSlug: 'acme', ownerEmail: 'ann@example.com' });
  const key = await bootstrap(deps);
  const caller = await authenticate(deps, present(key!), undefined);
  expect(caller).toMatchObject({ role: 'owner', workspace: { slug: 'acme', type: 'personal' } });
  expect(await listMemberships(deps, caller.userId)).toHaveLength(1);
  expect(await countMembers(deps, caller.workspace.id)).toBe(1);
});

test('does nothing if the platform is set up, even with other settings', async () => {
  const deps = memoryDeps();
  expect(await bootstrap(deps)).toBeDefined();
  expect(await bootstrap({ ...deps, config: { ...deps.config, workspaceSlug: 'other' } })).toBeUndefined();
});

test('ten concurrent starts create one owner', async () => {
  const deps = memoryDeps();
  const keys = await Promise.all(Array.from({ length: 10 }, () => bootstrap(deps)));
  const [key, ...more] = keys.filter((made) => made !== undefined);
  expect(more).toEqual([]);
  const caller = await authenticate(deps, present(key!), undefined);
  expect(await countMembers(deps, caller.workspace.id)).toBe(1);
});

test('creates and revokes further keys of the owner', async () => {
  const deps = memoryDeps();
  await expect(createOwnerKey(deps, 'too early')).rejects.toThrow('start it once');
  const first = await bootstrap(deps);
  const { key, revoke } = await createOwnerKey(deps, 'second');
  const [a, b] = await Promise.all([first!, key].map((one) => authenticate(deps, present(one), undefined)));
  expect(b!.userId).toBe(a!.userId);
  await revoke();
  await expect(authenticate(deps, present(key), undefined)).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
  await authenticate(deps, present(first!), undefined);
});

test('the link of a start is made with a key of the owner that has no limits', async () => {
  const deps = memoryDeps();
  expect(await findOwnerKey(deps)).toBeUndefined();
  await bootstrap(deps);
  const first = await findOwnerKey(deps);
  expect(first).toMatchObject({ name: 'first key' });
  await revokeKey(deps, first!.userId, first!.id);
  expect(await findOwnerKey(deps)).toBeUndefined();
});
