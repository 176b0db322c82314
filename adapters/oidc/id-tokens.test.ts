import { expect, onTestFinished, test, vi } from 'vitest';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import { type JobIssuer, startJobIssuer, type TokenOptions } from '#test/helpers/job-tokens.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { JoseIdTokens } from './id-tokens.ts';

const AUDIENCE = 'https://agents.example.com';

async function setUp(ownHosts: readonly string[] = ['127.0.0.1']) {
  const clock = new ManualClock();
  const issuer = await startJobIssuer(AUDIENCE, () => clock.now());
  onTestFinished(() => issuer.close());
  const tokens = new JoseIdTokens({ clock, outbound: new HttpOutbound({ clock, ownHosts }) });
  const verify = (token: string) => tokens.verify(token, issuer.url);
  const seconds = () => Math.floor(clock.now() / 1000);
  return { clock, issuer, tokens, verify, seconds };
}

const refusal = (message: string | RegExp, kind = 'unfit') => ({
  code: 'ID_TOKEN_REFUSED',
  kind,
  message: expect.stringMatching(message),
});

test.each(['RS256', 'ES256'])('a sound token, signed with %s', async (alg) => {
  const { issuer, verify, seconds } = await setUp();
  const token = await verify(issuer.token({ jti: 'one' }, { alg }));
  expect(token).toMatchObject({ id: 'one', audiences: [AUDIENCE], subject: 'repo:acme/agents:ref:refs/heads/main' });
  expect(token.claims).toMatchObject({ repository: 'acme/agents', ref: 'refs/heads/main' });
  expect(token.validUntil).toBe((seconds() + 360) * 1000);
});

const changed = (token: string, part: number, change: (content: Record<string, unknown>) => object): string =>
  token
    .split('.')
    .map((text, index) =>
      index === part
        ? Buffer.from(JSON.stringify(change(JSON.parse(Buffer.from(text, 'base64url').toString())))).toString(
            'base64url',
          )
        : text,
    )
    .join('.');

test.each<[string, TokenOptions, RegExp]>([
  ['unsigned', { alg: 'none' }, /algorithm/],
  ['signed with the public key as a secret', { alg: 'HS256', signedWith: 'public' }, /algorithm/],
  ['signed with another algorithm', { alg: 'RS512' }, /algorithm/],
  ['signed with a key of somebody else', { signedWith: 'other' }, /signature is wrong/],
  ['of an unknown key', { kid: 'unknown' }, /no such key/],
  ['of a key for another algorithm', { kid: 'curve' }, /no such key/],
  ['of no key', { kid: null }, /does not name the key/],
  ['with its own key in the header', { header: { jwk: { kty: 'oct', k: 'AA' } }, signedWith: 'other' }, /signature/],
  ['with an extension that must be understood', { header: { crit: ['made-up'], 'made-up': true } }, /./],
])('a token %s is refused', async (_, options, message) => {
  const { issuer, verify } = await setUp();
  await expect(verify(issuer.token({}, options))).rejects.toMatchObject(refusal(message));
});

test('a token whose content was changed is refused', async () => {
  const { issuer, verify } = await setUp();
  const token = issuer.token();
  const forged = changed(token, 1, (content) => ({ ...content, repository: 'evil/agents' }));
  await expect(verify(forged)).rejects.toMatchObject(refusal(/signature is wrong/));
  const unsigned = changed(token, 0, (header) => ({ ...header, alg: 'none' }));
  await expect(verify(unsigned)).rejects.toMatchObject(refusal(/algorithm/));
});

test.each<[string, (seconds: number) => Record<string, unknown>, RegExp]>([
  ['that expired', (now) => ({ iat: now - 400, exp: now - 61 }), /has expired/],
  ['that is not valid yet', (now) => ({ nbf: now + 61 }), /"nbf"/],
  ['that was made in the future', (now) => ({ iat: now + 61, nbf: now }), /"iat"/],
  ['that was made too long ago', (now) => ({ iat: now - 961, exp: now + 3600 }), /too long ago/],
  ['of another issuer', () => ({ iss: 'https://token.actions.githubusercontent.com' }), /"iss"/],
  ...['iat', 'exp', 'jti', 'sub', 'aud', 'iss'].map((name): [string, () => Record<string, unknown>, RegExp] => [
    `without ${name}`,
    () => ({ [name]: undefined }),
    new RegExp(`"${name}"`),
  ]),
  ['with an id that is no text', () => ({ jti: { toString: 'x' } }), /"jti"/],
  ['with an empty id', () => ({ jti: '' }), /"jti"/],
  ['with an expiry that is no number', () => ({ exp: 'tomorrow' }), /"exp"/],
])('a token %s is refused', async (_, claims, message) => {
  const { issuer, verify, seconds } = await setUp();
  await expect(verify(issuer.token(claims(seconds())))).rejects.toMatchObject(refusal(message));
});

