import { setTimeout as sleep } from 'node:timers/promises';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { EXIT, UsageError } from '#client/usage-error.ts';
import { ApiError } from '#core/api/client.ts';
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
/** Three heartbeats. */
const SILENCE_MS = 45_000;
/** Maximum number of consecutive connections without data. */
const MAX_FAILURES = 30;
/** Workspace streams repeat some seconds of events after a reconnection. */
const KNOWN_IDS = 5_000;

/**
 * Yields the events of a stream and reconnects after the last event when the connection is lost. Ends after the event
 * `end`, or when `signal` aborts. Throws the API's error, and UsageError if the platform stays unreachable.
 *
 * @param open sends the request with these headers
 * @param after the event to resume after; repeated events of workspace streams are skipped
 */
async function* follow(
  cli: Cli,
  open: (headers: Record<string, string>) => Promise<unknown>,
  { after, signal }: { readonly after?: string; readonly signal?: AbortSignal } = {},
): AsyncGenerator<FollowedEvent> {
  let last = after;
  let failures = 0;
  const known = new Set<string>();
  while (failures < MAX_FAILURES) {
    if (signal?.aborted) return;
    try {
      const answer = await open({ accept: 'text/event-stream', ...(last !== undefined && { 'last-event-id': last }) });
      if (!isResponse(answer)) throw new UsageError('This version of the platform cannot stream events.');
      failures = 0;
      for await (const event of eventsOf(answer, signal)) {
        last = event.id;
        if (after !== undefined && known.has(event.id)) continue;
        known.add(event.id);
        if (known.size > KNOWN_IDS) known.delete(known.values().next().value!);
        yield event;
        if (event.type === 'end') return;
      }
    } catch (error) {
      const isRefused = (error as Error).name === 'ApiError' && (error as ApiError).status < 500;
      if (error instanceof UsageError || isRefused) throw error;
      if (failures === 0) cli.output.note('Connection lost. Reconnecting.');
    }
    failures++;
    await sleep(WAIT_MS, undefined, { signal }).catch(() => {});
  }
  throw new UsageError('The platform stopped responding.', { exitCode: EXIT.network });
}

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
export function streamError(envelope: { readonly error?: { readonly code?: string } }): ApiError {
  const code = ERROR_CODES.find((each) => each === envelope.error?.code);
  return new ApiError(httpStatusOf(code ?? 'INTERNAL_ERROR'), envelope);
}

/** Yields the events of a run from its start to its end. */
export const followRun = (
  cli: Cli,
  params: { readonly workspace_id: string; readonly run_id: string },
): AsyncGenerator<FollowedEvent> =>
  follow(cli, async (headers) => (await cli.client()).listRunEvents({ params, headers }));

/** Yields new events of the workspace until `signal` aborts. `types`: comma-separated kinds of events. */
export async function* followWorkspace(cli: Cli, types: string, signal?: AbortSignal): AsyncGenerator<FollowedEvent> {
  const request = { params: { workspace_id: await cli.workspaceId() }, query: { types } };
  const client = await cli.client();
  // Cursor to resume from if the first connection is lost before any event.
  const { next } = await client.listWorkspaceEvents(request);
  yield* follow(cli, (headers) => client.listWorkspaceEvents({ ...request, headers }), { after: next, signal });
}
