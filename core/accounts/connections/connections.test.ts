import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { AllDeps } from '#core/ports/deps.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { signInAt } from '#test/helpers/openid-issuer.ts';
import { API_CLIENT, startToolIssuer } from '#test/helpers/tool-issuer.ts';
import { beginConnection, CALLBACK_PATH, finishConnection } from './sign-in.ts';
import { findConnection, OF_WORKSPACE, openSecrets, removeConnection } from './store.ts';
import { freshToken, tokensOf } from './tokens.ts';

const BASE = 'http://127.0.0.1:4280';
const PLACE = { workspaceId: 'w-1', name: 'api', owner: OF_WORKSPACE };
const USER = { workspaceId: 'w-1', userId: 'u-1', name: 'api' };

const depsWith = () => memoryDeps({ baseUrl: BASE, outboundHosts: ['127.0.0.1'] });

async function answerOf(authorizationUrl: string, subject = 'ann'): Promise<string> {
  return new URL(await signInAt(authorizationUrl, subject)).search.slice(1);
}

async function connected(deps: AllDeps, wish: Partial<Parameters<typeof beginConnection>[1]> = {}) {
  const issuer = await startToolIssuer(BASE + CALLBACK_PATH);
  const { authorizationUrl } = await beginConnection(deps, { ...PLACE, ...USER, url: issuer.api, ...wish });
  const connection = await finishConnection(deps, USER, await answerOf(authorizationUrl));
  return { ...issuer, authorizationUrl, connection };
}

const asked = (url: string, token: string) =>
  fetch(url, { headers: { authorization: `Bearer ${token}` } }).then((answer) => answer.status);

const current = async (deps: AllDeps) => (await findConnection(deps, PLACE))!;

test('a user signs in at a server that registers clients, and runs get the token', async () => {
  const deps = depsWith();
  const { api, authorizationUrl, connection, issuer } = await connected(deps);
  const { searchParams } = new URL(authorizationUrl);
  expect(Object.fromEntries(searchParams)).toMatchObject({
    ...{ code_challenge_method: 'S256', resource: api, scope: 'read offline_access' },
    redirect_uri: BASE + CALLBACK_PATH,
  });
  expect(connection).toMatchObject({ url: api, issuer, state: 'connected', canRefresh: true, connectedBy: 'u-1' });
  const asking = { workspaceId: 'w-1', userId: undefined, places: new Map() };
  const { values, missing } = await tokensOf(deps, asking, ['PLATFORM_CONNECTION_API', 'PLATFORM_CONNECTION_OTHER']);
  expect(await asked(api, values.PLATFORM_CONNECTION_API!)).toBe(200);
  expect(missing.get('PLATFORM_CONNECTION_OTHER')).toMatchObject({ problem: 'does not exist', needsSignIn: true });
  expect((await current(deps)).lastUsedAt).toBeDefined();
  const stored = JSON.stringify(await deps.main.get({ pk: 'WS#w-1', sk: 'CONNECTION#api#workspace' }));
  expect(stored).not.toContain(values.PLATFORM_CONNECTION_API);
});

test('a registered client with a secret signs in, without discovery', async () => {
  const deps = depsWith();
  const issuer = await startToolIssuer(BASE + CALLBACK_PATH);
  const { authorizationUrl } = await beginConnection(deps, {
    ...{ ...PLACE, ...USER, url: issuer.api, scopes: ['openid'] },
    client: { id: API_CLIENT.id, secret: API_CLIENT.secret },
    endpoints: { authorize: `${issuer.issuer}/auth`, token: `${issuer.issuer}/token` },
  });
  expect(new URL(authorizationUrl).searchParams.get('client_id')).toBe(API_CLIENT.id);
  await finishConnection(deps, USER, await answerOf(authorizationUrl));
  expect((await openSecrets(deps, await current(deps))).tokens.accessToken).toBeTruthy();
});

