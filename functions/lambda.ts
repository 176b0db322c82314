import middy from '@middy/core';
import { executionModeStandard } from '@middy/core/executionModeStandard';
import { executionModeStreamifyResponse } from '@middy/core/executionModeStreamifyResponse';
import type { APIGatewayProxyEvent } from 'aws-lambda';
import type { HostDeps } from '#aws/deps.ts';
import { createApp } from '#core/api/app.ts';
import { routes } from '#core/api/routes.ts';
import type { FunctionName, Route } from '#core/http/route.ts';

/**
 * The rows of one function as a Lambda handler for proxy events of an API Gateway REST API. A function with `stream` rows
 * streams its answers, any other buffers them.
 *
 * Throws if a row has no handler.
 */
export function createHandler(
  fn: FunctionName,
  deps: Parameters<typeof createApp>[0] & Partial<Pick<HostDeps, 'settled'>>,
  handlers: Parameters<typeof createApp>[2],
) {
  const table: readonly Route[] = routes;
  const rows = table.filter((route) => route.fn === fn);
  const app = createApp(deps, rows, handlers, table);
  const isStream = rows.some((route) => route.stream);
  return middy(
    async (event: APIGatewayProxyEvent) => {
      const response = await app(toRequest(event), event.requestContext.identity.sourceIp);
      // The gateway forwards nothing before status and headers, and the app knows these by now.
      const body = isStream ? (response.body ?? '') : await response.text();
      return { statusCode: response.status, headers: Object.fromEntries(response.headers), body };
    },
    {
      executionMode: isStream ? executionModeStreamifyResponse : executionModeStandard,
      // The client has the streamed answer, or has left. Background work still runs to its end.
      requestEnd: () => deps.settled?.(),
    },
  );
}

/** The request that the client sent to API Gateway. */
export function toRequest(event: APIGatewayProxyEvent): Request {
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(event.multiValueHeaders ?? {})) {
    for (const value of values) headers.append(name, value);
  }
  const url = new URL(`https://${event.requestContext.domainName ?? 'localhost'}${pathOf(event)}`);
  // REST APIs pass the path as sent, but decode the query.
  for (const [name, values = []] of Object.entries(event.multiValueQueryStringParameters ?? {})) {
    for (const value of values) url.searchParams.append(name, value);
  }
  // `Request` refuses a body of a GET or HEAD.
  const hasBody = event.body !== null && event.httpMethod !== 'GET' && event.httpMethod !== 'HEAD';
  return new Request(url, {
    method: event.httpMethod,
    headers,
    body: hasBody ? Buffer.from(event.body!, event.isBase64Encoded ? 'base64' : 'utf8') : undefined,
  });
}

/**
 * The path below the API's root, still percent-encoded. A custom domain's base path stands in front of it in
 * `event.path`; the matched resource tells how many segments are ours.
 */
function pathOf({ path, resource }: APIGatewayProxyEvent): string {
  const depth = resource.split('/').length - 1;
  return `/${path.split('/').slice(-depth).join('/')}`;
}
