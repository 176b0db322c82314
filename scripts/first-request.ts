import { encodeKey } from '#core/accounts/keys/key-format.ts';
import type { Route } from '#core/http/route.ts';

/** Well-formed, so that it is looked up. */
const KEY = encodeKey('sk_live_', '', new Uint8Array(32));

/**
 * Returns an event of API Gateway for a function with these rows, which the maker of its compile cache handles
 * (`aws/compile-cache.ts`), so that the cache has what every request needs: the middleware, the router, authentication
 * and DynamoDB's client. The key is looked up before anything else is done.
 */
export function firstRequest(rows: readonly Route[]): object | undefined {
  const row = rows.find(({ auth }) => auth === 'key') ?? rows[0];
  if (row === undefined) return undefined;
  return {
    resource: row.path,
    path: row.path.replaceAll(/\{\w+\}/g, 'x'),
    httpMethod: row.method,
    headers: {},
    multiValueHeaders: { authorization: [`Bearer ${KEY}`], 'content-type': ['application/json'] },
    multiValueQueryStringParameters: null,
    body: row.method === 'GET' ? null : '{}',
    isBase64Encoded: false,
    requestContext: { requestId: 'first', domainName: 'api.example.com', identity: { sourceIp: '192.0.2.1' } },
  };
}