test('an answer works once, and only for the user, workspace and connection that began', async () => {
  const deps = depsWith();
  const { api } = await startToolIssuer(BASE + CALLBACK_PATH);
  const { authorizationUrl } = await beginConnection(deps, { ...PLACE, ...USER, url: api });
  const answer = await answerOf(authorizationUrl);
  const refused = { code: 'INVALID_INPUT', message: expect.stringContaining('not begun by you') };
  for (const other of [{ userId: 'u-2' }, { workspaceId: 'w-2' }, { name: 'other' }]) {
    await expect(finishConnection(deps, { ...USER, ...other }, answer)).rejects.toMatchObject(refused);
  }
  await finishConnection(deps, USER, answer);
  await expect(finishConnection(deps, USER, answer)).rejects.toMatchObject(refused);
  await expect(finishConnection(deps, USER, 'state=unknown&code=x')).rejects.toMatchObject(refused);
});

test('an answer of another issuer is refused, and its error is not shown', async () => {
  const deps = depsWith();
  const { api } = await startToolIssuer(BASE + CALLBACK_PATH);
  const begin = async () => {
    const { authorizationUrl } = await beginConnection(deps, { ...PLACE, ...USER, url: api });
    return authorizationUrl;
  };
  const answer = new URLSearchParams(await answerOf(await begin()));
  answer.set('iss', 'https://other.example');
  await expect(finishConnection(deps, USER, String(answer))).rejects.toMatchObject({
    code: 'UNPROCESSABLE',
    message: expect.stringContaining('another issuer'),
  });
  const state = new URL(await begin()).searchParams.get('state')!;
  const error = new URLSearchParams({ state, error: 'told_by_the_other', iss: 'https://other.example' });
  await expect(finishConnection(deps, USER, String(error))).rejects.toMatchObject({
    message: expect.not.stringContaining('told_by_the_other'),
  });
  const denied = new URL(await begin()).searchParams.get('state')!;
  await expect(finishConnection(deps, USER, `state=${denied}&error=access_denied`)).rejects.toMatchObject({
    message: expect.stringContaining('access_denied'),
  });
});

test('one of many processes refreshes, before the token expires, and the others use the present one', async () => {
  const deps = depsWith();
  const { api, grants } = await connected(deps);
  const before = (await openSecrets(deps, await current(deps))).tokens;
  deps.clock.advance(400_000);
  const due = await current(deps);
  const found = await Promise.all(Array.from({ length: 5 }, () => freshToken(deps, due)));
  const after = (await openSecrets(deps, await current(deps))).tokens;
  expect(grants.refresh_token).toBe(1);
  expect(after.refreshToken).not.toBe(before.refreshToken);
  expect(new Set(found)).toEqual(new Set([before.accessToken, after.accessToken]));
  expect(await asked(api, after.accessToken)).toBe(200);
});

test('others wait for the refresh if the token has expired', async () => {
  const deps = depsWith();
  const { grants } = await connected(deps);
  deps.clock.advance(700_000);
  const due = await current(deps);
  const gate = Promise.withResolvers<void>();
  const slow = {
    ...deps,
    toolSignIn: {
      ...deps.toolSignIn,
      refresh: async (...args: Parameters<AllDeps['toolSignIn']['refresh']>) => {
        await gate.promise;
        return deps.toolSignIn.refresh(...args);
      },
    },
  };
  const first = freshToken(slow, due);
  const second = freshToken(deps, due);
  await expect.poll(() => deps.clock.sleepers).toBeGreaterThan(0);
  gate.resolve();
  const token = await first;
  deps.clock.advance(200);
  expect(await second).toBe(token);
  expect(grants.refresh_token).toBe(1);
});

