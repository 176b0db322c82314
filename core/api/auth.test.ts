import { expect, test } from 'vitest';
import { newApiKey, revokeKey, updateKeyWorkspaces } from '#core/accounts/keys/store.ts';
import { newRunKey, newStaticKey } from '#core/accounts/service-keys/key-format.ts';
import { findPersonalWorkspace } from '#core/accounts/workspaces/store.ts';
import { isoTime } from '#core/ports/clock.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addMember, addUser } from '#test/helpers/users.ts';
import { authenticate } from './auth.ts';

const present = (key: string, workspaceId?: string): Headers =>
  new Headers({ authorization: `Bearer ${key}`, ...(workspaceId !== undefined && { 'x-workspace-id': workspaceId }) });

async function setUp() {
  const deps = memoryDeps();
  const [ann, bob] = [await addUser(deps, 'ann'), await addUser(deps, 'bob')];
  await authenticate(deps, present(ann.key), undefined);
  const counter = new OperationCounter();
  return { deps, ann, bob, counter, counted: { ...deps, main: counter.count(deps.main) } };
}

test("a user's own workspace takes one read, however it is named", async () => {
  const { ann, counter, counted } = await setUp();
  const callers = [
    await authenticate(counted, present(ann.key), undefined),
    await authenticate(counted, present(ann.key, ann.workspaceId), undefined),
    await authenticate(counted, present(ann.key), ann.workspaceId),
  ];
  for (const caller of callers) {
    expect(caller).toMatchObject({
      userId: ann.userId,
      role: 'owner',
      workspace: { id: ann.workspaceId, slug: 'ann' },
    });
  }
  expect(counter.items).toBe(3);
});

test('another one takes two, and needs a membership', async () => {
  const { deps, ann, bob, counter, counted } = await setUp();
  const asked = () => authenticate(counted, present(ann.key, bob.workspaceId), undefined);
  await expect(asked()).rejects.toMatchObject({ code: 'FORBIDDEN' });
  await addMember(deps, ann, bob.workspaceId);
  expect(await asked()).toMatchObject({ role: 'member', workspace: { slug: 'bob' } });
  expect(counter.items).toBe(4);
});

test('a revoked key is refused at once, and a changed workspace is seen at once', async () => {
  const { deps, ann } = await setUp();
  const { workspace } = await authenticate(deps, present(ann.key), undefined);
  await updateKeyWorkspaces(deps, ann.userId, { ...workspace, name: 'Ann & Co.' });
  expect(await authenticate(deps, present(ann.key), undefined)).toMatchObject({ workspace: { name: 'Ann & Co.' } });
  await revokeKey(deps, ann.userId, ann.keyId);
  await expect(authenticate(deps, present(ann.key), undefined)).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
});

test('service keys are for the rows that let agents in, and are looked up only there', async () => {
  const { deps, ann, counter, counted } = await setUp();
  const keys = [newStaticKey(deps.ids), newRunKey(deps.ids, { workspaceId: ann.workspaceId, runId: deps.ids.uuid() })];
  for (const key of keys) {
    await expect(authenticate(counted, present(key), undefined)).rejects.toMatchObject({ code: 'FORBIDDEN' });
    expect(counter.items).toBe(0);
  }
  for (const key of keys) {
    const asAgent = authenticate(counted, present(key), undefined, { method: 'POST', agents: true });
    await expect(asAgent).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
  }
});

test('limits of a key cost no read, and a key without them has none', async () => {
  const { deps, ann, bob, counter, counted } = await setUp();
  const personalWorkspace = await findPersonalWorkspace(deps, ann.userId);
  const limits = { scope: 'run', expiresAt: isoTime(deps.clock.now() + 60_000) } as const;
  const { key, operations } = newApiKey(deps, { userId: ann.userId, personalWorkspace }, 'limited', limits);
  await deps.main.transact(operations);
  await authenticate(deps, present(key), undefined);
  expect(await authenticate(counted, present(key), undefined)).toMatchObject({ limits });
  expect(counter.items).toBe(1);
  expect(await authenticate(deps, present(bob.key), undefined, { method: 'DELETE' })).not.toHaveProperty('limits');
  const refused = authenticate(deps, present(key), undefined, { method: 'DELETE' });
  await expect(refused).rejects.toMatchObject({ code: 'FORBIDDEN' });
  deps.clock.advance(60_000);
  await expect(authenticate(deps, present(key), undefined)).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
});
