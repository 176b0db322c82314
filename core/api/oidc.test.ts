import { expect, test } from 'vitest';
import { OpenIdProvider } from '#adapters/oidc/openid-provider.ts';
import { keyRoutes } from '#core/accounts/keys/routes.ts';
import { listKeys, revokeKey } from '#core/accounts/keys/store.ts';
import { signInRoutes } from '#core/accounts/sign-in/routes.ts';
import { userEmailItem } from '#core/accounts/workspaces/emails.ts';
import { createInvite, revokeInvite } from '#core/accounts/workspaces/invites.ts';
import { workspaceRoutes } from '#core/accounts/workspaces/routes.ts';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import {
  CLIENT,
  type Forgery,
  type Person,
  signInAt,
  startForgingIssuer,
  startOpenIdIssuer,
} from '#test/helpers/openid-issuer.ts';
import { addUser, type TestUser } from '#test/helpers/users.ts';
import { createApp } from './app.ts';
import { keys, workspaces } from './handlers.ts';

/** Sign-in with a real OpenID provider, and attacks on it. */
const LOCAL = 'http://127.0.0.1:4280';
const CALLBACK = `${LOCAL}/auth/oidc/callback`;
const HTML = { accept: 'text/html' };
/** Headers that a browser adds to a request from the provider's page. */
const BACK = { ...HTML, 'sec-fetch-site': 'cross-site' };
const OWN = { 'sec-fetch-site': 'same-origin', 'x-platform-client': 'dashboard' };

interface Options {
  readonly oidcDomains?: string[];
  readonly outboundHosts?: string[];
  readonly addressRequestsPerMinute?: number;
}

async function setUp(issuer: string, options: Options = {}) {
  const limits = { addressRequestsPerMinute: 1000, outboundHosts: ['127.0.0.1'], ...options };
  const memory = memoryDeps({
    baseUrl: LOCAL,
    dashboardUrl: `${LOCAL}/dashboard`,
    oidcIssuer: issuer,
    oidcClientId: CLIENT.id,
    ...limits,
  });
  const settings = { issuer, clientId: CLIENT.id, clientSecret: CLIENT.secret };
  const outbound = new HttpOutbound({ clock: memory.clock, ownHosts: limits.outboundHosts });
  const deps = { ...memory, signInProvider: new OpenIdProvider(settings, { outbound, clock: memory.clock }) };
  const rows = [...keyRoutes, ...signInRoutes, ...workspaceRoutes.filter(({ path }) => path === '/workspaces')];
  const app = createApp(deps, rows, { ...keys(deps), ...workspaces(deps) });
  const send = async (path: string, headers: Record<string, string> = {}) => {
    const request = new Request(LOCAL + path, { headers: { host: '127.0.0.1:4280', ...headers } });
    const answer = await app(request, '203.0.113.7');
    const text = typeof answer.body === 'string' ? answer.body : new TextDecoder().decode(answer.body as Uint8Array);
    return { ...answer, text, json: () => JSON.parse(text), cookie: answer.headers['set-cookie']?.split(';')[0] ?? '' };
  };
  const begin = async (to?: string) => {
    const query = to === undefined ? '' : `?${new URLSearchParams({ to })}`;
    const answer = await send(`/auth/oidc/start${query}`, { ...HTML, 'sec-fetch-site': 'same-origin' });
    expect(answer.status, answer.text).toBe(303);
    return { url: answer.headers.location!, cookie: answer.cookie, header: answer.headers['set-cookie']! };
  };
  const finish = (callback: string, cookie: string) => send(callback.slice(LOCAL.length), { ...BACK, cookie });
  const signIn = async (subject: string, to?: string) => {
    const { url, cookie } = await begin(to);
    return finish(await signInAt(url, subject), cookie);
  };
  const who = async (cookie: string) => (await send('/auth/session', { cookie, ...OWN })).json();
  const failure = () => deps.lines.findLast(({ message }) => message === 'sign-in failed')?.fields;
  return { deps, send, begin, finish, signIn, who, failure };
}

/** Creates a platform with Ann, who owns a workspace, and a real issuer. */
async function withIssuer(
  people: { readonly [subject: string]: Person },
  { options, ...issuer }: { options?: Options } & Parameters<typeof startOpenIdIssuer>[2] = {},
) {
  const platform = await setUp(await startOpenIdIssuer(people, CALLBACK, issuer), options);
  const ann = await addUser(platform.deps, 'ann');
  await platform.deps.main.put(userEmailItem({ id: ann.userId, email: 'ann@example.com' }));
  const invite = (email: string, by: TestUser = ann) =>
    createInvite(platform.deps, by.workspaceId, { email, role: 'member' });
  return { ...platform, ann, invite };
}

