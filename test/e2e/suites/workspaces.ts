import { describe, expect, test } from 'vitest';
import { request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';

/** Workspaces, their members and invitations. */
export function workspacesSuite(target: () => Target): void {
  const call = (key: string, method: string, path: string, json?: unknown, headers?: Record<string, string>) =>
    request(target(), method, path, { key, json, headers });

  /** Creates users, and a workspace of the first one. */
  async function setUp(...slugs: [string, ...string[]]) {
    const users = await Promise.all(slugs.map((slug) => target().addUser(slug)));
    const owner = users[0]!;
    const { workspace } = expectOk(await call(owner.key, 'POST', '/workspaces', { name: `${slugs[0]} team` }), 201);
    const base = `/workspaces/${workspace.id}`;
    const invite = async (email: string, role?: string) =>
      expectOk(await call(owner.key, 'POST', `${base}/invite`, { email, role })).invite;
    const accept = async (user: { key: string }, invited: { invite_url: string }) =>
      call(user.key, 'POST', `${new URL(invited.invite_url).pathname.replace(/^.*(?=\/invites)/, '')}/accept`);
    const join = async (user: { key: string; slug: string }, role?: string) =>
      expectOk(await accept(user, await invite(`${user.slug}@invited.example.com`, role)));
    const members = async (key = owner.key) => expectOk(await call(key, 'GET', `${base}/members`));
    return { users, owner, workspace, base, invite, accept, join, members };
  }
  const tokenPath = (url: string) => `/invites/${url.split('/').at(-1)}`;

  describe.concurrent('workspaces', () => {
    test('are created, named and listed', async () => {
      const { owner, workspace } = await setUp('wsp-life');
      expect(workspace).toEqual({
        id: expect.stringMatching(UUID),
        name: 'wsp-life team',
        slug: 'wsp-life-team',
        type: 'team',
        role: 'owner',
        member_count: 1,
      });
      expect(expectOk(await call(owner.key, 'GET', '/workspaces')).workspaces).toContainEqual(workspace);
      const headers = { 'X-Workspace-Id': workspace.id };
      expect(expectOk(await call(owner.key, 'GET', '/org', undefined, headers))).toMatchObject({
        slug: 'wsp-life-team',
        timezone: 'UTC',
      });
      const changes = { name: 'The Team', timezone: 'Pacific/Kiritimati' };
      expect(expectOk(await call(owner.key, 'PATCH', '/org', changes, headers))).toMatchObject(changes);
      expect(expectOk(await call(owner.key, 'GET', '/org', undefined, headers))).toMatchObject(changes);
      // The personal workspace is unchanged, and can be renamed in the same way.
      expect(expectOk(await call(owner.key, 'GET', '/org')).timezone).toBe('UTC');
      expectOk(await call(owner.key, 'PATCH', '/org', { timezone: 'Europe/Berlin' }));
      expect(expectOk(await call(owner.key, 'GET', '/org'))).toMatchObject({
        slug: 'wsp-life',
        timezone: 'Europe/Berlin',
      });
      expectError(await call(owner.key, 'PATCH', '/org', { timezone: 'EST' }), 400, 'INVALID_INPUT', 'timezone');
    });

    test('have unique slugs, none of which the API reserves', async () => {
      const { owner } = await setUp('wsp-slugs');
      const create = (json: object) => call(owner.key, 'POST', '/workspaces', json);
      expectOk(await create({ name: 'x', slug: 'wsp-slugs-own' }), 201);
      expectError(await create({ name: 'x', slug: 'wsp-slugs-own' }), 409, 'CONFLICT', '"wsp-slugs-own" is taken');
      expectError(await create({ name: '  Wsp: slugs, own! ' }), 409, 'CONFLICT', '"wsp-slugs-own" is taken');
      for (const name of ['tasks', 'ÄÖÜ']) {
        expectError(await create({ name }), 400, 'INVALID_INPUT', 'body.name: no slug');
      }
      for (const slug of ['agents', 'v1']) {
        expectError(await create({ name: 'x', slug }), 400, 'INVALID_INPUT', `body.slug: "${slug}" is not`);
      }
      for (const json of [{}, { name: '' }, { name: 'x', slug: '-x' }, { name: 'x', slug: 'a-'.repeat(26) }]) {
        expectError(await create(json), 400, 'INVALID_INPUT', 'body.');
      }
      const answers = await Promise.all(Array.from({ length: 5 }, () => create({ name: 'wsp-slugs race' })));
      expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409]);
    });

    test('invite users, who accept once', async () => {
      const { users, owner, workspace, base, invite, accept, members } = await setUp(
        'wsp-inv',
        'wsp-inv-ann',
        'wsp-inv-bob',
      );
      const [, ann, bob] = users;
      const invited = await invite('Ann@example.com');
      expect(invited).toEqual({
        id: expect.stringMatching(UUID),
        email: 'Ann@example.com',
        role: 'member',
        created_at: expect.stringMatching(ISO_TIME),
        expires_at: expect.stringMatching(ISO_TIME),
        email_sent: false,
        invite_url: expect.stringMatching(/\/invites\/[a-z][\w-]{43}$/),
      });
      const { invite_url, email_sent, ...pending } = invited;
      expect((await members()).invites).toEqual([pending]);
      const shown = await request(target(), 'GET', tokenPath(invite_url));
      expect(expectOk(shown).invite).toEqual({ ...pending, workspace: { name: workspace.name, slug: workspace.slug } });

      expect(expectOk(await accept(ann!, invited)).workspace).toMatchObject({ id: workspace.id, role: 'member' });
      expectError(await accept(bob!, invited), 404, 'NOT_FOUND', 'invitation');
      expect(await members(ann!.key)).toEqual({
        members: [
          expect.objectContaining({ id: owner.userId, role: 'owner', email: 'wsp-inv@example.com' }),
          {
            id: ann!.userId,
            clerk_user_id: ann!.userId,
            email: 'wsp-inv-ann@example.com',
            name: 'wsp-inv-ann',
            role: 'member',
            accepted_at: expect.stringMatching(ISO_TIME),
          },
        ],
        invites: [],
      });
      expectError(await accept(ann!, await invite('again@example.com')), 409, 'CONFLICT', 'already');
      // Members do not see invitations.
      expect((await members(ann!.key)).invites).toEqual([]);
      expectError(
        await call(owner.key, 'POST', `${base}/invites`, { email: 'WSP-inv-ann@example.com' }),
        400,
        'INVALID_INPUT',
        'already',
      );
      for (const json of [{}, { email: 'ann' }, { email: 'a@example.com', role: 'admin' }]) {
        expectError(await call(owner.key, 'POST', `${base}/invite`, json), 400, 'INVALID_INPUT', 'body.');
      }
    });

    test('revoke invitations, and a new invitation replaces the older one', async () => {
      const { users, owner, base, invite, accept, members } = await setUp('wsp-rev', 'wsp-rev-ann');
      const first = await invite('x@example.com');
      const second = await invite('X@example.com', 'owner');
      expectError(await accept(users[1]!, first), 404, 'NOT_FOUND');
      expect((await members()).invites).toHaveLength(1);
      expect(expectOk(await call(owner.key, 'DELETE', `${base}/invites/${second.id}`)).deleted).toBe(true);
      expectError(await call(owner.key, 'DELETE', `${base}/invites/${second.id}`), 404, 'NOT_FOUND');
      expectError(await accept(users[1]!, second), 404, 'NOT_FOUND');
      expectError(await request(target(), 'GET', tokenPath(second.invite_url)), 404, 'NOT_FOUND');
    });

    test('invite people who are not users yet', async () => {
      const { workspace, invite, members } = await setUp('wsp-new');
      const { invite_url } = await invite('wsp-newcomer@example.com', 'owner');
      const join = () => request(target(), 'POST', `${tokenPath(invite_url)}/join`, { json: { name: 'Nell' } });
      const answers = await Promise.all([join(), join(), join()]);
      expect(answers.map(({ status }) => status).sort()).toEqual([201, 404, 404]);
      const { body } = answers.find(({ status }) => status === 201)!;
      expect(body).toEqual({
        workspace: { id: workspace.id, name: workspace.name, slug: workspace.slug, role: 'owner' },
        user: { id: expect.stringMatching(UUID), email: 'wsp-newcomer@example.com', display_name: 'Nell' },
        personal_workspace: { id: expect.stringMatching(UUID), slug: 'wsp-newcomer' },
        api_key: expect.stringMatching(/^sk_live_/),
      });
      const listed = expectOk(await call(body.api_key, 'GET', '/workspaces')).workspaces;
      expect(listed.map(({ slug }: { slug: string }) => slug).sort()).toEqual(['wsp-new-team', 'wsp-newcomer']);
      expect((await members(body.api_key)).members).toHaveLength(2);
      // A user whose slug is taken gets another one for the personal workspace.
      const { invite_url: other } = await invite('wsp-newcomer@example.org');
      const namesake = expectOk(await request(target(), 'POST', `${tokenPath(other)}/join`, { json: {} }), 201);
      expect(namesake.personal_workspace.slug).toMatch(/^wsp-newcomer-[0-9a-f]{6}$/);
    });

    test('refuse a removed member at once, and keep one owner', async () => {
      const { users, owner, workspace, base, join, members } = await setUp(
        'wsp-leave',
        'wsp-leave-ann',
        'wsp-leave-bob',
      );
      const [, ann, bob] = users;
      await join(ann!);
      await join(bob!);
      const headers = { 'X-Workspace-Id': workspace.id };
      expectError(await call(ann!.key, 'DELETE', `${base}/members/${bob!.userId}`), 403, 'FORBIDDEN', 'Only an owner');
      expectError(await call(ann!.key, 'PATCH', `${base}/members/${ann!.userId}`, { role: 'owner' }), 403, 'FORBIDDEN');
      expectOk(await call(bob!.key, 'GET', '/org', undefined, headers));
      expect(expectOk(await call(owner.key, 'DELETE', `${base}/members/${bob!.userId}`))).toEqual({
        deleted: true,
        id: bob!.userId,
      });
      expectError(await call(bob!.key, 'GET', '/org', undefined, headers), 403, 'FORBIDDEN');
      expectError(await call(bob!.key, 'GET', `${base}/secrets`), 403, 'FORBIDDEN');
      expectError(await call(owner.key, 'DELETE', `${base}/members/${bob!.userId}`), 404, 'NOT_FOUND');

      expectError(
        await call(owner.key, 'DELETE', `${base}/members/${owner.userId}`),
        409,
        'CONFLICT',
        'at least one owner',
      );
      const demote = () => call(owner.key, 'PATCH', `${base}/members/${owner.userId}`, { role: 'member' });
      expectError(await demote(), 409, 'CONFLICT', 'at least one owner');
      const promoted = await call(owner.key, 'PATCH', `${base}/members/${ann!.userId}`, { role: 'owner' });
      expect(expectOk(promoted)).toEqual({ updated: true, id: ann!.userId, role: 'owner' });
      expectOk(await demote());
      expectError(await demote(), 403, 'FORBIDDEN', 'Only an owner');
      // A member leaves.
      expectOk(await call(owner.key, 'DELETE', `${base}/members/${owner.userId}`));
      expect((await members(ann!.key)).members.map(({ id }: { id: string }) => id)).toEqual([ann!.userId]);
    });

    test('keep their user when they are personal', async () => {
      const [own, guest] = await Promise.all(['wsp-personal', 'wsp-guest'].map((slug) => target().addUser(slug)));
      await target().addMember(guest!, own!.workspaceId);
      const base = `/workspaces/${own!.workspaceId}/members`;
      expectOk(await call(own!.key, 'PATCH', `${base}/${guest!.userId}`, { role: 'owner' }));
      for (const user of [own!, guest!]) {
        expectError(await call(user.key, 'DELETE', `${base}/${own!.userId}`), 409, 'CONFLICT', 'personal workspace');
        expectError(await call(user.key, 'PATCH', `${base}/${own!.userId}`, { role: 'member' }), 409, 'CONFLICT');
      }
      expectOk(await call(guest!.key, 'DELETE', `${base}/${guest!.userId}`));
    });

    test.each([1, 2, 3])('keep an owner when all owners leave concurrently (%i)', async (round) => {
      const slugs = Array.from({ length: 4 }, (_, n) => `wsp-race-${round}-${n}`) as [string, ...string[]];
      const { users, base, join } = await setUp(...slugs);
      for (const user of users.slice(1)) await join(user, 'owner');
      const answers = await Promise.all(
        users.map((user, n) =>
          n % 2 === 0
            ? call(user.key, 'DELETE', `${base}/members/${user.userId}`)
            : call(user.key, 'PATCH', `${base}/members/${user.userId}`, { role: 'member' }),
        ),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 409]);
      const last = users[answers.findIndex(({ status }) => status === 409)]!;
      const { members } = expectOk(await call(last.key, 'GET', `${base}/members`));
      const owners = members.filter(({ role }: { role: string }) => role === 'owner');
      expect(owners.map(({ id }: { id: string }) => id)).toEqual([last.userId]);
    });

    test('start their days in their own time zone', async () => {
      const { key } = await target().addUser('wsp-zone');
      // At any time there are two zones with different dates.
      const dateIn = (timeZone: string) => new Intl.DateTimeFormat('en-CA', { timeZone }).format(Date.now());
      const [east, west] = ['Pacific/Kiritimati', 'Pacific/Pago_Pago'];
      expectOk(await call(key, 'POST', '/tasks', { title: 'due', due_date: dateIn(west!) }), 201);
      const overdue = async (timezone: string) => {
        expectOk(await call(key, 'PATCH', '/org', { timezone }));
        return expectOk(await call(key, 'GET', '/tasks?overdue=true')).total;
      };
      expect([await overdue(west!), await overdue(east!)]).toEqual([0, 1]);
    });
  });
}
