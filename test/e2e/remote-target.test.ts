import { afterAll, expect, test } from 'vitest';
import { request, startLocalTarget } from '#test/helpers/platform.ts';
import { expectError, expectOk } from './expect.ts';
import { NOT_HERE, remoteTarget } from './remote-target.ts';

const local = await startLocalTarget();
const target = await remoteTarget(`${local.url}/`, local.key);

afterAll(() => Promise.all([target.close(), local.close()]));

test('users are made by invitations, and have one key and a workspace of their own', async () => {
  const { key, keyId, workspaceId, slug } = await target.addUser('remote-ann');
  const { workspaces } = expectOk(await request(target, 'GET', '/workspaces', { key }));
  expect(workspaces).toMatchObject([{ id: workspaceId, slug: 'remote-ann', type: 'personal', role: 'owner' }]);
  expect(expectOk(await request(target, 'GET', '/api-keys', { key }))).toMatchObject([{ id: keyId }]);
  expect(slug).toBe('remote-ann');
  await expect(target.addUser('remote-ann')).rejects.toThrow('holds nothing yet');
});

test('a user becomes a member of the workspace of another, and of the first one', async () => {
  const [ann, bob] = await Promise.all(['remote-cat', 'remote-dan'].map((slug) => target.addUser(slug)));
  const { id } = expectOk(await request(target, 'GET', '/org', { key: target.key }));
  for (const workspaceId of [ann!.workspaceId, id]) {
    const asGuest = () => request(target, 'GET', '/org', { key: bob!.key, headers: { 'X-Workspace-Id': workspaceId } });
    expectError(await asGuest(), 403, 'FORBIDDEN');
    await target.addMember(bob!, workspaceId);
    expect(expectOk(await asGuest()).id).toBe(workspaceId);
  }
});

test('operations that need this machine or an operator are refused with the reason', async () => {
  expect(() => target.llm).toThrow(NOT_HERE);
  // It throws synchronously, even if a test awaits something else first.
  expect(() => target.setPlan('any', 'free')).toThrow(NOT_HERE);
});
