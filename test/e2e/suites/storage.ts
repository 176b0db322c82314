import { describe, expect, test } from 'vitest';
import { request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';

/** Documents; `test/sdk` tests access from inside sandboxes. */
export function storageSuite(target: () => Target): void {
  async function setUp(slug: string) {
    const user = await target().addUser(slug);
    const call = (method: string, path = '', json?: unknown, headers?: Record<string, string>) =>
      request(target(), method, `/storage${path}`, { key: user.key, json, headers });
    const put = async (path: string, json: unknown) => expectOk(await call('PUT', path, json));
    return { user, call, put };
  }
  const random = (slug: string) => `${slug}-${Math.random().toString(36).slice(2)}`;

  describe.concurrent('storage', () => {
    test('writes, reads, changes, lists and deletes documents', async () => {
      const { call } = await setUp('store-life');
      const written = await call('PUT', '/notes/a.b_c-1', { n: 1, list: ['ü', null] });
      const first = expectOk(written);
      expect(first).toEqual({
        namespace: 'notes',
        key: 'a.b_c-1',
        value: { n: 1, list: ['ü', null] },
        version: 1,
        size_bytes: 26,
        created_at: expect.stringMatching(ISO_TIME),
        updated_at: first.created_at,
        updated_by: 'api',
      });
      expect(written.headers.get('x-storage-used')).toBe('26');
      const read = await call('GET', '/notes/a.b_c-1');
      expect(expectOk(read)).toEqual(first);
      expect(read.headers.get('etag')).toBe('"1"');
      const patched = expectOk(
        await call('PATCH', '/notes/a.b_c-1', { n: null, m: {} }, { 'X-Platform-Client': 'cli' }),
      );
      expect(patched).toMatchObject({
        value: { n: null, m: {}, list: ['ü', null] },
        version: 2,
        created_at: first.created_at,
        updated_by: 'cli',
      });
      expect(expectOk(await call('PUT', '/notes/list', [])).value).toEqual([]);
      expectError(await call('PATCH', '/notes/list', { a: 1 }), 400, 'INVALID_INPUT', 'is an array');
      expect(expectOk(await call('GET'))).toEqual({ namespaces: ['notes'] });
      expect(expectOk(await call('DELETE', '/notes/list'))).toEqual({ deleted: true, namespace: 'notes', key: 'list' });
      for (const [method, json] of [['GET'], ['PATCH', {}], ['DELETE']] as const) {
        expectError(await call(method, '/notes/list', json), 404, 'NOT_FOUND', '"list" in "notes"');
      }
      expect(expectOk(await call('DELETE', '/notes'))).toEqual({
        deleted: true,
        namespace: 'notes',
        documents_deleted: 1,
      });
      expectError(await call('DELETE', '/notes'), 404, 'NOT_FOUND', '"notes"');
      expect(expectOk(await call('GET'))).toEqual({ namespaces: [] });
      expect(expectOk(await call('GET', '/notes'))).toEqual({ keys: [], cursor: null, has_more: false });
      expectError(await request(target(), 'GET', '/storage'), 401, 'UNAUTHORIZED');
    });

    test('every answer shows the bytes in use, and the limit of the plan', async () => {
      const { user, call } = await setUp('store-room');
      await target().setPlan(user.workspaceId, 'free');
      const answers = [
        [0, await call('GET')],
        [0, await call('GET', '/a/b')],
        [7, await call('PUT', '/a/b', { n: 1 })],
        [7, await call('PUT', '/a/b', { n: 2 }, { 'If-Match': '7' })],
        [7, await call('GET')],
        [7, await call('GET', '/a')],
        [7, await call('GET', '/a/b')],
        [13, await call('PATCH', '/a/b', { m: 1 })],
        [20, await call('PUT', '/a/c', { n: 1 })],
        [20, await call('PUT', '/a/d', { x: 'x'.repeat(103_000) })],
        [7, await call('DELETE', '/a/b')],
        [0, await call('DELETE', '/a')],
        [0, await call('DELETE', '/a')],
      ] as const;
      expect(answers.map(([, { status }]) => status)).toEqual([
        200, 404, 200, 409, 200, 200, 200, 200, 200, 413, 200, 200, 404,
      ]);
      for (const [used, { headers }] of answers) {
        expect(headers.get('x-storage-used')).toBe(String(used));
        expect(headers.get('x-storage-limit')).toBe(String(10 * 1024 * 1024));
      }
      await target().setPlan(user.workspaceId, 'enterprise');
      expect((await call('GET')).headers.get('x-storage-limit')).toBe(String(100 * 1024 ** 3));
    });

    test('writes over the expected version only', async () => {
      const { call, put } = await setUp('store-cas');
      const cas = (version: string) => call('PUT', '/a/b', { v: version }, { 'If-Match': version });
      expectError(await cas('1'), 409, 'CONFLICT', 'does not exist');
      expect(expectOk(await cas('0')).version).toBe(1);
      expectError(await cas('0'), 409, 'CONFLICT', 'has version 1');
      expect(expectOk(await cas('1')).version).toBe(2);
      expect(expectOk(await cas('"2"')).version).toBe(3);
      expect((await put('/a/b', {})).version).toBe(4);
      expectError(await cas('x'), 400, 'INVALID_INPUT', 'header.if-match');
      const answers = await Promise.all(Array.from({ length: 10 }, () => cas('4')));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(409)]);
    });

    test('keeps every one of many concurrent patches', async () => {
      const { call, put } = await setUp('store-race');
      await put('/a/b', {});
      const members = Array.from({ length: 12 }, (_, n) => `m${n}`);
      await Promise.all(members.map(async (name) => expectOk(await call('PATCH', '/a/b', { [name]: 1 }))));
      const { value, version } = expectOk(await call('GET', '/a/b'));
      expect(Object.keys(value).sort()).toEqual(members.sort());
      expect(version).toBe(13);
    });

    test('lists keys in order, by pages and by prefix', async () => {
      const { call, put } = await setUp('store-list');
      const keys = ['A', 'a', 'a-1', 'a.1', 'a.2', 'a_1', 'b', 'z9'];
      await Promise.all(keys.map((key) => put(`/many/${key}`, {})));
      await put('/other/x', {});
      const found: string[] = [];
      let cursor = '';
      do {
        const page = expectOk(await call('GET', `/many?limit=3${cursor}`));
        found.push(...page.keys);
        expect(page.has_more).toBe(page.cursor !== null);
        cursor = page.cursor && `&cursor=${page.cursor}`;
      } while (cursor);
      expect(found).toEqual(keys);
      expect(expectOk(await call('GET', '/many?prefix=a.')).keys).toEqual(['a.1', 'a.2']);
      const [first] = [expectOk(await call('GET', '/many?prefix=a&limit=2'))];
      expect(first.keys).toEqual(['a', 'a-1']);
      const rest = expectOk(await call('GET', `/many?prefix=a&cursor=${first.cursor}`));
      expect(rest).toEqual({ keys: ['a.1', 'a.2', 'a_1'], cursor: null, has_more: false });
      expect(expectOk(await call('GET', '/many?prefix=%F0%9F%98%80')).keys).toEqual([]);
      // `enp6` is the key `zzz`, which does not begin with the prefix.
      for (const query of ['prefix=a&cursor=enp6', 'prefix=b&cursor=%F0%9F%98%80', 'cursor=%25']) {
        expectError(await call('GET', `/many?${query}`), 400, 'INVALID_INPUT', 'query.cursor');
      }
    });

    test('keeps large documents, and small ones written over them', async () => {
      const { call, put } = await setUp('store-large');
      const large = { text: 'ü'.repeat(300_000) };
      expect((await put('/a/b', large)).size_bytes).toBe(600_011);
      expect(expectOk(await call('GET', '/a/b')).value).toEqual(large);
      expect(expectOk(await call('PATCH', '/a/b', { n: 1 })).value).toEqual({ ...large, n: 1 });
      expect((await put('/a/b', { small: 1 })).version).toBe(3);
      expect(expectOk(await call('GET', '/a/b')).value).toEqual({ small: 1 });
      await put('/a/c', large);
      expect(expectOk(await call('DELETE', '/a')).documents_deleted).toBe(2);
      expectError(await call('GET', '/a/c'), 404, 'NOT_FOUND');
    });

    test('enforces the quotas of the plan', async () => {
      const { user, call, put } = await setUp('store-quota');
      await target().setPlan(user.workspaceId, 'free');
      expectError(await call('PUT', '/a/b', { x: 'x'.repeat(103_000) }), 413, 'DOCUMENT_TOO_LARGE', '100 KB');
      await put('/a/b', { x: 'x'.repeat(60_000) });
      expectError(await call('PATCH', '/a/b', { y: 'x'.repeat(60_000) }), 413, 'DOCUMENT_TOO_LARGE', '102400');
      const answers = await Promise.all(
        ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => call('PUT', `/${name}/x`, {})),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 429, 429]);
      const { error } = answers.find(({ status }) => status === 429)!.body;
      expect(error).toMatchObject({ code: 'STORAGE_QUOTA_EXCEEDED', is_retryable: false });
      expect(error.message).toContain('5 namespaces');
      const { namespaces } = expectOk(await call('GET'));
      expect(namespaces).toHaveLength(5);
      expectOk(await call('DELETE', `/${namespaces[1]}`));
      const room = await call('PUT', '/new/x', {});
      expectOk(room);
      expect(room.headers.get('x-storage-limit')).toBe(String(10 * 1024 * 1024));
    });

    test('counts documents of a namespace, and deletes them all', async () => {
      const { user, call } = await setUp('store-count');
      await target().setPlan(user.workspaceId, 'free');
      for (let n = 0; n < 100; n += 25) {
        const keys = Array.from({ length: 25 }, (_, i) => `k${n + i}`);
        for (const answer of await Promise.all(keys.map((key) => call('PUT', `/full/${key}`, { n })))) expectOk(answer);
      }
      expectError(await call('PUT', '/full/one-more', {}), 429, 'STORAGE_QUOTA_EXCEEDED', '100 documents');
      expectOk(await call('PUT', '/full/k7', { changed: true }));
      expect(expectOk(await call('DELETE', '/full')).documents_deleted).toBe(100);
      const written = await call('PUT', '/full/one-more', {});
      expectOk(written);
      expect(written.headers.get('x-storage-used')).toBe('2');
    });

    test('of another workspace is not found', async () => {
      const { user, put } = await setUp('store-mine');
      await put('/a/b', { secret: 1 });
      const stranger = await target().addUser('store-stranger');
      const headers = { 'X-Workspace-Id': user.workspaceId };
      for (const method of ['GET', 'DELETE']) {
        expectError(await request(target(), method, '/storage/a/b', { key: stranger.key }), 404, 'NOT_FOUND');
        expectError(await request(target(), method, '/storage/a/b', { key: stranger.key, headers }), 403, 'FORBIDDEN');
      }
    });

    test.each(['1a', 'A', 'a_b', 'a'.repeat(65), 'ü', '-'])('refuses the namespace %s', async (name) => {
      const { call } = await setUp(random('store-ns'));
      expectError(await call('PUT', `/${encodeURIComponent(name)}/k`, {}), 400, 'INVALID_INPUT', 'path.namespace: ');
    });

    test.each(['-a', '.', '_', 'a b', 'ü', 'a'.repeat(257)])('refuses the key %s', async (name) => {
      const { call } = await setUp(random('store-key'));
      const answer = await call('PUT', `/a/${name === '.' ? '%2E' : encodeURIComponent(name)}`, {});
      expect([400, 404]).toContain(answer.status);
    });

    test.each([[1], ['x'], [null], [true]])('refuses the value %j', async (value) => {
      const { call } = await setUp(random('store-value'));
      expectError(await call('PUT', '/a/b', value), 400, 'INVALID_INPUT', 'object or array');
    });
  });
}
