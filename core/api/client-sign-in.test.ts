import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { auth, type OAuthClientProvider } from '@modelcontextprotocol/client';
import * as oidc from 'openid-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import * as z from 'zod';
import { clientRoutes } from '#core/accounts/clients/routes.ts';
import { hashKey } from '#core/accounts/keys/key-format.ts';
import { keyRoutes } from '#core/accounts/keys/routes.ts';
import { newApiKey } from '#core/accounts/keys/store.ts';
import { signInRoutes } from '#core/accounts/sign-in/routes.ts';
import { findPersonalWorkspace, memberKey } from '#core/accounts/workspaces/store.ts';
import { defineRoutes } from '#core/http/route.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addMember, addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { keys } from './handlers.ts';

const BASE = 'http://127.0.0.1:4280';
const MCP = `${BASE}/mcp`;
const CLIENT = 'https://client.example/client.json';
const CALLBACK = 'https://client.example/callback';
const VERIFIER = 'an-obviously-made-up-verifier-of-a-test-with-43-letters';
const CHALLENGE = createHash('sha256').update(VERIFIER).digest('base64url');

const resourceRow = { method: 'POST', summary: '', fn: 'meta', auth: 'key', agents: true, clientTokens: true } as const;
const response = { 200: z.object({ workspace: z.string(), scope: z.string() }) };
const resourceRows = defineRoutes([
  { ...resourceRow, operationId: 'callMcp', path: '/mcp', response },
  { ...resourceRow, operationId: 'callAgentMcp', path: '/{org}/{agent}/mcp', response },
]);

/** The web server of clients; the platform reaches `https://client.example` there. */
let clients: Server;
let documents: Record<string, (url: string) => { status?: number; headers?: Record<string, string>; body: string }>;
const documentOf = (client_id: string, more: object = {}) =>
  JSON.stringify({
    client_id,
    client_name: 'A client',
    redirect_uris: [CALLBACK, 'http://127.0.0.1/callback', 'exampleapp://oauth/callback'],
    token_endpoint_auth_method: 'none',
    ...more,
  });

beforeAll(async () => {
  clients = createServer(({ url = '' }, answer) => {
    const { status = 200, headers, body } = documents[url]?.(url) ?? { status: 404, body: 'nothing' };
    answer.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  });
  await new Promise<void>((resolve) => clients.listen(0, '127.0.0.1', resolve));
});
afterAll(() => clients.close());

// biome-ignore lint/suspicious/noExplicitAny: what the API answers, of which each test looks at some members.
type Answer = Omit<Response, 'json'> & { json(): Promise<any> };

