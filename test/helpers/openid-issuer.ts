import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
// @ts-expect-error it has no types
import Provider from 'oidc-provider';
import { onTestFinished } from 'vitest';

/** Data of a person at the issuer. */
export interface Person {
  readonly email?: string;
  readonly email_verified?: unknown;
  readonly name?: string;
}

export const CLIENT = { id: 'platform', secret: 'what only the platform and the issuer know' };

async function listen(answer: (issuer: string) => RequestListener): Promise<string> {
  const server = createServer((request, response) => listener(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const listener = answer(issuer);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return issuer;
}

const newKey = () => generateKeyPairSync('rsa', { modulusLength: 2048 });

/**
 * Starts a real OpenID provider with `people` by subject. By default it returns claims only from its UserInfo endpoint,
 * and takes the client's secret by HTTP Basic.
 */
export async function startOpenIdIssuer(
  people: { readonly [subject: string]: Person },
  callback: string,
  {
    idTokenHasClaims = false,
    authentication = 'client_secret_basic',
  }: { readonly idTokenHasClaims?: boolean; readonly authentication?: string } = {},
): Promise<string> {
  const jwk = { ...newKey().privateKey.export({ format: 'jwk' }), kid: 'first', use: 'sig' };
  return listen((issuer) => {
    const { warn } = console;
    // The library warns that its pages and its memory storage are for development.
    console.warn = () => {};
    const provider = new Provider(issuer, {
      clients: [
        {
          client_id: CLIENT.id,
          client_secret: CLIENT.secret,
          redirect_uris: [callback],
          token_endpoint_auth_method: authentication,
        },
      ],
      clientAuthMethods: [authentication],
      claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
      conformIdTokenClaims: !idTokenHasClaims,
      findAccount: (_: unknown, accountId: string) => ({
        accountId,
        claims: () => ({ sub: accountId, ...people[accountId] }),
      }),
      cookies: { keys: ['of a test'] },
      jwks: { keys: [jwk] },
      pkce: { required: () => true },
      ttl: { AccessToken: 600, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
    });
    console.warn = warn;
    return provider.callback();
  });
}

/** Signs a person in at the issuer as a browser does, and returns the redirect target. */
export async function signInAt(authorizationUrl: string, subject: string, answer = 'agree'): Promise<string> {
  const { origin } = new URL(authorizationUrl);
  const cookies = new Map<string, string>();
  let [url, form]: [string, Record<string, string> | undefined] = [authorizationUrl, undefined];
  for (let step = 0; step < 12; step++) {
    const response = await fetch(url, {
      method: form ? 'POST' : 'GET',
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
      redirect: 'manual',
      ...(form && { body: new URLSearchParams(form) }),
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!;
      cookies.set(name!, value!);
    }
    const text = await response.text();
    const location = response.headers.get('location');
    if (location !== null) {
      [url, form] = [new URL(location, url).href, undefined];
      if (new URL(url).origin !== origin) return url;
      continue;
    }
    const action = new URL(/action="([^"]+)"/.exec(text)![1]!, url).href;
    const prompt = /name="prompt" value="(\w+)"/.exec(text)![1]!;
    if (answer === 'refuse') [url, form] = [`${action}/abort`, undefined];
    else [url, form] = [action, { prompt, ...(prompt === 'login' && { login: subject, password: 'any' }) }];
  }
  throw new Error(`the issuer did not send the browser back; it is at ${url}`);
}

/** Changes that {@link startForgingIssuer} makes to its ID token. */
export interface Forgery {
  readonly claims?: Record<string, unknown>;
  /**
   * `none`: unsigned. `other`: signed with a key that the issuer does not publish. `HS256`: signed with the client's
   * secret.
   */
  readonly signature?: 'none' | 'other' | 'HS256';
  /** Whether the token endpoint redirects. */
  readonly redirects?: boolean;
  /** Whether the answer of the token endpoint never ends. */
  readonly isEndless?: boolean;
}

/** Starts a malicious issuer: it accepts any code, and `forge` determines its ID token. */
export async function startForgingIssuer(forge: (nonce: string) => Forgery): Promise<string> {
  const [key, other] = [newKey(), newKey()];
  const jwk = { ...key.publicKey.export({ format: 'jwk' }), kid: 'first', use: 'sig', alg: 'RS256' };
  return listen((issuer) => async (request, response) => {
    const send = (body: object, status = 200, headers = {}) =>
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
    switch (new URL(request.url!, issuer).pathname) {
      case '/.well-known/openid-configuration':
        return send({
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/jwks`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256', 'HS256', 'none'],
        });
      case '/jwks':
        return send({ keys: [jwk] });
      case '/token': {
        const nonce = new URLSearchParams(await textOf(request)).get('code')!;
        const { claims, signature, redirects = false, isEndless = false } = forge(nonce);
        if (isEndless) {
          response.writeHead(200, { 'content-type': 'application/json' });
          return Readable.from(spaces()).pipe(response);
        }
        if (redirects) return send({}, 307, { location: `${issuer}/elsewhere` });
        const now = Math.floor(Date.now() / 1000);
        const payload = {
          ...{ iss: issuer, aud: CLIENT.id, sub: 'ann', nonce, iat: now, exp: now + 60 },
          ...{ email: 'ann@example.com', email_verified: true },
          ...claims,
        };
        const alg = signature === 'none' || signature === 'HS256' ? signature : 'RS256';
        const content = [{ alg, kid: 'first' }, payload].map((part) => encoded(JSON.stringify(part))).join('.');
        const signed = signatureOf(content, alg, (signature === 'other' ? other : key).privateKey);
        return send({ access_token: 'x', token_type: 'Bearer', id_token: `${content}.${encoded(signed)}` });
      }
      default:
        return send({}, 404);
    }
  });
}

function* spaces() {
  for (;;) yield ' '.repeat(16 * 1024);
}

function signatureOf(content: string, alg: string, key: KeyObject): string | Buffer {
  if (alg === 'none') return '';
  return alg === 'RS256'
    ? sign('sha256', Buffer.from(content), key)
    : createHmac('sha256', CLIENT.secret).update(content).digest();
}

const encoded = (part: string | Buffer): string => Buffer.from(part).toString('base64url');

async function textOf(request: IncomingMessage): Promise<string> {
  return Buffer.concat(await request.toArray()).toString();
}
