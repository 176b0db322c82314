import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { APIGatewayProxyEvent, APIGatewayProxyResult } from 'aws-lambda';
import { proxyEvent } from '#test/helpers/api-gateway-event.ts';
import { type HttpAnswer, splitPrelude } from '#test/helpers/lambda-runtime.ts';
import type { Assembly, Deployed } from './assembly.ts';
import { WebFunctionError, type WebRequest } from './web-function.ts';
import type { WireRequest } from './wire.ts';

/** API Gateway's limits for a request body and for all headers together. */
const MAX_BODY_BYTES = 10 * 1024 * 1024;
const MAX_HEADER_BYTES = 10_240;
/** API Gateway ends a stream that is idle for this long. */
const IDLE_LIMIT_MS = 300_000;

/**
 * Invokes a method's function: its name with the version, the event, the role, and a callback for when the function
 * begins. Throws Lambda's errors.
 */
type Invoke = (
  functionArn: string,
  event: APIGatewayProxyEvent,
  roleArn: string,
  onBegin: () => void,
) => Promise<{ readonly isStream: boolean; readonly payload: AsyncIterable<Uint8Array> }>;

/** Sends a request to the endpoint of a web function. Throws {@link WebFunctionError}. */
type SendToWeb = (host: string, request: WebRequest) => Promise<IncomingMessage>;

export interface RestApi {
  /** URL without a slash at the end. */
  readonly url: string;
  /** Starts to serve the assembly, which may depend on the API's address. */
  serve(assembly: Assembly, invoke: Invoke, sendToWeb?: SendToWeb): void;
  /** Creates a deployment from the API document of an assembly. */
  deploy(assembly: Assembly): void;
  /** Points the stage to another deployment. */
  move(stage: Deployed): void;
  /** Answers API Gateway's own control requests about the stage. */
  readonly control: (request: WireRequest, response: ServerResponse) => Promise<void>;
  /** Canary settings of the stage while a canary is active. */
  readonly canary: CanarySettings | undefined;
  /** Access log lines in the stage's format, limited to fields that the rehearsal knows. */
  readonly accessLog: readonly Readonly<Record<string, string>>[];
  close(): Promise<void>;
}

interface CanarySettings {
  deploymentId: string;
  percentTraffic: number;
  stageVariableOverrides: Record<string, string>;
  useStageCache: boolean;
}

/** One path segment of the API. */
interface Node {
  readonly path: string;
  readonly children: Map<string, Node>;
  readonly methods: Map<string, Integration>;
}

interface Operation {
  readonly 'x-amazon-apigateway-integration': Integration;
}

interface GatewayResponse {
  readonly statusCode: string;
  readonly responseParameters: Readonly<Record<string, string>>;
  readonly responseTemplates: { readonly 'application/json': string };
}

interface Integration {
  readonly type: string;
  readonly uri: string;
  /** Role used to call the function. */
  readonly credentials: string;
  /** Headers and path parameters of the request to an HTTP address. */
  readonly requestParameters?: Readonly<Record<string, string>>;
  readonly timeoutInMillis: number;
}

/**
 * Serves the REST API of an assembly at the root of a local port, as behind a custom domain. Paths, methods,
 * integrations with their modes and timeouts, throttling, media types and gateway responses come from the template.
 *
 * Paths match segment by segment, a fixed one before a parameter, without backtracking: API Gateway does not document
 * whether it backtracks, so the API must not need it.
 */
