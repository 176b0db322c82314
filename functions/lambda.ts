import { Readable } from 'node:stream';
import middy from '@middy/core';
import { executionModeStandard } from '@middy/core/executionModeStandard';
import { executionModeStreamifyResponse } from '@middy/core/executionModeStreamifyResponse';
import type { APIGatewayProxyEvent } from 'aws-lambda';
import type { HostDeps } from '#aws/deps.ts';
import { type App, createApp } from '#core/api/app.ts';
import { routes } from '#core/api/routes.ts';
import { FRONT_HEADER, FRONT_HOST_HEADER, VIEWER_HEADER } from '#core/http/front-headers.ts';
import type { HttpRequest, HttpResponse, ResponseBody } from '#core/http/message.ts';
import type { FunctionName, Route } from '#core/http/route.ts';

/**
 * Returns the Lambda handler of one function's rows for proxy events of an API Gateway REST API. A function with
 * `stream` rows streams its responses, any other buffers them.
 *
 * Throws if a row has no handler.
 */
export function createHandler<D extends HandlerDeps>(
  fn: FunctionName,
  deps: D,
  handlersOf: (deps: D) => Parameters<typeof createApp>[2],
) {
  const rows = rowsOf([fn]);
  const answer = answering(deps, rows, handlersOf);
  const isStream = rows.some((route) => route.stream);
  return middy(
    async (event: APIGatewayProxyEvent) => {
      const { status, headers, body } = await answer(toRequest(event), event.requestContext.identity.sourceIp);
      // The gateway forwards nothing before status and headers, which are known by now.
      return { statusCode: status, headers, body: isStream ? streamOf(body) : await textOf(body) };
    },
    {
      executionMode: isStream ? executionModeStreamifyResponse : executionModeStandard,
      // The client has received the streamed response, or has disconnected. Background work still runs to its end.
      requestEnd: () => deps.settled?.(),
    },
  );
}

/** Returns the rows of the route table that these functions serve. */
export function rowsOf(names: readonly FunctionName[]): readonly Route[] {
  const table: readonly Route[] = routes;
  return table.filter(({ fn }) => names.includes(fn));
}

/**
 * Returns the app of these rows for requests through API Gateway, some of which went through CloudFront before.
 *
 * Throws if a row has no handler.
 */
export function answering<D extends HandlerDeps>(
  deps: D,
  rows: readonly Route[],
  handlersOf: (deps: D) => Parameters<typeof createApp>[2],
): (request: HttpRequest, sourceIp: string) => Promise<HttpResponse> {
  const appOf = (own: D): App => createApp(own, rows, handlersOf(own), routes);
  const app = appOf(deps);
  let seen: { readonly host: string; readonly app: App } | undefined;
  /**
   * Requests through CloudFront get links to CloudFront. It is created after the functions, which know its address only
   * if it has a custom domain.
   */
  const appFor = (host: string | undefined): App => {
    if (host === undefined || deps.config.dashboardUrl !== undefined) return app;
    if (seen?.host !== host) seen = { host, app: appOf(behind(deps, `https://${host}`)) };
    return seen.app;
  };
  return (request, sourceIp) => {
    const front = frontOf(request, deps.config.frontToken);
    return appFor(front?.host)(request, front?.viewer ?? sourceIp);
  };
}

export type HandlerDeps = Parameters<typeof createApp>[0] &
  Partial<Pick<HostDeps, 'settled'>> & { readonly config: Partial<Pick<HostDeps['config'], 'frontToken'>> };

/** Returns the client's address and CloudFront's own name, if the request came through CloudFront. */
function frontOf({ headers }: HttpRequest, token: string | undefined) {
  if (token === undefined || headers.get(FRONT_HEADER) !== token) return undefined;
  return { viewer: headers.get(VIEWER_HEADER) ?? undefined, host: headers.get(FRONT_HOST_HEADER) ?? undefined };
}

/** Links for programs still bypass CloudFront. */
const behind = <D extends HandlerDeps>(deps: D, url: string): D => {
  const { baseUrl, callUrl = baseUrl } = deps.config;
  return { ...deps, config: { ...deps.config, baseUrl: url, dashboardUrl: `${url}/dashboard`, callUrl } };
};

/** Converts a body to the format of middy. */
function streamOf(body: ResponseBody): string | Readable {
  if (body === null || typeof body === 'string') return body ?? '';
  return Readable.from(body instanceof Uint8Array ? [body] : body);
}

async function textOf(body: ResponseBody): Promise<string> {
  if (body === null || typeof body === 'string') return body ?? '';
  return Buffer.concat(body instanceof Uint8Array ? [body] : await Array.fromAsync(body)).toString();
}

/** Reconstructs the request that the client sent to API Gateway. */
export function toRequest(event: APIGatewayProxyEvent): HttpRequest {
  const headers = new Map<string, string>();
  for (const [name, values = []] of Object.entries(event.multiValueHeaders ?? {})) {
    headers.set(name.toLowerCase(), values.join(/^cookie$/i.test(name) ? '; ' : ', '));
  }
  // REST APIs pass the path unchanged, but decode the query.
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
 * Returns the path below the API's root, still percent-encoded. `event.path` starts with a custom domain's base path;
 * the matched resource shows how many segments are ours.
 */
function pathOf({ path, resource }: APIGatewayProxyEvent): string {
  const depth = resource.split('/').length - 1;
  return `/${path.split('/').slice(-depth).join('/')}`;
}
