import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { keyRoutes } from '#core/accounts/keys/routes.ts';
import { newApiKey, revokeKey } from '#core/accounts/keys/store.ts';
import { newStaticKey } from '#core/accounts/service-keys/key-format.ts';
import { createCode, START_CODE_LIFE_MS } from '#core/accounts/sign-in/codes.ts';
import { signInRoutes } from '#core/accounts/sign-in/routes.ts';
import { workspaceRoutes } from '#core/accounts/workspaces/routes.ts';
import { findPersonalWorkspace } from '#core/accounts/workspaces/store.ts';
import type { KeyLimits } from '#core/base/caller.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addMember, addUser } from '#test/helpers/users.ts';
import { createApp } from './app.ts';
import { keys, workspaces } from './handlers.ts';

/**
 * Attacks on sessions, and what a browser may do with one. `Sec-Fetch-*` and `Origin` are the headers that browsers
 * send for such requests.
 */
const LOCAL = 'http://127.0.0.1:4280';
const ADDRESS = '203.0.113.7';

async function setUp(baseUrl = LOCAL, addressRequestsPerMinute = 1000, dashboardUrl?: string) {
  const deps = memoryDeps({ baseUrl, addressRequestsPerMinute, dashboardUrl });
  const ann = await addUser(deps, 'ann');
  const rows = [
    ...keyRoutes,
    ...signInRoutes,
    ...workspaceRoutes.filter(({ path }) => path === '/org' || path === '/workspaces'),
  ];
  const app = createApp(deps, rows, { ...keys(deps), ...workspaces(deps) });
  const send = async (
    method: string,
    path: string,
    {
      json,
      form,
      ...headers
    }: { readonly json?: unknown; readonly form?: Record<string, string>; readonly [name: string]: unknown } = {},
    address = ADDRESS,
  ) => {
    const body = form ? new URLSearchParams(form).toString() : json === undefined ? undefined : JSON.stringify(json);
    const type = form ? 'application/x-www-form-urlencoded' : 'application/json';
    const all = new Headers({
      host: new URL(baseUrl).host,
      ...(body && { 'content-type': type }),
      ...(headers as Record<string, string>),
    });
    const answer = await app(new Request(baseUrl + path, { method, body, headers: all }), address);
    const text = typeof answer.body === 'string' ? answer.body : new TextDecoder().decode(answer.body as Uint8Array);
    return { ...answer, text, json: () => JSON.parse(text) };
  };
  const cookieIn = ({ headers }: { headers: Readonly<Record<string, string>> }) =>
    headers['set-cookie']!.split(';')[0]!;
  const signIn = async (json: object = { api_key: ann.key }) => {
    const answer = await send('POST', '/auth/session', { json });
    expect(answer.status, answer.text).toBe(201);
    return cookieIn(answer);
  };
  const limited = async (limits: KeyLimits) => {
    const personalWorkspace = await findPersonalWorkspace(deps, ann.userId);
    const made = newApiKey(deps, { userId: ann.userId, personalWorkspace }, 'limited', limits);
    await deps.main.transact(made.operations);
    return { key: made.key, record: made.record };
  };
  return { deps, ann, send, signIn, cookieIn, limited };
}

/** Headers that a browser adds to requests of the platform's own pages. */
const OWN = { 'sec-fetch-site': 'same-origin', 'x-platform-client': 'dashboard' };
const HTML = { accept: 'text/html' };
const NAMED = { json: { name: 'made' } };