export async function startRestApi(): Promise<RestApi> {
  // Synthesis of templates blocks this process, which then notices closed connections late.
  const server = createServer({ maxHeaderSize: 64 * 1024, keepAliveTimeout: 0 });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  let api: Api;
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    deploy: (assembly) => api.deploy(assembly),
    move: (stage) => api.move(stage),
    control: (request, response) => api.control(request, response),
    get canary() {
      return api.canary;
    },
    get accessLog() {
      return api.accessLog;
    },
    serve(assembly, invoke, sendToWeb) {
      api = new Api(assembly, invoke, sendToWeb);
      server.on('request', (request, response) => {
        api.serve(request, response).catch((error) => {
          // A client that disconnects is not an error.
          if (!['ERR_STREAM_PREMATURE_CLOSE', 'ERR_STREAM_UNABLE_TO_PIPE'].includes(error?.code))
            process.stderr.write(`rest api: ${error?.stack ?? error}\n`);
          response.destroy();
        });
      });
    },
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

interface Bucket {
  readonly rate: number;
  readonly burst: number;
  tokens: number;
  filledAt: number;
}

interface MethodSettings {
  readonly HttpMethod: string;
  /** The path with `~1` for its slashes, after a slash; or `/*`. */
  readonly ResourcePath: string;
  readonly ThrottlingRateLimit: number;
  readonly ThrottlingBurstLimit: number;
}

/** Snapshot of the API at a deployment. */
interface Frozen {
  readonly root: Node;
  readonly binaryMediaTypes: readonly string[];
  readonly responses: Readonly<Record<string, GatewayResponse>>;
}

class Api {
  readonly #invoke: Invoke;
  readonly #sendToWeb: SendToWeb;
  readonly #id: string;
  readonly #deployments = new Map<string, Frozen>();
  #stage!: { readonly name: string; readonly deploymentId: string; readonly variables: Record<string, string> };
  #logFormat!: Readonly<Record<string, string>>;
  /** Token buckets: of each method with settings of its own, as `GET /health`, and of all other ones. */
  readonly #buckets: ReadonlyMap<string, Bucket>;
  canary: CanarySettings | undefined;
  readonly accessLog: Record<string, string>[] = [];

  constructor(assembly: Assembly, invoke: Invoke, sendToWeb: SendToWeb = noWeb) {
    this.#invoke = invoke;
    this.#sendToWeb = sendToWeb;
    const [api] = assembly.of('AWS::ApiGateway::RestApi');
    const [stage] = assembly.of('AWS::ApiGateway::Stage');
    this.#id = api!.id;
    this.deploy(assembly);
    this.move(stage!);
    const settings: readonly MethodSettings[] = stage!.properties.MethodSettings;
    this.#buckets = new Map(
      settings.map(({ HttpMethod, ResourcePath, ThrottlingRateLimit: rate, ThrottlingBurstLimit: burst }) => {
        const path = ResourcePath.slice(1).replaceAll('~1', '/');
        return [`${HttpMethod} ${path}`, { rate, burst, tokens: burst, filledAt: performance.now() }];
      }),
    );
  }

  deploy(assembly: Assembly): void {
    const [{ properties }] = assembly.of('AWS::ApiGateway::RestApi') as [Deployed];
    const [deployment] = assembly.of('AWS::ApiGateway::Deployment');
    this.#deployments.set(deployment!.id, {
      root: rootOf(properties.Body.paths),
      binaryMediaTypes: properties.Body['x-amazon-apigateway-binary-media-types'],
      responses: properties.Body['x-amazon-apigateway-gateway-responses'],
    });
  }

  move({ properties: { StageName, DeploymentId, Variables, AccessLogSetting } }: Deployed): void {
    if (this.canary) throw new Error('a stage with a canary takes no other deployment');
    this.#stage = { name: StageName, deploymentId: DeploymentId, variables: Variables };
    // Numbers are not quoted in the format.
    this.#logFormat = JSON.parse(AccessLogSetting.Format.replaceAll(/:(\$context\.[\w.]+)/g, ':"$1"'));
  }

  async control({ method, url, body }: WireRequest, response: ServerResponse): Promise<void> {
    const { name, deploymentId, variables } = this.#stage;
    const answer = (status: number, value: object) =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (url.pathname !== `/restapis/${this.#id}/stages/${name}`) return answer(404, { message: 'Invalid stage' });
    if (method === 'PATCH') {
      for (const { op, path, value } of JSON.parse(body.toString()).patchOperations) {
        const [, first, member, variable] = path.split('/');
        if (first !== 'canarySettings') return answer(400, { message: `Invalid patch path ${path}` });
        if (op === 'remove') {
          if (this.canary === undefined) return answer(400, { message: 'Canary does not exist' });
          this.canary = undefined;
          continue;
        }
        const canary = { deploymentId, percentTraffic: 0, stageVariableOverrides: {}, useStageCache: false };
        this.canary ??= canary;
        if (member === 'deploymentId' && !this.#deployments.has(value))
          return answer(400, { message: 'Deployment id does not exist' });
        if (member === 'percentTraffic') this.canary.percentTraffic = Number(value);
        else if (member === 'useStageCache') this.canary.useStageCache = value === 'true';
        else if (member === 'deploymentId') this.canary.deploymentId = value;
        else if (member === 'stageVariableOverrides') this.canary.stageVariableOverrides[variable] = value;
        else return answer(400, { message: `Invalid patch path ${path}` });
      }
    }
    answer(200, { stageName: name, deploymentId, variables, canarySettings: this.canary });
  }

  /** Picks the deployment that serves a request, at random as API Gateway does. */
  #draw() {
    const { canary } = this;
    const { deploymentId, variables } = this.#stage;
    if (canary === undefined || Math.random() * 100 >= canary.percentTraffic)
      return { frozen: this.#deployments.get(deploymentId)!, variables, isCanary: false };
    return {
      frozen: this.#deployments.get(canary.deploymentId)!,
      variables: { ...variables, ...canary.stageVariableOverrides },
      isCanary: true,
    };
  }

  #log(values: Readonly<Record<string, string>>): void {
    this.accessLog.push(
      Object.fromEntries(
        Object.entries(this.#logFormat).map(([name, text]) => [name, values[text.replace('$context.', '')] ?? '-']),
      ),
    );
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = randomUUID();
    const { frozen, variables, isCanary } = this.#draw();
    const began = performance.now();
    const matched = this.#match(frozen, request.method!, request.url!.split('?')[0]!);
    let refusal: string | undefined;
    response.on('close', () => {
      this.#log({
        requestId,
        status: String(response.statusCode),
        isCanaryRequest: this.canary === undefined && !isCanary ? '-' : String(isCanary),
        httpMethod: request.method!,
        responseLatency: String(Math.round(performance.now() - began)),
        ...(matched && { resourcePath: matched.resource }),
        ...(refusal && { 'error.responseType': refusal }),
      });
    });
    const refuse = (type: string, status: number) => {
      refusal = type;
      return this.#refuse(frozen, response, type, status, requestId);
    };
    if (matched === undefined) return refuse('MISSING_AUTHENTICATION_TOKEN', 403);
    if (!this.#takeToken(request.method!, matched.resource)) return refuse('THROTTLED', 429);
    if (request.rawHeaders.join('').length > MAX_HEADER_BYTES) return refuse('DEFAULT_4XX', 431);
    if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return refuse('REQUEST_TOO_LARGE', 413);
    const body = Buffer.concat(await request.toArray());
    if (body.length > MAX_BODY_BYTES) return refuse('REQUEST_TOO_LARGE', 413);
    const { integration, resource, pathParameters } = matched;
    if (integration.type === 'http_proxy') {
      const target = { ...matched, variables, requestId };
      return this.#proxy(request, response, body, target, (type, code) => refuse(type, code));
    }
    if (integration.type !== 'aws_proxy') throw new Error(`the rehearsal knows no integration ${integration.type}`);
    const stage = this.#stage.name;
    const event = proxyEvent(request, body, {
      resource,
      pathParameters,
      stage,
      requestId,
      binaryMediaTypes: frozen.binaryMediaTypes,
    });
    const uri = integration.uri.replaceAll(/\$\{stageVariables\.(\w+)\}/g, (_, name: string) => variables[name] ?? '');
    const [, functionArn, mode] = /functions\/([^/]+)\/(invocations|response-streaming-invocations)$/.exec(uri) ?? [];
    // The timeout starts when the function has the event, because a cold start here is slower than on AWS.
    const late = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const onBegin = () => {
      timer = setTimeout(() => late.abort(new Error('too late')), integration.timeoutInMillis).unref();
    };
    response.on('close', () => clearTimeout(timer));
    let answer: HttpAnswer;
    try {
      const { isStream, payload } = await within(
        late.signal,
        this.#invoke(functionArn!, event, integration.credentials, onBegin),
      );
      if (isStream !== (mode === 'response-streaming-invocations'))
        throw new Error(`${functionArn} answers otherwise than as ${mode}`);
      answer = await within(late.signal, isStream ? splitPrelude(payload) : buffered(payload));
    } catch (error) {
      if (late.signal.aborted) return refuse('INTEGRATION_TIMEOUT', 504);
      // Lambda did not start the function.
      if ((error as { code?: string }).code === 'TooManyRequestsException') return refuse('INTEGRATION_FAILURE', 504);
      // The event exceeds Lambda's limit although the request was within API Gateway's.
      if ((error as { code?: string }).code === 'RequestTooLargeException') return refuse('REQUEST_TOO_LARGE', 413);
      process.stderr.write(
        `rest api: ${request.method} ${resource}: ${error instanceof Error ? error.stack : error}\n`,
      );
      return refuse('DEFAULT_5XX', 502);
    }
    response.writeHead(answer.statusCode, { 'x-amzn-requestid': requestId, ...remapped(answer.headers) });
    // The gateway sends the head at once.
    response.flushHeaders();
    response.setTimeout(IDLE_LIMIT_MS, () => response.destroy());
    await pipeline(Readable.from(answer.body), response, { signal: late.signal });
  }

  /** Passes a request on to an HTTP address, and its response back. */
  async #proxy(
    request: IncomingMessage,
    response: ServerResponse,
    body: Buffer,
    { integration, pathParameters, variables, requestId }: HttpTarget,
    refuse: (type: string, status: number) => void,
  ): Promise<void> {
    const values: Readonly<Record<string, string>> = {
      'context.identity.sourceIp': SOURCE_IP,
      'context.requestId': requestId,
      ...Object.fromEntries(
        Object.entries(pathParameters).map(([name, value]) => [`method.request.path.${name}`, value]),
      ),
    };
    const mapped = Object.entries(integration.requestParameters ?? {}).map(([name, from]) => {
      const value = from.startsWith("'") ? unquoted(from) : values[from];
      if (value === undefined) throw new Error(`the rehearsal knows no ${from}`);
      return [name.replace('integration.request.', ''), value] as const;
    });
    const ofKind = (kind: string) =>
      Object.fromEntries(
        mapped.flatMap(([name, value]) => (name.startsWith(kind) ? [[name.slice(kind.length), value]] : [])),
      );
    const inPath = ofKind('path.');
    const { host, pathname } = new URL(
      integration.uri
        .replaceAll(/\$\{stageVariables\.(\w+)\}/g, (_, name: string) => variables[name] ?? '')
        .replaceAll(/\{(\w+)\}/g, (_, name: string) => inPath[name]!),
    );
    const [, search] = request.url!.split(/\?(.*)/s);
    const late = setTimeout(() => response.destroy(new Error('too late')), integration.timeoutInMillis).unref();
    response.on('close', () => clearTimeout(late));
    let answer: IncomingMessage;
    try {
      answer = await this.#sendToWeb(host, {
        method: request.method!,
        path: search ? `${pathname}?${search}` : pathname,
        // A mapped header replaces one of the client.
        headers: { ...(request.headers as Record<string, string | string[]>), ...ofKind('header.') },
        body,
      });
    } catch (error) {
      if (!(error instanceof WebFunctionError)) return refuse('INTEGRATION_FAILURE', 504);
      // An HTTP integration passes the answers of its target on as they are.
      process.stderr.write(`rest api: ${request.method} ${host}${pathname}: ${error.message}\n`);
      response.writeHead(error.status, { 'lambda-web-error-type': error.message.split(':')[0] });
      return void response.end('{"message":"Internal server error"}');
    }
    const headers = Object.fromEntries(
      Object.entries(answer.headers).flatMap(([name, value]) =>
        ['connection', 'keep-alive', 'transfer-encoding', 'date'].includes(name)
          ? []
          : [[name, [value].flat().join(', ')]],
      ),
    );
    response.writeHead(answer.statusCode!, { 'x-amzn-requestid': requestId, ...remapped(headers) });
    response.flushHeaders();
    response.setTimeout(IDLE_LIMIT_MS, () => response.destroy());
    // A client that leaves, or a process that dies, ends both.
    await pipeline(answer, response).catch(() => response.destroy());
  }

  #takeToken(method: string, resource: string): boolean {
    const bucket = this.#buckets.get(`${method} ${resource}`) ?? this.#buckets.get('* *')!;
    const now = performance.now();
    bucket.tokens = Math.min(bucket.burst, bucket.tokens + ((now - bucket.filledAt) / 1000) * bucket.rate);
    bucket.filledAt = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

  #match({ root }: Frozen, method: string, path: string) {
    const pathParameters: Record<string, string> = {};
    let node: Node | undefined = root;
    const segments = path === '/' ? [] : path.split('/').slice(1);
    for (const [i, segment] of segments.entries()) {
      const fixed: Node | undefined = node!.children.get(segment);
      const [name, child]: [string?, Node?] = [...node!.children].find(([part]) => part.startsWith('{')) ?? [];
      node = fixed ?? (segment === '' ? undefined : child);
      if (node === undefined) return undefined;
      if (fixed) continue;
      const parameter = name!.slice(1, -1);
      if (parameter.endsWith('+')) {
        pathParameters[parameter.slice(0, -1)] = segments.slice(i).join('/');
        break;
      }
      pathParameters[parameter] = segment;
    }
    const found = node.methods.get(method) ?? node.methods.get('ANY');
    return found && { integration: found, resource: node.path, pathParameters };
  }

  /** Sends a gateway response with the template's text. */
  #refuse({ responses }: Frozen, response: ServerResponse, type: string, status: number, requestId: string): void {
    const answer = responses[type] ?? responses[status < 500 ? 'DEFAULT_4XX' : 'DEFAULT_5XX'];
    const headers = Object.entries(answer?.responseParameters ?? {}).map(
      ([name, value]) => [name.replace('gatewayresponse.header.', ''), unquoted(value)] as const,
    );
    const template = answer?.responseTemplates['application/json'] ?? '{"message":$context.error.messageString}';
    response
      .writeHead(Number(answer?.statusCode ?? status), {
        'content-type': 'application/json',
        'x-amzn-requestid': requestId,
        ...Object.fromEntries(headers),
      })
      .end(
        template
          .replaceAll('$context.requestId', requestId)
          .replaceAll('$context.error.messageString', JSON.stringify(type)),
      );
  }
}

