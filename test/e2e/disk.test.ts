import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createOwnerKey } from '#core/accounts/workspaces/bootstrap.ts';
import { type LocalTarget, request, startLocalTarget } from '#test/helpers/platform.ts';
import { expectError, expectOk } from './expect.ts';

/** A minimum that no disk satisfies. */
const NEVER_ENOUGH = { PLATFORM_MIN_FREE_MB: String(2 ** 40) };

describe('a platform whose disk is nearly full', () => {
  let target: LocalTarget;
  const call = (method: string, path: string, json?: unknown) =>
    request(target, method, path, { key: target.key, json });
  beforeAll(async () => {
    target = await startLocalTarget(NEVER_ENOUGH);
  });
  afterAll(() => target.close());

  test('refuses what it would have to store, and says what the operator does', async () => {
    for (const [method, path, json] of [
      ['POST', '/tasks', { title: 'x' }],
      ['PUT', '/storage/notes/a', { n: 1 }],
      ['PATCH', '/storage/notes/a', { n: 1 }],
      ['POST', '/agents', { name: 'x', type: 'prompt', description: 'x', prompt: 'x' }],
      ['POST', '/uploads', { purpose: 'call' }],
      ['POST', '/acme/x/latest/run', {}],
    ] as const) {
      const answer = await call(method, path, json);
      expectError(answer, 429, 'RATE_LIMITED', 'disk of the platform is nearly full');
      expect(answer.body.error).toMatchObject({ is_retryable: true, suggested_wait_time: 60 });
      expect(answer.body.error.message).toMatch(/operator .*PLATFORM_DATA.*PLATFORM_MIN_FREE_MB/);
      expect(answer.headers.get('retry-after')).toBe('60');
    }
    // Unauthenticated callers get no information about the disk.
    expectError(await request(target, 'POST', '/tasks', { json: {} }), 401, 'UNAUTHORIZED');
  });

  test('still reads, deletes, checks and cancels, and its health tells', async () => {
    await createOwnerKey(target.deps, 'to be deleted');
    const keys = expectOk(await call('GET', '/api-keys'));
    const unused = keys.find(({ name }: { name: string }) => name === 'to be deleted');
    expectOk(await call('DELETE', `/api-keys/${unused.id}`));
    expectOk(await call('POST', '/agents/validate', { name: 'x', type: 'prompt', description: 'x', prompt: 'x' }));
    const { workspaces } = expectOk(await call('GET', '/workspaces'));
    const run = `/workspaces/${workspaces[0].id}/runs/${crypto.randomUUID()}/cancel`;
    expectError(await call('POST', run), 404, 'NOT_FOUND');
    expect(expectOk(await request(target, 'GET', '/health'))).toEqual({
      status: 'disk_nearly_full',
      problem: expect.stringContaining('PLATFORM_MIN_FREE_MB'),
    });
  });
});
