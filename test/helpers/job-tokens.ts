import { createHmac, generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';

const REPOSITORY = 'acme/agents';

/** Claims of a job of GitHub Actions that a push to `main` started. */
export const JOB = {
  sub: `repo:${REPOSITORY}:ref:refs/heads/main`,
  repository: REPOSITORY,
  repository_id: '74',
  repository_owner: 'acme',
  repository_owner_id: '65',
  ref: 'refs/heads/main',
  ref_type: 'branch',
  sha: '0b1c2d3e',
  event_name: 'push',
  workflow: 'publish',
  run_id: '1001',
} as const;

export interface TokenOptions {
  /** @default RS256 */
  readonly alg?: string;
  /** @default - that of the key */
  readonly kid?: string | null;
  /** `other`: a key that the issuer does not publish. `public`: the public key of the issuer, as a shared secret. */
  readonly signedWith?: 'own' | 'other' | 'public';
  /** Further members of the header. */
  readonly header?: Record<string, unknown>;
}

/** What a scripted issuer answers in place of its configuration or its keys. */
type Answer = 'own' | 'hang' | 'huge' | 'text' | 'error' | { readonly redirect: string } | { readonly json: object };

export interface JobIssuer {
  readonly url: string;
  /** Paths of the requests so far. */
  readonly requests: string[];
  answers: { configuration: Answer; keys: Answer };
  /** Publishes another key, and signs with it from now on. */
  rotate(): void;
  /** Makes the token of a job; `undefined` removes a claim. */
  token(claims?: Record<string, unknown>, options?: TokenOptions): string;
  close(): void;
}

const encoded = (part: string | Buffer): string => Buffer.from(part).toString('base64url');
const newRsa = () => generateKeyPairSync('rsa', { modulusLength: 2048 });
/** Made once, because that takes time: those of issuers, and one that no issuer publishes. */
let rsaKeys: { readonly first: ReturnType<typeof newRsa>; readonly other: ReturnType<typeof newRsa> } | undefined;

/**
 * Starts an issuer of tokens for jobs, with real keys and signatures.
 *
 * @param audience Audience of its tokens.
 * @param now Its clock.
 */
export async function startJobIssuer(audience: string, now: () => number = Date.now): Promise<JobIssuer> {
  const elliptic = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  rsaKeys ??= { first: newRsa(), other: newRsa() };
  const { first, other } = rsaKeys;
  let rsa = first;
  let kid = 'first';
  const requests: string[] = [];
  const answers: JobIssuer['answers'] = { configuration: 'own', keys: 'own' };
  const jwk = (key: KeyObject, more: object) => ({ ...key.export({ format: 'jwk' }), use: 'sig', ...more });
  const keys = () => ({
    keys: [jwk(rsa.publicKey, { kid, alg: 'RS256' }), jwk(elliptic.publicKey, { kid: 'curve', alg: 'ES256' })],
  });
  const server = createServer((request, response) => {
    requests.push(request.url!);
    const isKeys = request.url === '/jwks';
    const own = isKeys ? keys() : { issuer: url, jwks_uri: `${url}/jwks` };
    respond(response, isKeys ? answers.keys : answers.configuration, own);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  function signature(content: string, alg: string, signedWith: TokenOptions['signedWith']): Buffer {
    const data = Buffer.from(content);
    if (alg === 'none') return Buffer.alloc(0);
    if (alg === 'HS256') {
      const secret = signedWith === 'public' ? rsa.publicKey.export({ format: 'pem', type: 'spki' }) : 'secret';
      return createHmac('sha256', secret).update(data).digest();
    }
    if (alg === 'ES256') return sign('sha256', data, { key: elliptic.privateKey, dsaEncoding: 'ieee-p1363' });
    return sign(alg === 'RS512' ? 'sha512' : 'sha256', data, (signedWith === 'other' ? other : rsa).privateKey);
  }

  return {
    url,
    requests,
    answers,
    rotate() {
      rsa = newRsa();
      kid = `key-${randomUUID()}`;
    },
    token(claims = {}, { alg = 'RS256', kid: named, signedWith = 'own', header = {} } = {}) {
      const seconds = Math.floor(now() / 1000);
      const times = { iat: seconds, nbf: seconds - 5, exp: seconds + 300 };
      const payload = { iss: url, aud: audience, jti: randomUUID(), ...times, ...JOB, ...claims };
      const keyName = named === undefined ? (alg === 'ES256' ? 'curve' : kid) : (named ?? undefined);
      const parts = [{ alg, typ: 'JWT', kid: keyName, ...header }, payload];
      const content = parts.map((part) => encoded(JSON.stringify(part))).join('.');
      return `${content}.${encoded(signature(content, alg, signedWith))}`;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function respond(response: ServerResponse, answer: Answer, own: object): void {
  const json = { 'content-type': 'application/json' };
  if (answer === 'hang') return;
  if (answer === 'huge') {
    response.writeHead(200, json);
    Readable.from(spaces()).pipe(response);
  } else if (answer === 'text') response.writeHead(200).end('<html>');
  else if (answer === 'error') response.writeHead(500, json).end('{}');
  else if (answer !== 'own' && 'redirect' in answer) response.writeHead(302, { location: answer.redirect }).end();
  else response.writeHead(200, json).end(JSON.stringify(answer === 'own' ? own : answer.json));
}

function* spaces() {
  for (;;) yield ' '.repeat(16 * 1024);
}
