import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
// @ts-expect-error it has no types
import Provider from 'oidc-provider';
import { onTestFinished } from 'vitest';

export interface ToolIssuer {
  readonly issuer: string;
  /** Address of an API that wants tokens of the issuer (RFC 9728). */
  readonly api: string;
  /** Requests to the token endpoint so far, by grant type. */
  readonly grants: Readonly<Record<string, number>>;
}

export const API_CLIENT = { id: 'platform-at-the-api', secret: 'made-up-secret-of-the-platform' };

/**
 * Starts a real authorization server (`oidc-provider`) that rotates refresh tokens and ends a grant whose former refresh
 * token is used again, and an API that wants its tokens. Clients may register themselves.
 */
export async function startToolIssuer(
  callback: string,
  { onClose = onTestFinished }: { readonly onClose?: (close: () => void) => void } = {},
): Promise<ToolIssuer> {
  let listener: RequestListener = () => {};
  const server = createServer((request, response) => listener(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onClose(() => {
    server.close();
    server.closeAllConnections();
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api = `${issuer}/api`;
  const grants: Record<string, number> = {};
  const { warn } = console;
  // The library warns that its pages and its memory storage are for development.
  console.warn = () => {};
  const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  const provider = new Provider(issuer, {
    clients: [{ client_id: API_CLIENT.id, client_secret: API_CLIENT.secret, redirect_uris: [callback] }],
    claims: { openid: ['sub'] },
    scopes: ['openid', 'offline_access', 'read', 'write'],
    cookies: { keys: ['of a test'] },
    jwks: { keys: [{ ...key.export({ format: 'jwk' }), kid: 'first', use: 'sig' }] },
    features: {
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({ scope: 'read write', accessTokenTTL: 600 }),
      },
    },
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    pkce: { required: () => true },
    ttl: { AccessToken: 600, Grant: 6000, IdToken: 600, Interaction: 600, RefreshToken: 6000, Session: 600 },
  });
  console.warn = warn;
  provider.on('grant.success', ({ oidc }: { oidc: { params: { grant_type: string } } }) => {
    const type = oidc.params.grant_type;
    grants[type] = (grants[type] ?? 0) + 1;
  });
  const answers: RequestListener = provider.callback();
  listener = async (request, response) => {
    const { pathname } = new URL(request.url!, issuer);
    const send = (status: number, body: object, headers: Record<string, string> = {}) =>
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
    if (pathname === '/.well-known/oauth-protected-resource/api') {
      send(200, { resource: api, authorization_servers: [issuer], scopes_supported: ['read'] });
    } else if (pathname === '/api') {
      const [, token] = /^Bearer (.+)$/.exec(request.headers.authorization ?? '') ?? [];
      const found = token === undefined ? undefined : await provider.AccessToken.find(token);
      if (found === undefined) {
        const metadata = `${issuer}/.well-known/oauth-protected-resource/api`;
        send(401, {}, { 'www-authenticate': `Bearer resource_metadata="${metadata}", scope="read"` });
      } else send(200, { user: found.accountId, scope: found.scope, audience: found.aud });
    } else answers(request, response);
  };
  return { issuer, api, grants };
}