async function setUp() {
  documents = { '/client.json': () => ({ body: documentOf(CLIENT) }) };
  const memory = memoryDeps({ baseUrl: BASE, dashboardUrl: `${BASE}/dashboard`, outboundHosts: ['127.0.0.1'] });
  const { port } = clients.address() as AddressInfo;
  const deps = {
    ...memory,
    exchanges: {
      exchange: (request: Parameters<typeof memory.exchanges.exchange>[0]) =>
        memory.exchanges.exchange({
          ...request,
          url: request.url.replace('https://client.example', `http://127.0.0.1:${port}`),
        }),
    },
  };
  const who = async ({ caller }: { caller: { workspace: { slug: string }; limits: { scope: string } } }) => ({
    status: 200,
    body: { workspace: caller.workspace.slug, scope: caller.limits.scope },
  });
  const app = createWebApp(deps, [...keyRoutes, ...signInRoutes, ...clientRoutes, ...resourceRows], {
    ...keys(deps),
    callMcp: who,
    callAgentMcp: who,
  } as never);
  const send = (url: string, init: RequestInit = {}): Promise<Answer> => {
    const headers = new Headers(init.headers);
    headers.set('host', new URL(url, BASE).host);
    return app(new Request(new URL(url, BASE), { ...init, headers, redirect: 'manual' }));
  };
  const ann = await addUser(deps, 'ann');
  const call = (path: string, token: string) =>
    send(path, { method: 'POST', headers: { authorization: `Bearer ${token}` } });
  const form = (path: string, members: Record<string, string>) =>
    send(path, { method: 'POST', body: new URLSearchParams(members) });
  const asked = (more: Record<string, string | undefined> = {}) => {
    const all = {
      client_id: CLIENT,
      redirect_uri: CALLBACK,
      response_type: 'code',
      code_challenge: CHALLENGE,
      code_challenge_method: 'S256',
      resource: MCP,
      state: 'some state',
      ...more,
    };
    const given = Object.entries(all).filter(([, value]) => value !== undefined);
    return send(`/oauth/authorize?${new URLSearchParams(given as [string, string][])}`, {
      headers: { accept: 'text/html' },
    });
  };
  /** Returns the name of the request on the page that the browser was sent to. */
  const requestOf = (answer: Answer): string => {
    const location = answer.headers.get('location')!;
    expect(location).toMatch(/^\/dashboard\/authorize\?request=[\w-]+$/);
    return location.split('=')[1]!;
  };
  const decide = (name: string, body: object, key = ann.key) =>
    send(`/oauth/requests/${name}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const allow = async (name: string, more: object = {}): Promise<URL> => {
    const body = { answer: 'allow', workspace_id: ann.workspaceId, scope: 'run', ...more };
    const answer = await decide(name, body);
    expect(answer.status, await answer.clone().text()).toBe(200);
    return new URL((await answer.json()).redirect_to);
  };
  const codeFor = async (more: Record<string, string> = {}, given: object = {}) =>
    (await allow(requestOf(await asked(more)), given)).searchParams.get('code')!;
  const exchanged = (code: string, more: Record<string, string> = {}) =>
    form('/oauth/token', {
      grant_type: 'authorization_code',
      code,
      client_id: CLIENT,
      redirect_uri: CALLBACK,
      code_verifier: VERIFIER,
      resource: MCP,
      ...more,
    });
  const refreshed = (refresh_token: string, more: Record<string, string> = {}) =>
    form('/oauth/token', { grant_type: 'refresh_token', refresh_token, client_id: CLIENT, ...more });
  const connect = async () => (await exchanged(await codeFor())).json() as Promise<Record<string, string>>;
  return { deps, ann, send, call, form, asked, requestOf, decide, allow, codeFor, exchanged, refreshed, connect };
}

test('openid-client signs in, calls, refreshes and revokes', async () => {
  const { ann, send, call, requestOf, allow } = await setUp();
  const customFetch: oidc.CustomFetch = (url, { body, ...options }) =>
    send(url, { ...options, ...(body != null && { body: String(body) }) } as RequestInit) as Promise<Response>;
  const config = await oidc.discovery(new URL(BASE), CLIENT, undefined, oidc.None(), {
    algorithm: 'oauth2',
    execute: [oidc.allowInsecureRequests],
    [oidc.customFetch]: customFetch,
  });
  const verifier = oidc.randomPKCECodeVerifier();
  const url = oidc.buildAuthorizationUrl(config, {
    redirect_uri: 'http://127.0.0.1:5555/callback',
    code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    resource: MCP,
    scope: 'run',
    state: 'abc',
  });
  const back = await allow(requestOf(await send(url.href)));
  expect(back.origin).toBe('http://127.0.0.1:5555');
  // The library checks `state` and, as the server announces it, `iss`.
  const checks = { pkceCodeVerifier: verifier, expectedState: 'abc' };
  const tokens = await oidc.authorizationCodeGrant(config, back, checks, { resource: MCP });
  expect(tokens).toMatchObject({ token_type: 'bearer', expires_in: 3600, scope: 'run' });
  expect(await (await call('/mcp', tokens.access_token)).json()).toEqual({ workspace: 'ann', scope: 'run' });
  expect((await call(`/ann/helper/mcp`, tokens.access_token)).status).toBe(401);
  expect((await send('/api-keys', { headers: { authorization: `Bearer ${tokens.access_token}` } })).status).toBe(401);
  const next = await oidc.refreshTokenGrant(config, tokens.refresh_token!, { resource: MCP });
  expect((await call('/mcp', next.access_token)).status).toBe(200);
  const listed = await (await send('/connected-clients', { headers: { authorization: `Bearer ${ann.key}` } })).json();
  expect(listed.clients).toMatchObject([{ client_id: CLIENT, client_name: 'A client', resource: MCP, scope: 'run' }]);
  await oidc.tokenRevocation(config, next.refresh_token!);
  expect((await call('/mcp', next.access_token)).status).toBe(401);

  // An answer in the name of another server.
  const mixed = new URL(back);
  mixed.searchParams.set('iss', 'https://other.example');
  await expect(oidc.authorizationCodeGrant(config, mixed, checks)).rejects.toMatchObject({
    cause: { message: expect.stringContaining('iss') },
  });
});

test("the MCP SDK's own client signs in by its metadata document, from the address alone", async () => {
  const { send, call, requestOf, allow } = await setUp();
  const stored: {
    verifier?: string;
    client?: never;
    tokens?: { access_token: string };
    url?: URL;
    discovery?: unknown;
  } = {};
  const provider = {
    redirectUrl: CALLBACK,
    clientMetadataUrl: CLIENT,
    clientMetadata: { client_name: 'A client', redirect_uris: [CALLBACK], token_endpoint_auth_method: 'none' },
    clientInformation: () => stored.client,
    saveClientInformation: (client: unknown) => {
      stored.client = client as never;
    },
    tokens: () => stored.tokens as never,
    saveTokens: (tokens: { access_token: string }) => {
      stored.tokens = tokens;
    },
    redirectToAuthorization: (url: URL) => {
      stored.url = url;
    },
    saveCodeVerifier: (verifier: string) => {
      stored.verifier = verifier;
    },
    codeVerifier: () => stored.verifier!,
    saveDiscoveryState: (state: unknown) => {
      stored.discovery = state;
    },
    discoveryState: () => stored.discovery as never,
  } as OAuthClientProvider;
  const fetchFn = (url: string | URL, init?: RequestInit) => send(String(url), init) as Promise<Response>;
  expect(await auth(provider, { serverUrl: MCP, fetchFn })).toBe('REDIRECT');
  expect(stored.url!.searchParams.get('resource')).toBe(MCP);
  const back = await allow(requestOf(await send(stored.url!.href)));
  const options = { serverUrl: MCP, fetchFn, authorizationCode: back.searchParams.get('code')!, iss: BASE };
  expect(await auth(provider, options)).toBe('AUTHORIZED');
  expect((await call('/mcp', stored.tokens!.access_token)).status).toBe(200);
});

test('a code works once, for its request; a replay ends what was issued for it', async () => {
  const { call, codeFor, exchanged, deps } = await setUp();
  const wrongs: readonly Record<string, string>[] = [
    { code_verifier: `${VERIFIER}x` },
    { redirect_uri: 'http://127.0.0.1/callback' },
    { client_id: 'https://client.example/other.json' },
    { resource: `${BASE}/ann/helper/mcp` },
  ];
  for (const wrong of wrongs) {
    const code = await codeFor();
    const refused = await exchanged(code, wrong);
    expect([refused.status, (await refused.json()).error]).toEqual([
      400,
      'resource' in wrong ? 'invalid_target' : 'invalid_grant',
    ]);
    // The attempt used the code up.
    expect((await exchanged(code)).status).toBe(400);
  }
  const late = await codeFor();
  deps.clock.advance(60_000);
  expect((await exchanged(late)).status).toBe(400);
  const code = await codeFor();
  const { access_token } = await (await exchanged(code)).json();
  expect((await call('/mcp', access_token)).status).toBe(200);
  expect((await exchanged(code)).status).toBe(400);
  expect((await call('/mcp', access_token)).status).toBe(401);
});

test('the reuse of a refresh token ends the connection', async () => {
  const { call, refreshed, connect, deps, ann } = await setUp();
  const first = await connect();
  expect((await refreshed(first.refresh_token!, { client_id: 'https://other.example/c' })).status).toBe(400);
  expect((await refreshed(first.refresh_token!, { scope: 'manage' })).status).toBe(400);
  const narrowed = await refreshed(first.refresh_token!, { scope: 'read' });
  const second = await narrowed.json();
  expect([narrowed.headers.get('cache-control'), second.scope]).toEqual(['no-store', 'read']);
  expect((await call('/mcp', second.access_token)).status).toBe(403);
  expect((await refreshed(first.refresh_token!)).status).toBe(400);
  expect((await call('/mcp', first.access_token!)).status).toBe(401);
  expect((await refreshed(second.refresh_token)).status).toBe(400);
  const idle = await connect();
  deps.clock.advance(30 * 24 * 3_600_000);
  expect((await refreshed(idle.refresh_token!)).status).toBe(400);
  // Only hashes are stored.
  const third = await connect();
  const secrets = [third.access_token!, third.refresh_token!];
  const { items } = await deps.main.query({ pk: `USER#${ann.userId}` });
  const [key, refresh] = [hashKey(secrets[0]!), hashKey(secrets[1]!)];
  items.push((await deps.main.get({ pk: `KEY#${key}`, sk: 'META' }))!);
  items.push((await deps.main.get({ pk: `REFRESHTOKEN#${refresh}`, sk: 'META' }))!);
  for (const secret of secrets) expect(JSON.stringify(items)).not.toContain(secret);
});

