import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { runInNewContext } from 'node:vm';
import type { Assembly, Deployed } from './assembly.ts';

/** Distribution id and name that the stand-in has instead of those that AWS assigns. */
export const FRONT_NAME = 'd0rehearsal.cloudfront.net';

/** Policies that AWS manages, by their ids: docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/using-managed-cache-policies.html. */
const CACHING_DISABLED = '4135ea2d-6df8-44a3-9df3-4b5a84be39ad';
const ALL_VIEWER_EXCEPT_HOST = 'b689b0a8-53d0-40ab-baf2-68738e2966ac';

const MAX_URL_BYTES = 8192;
const MAX_HEADER_BYTES = 32_768;
/** Attempts for GET and HEAD, by default. */
const ATTEMPTS = 3;
/**
 * Statuses of answers to GET and HEAD that CloudFront keeps for the error caching time, whatever the cache policy:
 * docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/HTTPStatusCodes.html.
 */
const KEPT_ERRORS = new Set([404, 414, 500, 501, 502, 503, 504]);
/** Those that are not kept if the origin says `no-store`, `no-cache` or `private`. */
const MAY_REFUSE_KEEPING = new Set([404, 414, 501]);
const DEFAULT_ERROR_SECONDS = 10;

/** Headers between two neighbors, which CloudFront does not forward. */
const HOP_BY_HOP =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|host|x-amz-cf-.*|x-edge-.*|via)$/i;
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'application/javascript',
  '.css': 'text/css',
  '.md': 'text/markdown',
  '.txt': 'text/plain',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

interface Behavior {
  readonly PathPattern?: string;
  readonly TargetOriginId: string;
  readonly AllowedMethods?: readonly string[];
  readonly CachePolicyId: string;
  readonly OriginRequestPolicyId?: string;
  readonly ResponseHeadersPolicyId?: string;
  readonly FunctionAssociations?: readonly { readonly EventType: string; readonly FunctionARN: string }[];
}

interface Origin {
  readonly Id: string;
  readonly DomainName: string;
  readonly OriginPath?: string;
  readonly OriginCustomHeaders?: readonly { readonly HeaderName: string; readonly HeaderValue: string }[];
  readonly CustomOriginConfig?: { readonly OriginReadTimeout: number };
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: Buffer;
}
interface Kept extends Answer {
  readonly until: number;
  readonly since: number;
}

type Values = Record<string, { value: string; multiValue?: { value: string }[] }>;
interface EdgeRequest {
  uri: string;
  headers: Values;
  cookies: Values;
  statusCode?: number;
  body?: string | { data: string };
  /** Host that the function has chosen instead of the origin's. */
  host?: string;
}

export interface CloudFront {
  /** URL without a slash at the end. */
  readonly url: string;
  close(): Promise<void>;
}

interface CloudFrontOptions {
  /** Address of the API, in place of its host name in the template. It serves the stage at its root. */
  readonly api: string;
  /** Addresses of other hosts that functions may choose. @default - none */
  readonly hosts?: Readonly<Record<string, string>>;
  /** Contents of the functions' KeyValueStore. @default - none */
  readonly keyValues?: ReadonlyMap<string, string>;
  /** Real milliseconds of a second of the origin's read timeout. @default 1000 */
  readonly secondMs?: number;
}

/**
 * Serves the distribution of an assembly on a local port, as CloudFront does for viewers over HTTPS: behaviors, edge
 * functions, origins with their headers and timeouts, headers of answers, its own errors, and what it keeps. Files come
 * from the assets that the template deploys to the bucket.
 */
