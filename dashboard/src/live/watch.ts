import { EventSourceParserStream } from 'eventsource-parser/stream';
import { type AnswerOf, type ArgumentsOf, sendOperation } from '../api/client.ts';
import { ApiError } from '../api-error.ts';

/**
 * `live`: events arrive as they happen. `reconnecting`: the stream broke and is being resumed. `polling`: streams fail,
 * so events are polled. `paused`: by the user, or because the tab is hidden. `over`: no further events are possible.
 */
export type LiveState = 'live' | 'paused' | 'reconnecting' | 'polling' | 'over';
export type WatchName = 'listRunEvents' | 'listWorkspaceEvents';
export type LiveEvent = AnswerOf<WatchName>['events'][number];

export interface WatchOptions<Name extends WatchName> {
  readonly name: Name;
  readonly args: ArgumentsOf<Name>;
  readonly onEvent: (event: LiveEvent) => void;
  readonly onState: (state: LiveState) => void;
  /** Called when events were lost permanently and the data must be refetched. */
  readonly onGap: () => void;
}

const POLL_MS = 5_000;
const LONGEST_WAIT_MS = 15_000;
/** Consecutive stream failures before falling back to polling. */
const PATIENCE = 3;
/** Polls before the stream is retried. */
const POLLS = 12;
/** Maximum number of event ids kept for deduplication, since a resumed stream repeats some events. */
const MAX_KNOWN = 5_000;

/**
 * Follows the events of a run or a workspace, resuming after the last known event and delivering each event once. Ends
 * on `signal`, at the end of a run, and when the session has ended.
 */
export async function watch<Name extends WatchName>(
  { name, args, onEvent, onState, onGap }: WatchOptions<Name>,
  signal: AbortSignal,
): Promise<void> {
  const { after, ...query } = (args as { query?: Record<string, unknown> }).query ?? {};
  let last = after as string | undefined;
  let failures = 0;
  const known = new Set<string>();

  /** Returns whether this was the last event. */
  const take = (event: LiveEvent): boolean => {
    // Some events share the id of the previous one.
    const key = `${event.id} ${event.type} ${event.created_at} ${String(event.data.run_id ?? '')}`;
    if (!known.has(key)) {
      known.add(key);
      if (known.size > MAX_KNOWN) known.delete(known.values().next().value!);
      last = event.id;
      onEvent(event);
    }
    return event.type === 'end';
  };
  const ask = async (accept: string): Promise<Response> => {
    const asked = {
      ...(args as object),
      query: { ...query, ...(last !== undefined && { after: last }) },
      headers: { accept },
    } as ArgumentsOf<Name>;
    const response = await sendOperation(name, asked, { signal });
    if (response.ok) return response;
    throw new ApiError(response.status, await response.json().catch(() => undefined), response.headers);
  };
  const stream = async (): Promise<boolean> => {
    const { body } = await ask('text/event-stream');
    onState('live');
    const records = body!.pipeThrough(new TextDecoderStream() as never).pipeThrough(new EventSourceParserStream());
    for await (const { event, data } of records as unknown as AsyncIterable<{ event?: string; data: string }>) {
      // The caller lost access; the next request returns the reason.
      if (event === 'error') return false;
      failures = 0;
      if (take(JSON.parse(data))) return true;
    }
    return false;
  };
  const poll = async (): Promise<boolean> => {
    for (let count = 0; count < POLLS; count++) {
      const { events, next, is_over } = (await (await ask('application/json')).json()) as AnswerOf<WatchName>;
      onState('polling');
      for (const event of events) take(event);
      last = next;
      if (is_over) return true;
      await pause(POLL_MS, signal);
    }
    return false;
  };

  while (!signal.aborted) {
    try {
      if (await (failures < PATIENCE ? stream() : poll())) return onState('over');
      // The stream reached its time limit, or the stream is being retried after polling.
      failures = Math.min(failures, PATIENCE - 1);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && (error.status === 401 || error.status === 403 || error.status === 404)) {
        return onState('over');
      }
      if (error instanceof ApiError && error.status === 400 && last !== undefined) {
        // Events older than an hour cannot be resumed.
        last = undefined;
        onGap();
      }
      failures += 1;
      onState('reconnecting');
      await pause(Math.min(500 * 2 ** failures, LONGEST_WAIT_MS), signal);
    }
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
