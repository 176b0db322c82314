import { randomUUID } from 'node:crypto';
import { PassThrough, Readable, type Writable } from 'node:stream';

/** Result of a handler: a JSON value, or its stream including the prelude. */
export interface Invocation {
  readonly isStream: boolean;
  readonly payload: AsyncIterable<Uint8Array>;
}

export interface HttpAnswer {
  readonly statusCode: number;
  readonly headers: Record<string, string>;
  readonly body: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

// biome-ignore lint/suspicious/noExplicitAny: a handler of either kind, as the runtime sees it.
type Handler = (...args: any[]) => unknown;

const STREAMING = Symbol('streaming');
/** Separator between the prelude and the body of a streamed answer. */
const DELIMITER = new Uint8Array(8);

/** Global of Lambda's Node runtime for streaming functions, with the same wire format. */
Object.assign(globalThis, {
  awslambda: {
    streamifyResponse: (handler: Handler) => Object.assign(handler, { [STREAMING]: true }),
    HttpResponseStream: {
      from(stream: Writable, prelude: unknown): Writable {
        stream.write(JSON.stringify(prelude));
        stream.write(DELIMITER);
        return stream;
      },
    },
  },
});

/** Calls a handler as Lambda does. A failing handler rejects or truncates the payload. */
export async function invoke(handler: Handler, event: unknown): Promise<Invocation> {
  const context = {
    awsRequestId: randomUUID(),
    functionName: 'test',
    functionVersion: '$LATEST',
    invokedFunctionArn: 'arn:aws:lambda:us-east-1:111122223333:function:test',
    memoryLimitInMB: '1024',
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => 30_000,
  };
  if (!(STREAMING in handler)) {
    const result = await handler(event, context);
    return { isStream: false, payload: Readable.from([Buffer.from(JSON.stringify(result ?? null))]) };
  }
  const stream = new PassThrough();
  Promise.resolve(handler(event, stream, context)).catch((error) => stream.destroy(error));
  return { isStream: true, payload: stream };
}

/** Splits a streamed answer into status, headers and body. Throws if it ends before the body. */
export async function splitPrelude(payload: AsyncIterable<Uint8Array>): Promise<HttpAnswer> {
  const chunks = payload[Symbol.asyncIterator]();
  let head = Buffer.alloc(0);
  let end = -1;
  while (end < 0) {
    const { value, done } = await chunks.next();
    if (done) throw new Error('the function answered no prelude');
    head = Buffer.concat([head, value]);
    end = head.indexOf(DELIMITER);
  }
  const rest = head.subarray(end + DELIMITER.length);
  async function* body(): AsyncGenerator<Uint8Array> {
    if (rest.length > 0) yield rest;
    yield* { [Symbol.asyncIterator]: () => chunks };
  }
  const { statusCode, headers = {} } = JSON.parse(head.subarray(0, end).toString());
  return { statusCode, headers, body: body() };
}