test('who is no longer a member has no access, and a removed workspace gives none', async () => {
  const { deps, ann, call, requestOf, asked, decide, exchanged, refreshed } = await setUp();
  const bob = await addUser(deps, 'bob');
  const inBobs = { answer: 'allow', workspace_id: bob.workspaceId, scope: 'run' };
  const name = requestOf(await asked());
  expect((await decide(name, inBobs)).status).toBe(403);
  await addMember(deps, ann, bob.workspaceId);
  const { redirect_to } = await (await decide(name, inBobs)).json();
  expect((await decide(name, inBobs)).status).toBe(404);
  const tokens = await (await exchanged(new URL(redirect_to).searchParams.get('code')!)).json();
  expect(await (await call('/mcp', tokens.access_token)).json()).toEqual({ workspace: 'bob', scope: 'run' });
  await deps.main.delete(memberKey(ann.userId, bob.workspaceId));
  expect((await call('/mcp', tokens.access_token)).status).toBe(403);
  expect((await refreshed(tokens.refresh_token)).status).toBe(400);
  expect((await call('/mcp', tokens.access_token)).status).toBe(401);
});

test('nobody gives more than was asked for or than the own key has; strangers see no connection', async () => {
  const { deps, ann, send, requestOf, asked, decide, connect } = await setUp();
  const more = { answer: 'allow', workspace_id: ann.workspaceId, scope: 'manage' };
  const name = requestOf(await asked());
  expect((await decide(name, more)).status).toBe(403);
  const personalWorkspace = await findPersonalWorkspace(deps, ann.userId);
  const limited = newApiKey(deps, { userId: ann.userId, personalWorkspace }, 'reader', { scope: 'run' });
  await deps.main.transact(limited.operations);
  expect((await decide(name, { ...more, scope: 'run' }, limited.key)).status).toBe(403);
  const { access_token } = await connect();
  const bob = await addUser(deps, 'bob');
  const as = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
  expect(await (await send('/connected-clients', as(bob.key))).json()).toEqual({ clients: [] });
  const [{ id }] = (await (await send('/connected-clients', as(ann.key))).json()).clients;
  const remove = (key: string) => send(`/connected-clients/${id}`, { method: 'DELETE', ...as(key) });
  expect((await remove(bob.key)).status).toBe(404);
  expect((await remove(access_token!)).status).toBe(401);
  expect((await remove(ann.key)).status).toBe(200);
  // An access token cannot sign in.
  const session = { method: 'POST', headers: { 'content-type': 'application/json' } };
  const { access_token: token } = await connect();
  const body = JSON.stringify({ api_key: token });
  expect((await send('/auth/session', { ...session, body })).status).toBe(401);
});

