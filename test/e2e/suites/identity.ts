import { describe, expect, test, vi } from 'vitest';
import { request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';

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
        key: expect.stringMatching(/^sk_live_[a-z][0-9A-Za-z]{50}$/),
        prefix: created.key.slice(0, 12),
        scope: 'manage',
        workspace_id: null,
        expires_at: null,
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

  describe.concurrent('API keys with limits', () => {
    const limited = async (slug: string, limits: object) => {
      const user = await target().addUser(slug);
      const created = expectOk(await call('POST', '/api-keys', { key: user.key, json: { name: 'x', ...limits } }), 201);
      return { user, created, key: created.key as string };
    };
    const prompt = { name: 'greeter', type: 'prompt', description: 'x', prompt: 'x', supported_providers: ['any'] };

    test('with the scope "read" change and call nothing', async () => {
      const { user, key, created } = await limited('keys-read', { scope: 'read' });
      expect(created.scope).toBe('read');
      expectOk(await call('POST', '/agents', { key: user.key, json: prompt }), 201);
      expectOk(await call('GET', '/agents', { key }));
      expectOk(await call('POST', '/agents/validate', { key, json: prompt }));
      for (const [method, path, json] of [
        ['POST', '/agents', prompt],
        ['POST', '/keys-read/greeter/v1/run', {}],
        ['PUT', '/storage/notes/today', {}],
        ['POST', '/api-keys', { name: 'more' }],
        ['DELETE', `/api-keys/${created.id}`, undefined],
      ] as const) {
        const refused = expectError(await call(method, path, { key, json }), 403, 'FORBIDDEN', 'scope "read"');
        expect([path, refused.is_retryable]).toEqual([path, false]);
      }
    });

    test('with the scope "run" use what is there, and change no settings', async () => {
      const { key } = await limited('keys-run', { scope: 'run' });
      expectOk(await call('PUT', '/storage/notes/today', { key, json: { text: 'sun' } }));
      expectOk(await call('POST', '/tasks', { key, json: { title: 'x', project: 'y' } }), 201);
      // The key may call, so the error is about the agent.
      expectError(await call('POST', '/keys-run/nothing/v1/run', { key, json: {} }), 404, 'NOT_FOUND');
      expectError(await call('POST', '/agents', { key, json: prompt }), 403, 'FORBIDDEN', 'needs "publish"');
      expectError(await call('POST', '/api-keys', { key, json: { name: 'more' } }), 403, 'FORBIDDEN', 'needs "manage"');
    });

    test('of one workspace act in no other, and make keys for no other', async () => {
      const host = await target().addUser('keys-host');
      const guest = await target().addUser('keys-guest');
      await target().addMember(guest, host.workspaceId);
      const json = { name: 'host only', workspace_id: host.workspaceId };
      expectError(
        await call('POST', '/api-keys', { key: host.key, json: { name: 'x', workspace_id: guest.workspaceId } }),
        403,
        'FORBIDDEN',
        'not a member',
      );
      const created = expectOk(await call('POST', '/api-keys', { key: guest.key, json }), 201);
      const { key } = created;
      expect(expectOk(await call('GET', '/org', { key })).slug).toBe('keys-host');
      expect(expectOk(await call('GET', '/workspaces', { key })).workspaces).toHaveLength(1);
      const headers = { 'x-workspace-id': guest.workspaceId };
      expectError(await call('GET', '/org', { key, headers }), 403, 'FORBIDDEN', host.workspaceId);
      expectError(await call('GET', `/workspaces/${guest.workspaceId}/runs`, { key }), 403, 'FORBIDDEN');
      expectError(
        await call('POST', '/workspaces', { key, json: { name: 'more' } }),
        403,
        'FORBIDDEN',
        'one workspace',
      );

      // To this key, agents of the user's personal workspace belong to another workspace.
      expectOk(await call('POST', '/agents', { key: guest.key, json: prompt }), 201);
      expectError(await call('POST', '/keys-guest/greeter/v1/run', { key, json: {} }), 403, 'FORBIDDEN', 'private');

      // The key neither sees nor revokes others, and keys that it creates inherit its limits.
      expect(expectOk(await call('GET', '/api-keys', { key })).map(({ id }: { id: string }) => id)).toEqual([
        created.id,
      ]);
      expectError(await call('DELETE', `/api-keys/${guest.keyId}`, { key }), 404, 'NOT_FOUND');
      expectError(
        await call('POST', '/api-keys', { key, json: { name: 'x', workspace_id: guest.workspaceId } }),
        403,
        'FORBIDDEN',
        'body.workspace_id',
      );
      const made = expectOk(await call('POST', '/api-keys', { key, json: { name: 'x' } }), 201);
      expect(made.workspace_id).toBe(host.workspaceId);
    });

    test('that expire make none that lasts longer', async () => {
      const expires_at = new Date(Date.now() + 3_600_000).toISOString();
      const { key, created } = await limited('keys-expiring', { expires_at });
      expect(created.expires_at).toBe(expires_at);
      const json = { name: 'x' };
      expect(expectOk(await call('POST', '/api-keys', { key, json }), 201).expires_at).toBe(expires_at);
      const later = { name: 'x', expires_at: '2999-01-01T00:00:00Z' };
      expectError(await call('POST', '/api-keys', { key, json: later }), 403, 'FORBIDDEN', 'body.expires_at');
      const over = { name: 'x', expires_at: '2020-01-01T00:00:00Z' };
      expectError(await call('POST', '/api-keys', { key, json: over }), 400, 'INVALID_INPUT', 'is in the past');
    });

    test('that have expired are refused', async () => {
      const { key } = await limited('keys-expired', { expires_at: new Date(Date.now() + 2_000).toISOString() });
      const refused = async () => expectError(await call('GET', '/org', { key }), 401, 'UNAUTHORIZED', 'expired');
      await vi.waitFor(refused, { timeout: 10_000 });
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
        trace_content: 'off',
        approvers: 'members',
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
      const health = expectOk(await call('GET', '/health/detailed'));
      expect(health.status).toMatch(/^(healthy|degraded)$/);
      expect(health.services.slice(0, 3)).toMatchObject([
        { name: 'api', status: 'operational' },
        { name: 'database', latency_ms: expect.any(Number) },
        { name: 'storage', status: 'operational' },
      ]);
      const document = expectOk(await call('GET', '/openapi.json'));
      expect(document).toMatchObject({ openapi: '3.1.0', servers: [{ url: target().url }] });
    });
  });
}