interface HttpTarget {
  readonly integration: Integration;
  readonly pathParameters: Readonly<Record<string, string>>;
  readonly variables: Readonly<Record<string, string>>;
  readonly requestId: string;
}

/** Address of all clients, as in `proxyEvent`. */
const SOURCE_IP = '203.0.113.7';

const noWeb: SendToWeb = () => Promise.reject(new Error('the stage has no web function'));

/** Builds the tree of paths from the document that API Gateway imports. */
function rootOf(paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>): Node {
  const root: Node = { path: '/', children: new Map(), methods: new Map() };
  for (const [path, operations] of Object.entries(paths)) {
    let node = root;
    for (const part of path.split('/').slice(1).filter(Boolean)) {
      const known = node.children.get(part);
      const child = known ?? {
        path: `${node === root ? '' : node.path}/${part}`,
        children: new Map(),
        methods: new Map(),
      };
      node.children.set(part, child);
      node = child;
    }
    for (const [method, operation] of Object.entries(operations)) {
      const name = method === 'x-amazon-apigateway-any-method' ? 'ANY' : method.toUpperCase();
      node.methods.set(name, operation['x-amazon-apigateway-integration']);
    }
  }
  return root;
}

/** Static values of mappings are written in single quotes. */
const unquoted = (value: string): string => value.replace(/^'(.*)'$/s, '$1');

async function buffered(payload: AsyncIterable<Uint8Array>): Promise<HttpAnswer> {
  const text = Buffer.concat(await Array.fromAsync(payload)).toString();
  const { statusCode, headers, body, isBase64Encoded }: APIGatewayProxyResult = JSON.parse(text);
  // The gateway decodes base64 only for clients that accept one of its binary media types; our clients accept none.
  if (isBase64Encoded) throw new Error('a buffered answer must be text');
  return { statusCode, headers: headers as Record<string, string>, body: [Buffer.from(body)] };
}

/** Response headers that the gateway renames. */
const REMAPPED = new Set(['authorization', 'connection', 'content-md5', 'date', 'server', 'www-authenticate']);

const remapped = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      REMAPPED.has(name.toLowerCase()) ? `x-amzn-remapped-${name}` : name,
      value,
    ]),
  );

/** Settles as the promise does, or rejects with the signal's reason if it aborts first. */
async function within<Result>(signal: AbortSignal, promise: Promise<Result>): Promise<Result> {
  promise.catch(() => {});
  const { promise: late, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort);
  try {
    return await Promise.race([promise, late]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
