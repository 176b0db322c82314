import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { APIGatewayProxyResult } from 'aws-lambda';
import { routes } from '#core/api.ts';
import type { AllDeps } from '#core/deps.ts';
import { statusOf } from '#core/errors.ts';
import type { EventName } from '#core/events.ts';
import { allHandlers } from '#core/handlers.ts';
import type { FunctionName, Route } from '#core/http/route.ts';
import { createHandler } from '#functions/lambda.ts';
import { GATEWAY_ERRORS, gatewayErrorBody } from '#lib/gateway-errors.ts';
import { proxyEvent } from './api-gateway-event.ts';
import { type HttpAnswer, type Invocation, invoke, splitPrelude } from './lambda-runtime.ts';

/** Limits of API Gateway on a request's body, and of Lambda on an event and a buffered answer. */
const MAX_BODY_BYTES = 10 * 1024 * 1024;
const MAX_PAYLOAD_BYTES = 6_291_556;
const STAGE = 'test';

export interface LambdaHost {
  /** Without a slash at the end. */
  readonly url: string;
  /** Calls a function that serves no routes, as the clock or another function does; only where there are bundles. */
  invoke(name: EventName, event: unknown): Promise<Invocation>;
  close(): Promise<void>;
}

/** A function, however it runs. */
interface Running {
  invoke(event: unknown): Promise<Invocation>;
  stop(): Promise<void>;
}

/** What the functions are: the handlers on these ports, or bundles of scripts/build-functions.ts. */
type Source =
  | { readonly deps: AllDeps }
  | { readonly bundles: string; readonly environmentOf: (fn: FunctionName | EventName) => Record<string, string> };

/**
 * The API as it is deployed, on a port of this machine: requests become API Gateway's proxy events, are sent to the
 * function that the route table names, and its answers become responses, within the gateway's and Lambda's limits.
 *
 * Bundles run each in a process of its own, started by the first request, with the environment that `environmentOf`
 * says and no other; handlers run in this process.
 */
export async function startLambdaHost(sourceAt: (url: string) => Source): Promise<LambdaHost> {
  const functions = new Map<FunctionName | EventName, Promise<Running>>();
  const running = (fn: FunctionName | EventName): Promise<Running> => {
    if (!functions.has(fn)) functions.set(fn, start(source, fn));
    return functions.get(fn)!;
  };

  const server = createServer((request, response) => {
    serve(request, response, running).catch((error) => {
      process.stderr.write(`lambda host: ${error instanceof Error ? error.stack : error}\n`);
      response.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const source = sourceAt(url);
  return {
    url,
    invoke: async (name, event) => (await running(name)).invoke(event),
    async close() {
      server.closeAllConnections();
      server.close();
      for (const each of functions.values()) await (await each).stop();
    },
  };
}

const start = (source: Source, fn: FunctionName | EventName): Promise<Running> =>
  'deps' in source
    ? inProcess(fn as FunctionName, source.deps)
    : inWorker(join(source.bundles, fn, 'index.mjs'), source.environmentOf(fn));

async function inProcess(fn: FunctionName, deps: AllDeps): Promise<Running> {
  const handler = createHandler(fn, deps, allHandlers(deps));
  return { invoke: (event) => invoke(handler, event), stop: async () => {} };
}

async function inWorker(bundle: string, environment: Record<string, string>): Promise<Running> {
  const worker = spawn(process.execPath, [join(import.meta.dirname, 'lambda-worker.ts'), bundle], {
    env: environment,
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  const exited = once(worker, 'exit');
  const output: string[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: worker.stderr }).on('line', (line) => {
      const port = /^listening on (\d+)$/.exec(line)?.[1];
      if (port) resolve(`http://127.0.0.1:${port}`);
      else output.push(line);
    });
    exited.then(() => reject(new Error(`${bundle} did not start:\n${output.join('\n')}`)));
  });
  return {
    async invoke(event) {
      const response = await fetch(url, { method: 'POST', body: JSON.stringify(event) });
      if (!response.ok) throw new Error(`${bundle} failed:\n${output.join('\n')}`);
      return { isStream: response.headers.get('x-mode') === 'stream', payload: response.body! };
    },
    async stop() {
      worker.stdin.end();
      await exited;
    },
  };
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  running: (fn: FunctionName) => Promise<Running>,
): Promise<void> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) {
    return gatewayError(response, 'REQUEST_TOO_LARGE', randomUUID());
  }
  const body = Buffer.concat(await request.toArray());
  const matched = match(request.method!, request.url!.split('?')[0]!);
  if (matched === undefined) return gatewayError(response, 'MISSING_AUTHENTICATION_TOKEN', randomUUID());
  const event = proxyEvent(request, body, { ...matched, stage: STAGE });
  const { requestId } = event.requestContext;
  if (body.length > MAX_BODY_BYTES || Buffer.byteLength(JSON.stringify(event)) > MAX_PAYLOAD_BYTES) {
    return gatewayError(response, 'REQUEST_TOO_LARGE', requestId);
  }
  let answer: HttpAnswer;
  try {
    const { isStream, payload } = await (await running(matched.fn)).invoke(event);
    answer = isStream ? await splitPrelude(payload) : await buffered(payload);
  } catch (error) {
    process.stderr.write(`lambda host: ${error instanceof Error ? error.stack : error}\n`);
    return gatewayError(response, 'DEFAULT_5XX', requestId);
  }
  response.writeHead(answer.statusCode, { 'x-amzn-requestid': requestId, ...answer.headers });
  await pipeline(Readable.from(answer.body), response);
}

async function buffered(payload: AsyncIterable<Uint8Array>): Promise<HttpAnswer> {
  const bytes = Buffer.concat(await Array.fromAsync(payload));
  if (bytes.length > MAX_PAYLOAD_BYTES) throw new Error(`an answer of ${bytes.length} bytes cannot leave Lambda`);
  const { statusCode, headers, body, isBase64Encoded }: APIGatewayProxyResult = JSON.parse(bytes.toString());
  // The gateway decodes base64 only for clients that accept one of its binary media types; none of ours does.
  if (isBase64Encoded) throw new Error('a buffered answer must be text');
  return { statusCode, headers: headers as Record<string, string>, body: [Buffer.from(body)] };
}

function gatewayError(response: ServerResponse, type: string, requestId: string): void {
  response
    .writeHead(statusOf(GATEWAY_ERRORS[type]!.code), {
      'content-type': 'application/json',
      'x-amzn-requestid': requestId,
    })
    .end(gatewayErrorBody(type, requestId));
}

/** A fixed segment goes before a parameter, segment by segment; a method without a row of its own is `meta`'s. */
function match(method: string, path: string) {
  const given = path.split('/').slice(1);
  let candidates = (routes as readonly Route[]).map((route) => ({ route, segments: route.path.split('/').slice(1) }));
  candidates = candidates.filter(({ segments }) => segments.length === given.length);
  for (const [i, segment] of given.entries()) {
    const fixed = candidates.filter(({ segments }) => segments[i] === segment);
    candidates =
      fixed.length > 0 ? fixed : candidates.filter(({ segments }) => segments[i]!.startsWith('{') && segment !== '');
  }
  const [first] = candidates;
  if (first === undefined) return undefined;
  const fn = candidates.find(({ route }) => route.method === method)?.route.fn ?? 'meta';
  const parameters = first.segments.map((segment, i) => [segment, given[i]!] as const);
  const pathParameters = Object.fromEntries(
    parameters.filter(([name]) => name.startsWith('{')).map(([name, value]) => [name.slice(1, -1), value]),
  );
  return { fn, resource: first.route.path, pathParameters };
}