test('a minute of difference between the clocks is allowed', async () => {
  const { issuer, verify, seconds } = await setUp();
  await verify(issuer.token({ iat: seconds() + 59, nbf: seconds() + 59, exp: seconds() + 300 }));
  await verify(issuer.token({ iat: seconds() - 300, exp: seconds() - 59 }));
});

test.each(['', 'x', 'a.b', 'a.b.c', 'a.b.c.d.e', '..', '{}', 'x'.repeat(16 * 1024 + 1), 'ü'.repeat(9000)])(
  'what is no token is refused',
  async (text) => {
    const { verify, issuer } = await setUp();
    await expect(verify(text)).rejects.toMatchObject(refusal(/./));
    expect(issuer.requests).toEqual([]);
  },
);

test('keys are read once for ten minutes, also by requests at the same time', async () => {
  const { clock, issuer, verify } = await setUp();
  await Promise.all([verify(issuer.token()), verify(issuer.token())]);
  await verify(issuer.token());
  expect(issuer.requests).toEqual(['/.well-known/openid-configuration', '/jwks']);
  await clock.advance(10 * 60_000);
  await verify(issuer.token());
  expect(issuer.requests).toHaveLength(4);
});

test('a new key is found, and unknown ones make at most one request a minute', async () => {
  const { clock, issuer, verify } = await setUp();
  await verify(issuer.token());
  const old = issuer.token();
  issuer.rotate();
  await expect(verify(issuer.token())).rejects.toMatchObject(refusal(/no such key/));
  expect(issuer.requests).toHaveLength(2);
  await clock.advance(60_000);
  await verify(issuer.token());
  // The key was withdrawn.
  await expect(verify(old)).rejects.toMatchObject(refusal(/no such key/));
  for (let index = 0; index < 5; index++) {
    await expect(verify(issuer.token({}, { kid: `unknown-${index}` }))).rejects.toMatchObject(refusal(/no such key/));
  }
  expect(issuer.requests).toHaveLength(4);
});

test.each<[string, (issuer: JobIssuer) => void, RegExp]>([
  ['is broken', ({ answers }) => (answers.keys = 'error'), /answered 500/],
  ['answers no JSON', ({ answers }) => (answers.keys = 'text'), /something else than JSON/],
  ['answers without end', ({ answers }) => (answers.keys = 'huge'), /more than 256 KB/],
  ['redirects', ({ answers }) => (answers.keys = { redirect: 'http://127.0.0.2/jwks' }), /answered 302/],
  ['answers a list', ({ answers }) => (answers.keys = { json: [] }), /something else than its keys/],
  ['has the configuration of another', ({ answers }) => (answers.configuration = { json: { issuer: 'x' } }), /another/],
  ['does not say where its keys are', ({ answers, url }) => (answers.configuration = { json: { issuer: url } }), /./],
  ['redirects at once', ({ answers }) => (answers.configuration = { redirect: 'http://10.0.0.1/' }), /answered 302/],
])('an issuer that %s', async (_, change, message) => {
  const { issuer, verify } = await setUp();
  const own = { ...issuer.answers };
  change(issuer);
  await expect(verify(issuer.token())).rejects.toMatchObject(refusal(message, 'unreachable'));
  // A failure is not kept.
  Object.assign(issuer.answers, own);
  await verify(issuer.token());
});

test('keys at a private address are not fetched', async () => {
  const { issuer, verify } = await setUp();
  for (const jwks_uri of ['http://127.0.0.2:1/jwks', 'https://169.254.169.254/latest', 'file:///etc/passwd', 'x']) {
    issuer.answers.configuration = { json: { issuer: issuer.url, jwks_uri } };
    await expect(verify(issuer.token())).rejects.toMatchObject(refusal(/./, 'unreachable'));
  }
  const strict = await setUp([]);
  await expect(strict.verify(strict.issuer.token())).rejects.toMatchObject(refusal(/./, 'unreachable'));
  expect(strict.issuer.requests).toEqual([]);
});

test('an issuer that does not answer is left after some seconds', async () => {
  const { issuer, verify } = await setUp();
  const { timeout } = AbortSignal;
  const spy = vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => timeout.call(AbortSignal, 50));
  onTestFinished(() => spy.mockRestore());
  issuer.answers.keys = 'hang';
  await expect(verify(issuer.token())).rejects.toMatchObject(refusal(/did not answer/, 'unreachable'));
  expect(spy).toHaveBeenCalledWith(6_000);
});
