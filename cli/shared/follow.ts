import { setTimeout as sleep } from 'node:timers/promises';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { UsageError } from '#client/usage-error.ts';
import { ApiError, type Client } from '#core/api/client.ts';
import { ERROR_CODES, httpStatusOf } from '#core/base/errors.ts';
import { isResponse } from '../signing-in/connection.ts';
import type { Cli } from './cli.ts';

/** An event of a stream (`docs/interface/events.md`). */
export interface FollowedEvent {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const WAIT_MS = 1_000;
const MAX_WAIT_MS = 15_000;
/** Three heartbeats. */
const SILENCE_MS = 45_000;
/** Workspace streams repeat some seconds of events after a reconnection. */
const KNOWN_IDS = 5_000;

export interface FollowOptions {
  /** Event to resume after. @default - from the beginning */
  readonly after?: string;
  readonly signal?: AbortSignal;
  /** Whether lost connections are not told. @default false */
  readonly isQuiet?: boolean;
}

/**
 * Yields the events of a stream and reconnects after the last event when the connection is lost, or the platform starts
 * again, for as long as it takes. Ends after the event `end`, or when `signal` aborts. Throws the API's error if the
 * request is refused: what was followed is gone, or the key has lost its access.
 *
 * @param open sends the request with these headers
 * @param identityOf tells events that a stream repeats after a reconnection from new ones
 */
async function* follow(
  cli: Cli,
  open: (headers: Record<string, string>) => Promise<unknown>,
  identityOf: (event: FollowedEvent) => string,
  { after, signal, isQuiet = false }: FollowOptions = {},
): AsyncGenerator<FollowedEvent> {
  let last = after;
  let failures = 0;
  const known = new Set<string>();
  while (true) {
    if (signal?.aborted) return;
    let waitMs = WAIT_MS;
    try {
      const answer = await open({ accept: 'text/event-stream', ...(last !== undefined && { 'last-event-id': last }) });
      if (!isResponse(answer)) throw new UsageError('This version of the platform cannot stream events.');
      failures = 0;
      for await (const event of eventsOf(answer, signal)) {
        last = event.id;
        const identity = identityOf(event);
        if (known.has(identity)) continue;
        known.add(identity);
        if (known.size > KNOWN_IDS) known.delete(known.values().next().value!);
        yield event;
        if (event.type === 'end') return;
      }
    } catch (error) {
      if (error instanceof UsageError || isRefused(error)) throw error;
      if (failures === 0 && !isQuiet) cli.output.note('Connection lost. Reconnecting.');
      failures++;
      waitMs = Math.max(Math.min(WAIT_MS * 1.5 ** (failures - 1), MAX_WAIT_MS), askedWaitMs(error));
    }
    await sleep(waitMs, undefined, { signal }).catch(() => {});
  }
}

/** Repeats a request until the platform answers it: it may be starting again. Throws the API's error. */
export async function untilAnswered<Result>(ask: () => Promise<Result>): Promise<Result> {
  for (let failures = 0; ; failures++) {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof UsageError || isRefused(error)) throw error;
      await sleep(Math.max(Math.min(WAIT_MS * 1.5 ** failures, MAX_WAIT_MS), askedWaitMs(error)));
    }
  }
}

/** Whether the same request would be refused again. A place among the streams of the workspace may become free. */
const isRefused = (error: unknown): boolean =>
  (error as Error).name === 'ApiError' && (error as ApiError).status < 500 && (error as ApiError).status !== 429;

const askedWaitMs = (error: unknown): number =>
  Math.min(Number((error as Partial<ApiError>).detail?.suggested_wait_time ?? 0) * 1000, 60_000);

async function* eventsOf(response: Response, signal?: AbortSignal): AsyncGenerator<FollowedEvent> {
  for await (const { event, data } of messagesOf(response, signal)) {
    const parsed = JSON.parse(data);
    if (event === 'error') throw streamError(parsed);
    yield parsed;
  }
}

/**
 * Yields the messages of a stream until it ends or `signal` aborts. Throws if nothing arrives for longer than the
 * heartbeat interval.
 */
export async function* messagesOf(response: Response, signal?: AbortSignal): AsyncGenerator<EventSourceMessage> {
  const waiting: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => waiting.push(message) });
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  const cancel = () => void reader.cancel().catch(() => {});
  signal?.addEventListener('abort', cancel);
  try {
    while (!signal?.aborted) {
      const { promise: silence, reject } = Promise.withResolvers<never>();
      const timer = setTimeout(() => reject(new Error('the connection timed out')), SILENCE_MS);
      const { done, value } = await Promise.race([reader.read(), silence]).finally(() => clearTimeout(timer));
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      yield* waiting.splice(0);
    }
  } finally {
    signal?.removeEventListener('abort', cancel);
    await reader.cancel().catch(() => {});
  }
}

/**
 * Returns the error of a stream with the HTTP status that it would have in a response, because exit statuses depend on
 * it.
 */
export function streamError(envelope: {
  readonly error?: { readonly code?: string; readonly message?: string };
  readonly metadata?: object;
}): ApiError {
  const code = ERROR_CODES.find((each) => each === envelope.error?.code);
  return new ApiError(httpStatusOf(code ?? 'INTERNAL_ERROR'), envelope);
}

/** Yields the events of a run from its start, or after the event `after`, to its end. `client`: default the CLI's. */
export const followRun = (
  cli: Cli,
  params: { readonly workspace_id: string; readonly run_id: string },
  { client, ...options }: FollowOptions & { readonly client?: Client } = {},
): AsyncGenerator<FollowedEvent> =>
  follow(
    cli,
    async (headers) => (client ?? (await cli.client())).listRunEvents({ params, headers }),
    // Sub-calls and the end have the number of the event before them.
    ({ id, type, data }) => JSON.stringify([id, type, data]),
    options,
  );

/** Yields new events of the workspace until `signal` aborts. `types`: comma-separated kinds of events. */
export async function* followWorkspace(cli: Cli, types: string, signal?: AbortSignal): AsyncGenerator<FollowedEvent> {
  const request = { params: { workspace_id: await cli.workspaceId() }, query: { types } };
  const client = await cli.client();
  // Cursor to resume from if the first connection is lost before any event.
  const { next } = await client.listWorkspaceEvents(request);
  const open = (headers: Record<string, string>) => client.listWorkspaceEvents({ ...request, headers });
  yield* follow(cli, open, ({ id }) => id, { after: next, signal });
}
