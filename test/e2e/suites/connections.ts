import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { signInAt } from '#test/helpers/openid-issuer.ts';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import { type ScriptedMcp, startScriptedMcp } from '#test/helpers/scripted-mcp.ts';
import { API_CLIENT, startToolIssuer, type ToolIssuer } from '#test/helpers/tool-issuer.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

/** Sign-ins of users at servers that agents use (`docs/interface/connections.md`). */
export function connectionsSuite(target: () => Target): void {
  describe('connections', () => {
    let user: TestUser;
    let issuer: ToolIssuer;
    let server: ScriptedMcp;
    const closing: (() => void)[] = [];

    const call = (by: Pick<TestUser, 'key'>, method: string, path: string, json?: unknown) =>
      request(target(), method, path, { key: by.key, json });
    const pathOf = (by: TestUser, rest = '') => `/workspaces/${by.workspaceId}/connections${rest}`;

    beforeAll(async () => {
      // A target that reaches a model on this machine also reaches a provider here.
      needsModel(target());
      const document = expectOk(await request(target(), 'GET', '/connections/client.json'));
      issuer = await startToolIssuer(document.redirect_uris[0], { onClose: (close) => closing.push(close) });
      server = await startScriptedMcp({ revision: 'session', tools: [{ name: 'search' }] });
      user = await target().addUser('connects');
      const json = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-connections-0123456789' };
      expectOk(await request(target(), 'PUT', `/workspaces/${user.workspaceId}/secrets`, { key: user.key, json }));
    });
    afterAll(() => {
      server?.close();
      for (const close of closing) close();
    });

    /** Begins a sign-in, and approves it in a browser. */
    async function approved(by: TestUser, wish: object): Promise<string> {
      const { authorization_url } = expectOk(await call(by, 'POST', pathOf(by), wish), 201);
      return new URL(await signInAt(authorization_url, 'ann')).search.slice(1);
    }

    test('give the loops of a workspace the token of a sign-in', async () => {
      const answer = await approved(user, {
        ...{ name: 'docs', url: server.url, client_id: API_CLIENT.id, client_secret: API_CLIENT.secret },
        endpoints: { authorize: `${issuer.issuer}/auth`, token: `${issuer.issuer}/token` },
        scopes: ['openid'],
      });
      const finished = await call(user, 'POST', pathOf(user, '/docs'), { answer });
      const { connection } = expectOk(finished);
      expect(connection).toMatchObject({
        ...{ name: 'docs', owner: 'workspace', user_id: null, secret: 'PLATFORM_CONNECTION_DOCS', url: server.url },
        ...{ state: 'connected', problem: null, connected_by: user.userId, last_used_at: null },
      });
      expectError(
        await call(user, 'POST', pathOf(user, '/docs'), { answer }),
        400,
        'INVALID_INPUT',
        'not begun by you',
      );

      const turns = [{ toolCalls: [{ name: 'mcp__docs__search', input: { q: 'cats' } }] }, { echo: true }];
      const mcp = { name: 'docs', url: server.url, connection: 'docs' };
      const json = {
        ...{ name: 'connected', type: 'agent', description: 'tests', required_secrets: [] },
        prompt: `Do it. [[llm ${JSON.stringify(turns)}]]`,
        loop: { max_turns: 3, mcp_servers: [mcp] },
      };
      const { agent } = expectOk(await call(user, 'POST', '/agents', json), 201);
      expect(expectOk(await call(user, 'GET', `/agents/${agent.id}`)).required_secrets).toEqual([
        'PLATFORM_CONNECTION_DOCS',
      ]);
      // The search for the server's sign-in, before there was a token, sends requests of its own.
      const before = server.requests.length;
      expectOk(await call(user, 'POST', `/${user.slug}/connected/v1/run`, {}));
      const sent = server.requests.slice(before).map(({ headers }) => headers.authorization);
      expect(new Set(sent)).toEqual(new Set([expect.stringMatching(/^Bearer \S{20,}$/)]));
      const shown = expectOk(await call(user, 'GET', pathOf(user, '/docs'))).connection;
      expect(shown.last_used_at).not.toBeNull();
      expect(JSON.stringify(shown)).not.toContain(sent[0]!.slice(7));

      const elsewhere = { ...json, name: 'elsewhere', loop: { mcp_servers: [{ ...mcp, url: issuer.api }] } };
      expectOk(await call(user, 'POST', '/agents', elsewhere), 201);
      const run = await call(user, 'POST', `/${user.slug}/elsewhere/v1/run`, {});
      expectError(run, 400, 'MISSING_SECRETS', 'The connection "docs" is signed in at');
    });

    test('that do not exist end a run with the command that connects', async () => {
      const json = {
        ...{ name: 'lonely', type: 'agent', description: 'tests', prompt: 'Do it.', required_secrets: [] },
        loop: { mcp_servers: [{ name: 'x', url: server.url, connection: 'not-there' }] },
      };
      expectOk(await call(user, 'POST', '/agents', json), 201);
      const answer = await call(user, 'POST', `/${user.slug}/lonely/v1/run`, {});
      const error = expectError(answer, 400, 'MISSING_SECRETS', 'The connection "not-there" does not exist.');
      expect(error.hint).toContain(`platform connect not-there ${server.url}`);
    });

    test('are made by owners, or by members for themselves, and unknown to others', async () => {
      const stranger = await target().addUser('connects-stranger');
      const answer = await approved(user, { name: 'own', url: issuer.api, owner: 'user' });
      expectError(await call(stranger, 'POST', pathOf(stranger, '/own'), { answer }), 400, 'INVALID_INPUT');
      expectOk(await call(user, 'POST', pathOf(user, '/own'), { answer }));
      const { connections } = expectOk(await call(user, 'GET', pathOf(user)));
      expect(connections).toContainEqual(
        expect.objectContaining({ name: 'own', owner: 'user', user_id: user.userId, scopes: expect.any(Array) }),
      );
      expect(expectOk(await call(stranger, 'GET', pathOf(stranger))).connections).toEqual([]);
      expectError(await call(stranger, 'GET', pathOf(stranger, '/own?owner=user')), 404, 'NOT_FOUND');
      expectError(await call(stranger, 'GET', pathOf(user, '/own?owner=user')), 403, 'FORBIDDEN');
      expectError(await call(user, 'GET', pathOf(user, '/own')), 404, 'NOT_FOUND');

      expect(expectOk(await call(user, 'DELETE', pathOf(user, '/own?owner=user')))).toEqual({
        deleted: true,
        revoked: true,
      });
      expectError(await call(user, 'GET', pathOf(user, '/own?owner=user')), 404, 'NOT_FOUND');
    });

    test('send the browser back to the program that began', async () => {
      const wish = { name: 'ports', url: issuer.api, redirect_port: 54_321 };
      const { authorization_url } = expectOk(await call(user, 'POST', pathOf(user), wish), 201);
      const state = new URL(authorization_url).searchParams.get('state')!;
      const callback = (query: string) =>
        fetch(`${target().url}/connections/callback?${query}`, {
          redirect: 'manual',
          headers: { accept: 'text/html' },
        });
      const back = await callback(`state=${state}&code=made-up&iss=x`);
      expect(back.status).toBe(303);
      expect(back.headers.get('location')).toBe(`http://127.0.0.1:54321/callback?state=${state}&code=made-up&iss=x`);
      const unknown = await callback('state=made-up&code=made-up');
      expect(unknown.status).toBe(400);
      expect(await unknown.text()).toContain('finished already, or has expired');
    });

    test('are not begun at private addresses, without a client where one is needed, or under the name of a secret', async () => {
      const begin = (wish: object) => call(user, 'POST', pathOf(user), { name: 'x', ...wish });
      expectError(await begin({ url: 'https://169.254.169.254/mcp' }), 400, 'INVALID_INPUT', 'public internet');
      expectError(await begin({}), 400, 'INVALID_INPUT', 'url: is required');
      expectError(
        await begin({ url: issuer.api, client_secret: 'made-up' }),
        400,
        'INVALID_INPUT',
        'without client_id',
      );
      const json = { name: 'PLATFORM_CONNECTION_DOCS', value: 'made-up' };
      const put = await call(user, 'PUT', `/workspaces/${user.workspaceId}/secrets`, json);
      expectError(put, 400, 'INVALID_INPUT', 'kept for the access token');
    });
  });
}