test('a process that died after the provider had replaced the refresh token leaves a connection that needs a sign-in', async () => {
  const deps = depsWith();
  await connected(deps);
  deps.clock.advance(700_000);
  const due = await current(deps);
  const died = Promise.withResolvers<void>();
  const dying = {
    ...deps,
    toolSignIn: {
      ...deps.toolSignIn,
      async refresh(...args: Parameters<AllDeps['toolSignIn']['refresh']>) {
        await deps.toolSignIn.refresh(...args);
        died.resolve();
        return new Promise<never>(() => {});
      },
    },
  };
  void freshToken(dying, due);
  await died.promise;
  deps.clock.advance(31_000);
  // The provider refuses the former refresh token.
  expect(await freshToken(deps, await current(deps))).toMatchObject({ needsSignIn: true });
  expect(await current(deps)).toMatchObject({
    state: 'needs_sign_in',
    problem: expect.stringContaining('invalid_grant'),
  });
});

test('a write that fails is tried again, so that the new refresh token is not lost', async () => {
  const deps = depsWith();
  await connected(deps);
  deps.clock.advance(700_000);
  let failures = 0;
  const update: AllDeps['main']['update'] = async (...args) => {
    if (args[1].set?.data !== undefined && failures++ < 2) throw new Error('the table does not answer');
    return deps.main.update(...args);
  };
  const main: AllDeps['main'] = new Proxy(deps.main, {
    get(table, name) {
      const found: unknown = Reflect.get(table, name);
      if (name === 'update') return update;
      return typeof found === 'function' ? found.bind(table) : found;
    },
  });
  const token = freshToken({ ...deps, main }, await current(deps));
  for (const pause of [250, 500]) {
    await expect.poll(() => deps.clock.sleepers).toBeGreaterThan(0);
    await deps.clock.advance(pause);
  }
  expect(await token).toBe((await openSecrets(deps, await current(deps))).tokens.accessToken);
});

test('a connection that is removed during a refresh does not come back', async () => {
  const deps = depsWith();
  const { api } = await connected(deps);
  deps.clock.advance(700_000);
  let fresh = '';
  const removing = {
    ...deps,
    toolSignIn: {
      ...deps.toolSignIn,
      async refresh(...args: Parameters<AllDeps['toolSignIn']['refresh']>) {
        const tokens = await deps.toolSignIn.refresh(...args);
        await removeConnection(deps, PLACE);
        fresh = tokens.accessToken;
        return tokens;
      },
    },
  };
  expect(await freshToken(removing, await current(deps))).toMatchObject({ problem: 'was removed' });
  expect(await findConnection(deps, PLACE)).toBeUndefined();
  expect(await asked(api, fresh)).toBe(401);
});

test('a provider that does not answer keeps the connection', async () => {
  const deps = depsWith();
  await connected(deps);
  deps.clock.advance(700_000);
  const { ToolSignInFailure } = await import('#core/ports/tool-sign-in.ts');
  const away = {
    ...deps,
    toolSignIn: {
      ...deps.toolSignIn,
      refresh: () => Promise.reject(new ToolSignInFailure('unreachable', 'it is away')),
    },
  };
  const due = await current(deps);
  expect(await freshToken(away, due)).toMatchObject({ needsSignIn: false });
  expect(await current(deps)).toMatchObject({ state: 'connected' });
  expect(typeof (await freshToken(deps, due))).toBe('string');
});

test("a user's own connection is used in runs of that user only, and before that of the workspace", async () => {
  const deps = depsWith();
  const { api } = await startToolIssuer(BASE + CALLBACK_PATH);
  for (const owner of [OF_WORKSPACE, 'u-1']) {
    const { authorizationUrl } = await beginConnection(deps, { ...PLACE, ...USER, owner, url: api });
    await finishConnection(deps, USER, await answerOf(authorizationUrl, owner === OF_WORKSPACE ? 'bot' : 'ann'));
  }
  const userOf = async (userId: string | undefined) => {
    const asking = { workspaceId: 'w-1', userId, places: new Map() };
    const { values } = await tokensOf(deps, asking, ['PLATFORM_CONNECTION_API']);
    const headers = { authorization: `Bearer ${values.PLATFORM_CONNECTION_API}` };
    return ((await (await fetch(api, { headers })).json()) as { user: string }).user;
  };
  expect([await userOf('u-1'), await userOf('u-2'), await userOf(undefined)]).toEqual(['ann', 'bot', 'bot']);
});

