import { describe, expect, test } from 'vitest';
import { request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';

/** Audit log of changes in a workspace. */
export function auditSuite(target: () => Target): void {
  const call = (user: Pick<TestUser, 'key'>, method: string, path: string, json?: unknown, headers = {}) =>
    request(target(), method, path, { key: user.key, json, headers });
  const logOf = async (user: TestUser, query = '', workspaceId = user.workspaceId) =>
    expectOk(await call(user, 'GET', `/workspaces/${workspaceId}/audit${query}`));

  describe.concurrent('the audit log', () => {
    test('tells who changed what, from where, and never a value', async () => {
      const user = await target().addUser('audit-life');
      const base = `/workspaces/${user.workspaceId}`;
      const value = 'a-value-that-nobody-sees';
      const set = await call(user, 'PUT', `${base}/secrets`, { name: 'API_TOKEN', value, description: value });
      expectOk(set);
      expectError(await call(user, 'DELETE', `${base}/secrets/NOT_THERE`), 404, 'NOT_FOUND');
      const made = expectOk(await call(user, 'POST', '/api-keys', { name: 'ci', scope: 'run' }), 201);
      expectOk(await call({ key: made.key }, 'GET', `${base}/secrets`));
      const agent = { name: 'noted', type: 'prompt', description: value, prompt: value };
      const { id } = expectOk(await call(user, 'POST', '/agents', agent), 201).agent;
      // Validation refuses the request before any change is attempted.
      expectError(await call(user, 'PUT', `${base}/secrets`, { name: 'lower', value }), 400, 'INVALID_INPUT');

      const { entries, next_cursor } = await logOf(user);
      expect(next_cursor).toBeNull();
      const common = { outcome: 'done', error_code: null, user: { id: user.userId, name: expect.any(String) } };
      expect(entries).toMatchObject([
        { ...common, operation: 'createAgent', target: { id, name: 'noted', version: 'v1' } },
        { ...common, operation: 'createApiKey', target: { id: made.id, name: 'ci', scope: 'run' } },
        {
          ...common,
          operation: 'deleteSecret',
          target: { name: 'NOT_THERE' },
          outcome: 'refused',
          error_code: 'NOT_FOUND',
        },
        { ...common, operation: 'putSecret', target: { name: 'API_TOKEN' } },
      ]);
      expect(entries[3]).toEqual({
        id: expect.stringMatching(UUID),
        created_at: expect.stringMatching(ISO_TIME),
        actor: 'user',
        user: { id: user.userId, name: expect.any(String), email: expect.any(String) },
        trust: null,
        key_id: user.keyId,
        operation: 'putSecret',
        target: { name: 'API_TOKEN' },
        address: expect.stringMatching(/^[\d.:a-f]+$/),
        outcome: 'done',
        error_code: null,
        request_id: set.headers.get('x-request-id'),
      });
      expect(JSON.stringify(entries)).not.toMatch(new RegExp(`${value}|sk_live|${made.key}`));
    });

    test('is filtered and paged', async () => {
      const user = await target().addUser('audit-pages');
      const base = `/workspaces/${user.workspaceId}`;
      for (const name of ['A', 'B', 'C', 'D']) {
        expectOk(await call(user, 'PUT', `${base}/secrets`, { name, value: 'value' }));
        expectOk(await call(user, 'DELETE', `${base}/secrets/${name}`));
      }
      const all = (await logOf(user)).entries as { id: string; created_at: string; target: { name: string } }[];
      expect(all.map(({ target: { name } }) => name)).toEqual([...'DDCCBBAA']);
      const paged: string[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page = await logOf(user, `?limit=3${cursor && `&cursor=${cursor}`}`);
        expect(page.entries.length).toBeLessThanOrEqual(3);
        paged.push(...page.entries.map(({ id }: { id: string }) => id));
        cursor = page.next_cursor;
      }
      expect(paged).toEqual(all.map(({ id }) => id));
      const puts = await logOf(user, '?operation=putSecret&limit=2');
      expect(puts.entries).toMatchObject([{ target: { name: 'D' } }, { target: { name: 'C' } }]);
      const rest = await logOf(user, `?operation=putSecret&limit=2&cursor=${puts.next_cursor}`);
      expect(rest.entries).toMatchObject([{ target: { name: 'B' } }, { target: { name: 'A' } }]);
      const [third, fifth] = [all[2]!, all[4]!];
      const between = (await logOf(user, `?from=${fifth.created_at}&to=${third.created_at}`)).entries;
      expect(between.map(({ id }: { id: string }) => id)).toContain(fifth.id);
      expect(between.map(({ id }: { id: string }) => id)).not.toContain(third.id);
      expect((await logOf(user, '?user_id=somebody')).entries).toEqual([]);
      const get = (query: string) => call(user, 'GET', `${base}/audit${query}`);
      const { next_cursor: cursor } = puts;
      for (const bad of [
        `?cursor=${cursor}`,
        '?cursor=x',
        '?from=yesterday',
        `?from=${third.created_at}&to=${fifth.created_at}`,
      ]) {
        expectError(await get(bad), 400, 'INVALID_INPUT');
      }
    });

    test('has who joined, and what others made in the workspace; owners alone see it', async () => {
      const [owner, other] = [await target().addUser('audit-owner'), await target().addUser('audit-other')];
      const { workspace } = expectOk(await call(owner, 'POST', '/workspaces', { name: 'audit team' }), 201);
      const base = `/workspaces/${workspace.id}`;
      const invite = async (email: string) =>
        expectOk(await call(owner, 'POST', `${base}/invite`, { email }))
          .invite.invite_url.split('/')
          .at(-1);
      const tokens = [await invite('ann@audit.example.com'), await invite('bob@audit.example.com')];
      expectOk(await call(other, 'POST', `/invites/${tokens[0]}/accept`));
      const joined = expectOk(
        await request(target(), 'POST', `/invites/${tokens[1]}/join`, { json: { name: 'Bob' } }),
        201,
      );
      const key = { name: 'of the team', workspace_id: workspace.id };
      expectOk(await call({ key: joined.api_key }, 'POST', '/api-keys', key), 201);
      // A workspace gets no entry for a sender who is not a member.
      const stranger = await target().addUser('audit-stranger');
      expectError(await call(stranger, 'POST', '/api-keys', key), 403, 'FORBIDDEN');
      expectError(await call(other, 'POST', `/invites/${tokens[0]}/accept`), 404, 'NOT_FOUND');
      expectOk(await call(owner, 'DELETE', `${base}/members/${other.userId}`));

      const { entries } = await logOf(owner, '', workspace.id);
      expect(entries).toMatchObject([
        { operation: 'removeMember', user: { id: owner.userId }, target: { user_id: other.userId } },
        {
          operation: 'createApiKey',
          user: { id: joined.user.id, name: 'Bob' },
          target: { workspace_id: workspace.id },
        },
        { operation: 'joinByInvite', user: { id: joined.user.id }, key_id: null, target: {} },
        { operation: 'acceptInvite', user: { id: other.userId }, target: {} },
        { operation: 'inviteMember', target: { email: 'bob@audit.example.com', role: 'member' } },
        { operation: 'inviteMember', target: { email: 'ann@audit.example.com' } },
      ]);
      for (const token of tokens) expect(JSON.stringify(entries)).not.toContain(token);
      const refused = await call({ key: joined.api_key }, 'GET', `${base}/audit`);
      expectError(refused, 403, 'FORBIDDEN', 'Only an owner');
      expectError(await call(stranger, 'GET', `${base}/audit`), 403, 'FORBIDDEN');
    });
  });
}