test('a wrong client or redirect URI is an error page that redirects nowhere and cannot be framed', async () => {
  const { asked } = await setUp();
  for (const [more, message] of [
    [{ client_id: 'my-client' }, 'clients cannot be registered here'],
    [{ client_id: 'http://client.example/client.json' }, 'must be the https address'],
    [{ client_id: 'https://client.example/' }, 'must be the https address'],
    [{ client_id: 'https://user:pass@client.example/client.json' }, 'must be the https address'],
    [{ client_id: 'https://client.example/a/../client.json' }, 'must be the https address'],
    [{ client_id: undefined }, 'client_id: must be given once'],
    [{ redirect_uri: undefined }, 'redirect_uri: must be given once'],
    ...[
      'https://evil.example/callback',
      'https://client.example/callback/',
      'https://client.example/callback?x=1',
      'https://client.example.evil.example/callback',
      'https://client.example@evil.example/callback',
      'https://client.example/callback#x',
      '//evil.example',
      'javascript:alert(1)',
      'http://127.0.0.1:5555/other',
      'http://localhost:5555/callback',
      'http://127.0.0.1.evil.example/callback',
    ].map((redirect_uri) => [{ redirect_uri }, 'redirect_uri: is not one'] as const),
  ] as const) {
    const answer = await asked(more);
    expect([answer.status, answer.headers.get('location')], JSON.stringify(more)).toEqual([400, null]);
    expect(answer.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    expect(await answer.text()).toContain(message);
  }
});

test('other errors go to the client, with state and issuer', async () => {
  const { asked, decide, requestOf } = await setUp();
  for (const [more, error] of [
    [{ response_type: 'token' }, 'unsupported_response_type'],
    [{ code_challenge: undefined }, 'invalid_request'],
    [{ code_challenge_method: 'plain' }, 'invalid_request'],
    [{ resource: undefined }, 'invalid_target'],
    [{ resource: 'https://other.example/mcp' }, 'invalid_target'],
    [{ resource: `${BASE}/api-keys` }, 'invalid_target'],
    [{ scope: 'everything' }, 'invalid_scope'],
  ] as const) {
    const answer = await asked(more);
    const { origin, searchParams } = new URL(answer.headers.get('location')!);
    expect([origin, searchParams.get('error')]).toEqual(['https://client.example', error]);
    expect([searchParams.get('state'), searchParams.get('iss')]).toEqual(['some state', BASE]);
  }
  const denied = await decide(requestOf(await asked()), { answer: 'deny' });
  const { searchParams } = new URL((await denied.json()).redirect_to);
  expect([searchParams.get('error'), searchParams.get('iss')]).toEqual(['access_denied', BASE]);
});

test('metadata documents are read with suspicion', async () => {
  const { asked, requestOf, send, ann } = await setUp();
  const id = (name: string) => `https://client.example/${name}`;
  documents['/moved'] = () => ({ status: 302, headers: { location: CLIENT }, body: '' });
  documents['/huge'] = () => ({ body: `"${'x'.repeat(10_000_000)}"` });
  documents['/other'] = () => ({ body: documentOf(CLIENT) });
  documents['/text'] = () => ({ body: '<html>' });
  documents['/secret'] = () => ({
    body: documentOf(id('secret'), { token_endpoint_auth_method: 'client_secret_basic' }),
  });
  documents['/none'] = () => ({ body: documentOf(id('none'), { redirect_uris: [] }) });
  for (const name of ['moved', 'huge', 'other', 'text', 'secret', 'none', 'missing']) {
    const answer = await asked({ client_id: id(name) });
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('client_id: ')]);
  }
  for (const host of ['10.0.0.1', '169.254.169.254', '[::1]', '[fd00::1]', '0.0.0.0']) {
    const answer = await asked({ client_id: `https://${host}/client.json` });
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('client_id: ')]);
  }
  const script = '<script>alert(1)</script>\n\u202e';
  documents['/script'] = () => ({ body: documentOf(id('script'), { client_name: script }) });
  const name = requestOf(await asked({ client_id: id('script'), redirect_uri: 'http://127.0.0.1:80/callback' }));
  const shown = await send(`/oauth/requests/${name}`, { headers: { authorization: `Bearer ${ann.key}` } });
  const { client_name, client_host, redirect_host, is_local } = await shown.json();
  // The page shows it as text, in one line.
  expect(client_name).not.toMatch(/[\n\u202e]/);
  expect({ client_host, redirect_host, is_local }).toEqual({
    client_host: 'client.example',
    redirect_host: '127.0.0.1',
    is_local: true,
  });
});

test('metadata of resources is as the client typed it', async () => {
  const { send } = await setUp();
  const of = async (url: string) => (await send(url)).json();
  const path = '/.well-known/oauth-protected-resource';
  expect(await of(`${path}/mcp`)).toMatchObject({ resource: MCP, authorization_servers: [BASE] });
  expect((await of(`http://localhost:4280${path}/mcp`)).resource).toBe('http://localhost:4280/mcp');
  expect((await of(`http://evil.example:4280${path}/mcp`)).resource).toBe(MCP);
  expect((await of(`${path}/ann/helper/mcp`)).resource).toBe(`${BASE}/ann/helper/mcp`);
  expect((await of(`${path}/a2a/ann/helper`)).resource).toBe(`${BASE}/a2a/ann/helper`);
  expect((await of(path)).resource).toBe(MCP);
  expect((await send(`${path}/agents`)).status).toBe(404);
});
