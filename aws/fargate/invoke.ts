import {
  InvokeWithResponseStreamCommand,
  type InvokeWithResponseStreamResponseEvent,
  type LambdaClient,
} from '@aws-sdk/client-lambda';
import { HostBusyError, hasCode } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import { isThrottle } from '../tables/throttles.ts';

const TRIES = 4;
const FIRST_PAUSE_MS = 100;

/** A function's streamed response: one line of JSON, then bytes. */
export interface StreamedAnswer<Head> {
  readonly head: Head;
  /** Throws if the function fails or is lost before its end. */
  readonly body: AsyncGenerator<Uint8Array>;
}

/**
 * Invokes a function once and streams its response. Retries only if Lambda reports that the function did not run; after
 * any other error it may have run. `client` must not retry by itself. Throws {@link HostBusyError} if Lambda keeps
 * refusing.
 *
 * @param options.tenantId Required by functions with tenant isolation.
 */
export async function invokeStreaming<Head>(
  host: { readonly client: LambdaClient; readonly clock: Clock },
  functionName: string,
  event: object,
  options: { readonly signal?: AbortSignal; readonly tenantId?: string } = {},
): Promise<StreamedAnswer<Head>> {
  return invokeOnce(host, functionName, event, { delimiter: Buffer.from('\n'), ...options });
}

/** Does the same for a response whose first part, a JSON text, ends at `delimiter`. */
export async function invokeOnce<Head>(
  { client, clock }: { readonly client: LambdaClient; readonly clock: Clock },
  functionName: string,
  event: object,
  {
    delimiter,
    signal,
    tenantId,
  }: {
    readonly delimiter: Uint8Array;
    readonly signal?: AbortSignal | undefined;
    readonly tenantId?: string | undefined;
  },
): Promise<StreamedAnswer<Head>> {
  const command = new InvokeWithResponseStreamCommand({
    FunctionName: functionName,
    Payload: Buffer.from(JSON.stringify(event)),
    TenantId: tenantId,
  });
  for (let tries = 1; ; tries++) {
    try {
      const { EventStream } = await client.send(command, { abortSignal: signal });
      return await readHead(functionName, chunksOf(functionName, EventStream!), delimiter);
    } catch (error) {
      if (!isRefused(error)) throw error;
      if (tries === TRIES)
        throw new HostBusyError(`${functionName} was not called: ${String(error)}`, { cause: error });
      await clock.sleep(FIRST_PAUSE_MS * 2 ** tries, signal);
    }
  }
}

async function* chunksOf(
  functionName: string,
  events: AsyncIterable<InvokeWithResponseStreamResponseEvent>,
): AsyncGenerator<Uint8Array> {
  for await (const { PayloadChunk, InvokeComplete } of events) {
    if (PayloadChunk?.Payload) yield PayloadChunk.Payload;
    if (InvokeComplete === undefined) continue;
    if (InvokeComplete.ErrorCode) throw new Error(`${functionName} failed: ${InvokeComplete.ErrorCode}`);
    return;
  }
  throw new Error(`${functionName} was lost`);
}

async function readHead<Head>(
  functionName: string,
  chunks: AsyncGenerator<Uint8Array>,
  delimiter: Uint8Array,
): Promise<StreamedAnswer<Head>> {
  let start = Buffer.alloc(0);
  for (;;) {
    const { value, done } = await chunks.next();
    if (done) throw new Error(`${functionName} answered nothing`);
    start = Buffer.concat([start, value]);
    const end = start.indexOf(delimiter);
    if (end < 0) continue;
    const rest = start.subarray(end + delimiter.length);
    return {
      head: JSON.parse(start.subarray(0, end).toString()),
      body: (async function* () {
        if (rest.length > 0) yield rest;
        yield* chunks;
      })(),
    };
  }
}

/** Lambda refused before the function ran. */
const isRefused = (error: unknown): boolean => isThrottle(error) || hasCode(error, 'ECONNREFUSED');
