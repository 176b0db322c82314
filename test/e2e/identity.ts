import { describe, expect, test } from 'vitest';
import { request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk, ISO_TIME, UUID } from './expect.ts';

/** Keys, users and workspaces. */
export function identitySuite(target: () => Target): void {
  const call = (method: string, path: string, options?: Parameters<typeof request>[3]) =>
    request(target(), method, path, options);

  describe.concurrent('API keys', () => {
    test('are created, shown once, listed, and refused as soon as they are revoked', async () => {
      const { key } = await target().addUser('keys-life');
      const created = expectOk(await call('POST', '/api-keys', { key, json: { name: '  laptop ' } }), 201);
      expect(created).toEqual({
        id: expect.stringMatching(UUID),
        name: 'laptop',
        key: expect.stringMatching(/^sk_live_[0-9A-Za-z]{50}$/),
        prefix: created.key.slice(0, 12),
        created_at: expect.stringMatching(ISO_TIME),
      });

      const listed = expectOk(await call('GET', '/api-keys', { key: created.key }));
      expect(listed.map(({ name }: { name: string }) => name)).toEqual(['key of keys-life', 'laptop']);
      expect(listed[1]).toMatchObject({ id: created.id, prefix: created.prefix });
      expect(JSON.stringify(listed)).not.toContain(created.key);

      expect(expectOk(await call('DELETE', `/api-keys/${created.id}`, { key }))).toEqual({
        deleted: true,
        id: created.id,
      });
      expectError(await call('GET', '/api-keys', { key: created.key }), 401, 'UNAUTHORIZED', 'revoked');
      expectError(await call('DELETE', `/api-keys/${created.id}`, { key }), 404, 'NOT_FOUND', created.id);
      expect(expectOk(await call('GET', '/api-keys', { key }))).toHaveLength(1);
    });

    test('say when they were last used', async () => {
      const { key, keyId } = await target().addUser('keys-used');
      expectOk(await call('GET', '/org', { key }));
      const [listed] = expectOk(await call('GET', '/api-keys', { key }));
      expect(listed).toMatchObject({ id: keyId, last_used_at: expect.stringMatching(ISO_TIME) });
      expect(Math.abs(Date.now() - Date.parse(listed.last_used_at))).toBeLessThan(600_000);
    });

    test('a key may revoke itself', async () => {
      const { key, keyId } = await target().addUser('keys-self');
      expectOk(await call('DELETE', `/api-keys/${keyId}`, { key }));
      expectError(await call('GET', '/org', { key }), 401, 'UNAUTHORIZED');
    });

    test('of another user can be neither seen nor revoked', async () => {
      const [ann, bob] = await Promise.all(['keys-ann', 'keys-bob'].map((slug) => target().addUser(slug)));
      expectError(await call('DELETE', `/api-keys/${bob!.keyId}`, { key: ann!.key }), 404, 'NOT_FOUND');
      expectOk(await call('GET', '/org', { key: bob!.key }));
    });

    test('with a typo are refused', async () => {
      const { key } = await target().addUser('keys-typo');
      const typo = key.slice(0, 20) + (key[20] === 'a' ? 'b' : 'a') + key.slice(21);
      expectError(await call('GET', '/org', { key: typo }), 401, 'UNAUTHORIZED', 'not valid');
    });

    test('need a name', async () => {
      const { key } = await target().addUser('keys-names');
      for (const json of [{}, { name: '' }, { name: '   ' }, { name: 7 }, { name: 'x'.repeat(101) }]) {
        expectError(await call('POST', '/api-keys', { key, json }), 400, 'INVALID_INPUT', 'body.name: ');
      }
    });
  });

  describe.concurrent('workspaces', () => {
    test('a user has a personal workspace, which requests act in by default', async () => {
      const user = await target().addUser('ws-own');
      const { key, workspaceId, userId } = user;
      expect(expectOk(await call('GET', '/workspaces', { key }))).toEqual({
        workspaces: [
          { id: workspaceId, name: 'ws-own', slug: 'ws-own', type: 'personal', role: 'owner', member_count: 1 },
        ],
      });
      expect(expectOk(await call('GET', '/org', { key }))).toEqual({
        id: workspaceId,
        name: 'ws-own',
        slug: 'ws-own',
        timezone: 'UTC',
        created_at: expect.stringMatching(ISO_TIME),
      });
      expect(expectOk(await call('GET', '/users/me', { key })).user).toMatchObject({
        id: userId,
        email: 'ws-own@example.com',
        display_name: 'ws-own',
      });
    });

    test('a member names the workspace that a request acts in', async () => {
      const [host, guest] = await Promise.all(['ws-host', 'ws-guest'].map((slug) => target().addUser(slug)));
      await target().addMember(guest!, host!.workspaceId);
      const headers = { 'X-Workspace-Id': host!.workspaceId };
      expect(expectOk(await call('GET', '/org', { key: guest!.key, headers })).slug).toBe('ws-host');
      expect(expectOk(await call('GET', '/org', { key: guest!.key })).slug).toBe('ws-guest');
      const { workspaces } = expectOk(await call('GET', '/workspaces', { key: guest!.key }));
      expect(workspaces).toContainEqual(expect.objectContaining({ slug: 'ws-host', role: 'member', member_count: 2 }));
    });

    test('a foreign workspace and an unknown one are refused with the same answer', async () => {
      const [ann, bob] = await Promise.all(['ws-ann', 'ws-bob'].map((slug) => target().addUser(slug)));
      const messages = [bob!.workspaceId, '3f2504e0-4f89-41d3-9a0c-0305e82c3301', 'nonsense', '../x'].map(
        async (id) => {
          const answer = await call('GET', '/org', { key: ann!.key, headers: { 'X-Workspace-Id': id } });
          return expectError(answer, 403, 'FORBIDDEN').message.replace(id, 'ID');
        },
      );
      expect(new Set(await Promise.all(messages)).size).toBe(1);
      expectError(await call('GET', `/workspaces/${bob!.workspaceId}/secrets`, { key: ann!.key }), 403, 'FORBIDDEN');
    });
  });

  describe.concurrent('anybody', () => {
    test('may ask for health and the document', async () => {
      expect(expectOk(await call('GET', '/health'))).toEqual({ status: 'ok' });
      const document = expectOk(await call('GET', '/openapi.json'));
      expect(document).toMatchObject({ openapi: '3.1.0', servers: [{ url: target().url }] });
    });
  });
}
