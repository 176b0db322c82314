import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk } from '../expect.ts';

const VERIFIER = 'an-obviously-made-up-verifier-of-a-test-with-43-letters';
const CALLBACK = 'https://client.example/callback';

/** The sign-in of clients. `core/api/client-sign-in.test.ts` has attacks on it, and clients of others. */
export function clientSignInSuite(target: () => Target): void {
  const call = (method: string, path: string, options?: Parameters<typeof request>[3]) =>
    request(target(), method, path, options);
  const form = (members: Record<string, string>) => ({ body: new URLSearchParams(members) });

  describe.concurrent('the sign-in of clients', () => {
    test('metadata names resource and server; a client without a document is refused', async () => {
      const resource = expectOk(await call('GET', '/.well-known/oauth-protected-resource/mcp'));
      expect(resource.resource).toBe(`${target().url}/mcp`);
      const server = expectOk(await call('GET', '/.well-known/oauth-authorization-server'));
      expect(resource.authorization_servers).toEqual([server.issuer]);
      expect(server.client_id_metadata_document_supported).toBe(true);
      const query = new URLSearchParams({ client_id: 'my-client', redirect_uri: CALLBACK });
      const refused = await call('GET', `/oauth/authorize?${query}`);
      expectError(refused, 400, 'INVALID_INPUT', 'clients cannot be registered here');
      const revoked = await call('POST', '/oauth/revoke', form({ token: 'unknown' }));
      expect(revoked.status).toBe(200);
    });

    test('a client is let in, refreshes, and is disconnected', async () => {
      const server = createServer((_, answer) => {
        const body = { client_id, client_name: 'a test', redirect_uris: [CALLBACK] };
        answer.setHeader('content-type', 'application/json').end(JSON.stringify(body));
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      onTestFinished(() => void server.close());
      const client_id = `http://127.0.0.1:${(server.address() as AddressInfo).port}/client.json`;
      const { key, workspaceId } = await target().addUser('client-sign-in');
      const query = new URLSearchParams({
        client_id,
        redirect_uri: CALLBACK,
        response_type: 'code',
        code_challenge: createHash('sha256').update(VERIFIER).digest('base64url'),
        code_challenge_method: 'S256',
        resource: `${target().url}/mcp`,
      });
      const url = `${target().url}/oauth/authorize?${query}`;
      const asked = await fetch(url, { redirect: 'manual' });
      expect(asked.status, await asked.text()).toBe(303);
      const [, name] = asked.headers.get('location')!.split('?request=');
      expect(expectOk(await call('GET', `/oauth/requests/${name}`, { key })).client_name).toBe('a test');
      const json = { answer: 'allow', workspace_id: workspaceId, scope: 'run' };
      const { redirect_to } = expectOk(await call('POST', `/oauth/requests/${name}`, { key, json }));
      const code = new URL(redirect_to).searchParams.get('code')!;
      const grant = { grant_type: 'authorization_code', code, code_verifier: VERIFIER };
      const first = expectOk(await call('POST', '/oauth/token', form({ ...grant, client_id, redirect_uri: CALLBACK })));
      const { refresh_token } = first;
      const next = { grant_type: 'refresh_token', refresh_token, client_id };
      expect(expectOk(await call('POST', '/oauth/token', form(next))).scope).toBe('run');
      const { clients } = expectOk(await call('GET', '/connected-clients', { key }));
      expect(clients).toMatchObject([{ client_id, scope: 'run', workspace_id: workspaceId }]);
      expectOk(await call('DELETE', `/connected-clients/${clients[0].id}`, { key }));
      expect(expectOk(await call('GET', '/connected-clients', { key })).clients).toEqual([]);
    });
  });
}
