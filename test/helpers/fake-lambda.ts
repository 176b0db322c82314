import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { crc32 } from 'node:zlib';
import { TEST_ACCOUNT, TEST_REGION } from './aws-account.ts';
import type { Invocation } from './lambda-runtime.ts';

/** Lambda's payload limits for synchronous and asynchronous invocations. */
const MAX_EVENT_BYTES = 6 * 1024 * 1024;
const MAX_ASYNC_EVENT_BYTES = 1024 * 1024;

export interface FakeLambda {
  readonly url: string;
  /** `<invocation type> <function>` of every call, in order. */
  readonly calls: readonly string[];
  /** Archive of every existing layer version, by ARN. */
  readonly layers: ReadonlyMap<string, Uint8Array>;
  /** Throttles the next `count` calls; `breakOff` cuts their answers off at the second chunk. */
  throttle(count: number): void;
  breakOff(count: number): void;
  /** Refuses the next `count` requests about layers with this error. */
  refuseLayers(type: string, count: number): void;
  /** Executes the next `count` calls and loses their answers. */
  fail(count: number): void;
  close(): Promise<void>;
}

/**
 * Fakes Lambda's Invoke with its three invocation types, and layer versions, on the SDK's wire protocol. `invoke` refuses
 * with an error that has a status and one of Lambda's codes.
 */
export async function startFakeLambda(
  invoke: (functionName: string, event: unknown, how: string, tenantId?: string) => Promise<Invocation>,
): Promise<FakeLambda> {
  const calls: string[] = [];
  const layers = new Map<string, Uint8Array>();
  const published = new Map<string, number>();
  /** Answers a request about a layer; returns `undefined` for any other request. */
  function answerLayer(method: string, url: string, body: Buffer): object | undefined {
    const [, name, number] =
      /^\/2018-10-31\/layers\/([^/]+)\/versions(?:\/(\d+))?$/.exec(decodeURIComponent(url)) ?? [];
    if (name === undefined) return undefined;
    const arn = name.startsWith('arn:') ? name : `arn:aws:lambda:${TEST_REGION}:${TEST_ACCOUNT}:layer:${name}`;
    if (method === 'DELETE') {
      layers.delete(`${arn}:${number}`);
      return {};
    }
    const Version = (published.get(arn) ?? 0) + 1;
    published.set(arn, Version);
    layers.set(`${arn}:${Version}`, Buffer.from(JSON.parse(body.toString()).Content.ZipFile, 'base64'));
    return { LayerArn: arn, LayerVersionArn: `${arn}:${Version}`, Version };
  }
  let throttled = 0;
  let broken = 0;
  let failing = 0;
  const refused = { type: '', count: 0 };
  const running = new Set<Promise<unknown>>();
  // Idle connections must stay open, because clients reuse them and do not retry.
  const server = createServer({ keepAliveTimeout: 0 }, async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    const fail = (status: number, type: string) =>
      response
        .writeHead(status, { 'content-type': 'application/json', 'x-amzn-errortype': type })
        .end(JSON.stringify({ message: type }));
    if (refused.count > 0 && request.url!.includes('/layers/')) {
      refused.count -= 1;
      return void fail(400, refused.type);
    }
    const aboutLayer = answerLayer(request.method!, request.url!, body);
    if (aboutLayer !== undefined) {
      return void response.writeHead(request.method === 'POST' ? 201 : 204).end(JSON.stringify(aboutLayer));
    }
    const [, name = '', path] = /^\/20\d\d-\d\d-\d\d\/functions\/([^/]+)\/([a-z-]+)$/.exec(request.url!) ?? [];
    const type = request.headers['x-amz-invocation-type'] ?? 'RequestResponse';
    calls.push(`${path === 'invocations' ? type : 'stream'} ${decodeURIComponent(name)}`);
    if (throttled > 0) {
      throttled -= 1;
      return void fail(429, 'TooManyRequestsException');
    }
    const limit = type === 'Event' ? MAX_ASYNC_EVENT_BYTES : MAX_EVENT_BYTES;
    if (body.length > limit) return void fail(413, 'RequestTooLargeException');
    const tenantId = request.headers['x-amz-tenant-id'] as string | undefined;
    const work = invoke(decodeURIComponent(name), JSON.parse(body.toString() || 'null'), String(type), tenantId);
    if (failing > 0 && type !== 'Event') {
      failing -= 1;
      await Array.fromAsync((await work).payload);
      return void response.destroy();
    }
    if (type === 'Event') {
      const done = work.then(({ payload }) => Array.fromAsync(payload)).catch(() => {});
      running.add(done);
      void done.then(() => running.delete(done));
      return void response.writeHead(202).end();
    }
    if (path === 'response-streaming-invocations') {
      const refusal = await work.then(
        () => undefined,
        (error) => (error.status === undefined ? undefined : error),
      );
      if (refusal !== undefined) return void fail(refusal.status, refusal.code);
      response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' });
      // A function continues after its client disconnects.
      await stream(response, work, broken > 0);
      broken = Math.max(0, broken - 1);
      return;
    }
    try {
      const { payload } = await work;
      response.writeHead(200).end(Buffer.concat(await Array.fromAsync(payload)));
    } catch (error) {
      response
        .writeHead(200, { 'x-amz-function-error': 'Unhandled' })
        .end(JSON.stringify({ errorMessage: String(error) }));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    layers,
    throttle(count) {
      throttled += count;
    },
    refuseLayers(type, count) {
      Object.assign(refused, { type, count });
    },
    fail(count) {
      failing += count;
    },
    breakOff(count) {
      broken += count;
    },
    async close() {
      await Promise.allSettled(running);
      server.closeAllConnections();
      server.close();
    },
  };
}

async function stream(response: ServerResponse, work: Promise<Invocation>, breaksOff: boolean): Promise<void> {
  try {
    let count = 0;
    for await (const chunk of (await work).payload) {
      response.write(message('PayloadChunk', 'application/octet-stream', chunk));
      count += 1;
      if (breaksOff && count === 2) return void response.destroy();
    }
    response.end(message('InvokeComplete', 'application/json', Buffer.from('{}')));
  } catch (error) {
    const details = { ErrorCode: 'Unhandled', ErrorDetails: String(error) };
    response.end(message('InvokeComplete', 'application/json', Buffer.from(JSON.stringify(details))));
  }
}

/**
 * Encodes a message of `application/vnd.amazon.eventstream`: prelude, headers, payload, and a CRC-32 after each part.
 */
function message(eventType: string, contentType: string, payload: Uint8Array): Buffer {
  const headers = Buffer.concat(
    Object.entries({ ':message-type': 'event', ':event-type': eventType, ':content-type': contentType }).map(
      ([name, value]) => {
        const length = Buffer.alloc(2);
        length.writeUInt16BE(value.length);
        // Type 7 is a string.
        return Buffer.concat([
          Buffer.from([name.length]),
          Buffer.from(name),
          Buffer.from([7]),
          length,
          Buffer.from(value),
        ]);
      },
    ),
  );
  const prelude = Buffer.alloc(8);
  prelude.writeUInt32BE(8 + 4 + headers.length + payload.length + 4, 0);
  prelude.writeUInt32BE(headers.length, 4);
  const start = Buffer.concat([prelude, crcOf(prelude), headers, payload]);
  return Buffer.concat([start, crcOf(start)]);
}

function crcOf(bytes: Uint8Array): Buffer {
  const crc = Buffer.alloc(4);
  crc.writeUInt32BE(crc32(bytes));
  return crc;
}