export async function startCloudFront(assembly: Assembly, options: CloudFrontOptions): Promise<CloudFront> {
  const distribution = new Distribution(assembly, options);
  const server = createServer({ maxHeaderSize: 2 * MAX_HEADER_BYTES, keepAliveTimeout: 0 }, (request, response) => {
    distribution.serve(request, response).catch((error) => {
      process.stderr.write(`cloudfront: ${error?.stack ?? error}\n`);
      response.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

class Distribution {
  readonly #assembly: Assembly;
  readonly #options: CloudFrontOptions;
  readonly #behaviors: readonly Behavior[];
  readonly #origins: ReadonlyMap<string, Origin>;
  readonly #errorSeconds: ReadonlyMap<number, number>;
  readonly #kept = new Map<string, Kept>();

  constructor(assembly: Assembly, options: CloudFrontOptions) {
    this.#assembly = assembly;
    this.#options = options;
    const [{ properties }] = assembly.of('AWS::CloudFront::Distribution') as [Deployed];
    const {
      CacheBehaviors = [],
      DefaultCacheBehavior,
      Origins,
      CustomErrorResponses = [],
    } = properties.DistributionConfig;
    this.#behaviors = [...CacheBehaviors, DefaultCacheBehavior];
    this.#origins = new Map(Origins.map((origin: Origin) => [origin.Id, origin]));
    this.#errorSeconds = new Map(
      CustomErrorResponses.map(({ ErrorCode, ErrorCachingMinTTL }: Record<string, number>) => [
        ErrorCode,
        ErrorCachingMinTTL,
      ]),
    );
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/' } = request;
    const fail = (status: number, reason: string) => this.#fail(response, status, reason);
    if (url.length > MAX_URL_BYTES) return fail(414, 'The request URI is too long.');
    if (request.rawHeaders.join('').length > MAX_HEADER_BYTES) return fail(494, 'The request headers are too large.');
    const path = url.split('?')[0]!;
    const behavior = this.#behaviors.find(
      ({ PathPattern }) => PathPattern === undefined || matches(PathPattern, path),
    )!;
    if (!(behavior.AllowedMethods ?? ['GET', 'HEAD']).includes(method)) {
      return fail(403, 'This distribution is not configured to allow the HTTP request method that was used.');
    }
    const hasBody =
      request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
    if (method === 'GET' && hasBody) return fail(403, 'Bad request: a GET request must not have a body.');
    let edge: EdgeRequest;
    try {
      edge = await this.#atEdge(behavior, request);
    } catch (error) {
      process.stderr.write(`cloudfront: the function failed: ${error}\n`);
      return fail(503, 'The CloudFront function returned an invalid value, or failed.');
    }
    if (edge.statusCode !== undefined) {
      const text = typeof edge.body === 'object' ? edge.body.data : (edge.body ?? '');
      return this.#send(response, behavior, 'FunctionGeneratedResponse from cloudfront', {
        status: edge.statusCode,
        headers: Object.fromEntries(Object.entries(edge.headers).map(([name, { value }]) => [name, value])),
        body: Buffer.from(text),
      });
    }
    const query = url.includes('?') ? url.slice(url.indexOf('?')) : '';
    // Neither cookies nor headers such as `authorization` are part of the key.
    const key = behavior.CachePolicyId === CACHING_DISABLED ? `${edge.uri}${query}` : edge.uri;
    const isRead = method === 'GET' || method === 'HEAD';
    const kept = this.#kept.get(key);
    if (isRead && kept !== undefined && kept.until > Date.now()) {
      const age = String(Math.floor((Date.now() - kept.since) / 1000));
      const how = kept.status >= 400 ? 'Error from cloudfront' : 'Hit from cloudfront';
      return this.#send(response, behavior, how, { ...kept, headers: { ...kept.headers, age } });
    }
    const keep = (answer: Answer) => isRead && this.#keep(key, behavior, answer);
    const origin = this.#origins.get(behavior.TargetOriginId)!;
    if (origin.CustomOriginConfig === undefined) {
      const answer = this.#file(edge.uri);
      keep(answer);
      const how = answer.status >= 400 ? 'Error from cloudfront' : 'Miss from cloudfront';
      return this.#send(response, behavior, how, method === 'HEAD' ? { ...answer, body: Buffer.alloc(0) } : answer);
    }
    await this.#forward({ request, response, behavior, origin, edge, query, keep });
  }

  /** Runs the function of the behavior at the viewer's request. */
  async #atEdge({ FunctionAssociations = [] }: Behavior, request: IncomingMessage): Promise<EdgeRequest> {
    const headers: Values = {};
    for (const [name, value] of Object.entries(request.headers)) {
      if (value !== undefined && name !== 'cookie') headers[name] = { value: [value].flat().join(',') };
    }
    const edge: EdgeRequest = { uri: request.url!.split('?')[0]!, headers, cookies: cookiesOf(request) };
    for (const { EventType, FunctionARN } of FunctionAssociations) {
      if (EventType !== 'viewer-request') throw new Error(`the stand-in knows no functions at ${EventType}`);
      const id = FunctionARN.split('.')[0]!;
      const { properties } = this.#assembly.of('AWS::CloudFront::Function').find((each) => each.id === id)!;
      const event = {
        version: '1.0',
        context: { eventType: EventType, distributionDomainName: FRONT_NAME, requestId: randomUUID() },
        viewer: { ip: request.socket.remoteAddress },
        request: { ...edge, method: request.method, querystring: {} },
      };
      const code = String(properties.FunctionCode).replace(
        /^import (?:cf|crypto) from '(?:cloudfront|crypto)';$/gm,
        '',
      );
      const answer: EdgeRequest = await runInNewContext(
        `${code}\nhandler(event)`,
        { event, crypto: { createHash }, cf: this.#helpersFor(edge) },
        { timeout: 1000 },
      );
      if (answer.statusCode !== undefined) return { ...answer, headers: answer.headers ?? {} };
      edge.uri = answer.uri;
      edge.headers = answer.headers;
      edge.cookies = answer.cookies;
    }
    return edge;
  }

  /** The module `cloudfront`: docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/functions-custom-methods.html. */
  #helpersFor(edge: EdgeRequest) {
    return {
      kvs: () => ({
        get: async (key: string) => {
          const value = this.#options.keyValues?.get(key);
          if (value === undefined) throw new Error('KeyNotFound');
          return value;
        },
      }),
      updateRequestOrigin({ domainName }: { domainName: string }) {
        edge.host = domainName;
      },
    };
  }

  async #forward(call: {
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
    readonly behavior: Behavior;
    readonly origin: Origin;
    readonly edge: EdgeRequest;
    readonly query: string;
    readonly keep: (answer: Answer) => void;
  }): Promise<void> {
    const { request, response, behavior, origin, edge, query, keep } = call;
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    if (behavior.OriginRequestPolicyId !== ALL_VIEWER_EXCEPT_HOST)
      throw new Error('the stand-in knows one request policy');
    const headers: Record<string, string> = {};
    for (const [name, { value }] of Object.entries(edge.headers)) if (!HOP_BY_HOP.test(name)) headers[name] = value;
    const cookies = Object.entries(edge.cookies).map(([name, { value }]) => `${name}=${value}`);
    if (cookies.length > 0) headers.cookie = cookies.join('; ');
    const before = headers['x-forwarded-for'];
    headers['x-forwarded-for'] = [before, request.socket.remoteAddress].filter(Boolean).join(', ');
    headers.via = `2.0 ${FRONT_NAME} (CloudFront)`;
    headers['x-amz-cf-id'] = randomUUID();
    headers.host = edge.host ?? origin.DomainName;
    for (const { HeaderName, HeaderValue } of origin.OriginCustomHeaders ?? [])
      headers[HeaderName.toLowerCase()] = HeaderValue;
    const silence = origin.CustomOriginConfig!.OriginReadTimeout * (this.#options.secondMs ?? 1000);
    const { api, hosts = {} } = this.#options;
    const address = hosts[headers.host] ?? api;
    for (let attempt = 1; ; attempt++) {
      const { answered, late } = await this.#ask({
        request,
        headers,
        url: address + edge.uri + query,
        silence,
        response,
      });
      if (answered === undefined) {
        if (response.destroyed || response.closed) return;
        if (isRead && attempt < ATTEMPTS) continue;
        const status = late ? 504 : 502;
        const why = late
          ? 'CloudFront attempted to establish a connection with the origin, but either the attempt failed or the origin closed the connection.'
          : 'CloudFront wasn’t able to connect to the origin.';
        keep({ status, headers: {}, body: Buffer.from(page(status, why)) });
        return this.#fail(response, status, why);
      }
      const kept: Buffer[] = [];
      const status = answered.statusCode!;
      const how = status >= 400 ? 'Error from cloudfront' : 'Miss from cloudfront';
      response.writeHead(status, this.#headers(behavior, how, withoutHops(answered.headers)));
      response.flushHeaders();
      // Silence in the middle of an answer ends it.
      answered.socket.setTimeout(silence, () => answered.destroy());
      response.on('close', () => answered.destroy());
      try {
        for await (const chunk of answered) {
          if (status >= 400) kept.push(chunk);
          if (!response.write(chunk)) await once(response, 'drain', { signal: AbortSignal.timeout(silence) });
        }
      } catch {
        response.destroy();
        return;
      }
      response.end();
      if (status >= 400) keep({ status, headers: withoutHops(answered.headers), body: Buffer.concat(kept) });
      return;
    }
  }

  /** Sends the request to the API. Returns whether it was too late instead, or the API broke the connection. */
  async #ask(call: {
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
    readonly headers: Record<string, string>;
    readonly url: string;
    readonly silence: number;
  }): Promise<{ answered?: IncomingMessage; late: boolean }> {
    const { request, response, headers, url, silence } = call;
    const { promise, resolve } = Promise.withResolvers<{ answered?: IncomingMessage; late: boolean }>();
    const sent = httpRequest(url, { method: request.method, headers, agent: false });
    let late = false;
    sent.on('response', (answered) => {
      clearTimeout(timer);
      resolve({ answered, late });
    });
    sent.on('error', () => resolve({ late }));
    response.on('close', () => sent.destroy());
    let timer: NodeJS.Timeout | undefined;
    request.pipe(sent);
    // The origin may be silent for this long once it has the whole request.
    sent.on('finish', () => {
      timer = setTimeout(() => {
        late = true;
        sent.destroy();
      }, silence);
    });
    return promise;
  }

  #keep(key: string, { CachePolicyId }: Behavior, { status, headers, body }: Answer): void {
    const control = String(headers['cache-control'] ?? '');
    let seconds = 0;
    if (KEPT_ERRORS.has(status)) {
      const isRefused = MAY_REFUSE_KEEPING.has(status) && /no-store|no-cache|private/.test(control);
      seconds = isRefused ? 0 : (this.#errorSeconds.get(status) ?? DEFAULT_ERROR_SECONDS);
    } else if (status < 400 && CachePolicyId !== CACHING_DISABLED) {
      seconds = Number(/max-age=(\d+)/.exec(control)?.[1] ?? 0);
    }
    if (seconds === 0) return;
    const now = Date.now();
    this.#kept.set(key, { status, headers, body, since: now, until: now + seconds * (this.#options.secondMs ?? 1000) });
  }

  /** Returns a file of the bucket, as S3 does for a reader who may list it. */
  #file(uri: string): Answer {
    const key = decodeURIComponent(uri).slice(1);
    for (const { properties } of this.#assembly.of('Custom::CDKBucketDeployment')) {
      const prefix: string = `${properties.DestinationBucketKeyPrefix}/`;
      if (!key.startsWith(prefix)) continue;
      for (const source of properties.SourceObjectKeys as string[]) {
        const folder = this.#assembly.assetFolder(source);
        const file = normalize(join(folder, key.slice(prefix.length)));
        if (!file.startsWith(folder) || !existsSync(file) || !statSync(file).isFile()) continue;
        const headers = {
          'content-type': MEDIA_TYPES[extname(file)] ?? 'application/octet-stream',
          'cache-control': properties.SystemMetadata['cache-control'] as string,
        };
        return { status: 200, headers, body: readFileSync(file) };
      }
    }
    const text = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code></Error>`;
    return { status: 404, headers: { 'content-type': 'application/xml' }, body: Buffer.from(text) };
  }

  #headers({ ResponseHeadersPolicyId }: Behavior, how: string, headers: Answer['headers']): Answer['headers'] {
    const policy = this.#assembly
      .of('AWS::CloudFront::ResponseHeadersPolicy')
      .find(({ id }) => id === ResponseHeadersPolicyId)?.properties.ResponseHeadersPolicyConfig;
    const { ContentSecurityPolicy, ContentTypeOptions, StrictTransportSecurity } = policy?.SecurityHeadersConfig ?? {};
    const custom: { Header: string; Value: string }[] = policy?.CustomHeadersConfig?.Items ?? [];
    return {
      ...headers,
      ...(ContentSecurityPolicy && { 'content-security-policy': ContentSecurityPolicy.ContentSecurityPolicy }),
      ...(ContentTypeOptions && { 'x-content-type-options': 'nosniff' }),
      ...(StrictTransportSecurity && {
        'strict-transport-security': `max-age=${StrictTransportSecurity.AccessControlMaxAgeSec}`,
      }),
      ...Object.fromEntries(custom.map(({ Header, Value }) => [Header, Value])),
      via: `1.1 ${FRONT_NAME} (CloudFront)`,
      'x-cache': how,
      'x-amz-cf-pop': 'DUB2-C1',
      'x-amz-cf-id': randomUUID(),
    };
  }

  #send(response: ServerResponse, behavior: Behavior, how: string, { status, headers, body }: Answer): void {
    response.writeHead(status, { ...this.#headers(behavior, how, headers), 'content-length': body.length }).end(body);
  }

  /** Sends an error of CloudFront's own, which has neither the platform's envelope nor its headers. */
  #fail(response: ServerResponse, status: number, reason: string): void {
    const body = page(status, reason);
    response
      .writeHead(status, {
        'content-type': 'text/html',
        server: 'CloudFront',
        via: `1.1 ${FRONT_NAME} (CloudFront)`,
        'x-cache': 'Error from cloudfront',
        'content-length': Buffer.byteLength(body),
      })
      .end(body);
  }
}

const cookiesOf = ({ headers: { cookie = '' } }: IncomingMessage): Values =>
  Object.fromEntries(
    cookie.split(/; */).flatMap((pair) => {
      const [, name, value] = /^([^=]+)=(.*)$/.exec(pair) ?? [];
      return name === undefined ? [] : [[name, { value: value! }]];
    }),
  );

const page = (status: number, reason: string): string =>
  `<!DOCTYPE HTML><HTML><HEAD><TITLE>ERROR: The request could not be satisfied</TITLE></HEAD><BODY><H1>${status} ERROR</H1><P>${reason}</P></BODY></HTML>`;

/** Matches a path with a pattern: `*` is any text, `?` is one character. */
function matches(pattern: string, path: string): boolean {
  const source = RegExp.escape(pattern.startsWith('/') ? pattern : `/${pattern}`)
    .replaceAll('\\*', '.*')
    .replaceAll('\\?', '.');
  return new RegExp(`^${source}$`).test(path);
}

const withoutHops = (headers: IncomingMessage['headers']): Record<string, string | string[]> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined || HOP_BY_HOP.test(name) ? [] : [[name, value]],
    ),
  );