const ANN = { email: 'Ann@example.com', email_verified: true, name: 'Ann A.' };
const BOB = { email: 'bob@example.com', email_verified: true, name: 'Bob <b>' };

test.each([
  ['claims at the UserInfo endpoint, HTTP Basic', {}],
  ['claims in the ID token, secret in the body', { idTokenHasClaims: true, authentication: 'client_secret_post' }],
])('somebody with an account signs in by a verified address (%s)', async (_, issuer) => {
  const { ann, begin, finish, who, send } = await withIssuer({ 1: ANN }, issuer);
  const { url, cookie, header } = await begin();
  expect(header).toMatch(/^platform_oidc=a[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600$/);
  const asked = new URL(url).searchParams;
  expect(Object.fromEntries(asked)).toMatchObject({
    client_id: CLIENT.id,
    response_type: 'code',
    redirect_uri: CALLBACK,
    code_challenge_method: 'S256',
    scope: 'openid email profile',
  });
  for (const name of ['state', 'nonce', 'code_challenge'])
    expect(asked.get(name)).toMatch(name === 'state' ? /^a[\w-]{43}$/ : /^[\w-]{43}$/);

  const answer = await finish(await signInAt(url, '1'), cookie);
  expect(answer.headers['set-cookie']).toMatch(/^platform_session=a[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; /);
  expect(answer.headers['content-security-policy']).toContain("default-src 'none'");
  expect(await who(answer.cookie)).toMatchObject({ user: { id: ann.userId }, workspace: { slug: 'ann' } });
  // An account that others may have created lists everything else that can open it.
  expect(answer.text).toContain('an API key from before');
  expect(answer.text).toContain('key of ann');
  expect((await send('/workspaces', { cookie: answer.cookie, ...OWN })).status).toBe(200);
});

test('the next sign-in goes on by itself, with the same key, also after the address has changed', async () => {
  const people: Record<string, Person> = { 1: ANN };
  const { deps, ann, signIn, who } = await withIssuer(people);
  await signIn('1');
  people[1] = { ...ANN, email: 'ann.new@example.com' };
  const again = await signIn('1');
  expect(again.text).toContain('content="0; url=/dashboard/"');
  expect(await who(again.cookie)).toMatchObject({ user: { id: ann.userId } });
  expect((await listKeys(deps, ann.userId)).map(({ name }) => name)).toHaveLength(2);
});

test('who revokes the key of the sign-ins ends them, and the next one makes another', async () => {
  const { deps, ann, signIn, who, send } = await withIssuer({ 1: ANN });
  const { cookie } = await signIn('1');
  await revokeKey(deps, ann.userId, (await who(cookie)).session.key_id);
  expect((await send('/workspaces', { cookie, ...OWN })).status).toBe(401);
  const next = await signIn('1');
  expect(await who(next.cookie)).toMatchObject({ user: { id: ann.userId } });
  expect(await listKeys(deps, ann.userId)).toHaveLength(2);
});

test('somebody who is invited gets an account and joins, once', async () => {
  const { deps, invite, begin, finish, who, send } = await withIssuer({ 2: BOB });
  const { invite: first } = await invite('BOB@example.com');
  expect(first.email).toBe('BOB@example.com');
  // Two concurrent windows create one account.
  const windows = await Promise.all([begin(), begin()]);
  const callbacks = await Promise.all(windows.map(({ url }) => signInAt(url, '2')));
  const answers = await Promise.all(callbacks.map((url, at) => finish(url, windows[at]!.cookie)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  expect(answers.map(({ text }) => text).join()).not.toContain('from before');
  const people = await Promise.all(answers.map(({ cookie }) => who(cookie)));
  expect(people[0].user).toEqual(people[1].user);
  expect(people[0].user).toMatchObject({ email: 'BOB@example.com', display_name: 'Bob <b>' });
  const { workspaces: seen } = (await send('/workspaces', { cookie: answers[0]!.cookie, ...OWN })).json();
  expect(seen.map(({ slug }: { slug: string }) => slug).sort()).toEqual(['ann', 'bob']);
  // The only key of the account is the internal key of its sign-ins.
  expect((await listKeys(deps, people[0].user.id)).map(({ name }) => name)).toEqual([
    expect.stringMatching(/^sign-in by 127\.0\.0\.1:\d+$/),
  ]);
});

test('somebody whom nobody invited is refused, also by an invitation that was revoked', async () => {
  const { deps, ann, invite, signIn } = await withIssuer({ 2: BOB });
  const { invite: revoked } = await invite('bob@example.com');
  await revokeInvite(deps, ann.workspaceId, revoked.id);
  const answer = await signIn('2');
  expect([answer.status, answer.headers['set-cookie']]).toEqual([403, undefined]);
  expect(answer.text).toContain('bob@example.com has no invitation to this platform');
});

test.each([
  ['is not verified', { email: 'ann@example.com', email_verified: false }],
  ['may be verified', { email: 'ann@example.com' }],
  ['claims to be verified in other words', { email: 'ann@example.com', email_verified: 'yes' }],
  ['is not told', { name: 'Ann' }],
])('an address that %s opens no account', async (_, person) => {
  const { deps, ann, signIn } = await withIssuer({ 1: person });
  const answer = await signIn('1');
  expect([answer.status, answer.headers['set-cookie']]).toEqual([403, undefined]);
  expect(answer.text).toContain('did not confirm that your e-mail address is verified');
  expect(await listKeys(deps, ann.userId)).toHaveLength(1);
});

test('only addresses of the allowed domains sign in, also once they are known', async () => {
  const people: Record<string, Person> = { 1: ANN, 2: { ...BOB, email: 'bob@example.com.evil.test' } };
  const { invite, signIn } = await withIssuer(people, { options: { oidcDomains: ['example.com'] } });
  await invite('bob@example.com.evil.test');
  expect((await signIn('2')).status).toBe(403);
  expect((await signIn('1')).status).toBe(200);
  people[1] = { ...ANN, email: 'ann@elsewhere.test' };
  expect((await signIn('1')).text).toContain('Addresses at elsewhere.test may not sign in');
});

test('a user of version 0.1.0 is found by the address after a sign-in with a key', async () => {
  const { deps, send, signIn, who } = await withIssuer({ 3: { ...BOB, email: 'cid@example.com' } });
  const cid = await addUser(deps, 'cid');
  expect((await signIn('3')).status).toBe(403);
  const rows = keys(deps);
  const app = createApp(deps, signInRoutes, rows as never, signInRoutes);
  const body = JSON.stringify({ api_key: cid.key });
  const headers = { host: '127.0.0.1:4280', 'content-type': 'application/json' };
  expect((await app(new Request(`${LOCAL}/auth/session`, { method: 'POST', headers, body }))).status).toBe(201);
  expect((await who((await signIn('3')).cookie)).user.id).toBe(cid.userId);
  expect((await send('/auth/options')).json().oidc).toMatchObject({ path: '/auth/oidc/start' });
});

test('a stolen code is worth nothing in another browser, and the sign-in is over', async () => {
  const { begin, finish } = await withIssuer({ 1: ANN });
  const victim = await begin();
  const callback = await signInAt(victim.url, '1');
  const attacker = await begin();
  for (const cookie of ['', attacker.cookie, `platform_oidc=${'A'.repeat(43)}`]) {
    const answer = await finish(callback, cookie);
    expect([answer.status, answer.headers['set-cookie']]).toEqual([401, undefined]);
  }
  // The state is useless to an attacker who has it; the victim starts again.
  expect((await finish(callback, victim.cookie)).status).toBe(401);
});

test('a stolen code is worth nothing in the sign-in of the thief (PKCE)', async () => {
  const { begin, finish, failure } = await withIssuer({ 1: ANN, 2: BOB });
  const victim = await begin();
  const code = new URL(await signInAt(victim.url, '1')).searchParams.get('code')!;
  const thief = await begin();
  const own = new URL(await signInAt(thief.url, '2'));
  own.searchParams.set('code', code);
  expect((await finish(own.href, thief.cookie)).status).toBe(401);
  expect(failure()).toEqual({ issuer: expect.anything(), kind: 'unfit', reason: 'invalid_grant' });
});

test('the callback of an attacker signs nobody in as the attacker', async () => {
  const { begin, finish } = await withIssuer({ 1: ANN, 2: BOB });
  const attacker = await begin();
  const planted = await signInAt(attacker.url, '2');
  const victim = await begin();
  expect((await finish(planted, victim.cookie)).status).toBe(401);
});

test('a callback works once', async () => {
  const { begin, finish } = await withIssuer({ 1: ANN });
  const { url, cookie } = await begin();
  const callback = await signInAt(url, '1');
  const answers = await Promise.all([1, 2, 3].map(() => finish(callback, cookie)));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 401, 401]);
});

test('a sign-in is over after ten minutes', async () => {
  const { deps, begin, finish } = await withIssuer({ 1: ANN });
  const { url, cookie } = await begin();
  const callback = await signInAt(url, '1');
  await deps.clock.advance(601_000);
  expect((await finish(callback, cookie)).status).toBe(401);
});

test('an answer of another issuer is refused (mix-up)', async () => {
  const { begin, finish } = await withIssuer({ 1: ANN });
  for (const iss of ['https://evil.example', undefined]) {
    const { url, cookie } = await begin();
    const callback = new URL(await signInAt(url, '1'));
    if (iss === undefined) callback.searchParams.delete('iss');
    else callback.searchParams.set('iss', iss);
    expect((await finish(callback.href, cookie)).status).toBe(401);
  }
});

test('a sign-in that was begun at another provider is over', async () => {
  const { deps, begin, finish } = await withIssuer({ 1: ANN });
  const { url, cookie } = await begin();
  const callback = await signInAt(url, '1');
  Object.assign(deps.config, { oidcIssuer: 'https://new.example.com' });
  expect((await finish(callback, cookie)).status).toBe(401);
});

test('who says no at the provider is told so', async () => {
  const { begin, finish } = await withIssuer({ 1: ANN });
  const { url, cookie } = await begin();
  const answer = await finish(await signInAt(url, '1', 'refuse'), cookie);
  expect([answer.status, answer.text]).toEqual([401, expect.stringContaining('did not sign you in: access_denied')]);
});

test.each<[string, Forgery, string]>([
  ['wrong nonce', { claims: { nonce: 'of another sign-in' } }, 'nonce'],
  ['no nonce', { claims: { nonce: undefined } }, 'INVALID_RESPONSE'],
  ['wrong issuer', { claims: { iss: 'https://evil.example' } }, 'iss'],
  ['wrong audience', { claims: { aud: 'another client' } }, 'aud'],
  ['one of several audiences, for another', { claims: { aud: [CLIENT.id, 'other'], azp: 'other' } }, 'azp'],
  ['expired', { claims: { exp: 1_000_000_000 } }, 'exp'],
  ['without an end', { claims: { exp: undefined } }, 'INVALID_RESPONSE'],
  ['without a signature', { signature: 'none' }, 'UNSUPPORTED_OPERATION'],
  ['signed with the client secret', { signature: 'HS256' }, 'UNSUPPORTED_OPERATION'],
  ['signed by another key', { signature: 'other' }, 'INVALID_RESPONSE'],
  ['by way of a redirect', { redirects: true }, 'NOT_CONFORM'],
])('an ID token is refused: %s', async (_, forgery, reason) => {
  const issuer = await startForgingIssuer(() => forgery);
  const { deps, begin, finish, failure } = await setUp(issuer);
  const ann = await addUser(deps, 'ann');
  await deps.main.put(userEmailItem({ id: ann.userId, email: 'ann@example.com' }));
  const { url, cookie } = await begin();
  const { state, nonce } = Object.fromEntries(new URL(url).searchParams);
  const answer = await finish(`${CALLBACK}?${new URLSearchParams({ code: nonce!, state: state! })}`, cookie);
  expect([answer.status, answer.headers['set-cookie']]).toEqual([401, undefined]);
  expect(failure()).toMatchObject({ kind: 'unfit', reason: expect.stringContaining(reason) });
  const log = JSON.stringify(deps.lines);
  for (const secret of [CLIENT.secret, nonce!, cookie.split('=')[1]!]) expect(log).not.toContain(secret);
});

test.each([
  ['with a line break', 'ann@example.com\nevil'],
  ['with markup', '"<img src=x onerror=alert(1)>"@example.com'],
  ['of 100 KB', `${'a'.repeat(100_000)}@example.com`],
  ['that is none', 'ann'],
])('an address %s opens no account', async (_, email) => {
  const issuer = await startForgingIssuer(() => ({ claims: { email } }));
  const { begin, finish } = await setUp(issuer);
  const { url, cookie } = await begin();
  const { state, nonce } = Object.fromEntries(new URL(url).searchParams);
  const answer = await finish(`${CALLBACK}?${new URLSearchParams({ code: nonce!, state: state! })}`, cookie);
  expect([answer.status, answer.headers['set-cookie']]).toEqual([403, undefined]);
  expect(answer.text).toMatch(/The e-mail address from \S+ is not valid\./);
  expect(answer.text).not.toContain(email);
});

test('an answer without an end is given up', async () => {
  const issuer = await startForgingIssuer(() => ({ isEndless: true }));
  const { begin, finish, failure } = await setUp(issuer);
  const { url, cookie } = await begin();
  const { state, nonce } = Object.fromEntries(new URL(url).searchParams);
  const answer = await finish(`${CALLBACK}?${new URLSearchParams({ code: nonce!, state: state! })}`, cookie);
  expect([answer.status, answer.headers['set-cookie']]).toEqual([422, undefined]);
  expect(failure()).toMatchObject({ kind: 'unreachable', reason: 'it answered more than 524288 bytes' });
});

test('the same token, unforged, signs in', async () => {
  const { deps, begin, finish } = await setUp(await startForgingIssuer(() => ({})));
  const ann = await addUser(deps, 'ann');
  await deps.main.put(userEmailItem({ id: ann.userId, email: 'ann@example.com' }));
  const { url, cookie } = await begin();
  const { state, nonce } = Object.fromEntries(new URL(url).searchParams);
  const answer = await finish(`${CALLBACK}?${new URLSearchParams({ code: nonce!, state: state! })}`, cookie);
  expect(answer.status, answer.text + JSON.stringify(deps.lines)).toBe(200);
});

test('an issuer at a private address is asked only if the operator says so', async () => {
  const issuer = await startOpenIdIssuer({}, CALLBACK);
  const { send, failure } = await setUp(issuer, { outboundHosts: [] });
  const answer = await send('/auth/oidc/start', HTML);
  expect([answer.status, answer.text]).toEqual([422, expect.stringContaining('cannot reach 127.0.0.1')]);
  expect(failure()).toMatchObject({ kind: 'unreachable' });
});

test.each([
  ['/dashboard/main/runs?status=failed#top', '/dashboard/main/runs?status=failed#top'],
  ['/auth/cli?state=abc', '/auth/cli?state=abc'],
  ['/dashboard', '/dashboard'],
  ['https://evil.example/dashboard/', '/dashboard/'],
  ['//evil.example/dashboard/', '/dashboard/'],
  ['/\\evil.example/dashboard/', '/dashboard/'],
  ['/\t/evil.example/dashboard/', '/dashboard/'],
  ['/dashboard/../auth/cli-logout', '/dashboard/'],
  ['/dashboards', '/dashboard/'],
  ['javascript:alert(1)//dashboard/', '/dashboard/'],
])('after a sign-in with to=%s the browser sees %s', async (to, shown) => {
  const { signIn } = await withIssuer({ 1: ANN });
  const answer = await signIn('1', to);
  expect(answer.text).toContain(`href="${shown}"`);
  expect(answer.text).not.toContain('evil');
});

test('a foreign name that leads to this machine begins and ends no sign-in (DNS rebinding)', async () => {
  const { begin, send } = await withIssuer({ 1: ANN });
  const { url, cookie } = await begin();
  const host = 'evil.example:4280';
  expect((await send('/auth/oidc/start', { ...HTML, host })).status).toBe(403);
  const callback = (await signInAt(url, '1')).slice(LOCAL.length);
  expect((await send(callback, { ...BACK, cookie, host })).status).toBe(403);
});

test('guesses at callbacks count for their address', async () => {
  const { finish } = await withIssuer({ 1: ANN }, { options: { addressRequestsPerMinute: 3 } });
  for (let guess = 0; guess < 3; guess++)
    expect((await finish(`${CALLBACK}?state=${guess}&code=x`, '')).status).toBe(401);
  expect((await finish(`${CALLBACK}?state=x&code=x`, '')).status).toBe(429);
});

test('pages lead to the provider, and back to what was asked', async () => {
  const { deps, send } = await withIssuer({ 1: ANN });
  const link = /href="\/auth\/oidc\/start"[^>]*>Continue with 127\.0\.0\.1:\d+</;
  expect((await send('/auth/login', HTML)).text).toMatch(link);
  const without = { ...deps, signInProvider: undefined };
  const app = createApp(without, signInRoutes, keys(without) as never);
  const ask = async (path: string) => app(new Request(LOCAL + path, { headers: { host: '127.0.0.1:4280' } }));
  expect((await ask('/auth/oidc/start')).status).toBe(422);
  expect((await ask('/auth/oidc/callback?state=x')).status).toBe(422);
  expect(JSON.parse((await ask('/auth/options')).body as string)).toEqual({ oidc: null });
});
