import { describe, expect, test } from 'vitest';
import { request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk } from '../expect.ts';

/** Browser sessions and CLI sign-in. `core/api/sign-in.test.ts` tests attacks on them. */
export function signInSuite(target: () => Target): void {
  const call = (method: string, path: string, options?: Parameters<typeof request>[3]) =>
    request(target(), method, path, options);
  const own = { 'sec-fetch-site': 'same-origin', 'x-platform-client': 'dashboard' };
  const form = (members: Record<string, string>) => ({
    body: new URLSearchParams(members),
    headers: { accept: 'text/html', 'sec-fetch-site': 'same-origin' },
  });

  describe.concurrent('signing in', () => {
    test('a browser, with a link; its session is listed, used and ended', async () => {
      const { key, keyId } = await target().addUser('sign-in-browser');
      const { code, url } = expectOk(await call('POST', '/auth/codes', { key, json: {} }), 201);
      expect(url).toMatch(new RegExp(`^${RegExp.escape(target().url)}/(dashboard|auth)/login#code=${code}$`));
      const made = await call('POST', '/auth/session', { json: { code } });
      expectOk(made, 201);
      const cookie = made.headers.get('set-cookie')!.split(';')[0]!;
      expectError(await call('POST', '/auth/session', { json: { code } }), 401, 'UNAUTHORIZED', 'already used');

      const headers = { cookie, ...own };
      expect(expectOk(await call('GET', '/auth/session', { headers })).workspace.slug).toBe('sign-in-browser');
      // Other deployed functions accept the session as well.
      expectOk(await call('POST', '/tasks', { headers, json: { title: 'x', project: 'y' } }), 201);
      expectError(await call('GET', '/tasks', { headers: { cookie } }), 401, 'UNAUTHORIZED');
      const { sessions } = expectOk(await call('GET', `/api-keys/${keyId}/sessions`, { key }));
      expect(sessions).toMatchObject([{ key_id: keyId }]);
      expectOk(await call('DELETE', `/api-keys/${keyId}/sessions/${sessions[0].id}`, { key }));
      expectError(await call('GET', '/auth/session', { headers }), 401, 'UNAUTHORIZED', 'has ended');
    });

    test('a command line, when a person agrees', async () => {
      const { key, workspaceId } = await target().addUser('sign-in-cli');
      const { state, auth_url } = expectOk(await call('POST', '/auth/cli-init', { json: { client_name: 'a test' } }));
      const page = await call('GET', auth_url.slice(target().url.length), { headers: { accept: 'text/html' } });
      expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
      expect(page.body).toContain('a test');
      const agreed = await call('POST', '/auth/cli', form({ state, answer: 'agree', api_key: key }));
      const [, token] = /<code class="token"[^>]*>([a-z][\w-]{43})</.exec(agreed.body)!;
      const given = expectOk(await call('POST', '/auth/cli-exchange', { json: { token } }));
      expect(given).toMatchObject({ org_id: workspaceId, org_slug: 'sign-in-cli' });
      expectOk(await call('GET', '/org', { key: given.api_key }));
      expect(expectOk(await call('POST', '/auth/cli-logout', { key: given.api_key, json: {} }))).toEqual({
        revoked: true,
      });
      expectError(await call('GET', '/org', { key: given.api_key }), 401, 'UNAUTHORIZED');
    });
  });
}