test('the platform sends a token only to the server where it was signed in', async () => {
  const deps = depsWith();
  const { api } = await connected(deps);
  const secret = 'PLATFORM_CONNECTION_API';
  const found = async (url: string) =>
    tokensOf(deps, { workspaceId: 'w-1', userId: undefined, places: new Map([[secret, [url]]]) }, [secret]);
  expect(Object.keys((await found(`${api}/more`)).values)).toEqual([secret]);
  expect((await found('https://other.example/mcp')).missing.get(secret)).toMatchObject({
    problem: expect.stringContaining('would send its token to https://other.example/mcp'),
  });
});

/** Starts a server whose documents are hostile. */
async function hostile(answer: (origin: string, path: string) => object | number | string): Promise<string> {
  const server = createServer((request, response) => {
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const given = answer(origin, request.url!);
    if (typeof given === 'number') response.writeHead(given, { location: `${origin}/elsewhere` }).end();
    else
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(typeof given === 'string' ? given : JSON.stringify(given));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const SERVER = (origin: string) => ({
  ...{ issuer: origin, authorization_endpoint: `${origin}/authorize`, token_endpoint: `${origin}/token` },
  ...{ response_types_supported: ['code'], code_challenge_methods_supported: ['S256'] },
});

test.each<[string, (origin: string, path: string) => object | number | string, string]>([
  [
    'an authorization server at a private address',
    (origin, path) =>
      path.includes('protected-resource') ? { resource: origin, authorization_servers: ['https://10.0.0.1'] } : 404,
    'not an address of the public internet',
  ],
  ['documents that redirect', (_, path) => (path.startsWith('/.well-known') ? 302 : 404), 'redirects'],
  ['huge documents', (_, path) => (path.startsWith('/.well-known') ? ' '.repeat(300_000) : 404), 'more than'],
  [
    'metadata of another issuer',
    (origin, path) =>
      path.includes('protected-resource') ? 404 : { ...SERVER(origin), issuer: 'https://bank.example' },
    'another issuer',
  ],
  [
    'metadata of another resource',
    (_, path) =>
      path.includes('protected-resource')
        ? { resource: 'https://bank.example/mcp', authorization_servers: ['https://bank.example'] }
        : 404,
    'another resource|resolve|not found|reached',
  ],
  [
    'an authorization endpoint that is no web address',
    (origin, path) =>
      path.includes('protected-resource') ? 404 : { ...SERVER(origin), authorization_endpoint: 'javascript:alert(1)' },
    'OAuth 2.1',
  ],
  [
    'no PKCE',
    (origin, path) =>
      path.includes('protected-resource') ? 404 : { ...SERVER(origin), code_challenge_methods_supported: ['plain'] },
    'PKCE|OAuth 2.1',
  ],
])('a sign-in is refused for %s', async (_, answer, problem) => {
  const deps = depsWith();
  const url = await hostile(answer);
  const begun = beginConnection(deps, { ...PLACE, ...USER, url, client: { id: 'known' } });
  await expect(begun).rejects.toMatchObject({ code: 'UNPROCESSABLE', message: expect.stringMatching(problem) });
});

test('addresses that the platform does not connect to are refused', async () => {
  const deps = memoryDeps({ baseUrl: BASE });
  for (const url of [
    'http://127.0.0.1:1/mcp',
    'https://localhost/mcp',
    'ftp://example.com',
    'https://a:b@example.com',
  ]) {
    await expect(beginConnection(deps, { ...PLACE, ...USER, url })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  }
});
