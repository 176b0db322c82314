import { expect, test } from 'vitest';
import * as z from 'zod';
import { connectedClientItem, endConnectedClient } from '#core/accounts/clients/connected-client.ts';
import { newClientToken } from '#core/accounts/keys/store.ts';
import { findPersonalWorkspace } from '#core/accounts/workspaces/store.ts';
import { defineRoutes } from '#core/http/route.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

const row = { summary: '', fn: 'meta', auth: 'key', response: { 200: z.object({ workspace: z.string() }) } } as const;
const rows = defineRoutes([
  { ...row, operationId: 'callMcp', method: 'POST', path: '/mcp', agents: true, clientTokens: true },
  { ...row, operationId: 'deleteMcp', method: 'DELETE', path: '/mcp', clientTokens: true },
  { ...row, operationId: 'callAgentMcp', method: 'POST', path: '/{org}/{agent}/mcp', agents: true, clientTokens: true },
  { ...row, operationId: 'callA2a', method: 'POST', path: '/a2a/{org}/{agent}/send', agents: true, clientTokens: true },
  { ...row, operationId: 'listThings', method: 'GET', path: '/things' },
]);

const BASE = 'https://platform.test/prod';

async function setUp() {
  const deps = memoryDeps({ baseUrl: BASE });
  const who = async ({ caller }: { caller: { workspace: { slug: string } } }) => ({
    status: 200,
    body: { workspace: caller.workspace.slug },
  });
  const handlers = Object.fromEntries(rows.map(({ operationId }) => [operationId, who]));
  const app = createWebApp(deps, rows, handlers as never);
  const send = (method: string, path: string, token?: string, host = 'platform.test') =>
    app(
      new Request(`https://${host}${path}`, {
        method,
        headers: { host, ...(token !== undefined && { authorization: `Bearer ${token}` }) },
      }),
    );
  const ann = await addUser(deps, 'ann');
  const owner = { userId: ann.userId, personalWorkspace: await findPersonalWorkspace(deps, ann.userId) };
  const tokenFor = async (resource: string) => {
    const id = deps.ids.uuid();
    const connection = {
      id,
      userId: ann.userId,
      clientId: 'https://client.test/client.json',
      clientName: 'Client',
      workspaceId: ann.workspaceId,
      scope: 'run' as const,
      resource,
      refreshHash: 'hash',
    };
    const bound = { name: 'Client', scope: 'run' as const, workspaceId: ann.workspaceId };
    const issued = newClientToken(deps, owner, { ...bound, client: { connectionId: id, resource } }, 3_600_000);
    await deps.main.transact([{ op: 'put', item: connectedClientItem(deps, connection) }, issued.operation]);
    return { id, token: issued.token };
  };
  return { deps, ann, send, tokenFor };
}

test('an access token is good for its resource only, until its connection ends', async () => {
  const { deps, ann, send, tokenFor } = await setUp();
  const paths = ['/mcp', '/ann/helper/mcp', '/a2a/ann/helper/send', '/a2a/ann/other/send'];
  for (const [resource, good] of [
    ['/mcp', '/mcp'],
    ['/ann/helper/mcp', '/ann/helper/mcp'],
    ['/a2a/ann/helper', '/a2a/ann/helper/send'],
  ] as const) {
    const { token, id } = await tokenFor(resource);
    for (const path of paths) expect((await send('POST', path, token)).status, path).toBe(path === good ? 200 : 401);
    expect((await send('GET', '/things', token)).status).toBe(401);
    await endConnectedClient(deps, ann.userId, id);
    expect((await send('POST', good, token)).status).toBe(401);
  }
  const { token } = await tokenFor('/mcp');
  deps.clock.advance(3_600_000);
  expect((await send('POST', '/mcp', token)).status).toBe(401);
  expect((await send('POST', '/mcp', ann.key)).status).toBe(200);
});

test('an answer 401 says where to sign in, and a lacking scope is named', async () => {
  const { send, tokenFor, ann } = await setUp();
  const metadata = `resource_metadata="${BASE}/.well-known/oauth-protected-resource/ann/helper/mcp"`;
  const without = await send('POST', '/ann/helper/mcp');
  expect([without.status, without.headers.get('www-authenticate')]).toEqual([401, `Bearer ${metadata}, scope="run"`]);
  const { token } = await tokenFor('/mcp');
  const other = await send('POST', '/ann/helper/mcp', token);
  expect(other.headers.get('www-authenticate')).toBe(`Bearer ${metadata}, scope="run", error="invalid_token"`);
  const scope = await send('DELETE', '/mcp', token);
  expect(scope.status).toBe(403);
  expect(scope.headers.get('www-authenticate')).toContain('scope="manage", error="insufficient_scope"');
  const elsewhere = await send('POST', '/mcp', 'sk_live_wrong', 'evil.test');
  expect(elsewhere.headers.get('www-authenticate')).not.toContain('evil');
  expect((await send('GET', '/things')).headers.has('www-authenticate')).toBe(false);
  expect((await send('POST', '/mcp', ann.key)).headers.has('www-authenticate')).toBe(false);
});
