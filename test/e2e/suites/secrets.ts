import { describe, expect, test } from 'vitest';
import { request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';

/** Secrets of a workspace; `calls.ts` tests that runs get them. */
export function secretsSuite(target: () => Target): void {
  async function setUp(slug: string) {
    const user = await target().addUser(slug);
    const base = `/workspaces/${user.workspaceId}/secrets`;
    const call = (method: string, path = '', json?: unknown, key = user.key) =>
      request(target(), method, base + path, { key, json });
    return { user, base, call };
  }

  describe.concurrent('secrets', () => {
    test('are put, listed by name, replaced and deleted; their values never leave', async () => {
      const { call, user } = await setUp('sec-life');
      const answers = [];
      const created = await call('PUT', '', { name: 'API_TOKEN', value: 'first-value', description: 'for the API' });
      answers.push(created);
      expect(expectOk(created)).toEqual({
        secret: {
          id: expect.stringMatching(UUID),
          name: 'API_TOKEN',
          description: 'for the API',
          secret_type: 'custom',
          llm_provider: null,
          created_by: user.userId,
          created_at: expect.stringMatching(ISO_TIME),
          updated_at: expect.stringMatching(ISO_TIME),
        },
        created: true,
        restarted_services: [],
      });
      const replaced = await call('PUT', '', { name: 'API_TOKEN', value: 'second-value' });
      answers.push(replaced);
      expect(expectOk(replaced)).toMatchObject({
        created: false,
        secret: { id: created.body.secret.id, description: 'for the API' },
      });
      const listed = await call('GET');
      answers.push(listed);
      expect(expectOk(listed)).toEqual({ secrets: [replaced.body.secret] });
      answers.push(await call('DELETE', '/API_TOKEN'));
      expect(expectOk(answers.at(-1)!)).toEqual({ deleted: true });
      expectError(await call('DELETE', '/API_TOKEN'), 404, 'NOT_FOUND', 'sec-life');
      expect(expectOk(await call('GET'))).toEqual({ secrets: [] });
      expect(JSON.stringify(answers)).not.toMatch(/first-value|second-value/);
    });

    test('clients create them with POST and change them with PATCH, by name or id', async () => {
      const { call } = await setUp('sec-client');
      const { secret } = expectOk(await call('POST', '', { name: 'A', value: 'v', secret_type: 'custom' }), 201);
      expectError(await call('POST', '', { name: 'A', value: 'v' }), 409, 'CONFLICT', '"A" already exists');
      for (const nameOrId of ['A', secret.id]) {
        const changed = expectOk(await call('PATCH', `/${nameOrId}`, { value: 'w', description: null }));
        expect(changed).toEqual({ updated: true, restarted_services: [] });
      }
      expectOk(await call('DELETE', `/${secret.id}`));
      expectError(await call('PATCH', '/A', { value: 'w' }), 404, 'NOT_FOUND');
      expectError(await call('DELETE', `/${secret.id}`), 404, 'NOT_FOUND');
    });

    test('keys of model providers are recognised by their name', async () => {
      const { call } = await setUp('sec-llm');
      const { secret } = expectOk(await call('PUT', '', { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-x' }));
      expect(secret).toMatchObject({ secret_type: 'llm_key', llm_provider: 'anthropic' });
    });

    test.each(['', 'a', 'lower_case', '1A', '_A', 'A-B', 'A B', 'Ä', 'A\n', 'A'.repeat(129), 7, null, ['A']])(
      'may not be named %j',
      async (name) => {
        const { call } = await setUp(`sec-name-${Math.random().toString(36).slice(2)}`);
        for (const method of ['PUT', 'POST']) {
          expectError(await call(method, '', { name, value: 'v' }), 400, 'INVALID_INPUT', 'body.name: ');
        }
      },
    );

    test.each([
      ['empty', ''],
      ['over 8,192 bytes', 'ü'.repeat(4097)],
      ['a number', 12345],
      ['an object', { a: 'hidden-value' }],
      ['missing', undefined],
    ])('may not have a value that is %s', async (_, value) => {
      const { call } = await setUp(`sec-value-${Math.random().toString(36).slice(2)}`);
      const { message } = expectError(
        await call('PUT', '', { name: 'A', value }),
        400,
        'INVALID_INPUT',
        'body.value: ',
      );
      expect(message).not.toMatch(/12345|hidden-value|üü/);
    });

    test('are limited to 8,192 bytes each and 64 KB together', async () => {
      const { call } = await setUp('sec-full');
      const put = (n: number) => call('PUT', '', { name: `S${n}`, value: 'x'.repeat(8192) });
      for (let n = 0; n < 7; n += 1) expectOk(await put(n));
      expectError(await put(7), 413, 'DOCUMENT_TOO_LARGE', '64 KB');
      expect(expectOk(await call('GET')).secrets).toHaveLength(7);
      expectOk(await call('DELETE', '/S0'));
      expectOk(await put(7));
    });

    test('that are put concurrently are all kept', async () => {
      const { call } = await setUp('sec-at-once');
      const names = Array.from({ length: 20 }, (_, n) => `S${String(n).padStart(2, '0')}`);
      for (const answer of await Promise.all(names.map((name) => call('PUT', '', { name, value: 'v' }))))
        expectOk(answer);
      const { secrets } = expectOk(await call('GET'));
      expect(secrets.map(({ name }: { name: string }) => name)).toEqual(names);
    });

    test('members may read their names and change none', async () => {
      const { call, user } = await setUp('sec-roles');
      const member = await target().addUser('sec-roles-member');
      await target().addMember(member, user.workspaceId);
      expectOk(await call('PUT', '', { name: 'A', value: 'v' }));
      expect(expectOk(await call('GET', '', undefined, member.key)).secrets).toHaveLength(1);
      for (const [method, path, json] of [
        ['PUT', '', { name: 'A', value: 'w' }],
        ['POST', '', { name: 'B', value: 'w' }],
        ['PATCH', '/A', { value: 'w' }],
        ['DELETE', '/A', undefined],
      ] as const) {
        expectError(await call(method, path, json, member.key), 403, 'FORBIDDEN', 'Only an owner');
      }
    });

    test('for signing alerts are made by owners, shown once, rotated with an overlap, and kept from agents', async () => {
      const { call, user } = await setUp('sec-signing');
      const path = `/workspaces/${user.workspaceId}/signing-secret`;
      const rotate = (key = user.key) => request(target(), 'POST', path, { key });
      const first = expectOk(await rotate());
      expect(first).toEqual({ signing_secret: expect.stringMatching(/^whsec_/), previous_valid_until: null });
      const second = expectOk(await rotate());
      expect(second.signing_secret).not.toBe(first.signing_secret);
      expect(Date.parse(second.previous_valid_until)).toBeGreaterThan(Date.now() + 23 * 3_600_000);
      expect(expectOk(await call('GET')).secrets).toEqual([]);

      const member = await target().addUser('sec-signing-member');
      await target().addMember(member, user.workspaceId);
      expectError(await rotate(member.key), 403, 'FORBIDDEN', 'Only an owner');
    });

    test('of another workspace are not found, by name or by id', async () => {
      const { call, user } = await setUp('sec-mine');
      const { secret } = expectOk(await call('PUT', '', { name: 'A', value: 'v' }));
      const stranger = await target().addUser('sec-stranger');
      for (const path of ['', '/A', `/${secret.id}`]) {
        const method = path === '' ? 'GET' : 'DELETE';
        expectError(await call(method, path, undefined, stranger.key), 403, 'FORBIDDEN');
      }
      const own = `/workspaces/${stranger.workspaceId}/secrets/${secret.id}`;
      expectError(await request(target(), 'DELETE', own, { key: stranger.key }), 404, 'NOT_FOUND');
      expect(expectOk(await call('GET', '', undefined, user.key)).secrets).toHaveLength(1);
    });
  });
}