test('a session is a cookie that no script reads, and of which a hash is stored', async () => {
  const { deps, ann, send } = await setUp();
  const answer = await send('POST', '/auth/session', { json: { api_key: ann.key } });
  expect(answer.headers['set-cookie']).toMatch(
    /^platform_session=a[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=604800$/,
  );
  expect(answer.headers['cache-control']).toBe('no-store');
  const [token] = /a[\w-]{43}/.exec(answer.headers['set-cookie']!)!;
  const hash = createHash('sha256').update(token).digest('hex');
  const stored = await deps.counters.get({ pk: `SESSION#${hash}`, sk: 'META' });
  expect(stored).toMatchObject({ user_id: ann.userId, key_id: ann.keyId });
  expect(JSON.stringify(stored)).not.toContain(token);
  expect(JSON.stringify(stored)).not.toContain(ann.key);
  expect(answer.text).not.toContain(token);

  const cookie = `theme=dark; platform_session=${token}`;
  const who = await send('GET', '/auth/session', { cookie, ...OWN });
  expect(who.json()).toMatchObject({
    session: { key_id: ann.keyId },
    user: { email: 'ann@example.com' },
    workspace: { slug: 'ann' },
  });
  expect((await send('POST', '/api-keys', { cookie, ...OWN, ...NAMED })).status).toBe(201);
});

test('over https the cookie is for this host and encrypted connections alone', async () => {
  const { ann, send } = await setUp('https://agents.example.com');
  const { headers } = await send('POST', '/auth/session', { json: { api_key: ann.key } });
  expect(headers['set-cookie']).toMatch(
    /^__Host-platform_session=a[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict; /,
  );
  const [, token] = /=(a[\w-]{43})/.exec(headers['set-cookie']!)!;
  expect((await send('GET', '/org', { cookie: `__Host-platform_session=${token}`, ...OWN })).status).toBe(200);
  // Any host in the domain can set a cookie without the prefix.
  expect((await send('GET', '/org', { cookie: `platform_session=${token}`, ...OWN })).status).toBe(401);
});

test('no browser signs in over plain http from afar', async () => {
  const { ann, send } = await setUp('http://10.0.0.5:4280');
  const answer = await send('POST', '/auth/session', { json: { api_key: ann.key } });
  expect([answer.status, answer.json().error.hint]).toEqual([403, expect.stringContaining('PLATFORM_BASE_URL')]);
  expect(answer.headers).not.toHaveProperty('set-cookie');
});

test.each([
  ['a form of another site', 'POST', { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
  [
    'a form of a neighbour, such as a service',
    'POST',
    { 'sec-fetch-site': 'same-site', origin: 'http://x.localhost:4280' },
  ],
  ['fetch of another origin', 'POST', { ...OWN, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
  ['a link of another site', 'GET', { 'sec-fetch-site': 'cross-site' }],
  ['an address that somebody typed', 'GET', { 'sec-fetch-site': 'none' }],
  ['an old browser, from another origin', 'POST', { 'x-platform-client': 'dashboard', origin: 'https://evil.example' }],
  ['an old browser, without an origin', 'GET', {}],
  ['a form of an own page', 'POST', { 'sec-fetch-site': 'same-origin' }],
  ['a sandboxed frame', 'POST', { 'x-platform-client': 'dashboard', origin: 'null' }],
])('the cookie does not count for %s', async (_, method, headers) => {
  const { send, signIn } = await setUp();
  const cookie = await signIn();
  const path = method === 'GET' ? '/org' : '/api-keys';
  const answer = await send(method, path, { cookie, ...headers, ...(method === 'POST' && NAMED) });
  expect([answer.status, answer.json().error.code]).toEqual([401, 'UNAUTHORIZED']);
  expect(answer.headers).not.toHaveProperty('access-control-allow-credentials');
  expect(answer.headers['access-control-allow-origin'] ?? '*').toBe('*');
});

test('the cookie counts for an old browser that names the own origin', async () => {
  const { send, signIn } = await setUp();
  const cookie = await signIn();
  for (const origin of [LOCAL, 'http://localhost:4280']) {
    const headers = { cookie, origin, 'x-platform-client': 'dashboard' };
    expect((await send('POST', '/api-keys', { ...headers, ...NAMED })).status).toBe(201);
  }
});

test('a foreign name that leads to this machine opens nothing (DNS rebinding)', async () => {
  const { ann, send, signIn } = await setUp();
  const cookie = await signIn();
  // To the browser these are requests of the page's own origin.
  const rebound = { ...OWN, host: 'evil.example:4280', origin: 'http://evil.example:4280' };
  expect((await send('GET', '/org', { cookie, ...rebound })).status).toBe(401);
  expect((await send('POST', '/auth/session', { ...rebound, json: { api_key: ann.key } })).status).toBe(403);
  expect((await send('GET', '/auth/login', { cookie, ...rebound, ...HTML })).text).not.toContain('ann@example.com');
  expect((await send('GET', '/org', { cookie, ...OWN, host: 'localhost:4280' })).status).toBe(200);
  expect((await send('GET', '/org', { cookie, ...OWN, host: '127.0.0.1:4281' })).status).toBe(401);
});

test('a session is never one that the browser brought along (fixation)', async () => {
  const { ann, send, signIn, cookieIn } = await setUp();
  const planted = `platform_session=${'A'.repeat(43)}`;
  const own = cookieIn(await send('POST', '/auth/session', { cookie: planted, json: { api_key: ann.key } }));
  expect(own).not.toBe(planted);
  expect((await send('GET', '/org', { cookie: planted, ...OWN })).status).toBe(401);
  // A planted valid session of another user ends.
  const theirs = await signIn();
  const next = cookieIn(await send('POST', '/auth/session', { cookie: theirs, json: { api_key: ann.key } }));
  expect((await send('GET', '/org', { cookie: theirs, ...OWN })).status).toBe(401);
  expect((await send('GET', '/org', { cookie: next, ...OWN })).status).toBe(200);
});

test('a page of another site signs nobody in as somebody else', async () => {
  const { ann, send } = await setUp();
  for (const headers of [{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }, { origin: 'null' }]) {
    expect((await send('POST', '/auth/session', { ...headers, json: { api_key: ann.key } })).status).toBe(403);
    expect((await send('POST', '/auth/login', { ...headers, form: { credential: ann.key } })).status).toBe(403);
  }
});

test('a stolen cookie is worth nothing once the key is revoked, has expired, or somebody signed out', async () => {
  const { deps, ann, send, signIn, limited } = await setUp();
  const stolen = await signIn();
  await revokeKey(deps, ann.userId, ann.keyId);
  expect((await send('GET', '/org', { cookie: stolen, ...OWN })).status).toBe(401);

  const { key, record } = await limited({ expiresAt: new Date(deps.clock.now() + 60_000).toISOString() });
  const cookie = await signIn({ api_key: key });
  const out = await send('DELETE', '/auth/session', { cookie, ...OWN });
  expect(out.headers['set-cookie']).toMatch(/^platform_session=; .*Max-Age=0$/);
  expect((await send('GET', '/org', { cookie, ...OWN })).status).toBe(401);

  const other = await signIn({ api_key: key });
  const listed = (await send('GET', `/api-keys/${record.id}/sessions`, { cookie: other, ...OWN })).json().sessions;
  expect(listed).toMatchObject([{ key_id: record.id }]);
  await send('DELETE', `/api-keys/${record.id}/sessions/${listed[0].id}`, { authorization: `Bearer ${key}` });
  expect((await send('GET', '/org', { cookie: other, ...OWN })).status).toBe(401);

  const last = await signIn({ api_key: key });
  await deps.clock.advance(60_000);
  expect((await send('GET', '/org', { cookie: last, ...OWN })).json().error.message).toContain('expired');
});

test('a session ends after 12 hours without use, and after 7 days in any case', async () => {
  const { deps, send, signIn } = await setUp();
  const HOUR = 3_600_000;
  const idle = await signIn();
  await deps.clock.advance(12 * HOUR);
  expect((await send('GET', '/org', { cookie: idle, ...OWN })).status).toBe(401);
  const busy = await signIn();
  for (let hour = 11; hour < 7 * 24; hour += 11) {
    await deps.clock.advance(11 * HOUR);
    expect([hour, (await send('GET', '/org', { cookie: busy, ...OWN })).status]).toEqual([hour, 200]);
  }
  await deps.clock.advance(11 * HOUR);
  expect((await send('GET', '/org', { cookie: busy, ...OWN })).status).toBe(401);
});

test('a session has the limits of its key', async () => {
  const { send, signIn, limited } = await setUp();
  const cookie = await signIn({ api_key: (await limited({ scope: 'read' })).key });
  expect((await send('GET', '/org', { cookie, ...OWN })).status).toBe(200);
  expect((await send('POST', '/api-keys', { cookie, ...OWN, ...NAMED })).status).toBe(403);
});

test('a code signs in once, within a minute', async () => {
  const { deps, ann, send } = await setUp();
  const authorization = `Bearer ${ann.key}`;
  const codeOf = async (json: object = {}) => (await send('POST', '/auth/codes', { authorization, json })).json();
  const { code, url } = await codeOf();
  expect(url).toBe(`${LOCAL}/auth/login#code=${code}`);
  const asked = await Promise.all([1, 2, 3].map(() => send('POST', '/auth/session', { json: { code } })));
  expect(asked.map(({ status }) => status).sort()).toEqual([201, 401, 401]);

  const late = await codeOf();
  await deps.clock.advance(61_000);
  expect((await send('POST', '/auth/session', { json: { code: late.code } })).status).toBe(401);
  const start = await createCode(
    deps,
    { id: ann.keyId, userId: ann.userId, hash: createHash('sha256').update(ann.key).digest('hex') },
    { lifeMs: START_CODE_LIFE_MS },
  );
  await deps.clock.advance(9 * 60_000);
  expect((await send('POST', '/auth/session', { json: { code: start.code } })).status).toBe(201);

  const orphan = await codeOf();
  await revokeKey(deps, ann.userId, ann.keyId);
  expect((await send('POST', '/auth/session', { json: { code: orphan.code } })).status).toBe(401);
});

test('guesses count for their address, also beside a good key', async () => {
  const { ann, send } = await setUp(LOCAL, 5);
  const authorization = `Bearer ${ann.key}`;
  for (let guess = 0; guess < 5; guess++) {
    const headers = guess % 2 === 0 ? {} : { authorization };
    expect((await send('POST', '/auth/session', { ...headers, json: { code: `guess ${guess}` } })).status).toBe(401);
  }
  // From then on, even a valid code is rejected.
  const { code } = (await send('POST', '/auth/codes', { authorization, json: {} })).json();
  expect((await send('POST', '/auth/session', { json: { code } })).status).toBe(429);
  expect((await send('POST', '/auth/cli-exchange', { json: { token: code } })).status).toBe(429);
  expect((await send('POST', '/auth/session', { json: { code } }, '198.51.100.9')).status).toBe(201);
});

test('keys of agents cannot sign in', async () => {
  const { deps, send } = await setUp();
  const key = newStaticKey(deps.ids);
  expect((await send('POST', '/auth/session', { json: { api_key: key } })).json().error.code).toBe('FORBIDDEN');
  expect((await send('POST', '/auth/login', { form: { credential: key } })).status).toBe(403);
});

test('where there is a dashboard, links lead to it and on to what was asked for', async () => {
  const { ann, send } = await setUp(LOCAL, 1000, `${LOCAL}/below/dashboard`);
  const authorization = `Bearer ${ann.key}`;
  const json = { show: 'run', id: 'r/1' };
  const { code, url } = (await send('POST', '/auth/codes', { authorization, json })).json();
  expect(url).toBe(`${LOCAL}/below/dashboard/login#code=${code}`);
  expect((await send('POST', '/auth/session', { json: { code } })).json().show).toBe('/ann/runs/r%2F1');
  expect((await send('POST', '/auth/session', { json: { api_key: ann.key } })).json().show).toBeNull();
  const other = (await send('POST', '/auth/codes', { authorization, json })).json();
  const form = { credential: other.code };
  const answer = await send('POST', '/auth/login', { ...HTML, 'sec-fetch-site': 'same-origin', form });
  expect([answer.status, answer.headers.location]).toEqual([303, '/below/dashboard/ann/runs/r%2F1']);
});

test('the page of a link signs in, without the code in an address', async () => {
  const { ann, send, cookieIn } = await setUp();
  const authorization = `Bearer ${ann.key}`;
  const { code } = (await send('POST', '/auth/codes', { authorization, json: { show: 'run', id: 'r/1' } })).json();
  const shown = await send('GET', '/auth/login', HTML);
  expect(shown.text).toContain('<form method="post" action="/auth/login"');
  const headers = { ...HTML, 'sec-fetch-site': 'same-origin' };
  const answer = await send('POST', '/auth/login', { ...headers, form: { credential: code } });
  expect([answer.status, answer.headers.location]).toEqual([303, '/auth/login']);
  const page = await send('GET', '/auth/login', { ...HTML, cookie: cookieIn(answer), 'sec-fetch-site': 'none' });
  expect(page.text).toContain('ann@example.com');
  const again = await send('POST', '/auth/login', { ...headers, form: { credential: code } });
  expect([again.status, again.headers['content-type']]).toEqual([401, 'text/html; charset=utf-8']);
  expect(again.text).toContain('already used');
  for (const { headers } of [shown, page, again]) {
    expect(headers['content-security-policy']).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'",
    );
    expect(headers).toMatchObject({
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    });
  }
});

const challengeOf = (verifier: string) => createHash('sha256').update(verifier).digest('base64url');

test('a command line gets a key that a person agreed to, and gives it back', async () => {
  const { ann, send } = await setUp();
  const json = {
    redirect_port: 8374,
    code_challenge: challengeOf('verifier'),
    client_name: 'platform on <b>laptop</b>',
  };
  const { state, auth_url } = (await send('POST', '/auth/cli-init', { json })).json();
  const path = auth_url.slice(LOCAL.length);
  const page = await send('GET', path, HTML);
  expect(page.text).toContain('platform on &lt;b&gt;laptop&lt;/b&gt;');
  expect(page.text).toContain(ADDRESS);
  expect(page.text).not.toContain('a different address');
  expect((await send('GET', path, HTML, '198.51.100.9')).text).toContain('a different address');

  const own = { ...HTML, 'sec-fetch-site': 'same-origin' };
  const wrong = await send('POST', '/auth/cli', { ...own, form: { state, answer: 'agree', api_key: 'sk_live_x' } });
  expect([wrong.status, wrong.text]).toEqual([401, expect.stringContaining('not valid')]);
  const agreed = await send('POST', '/auth/cli', { ...own, form: { state, answer: 'agree', api_key: ann.key } });
  const [, back] = /content="0; url=([^"]+)"/.exec(agreed.text)!;
  const callback = new URL(back!.replaceAll('&amp;', '&'));
  expect([callback.origin, callback.pathname, callback.searchParams.get('state')]).toEqual([
    'http://127.0.0.1:8374',
    '/callback',
    state,
  ]);
  expect((await send('GET', path, HTML)).status).toBe(404);

  const token = callback.searchParams.get('token')!;
  const exchanged = await send('POST', '/auth/cli-exchange', { json: { token, code_verifier: 'verifier' } });
  expect(exchanged.json()).toMatchObject({ org_id: ann.workspaceId, org_slug: 'ann', org_name: 'ann' });
  const { api_key: key, api_key_prefix } = exchanged.json();
  expect(key.slice(0, 12)).toBe(api_key_prefix);
  expect((await send('POST', '/auth/cli-exchange', { json: { token, code_verifier: 'verifier' } })).status).toBe(401);

  const authorization = `Bearer ${key}`;
  expect((await send('POST', '/auth/cli-logout', { authorization })).json()).toEqual({ revoked: true });
  expect((await send('GET', '/org', { authorization })).status).toBe(401);
  // A key that was created in another way stays valid.
  expect((await send('POST', '/auth/cli-logout', { authorization: `Bearer ${ann.key}` })).json()).toEqual({
    revoked: false,
  });
});

test('a token is good for the command line that asked, once', async () => {
  const { ann, send } = await setUp();
  const json = { code_challenge: challengeOf('verifier') };
  const { state } = (await send('POST', '/auth/cli-init', { json })).json();
  const agreed = await send('POST', '/auth/cli', { ...HTML, form: { state, answer: 'agree', api_key: ann.key } });
  const [, token] = /<code class="token"[^>]*>(a[\w-]{43})</.exec(agreed.text)!;
  expect((await send('POST', '/auth/cli-exchange', { json: { token, code_verifier: 'stolen' } })).status).toBe(401);
  expect((await send('POST', '/auth/cli-exchange', { json: { token, code_verifier: 'verifier' } })).status).toBe(401);
});

test('a person agrees by the session of the browser, but no other page does', async () => {
  const { send, signIn, limited } = await setUp();
  const cookie = await signIn({ api_key: (await limited({ scope: 'run' })).key });
  const own = { ...HTML, cookie, 'sec-fetch-site': 'same-origin' };
  const { state } = (await send('POST', '/auth/cli-init', { json: {} })).json();
  const page = await send('GET', `/auth/cli?state=${state}`, { ...HTML, cookie, 'sec-fetch-site': 'none' });
  const [, form_token = ''] = /name="form_token" value="(\w+)"/.exec(page.text)!;
  const form = { state, answer: 'agree', form_token };
  const crossSite = { ...own, 'sec-fetch-site': 'cross-site' };
  expect((await send('POST', '/auth/cli', { ...crossSite, form })).status).toBe(403);
  expect((await send('POST', '/auth/cli', { ...own, form: { ...form, form_token: 'guess' } })).status).toBe(401);
  expect((await send('POST', '/auth/cli', { ...own, form: { state, answer: 'agree' } })).status).toBe(401);
  const agreed = await send('POST', '/auth/cli', { ...own, form });
  const [, token] = /<code class="token"[^>]*>(a[\w-]{43})</.exec(agreed.text)!;
  const { api_key: key } = (await send('POST', '/auth/cli-exchange', { json: { token } })).json();
  // The new key has no more permissions than the key of the session.
  const authorization = `Bearer ${key}`;
  expect((await send('POST', '/api-keys', { authorization, ...NAMED })).json().error.message).toContain('scope "run"');
});

test('a key for one workspace needs a member of it', async () => {
  const { deps, ann, send } = await setUp();
  const bob = await addUser(deps, 'bob');
  const ask = async () => (await send('POST', '/auth/cli-init', { json: { workspace: 'bob' } })).json().state;
  const agree = (state: string) =>
    send('POST', '/auth/cli', { ...HTML, form: { state, answer: 'agree', api_key: ann.key } });
  expect((await agree(await ask())).status).toBe(403);
  await addMember(deps, ann, bob.workspaceId);
  const [, token] = /<code class="token"[^>]*>(a[\w-]{43})</.exec((await agree(await ask())).text)!;
  const { api_key, org_slug } = (await send('POST', '/auth/cli-exchange', { json: { token } })).json();
  expect(org_slug).toBe('bob');
  const { workspaces: seen } = (await send('GET', '/workspaces', { authorization: `Bearer ${api_key}` })).json();
  expect(seen.map(({ slug }: { slug: string }) => slug)).toEqual(['bob']);
});

test('a person may refuse', async () => {
  const { ann, send } = await setUp();
  const { state } = (await send('POST', '/auth/cli-init', { json: { redirect_port: 8374 } })).json();
  const refused = await send('POST', '/auth/cli', { ...HTML, form: { state, answer: 'refuse' } });
  expect(refused.text).toContain('error=access_denied');
  const later = await send('POST', '/auth/cli', { ...HTML, form: { state, answer: 'agree', api_key: ann.key } });
  expect(later.status).toBe(404);
});
