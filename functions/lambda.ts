import { Readable } from 'node:stream';
import middy from '@middy/core';
import { executionModeStandard } from '@middy/core/executionModeStandard';
import { executionModeStreamifyResponse } from '@middy/core/executionModeStreamifyResponse';
import type { APIGatewayProxyEvent } from 'aws-lambda';
import type { HostDeps } from '#aws/deps.ts';
import { createApp } from '#core/api/app.ts';
import { routes } from '#core/api/routes.ts';
import { FRONT_HEADER, VIEWER_HEADER } from '#core/http/front-headers.ts';
import type { HttpRequest, ResponseBody } from '#core/http/message.ts';
import type { FunctionName, Route } from '#core/http/route.ts';

/**
 * The rows of one function as a Lambda handler for proxy events of an API Gateway REST API. A function with `stream` rows
 * streams its answers, any other buffers them.
 *
 * Throws if a row has no handler.
 */
export function createHandler(
  fn: FunctionName,
  deps: Parameters<typeof createApp>[0] &
    Partial<Pick<HostDeps, 'settled'>> & { readonly config: Partial<Pick<HostDeps['config'], 'frontToken'>> },
  handlers: Parameters<typeof createApp>[2],
) {
  const table: readonly Route[] = routes;
  const rows = table.filter((route) => route.fn === fn);
  const app = createApp(deps, rows, handlers, table);
  const isStream = rows.some((route) => route.stream);
  return middy(
    async (event: APIGatewayProxyEvent) => {
      const request = toRequest(event);
      const { status, headers, body } = await app(request, addressOf(event, request, deps.config.frontToken));
      // The gateway forwards nothing before status and headers, and the app knows these by now.
      return { statusCode: status, headers, body: isStream ? streamOf(body) : await textOf(body) };
    },
    {
      executionMode: isStream ? executionModeStreamifyResponse : executionModeStandard,
      // The client has the streamed answer, or has left. Background work still runs to its end.
      requestEnd: () => deps.settled?.(),
    },
  );
}

/** The client's address: what CloudFront says it is, if it was CloudFront that asked. */
function addressOf(
  { requestContext }: APIGatewayProxyEvent,
  { headers }: HttpRequest,
  frontToken: string | undefined,
): string {
  const isOfFront = frontToken !== undefined && headers.get(FRONT_HEADER) === frontToken;
  return (isOfFront ? headers.get(VIEWER_HEADER) : null) ?? requestContext.identity.sourceIp;
}

/** As middy takes it. */
function streamOf(body: ResponseBody): string | Readable {
  if (body === null || typeof body === 'string') return body ?? '';
  return Readable.from(body instanceof Uint8Array ? [body] : body);
}

async function textOf(body: ResponseBody): Promise<string> {
  if (body === null || typeof body === 'string') return body ?? '';
  return Buffer.concat(body instanceof Uint8Array ? [body] : await Array.fromAsync(body)).toString();
}

/** The request that the client sent to API Gateway. */
export function toRequest(event: APIGatewayProxyEvent): HttpRequest {
  const headers = new Map<string, string>();
  for (const [name, values = []] of Object.entries(event.multiValueHeaders ?? {})) {
    headers.set(name.toLowerCase(), values.join(/^cookie$/i.test(name) ? '; ' : ', '));
  }
  // REST APIs pass the path as sent, but decode the query.
  const query = new URLSearchParams();
  for (const [name, values = []] of Object.entries(event.multiValueQueryStringParameters ?? {})) {
    for (const value of values) query.append(name, value);
  }
  const { httpMethod: method, body, isBase64Encoded } = event;
  const bytes = Buffer.from(body ?? '', isBase64Encoded ? 'base64' : 'utf8');
  return {
    method,
    url: query.size === 0 ? pathOf(event) : `${pathOf(event)}?${query}`,
    headers: { get: (name) => headers.get(name.toLowerCase()) ?? null, has: (name) => headers.has(name.toLowerCase()) },
    body: bytes.length === 0 ? null : Readable.from([bytes]),
    bytes: async () => bytes,
  };
}

/**
 * The path below the API's root, still percent-encoded. A custom domain's base path stands in front of it in
 * `event.path`; the matched resource tells how many segments are ours.
 */
function pathOf({ path, resource }: APIGatewayProxyEvent): string {
  const depth = resource.split('/').length - 1;
  return `/${path.split('/').slice(-depth).join('/')}`;
}
