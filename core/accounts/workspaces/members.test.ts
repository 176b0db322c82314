import { expect, test } from 'vitest';
import type { Workspace } from '#core/base/workspace.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Message } from '#core/ports/mail.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { workspaceHandlers } from './handlers.ts';
import { acceptInvite, createInvite, joinByInvite, listInvites, openInvite } from './invites.ts';
import { addMember, changeRole, listMemberRecords, removeMember } from './members.ts';
import { newWorkspaceOperations, workspaceKey } from './store.ts';

async function setUp<D extends Deps = MemoryDeps>(deps: D = memoryDeps() as unknown as D) {
  const owner = await addUser(deps, 'ann');
  const workspace: Workspace = {
    id: deps.ids.uuid(),
    slug: 'team',
    name: 'Team',
    type: 'team',
    createdAt: '2035-06-01T12:00:00.000Z',
  };
  await deps.main.transact(newWorkspaceOperations(owner.userId, workspace));
  return { deps, owner, workspace };
}
const owners = async ({ deps, workspace }: { deps: Deps; workspace: Workspace }) =>
  (await listMemberRecords(deps, workspace.id)).filter(({ role }) => role === 'owner').length;

test('a workspace whose record does not count owners yet keeps one', async () => {
  const world = await setUp();
  const { deps, owner, workspace } = world;
  await deps.main.update(workspaceKey(workspace.id), { remove: ['owners'] });
  const { userId } = owner;
  await expect(removeMember(deps, { workspace, userId })).rejects.toMatchObject({ code: 'CONFLICT' });
  const second = await addUser(deps, 'bob');
  await addMember(deps, { workspace, userId: second.userId, role: 'owner' });
  expect((await deps.main.get(workspaceKey(workspace.id)))?.owners).toBe(2);
  await removeMember(deps, { workspace, userId });
  expect(await owners(world)).toBe(1);
});

test('after concurrent changes, the number of owners is correct and never zero', async () => {
  for (let round = 0; round < 20; round++) {
    // Competing writes back off, so the clock must run.
    const world = await setUp({ ...memoryDeps(), clock: new SystemClock() });
    const { deps, workspace, owner } = world;
    const users = [owner, ...(await Promise.all(['b', 'c', 'd'].map((slug) => addUser(deps, slug))))];
    for (const { userId } of users.slice(1)) await addMember(deps, { workspace, userId, role: 'owner' });
    const late = await addUser(deps, 'late');
    await Promise.allSettled([
      ...users.map(({ userId }, n) =>
        (n + round) % 2 === 0
          ? removeMember(deps, { workspace, userId })
          : changeRole(deps, { workspace, userId, role: 'member' }),
      ),
      addMember(deps, { workspace, userId: late.userId, role: round % 3 === 0 ? 'owner' : 'member' }),
    ]);
    const counted = (await deps.main.get(workspaceKey(workspace.id)))?.owners;
    expect(counted).toBe(await owners(world));
    expect(counted).toBeGreaterThan(0);
  }
});

test('the e-mail of an invitation shows no text that the inviter chose', async () => {
  const { deps, workspace } = await setUp();
  const mails: Message[] = [];
  const mail = { send: async (sent: Message) => mails.push(sent) > 0 };
  const named = { ...workspace, name: 'You won\r\nBcc: all@example.com https://evil.example' };
  const { inviteMember } = workspaceHandlers({ ...deps, mail, gatewayUrl: 'https://platform.example' });
  const incoming = { caller: { workspace: named }, body: { email: 'x@example.com', role: 'member' } };
  await inviteMember(incoming as unknown as Parameters<typeof inviteMember>[0]);
  expect(mails).toEqual([
    {
      to: 'x@example.com',
      subject: 'Invitation to the workspace team',
      text: expect.stringMatching(/"team":\n\nhttps:\/\/platform.example\/invites\/\S+\n/),
    },
  ]);
  expect(JSON.stringify(mails)).not.toContain('evil');
});

test('an invitation expires after seven days', async () => {
  const { deps, workspace } = await setUp();
  const { token, invite } = await createInvite(deps, workspace.id, { email: 'x@example.com', role: 'member' });
  expect(Date.parse(invite.expiresAt) - Date.parse(invite.createdAt)).toBe(7 * 24 * 3600 * 1000);
  await deps.clock.advance(7 * 24 * 3600 * 1000 - 1000);
  expect(await openInvite(deps, token)).toMatchObject({ email: 'x@example.com', workspace: { slug: 'team' } });
  await deps.clock.advance(1000);
  await expect(openInvite(deps, token)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  const user = await addUser(deps, 'late');
  await expect(acceptInvite(deps, token, user.userId)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  expect(await listInvites(deps, workspace.id)).toEqual([]);
});

test('an invitation makes one member, even if several users have the link', async () => {
  const { deps, workspace } = await setUp();
  const atOnce = { ...deps, clock: new SystemClock() };
  const users = await Promise.all(['b', 'c', 'd'].map((slug) => addUser(deps, slug)));
  const { token } = await createInvite(deps, workspace.id, { email: 'x@example.com', role: 'owner' });
  const results = await Promise.allSettled([
    ...users.map(({ userId }) => acceptInvite(atOnce, token, userId)),
    joinByInvite(atOnce, token, { userId: deps.ids.uuid(), name: undefined }),
  ]);
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  expect(await listMemberRecords(deps, workspace.id)).toHaveLength(2);
});

test('the token is not stored', async () => {
  const { deps, workspace } = await setUp();
  const { token } = await createInvite(deps, workspace.id, { email: 'x@example.com', role: 'member' });
  const { items } = await deps.main.query({ pk: `WS#${workspace.id}#INVITES` });
  expect(JSON.stringify(items)).not.toContain(token);
  expect(deps.lines.map((line) => JSON.stringify(line)).join()).not.toContain(token);
});
