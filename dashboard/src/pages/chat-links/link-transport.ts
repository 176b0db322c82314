import { EventSourceParserStream } from 'eventsource-parser/stream';
import { type AnswerOf, call, sendOperation } from '../../api/client.ts';
import { ApiError } from '../../api-error.ts';
import type { ChatMessage, ChatTransport, Draft, RunWatcher } from '../../chat/transport.ts';
import type { Visit } from './visits.ts';

type Message = AnswerOf<'listChatMessages'>['messages'][number];

/** Pause between two looks at an answer whose stream was lost. */
const POLL_MS = 1_500;
/** Looks that may fail in a row. */
const MAX_FAILED = 20;

const STATUSES = {
  running: 'running',
  waiting: 'waiting',
  completed: 'completed',
  failed: 'failed',
  stopped: 'cancelled',
} as const satisfies Record<Message['status'], string>;

const isUnderWay = ({ status }: Message): boolean => status === 'running' || status === 'waiting';

/** What a stream said last; `undefined` if it was lost. */
export type LastEvent = { readonly event: string; readonly data: Readonly<Record<string, unknown>> } | undefined;

/** Reads the stream of an answer. */
export async function readAnswer(response: Response, hear: (event: string, data: never) => void): Promise<LastEvent> {
  const events = response
    .body!.pipeThrough(new TextDecoderStream() as never)
    .pipeThrough(new EventSourceParserStream());
  try {
    for await (const { event = '', data } of events as unknown as AsyncIterable<{ event?: string; data: string }>) {
      const value = JSON.parse(data);
      if (event === 'result' || event === 'error' || event === 'continues') return { event, data: value };
      hear(event, value as never);
    }
  } catch {
    // The browser tells no reason.
  }
  return undefined;
}

/** Sends a message of a visitor. Throws ApiError if it was refused. */
export async function sendToLink(
  token: string,
  { visitor, sessionId }: Visit,
  body: { readonly text?: string; readonly input?: Record<string, unknown> },
  signal?: AbortSignal,
): Promise<Response> {
  const args = {
    params: { chat: token, chat_session: sessionId },
    headers: { 'x-platform-visitor': visitor },
    body,
  };
  const response = await sendOperation('sendChatMessage', args, { signal });
  if (response.ok) return response;
  throw new ApiError(response.status, await response.json().catch(() => undefined), response.headers);
}

/** Reaches the session of a visitor by a link, with the secret of the visitor. Messages have no runs: they have numbers. */
export function linkTransport(token: string, visit: Visit): ChatTransport {
  const args = {
    params: { chat: token, chat_session: visit.sessionId },
    headers: { 'x-platform-visitor': visit.visitor },
  };
  const read = (query: { limit: number; before?: number }) => call('listChatMessages', { ...args, query });

  async function follow(name: string, { signal, onRun, onRecord, onRestart }: RunWatcher): Promise<void> {
    onRun(name);
    let shown = '';
    for (let failed = 0; !signal.aborted && failed < MAX_FAILED; ) {
      try {
        const { messages } = await read({ limit: 1, before: Number(name) + 1 });
        failed = 0;
        const message = messages.at(-1);
        if (message === undefined || !isUnderWay(message)) return;
        const text = message.answer ?? '';
        if (!text.startsWith(shown)) {
          onRestart();
          shown = '';
        }
        if (text.length > shown.length) onRecord({ type: 'text_delta', text: text.slice(shown.length) });
        if (message.status === 'waiting') onRecord({ type: 'waiting', approvals: [] });
        shown = text;
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) throw error;
        failed++;
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  return {
    async list({ cursor, limit }) {
      const { messages, has_older } = await read({ limit, ...(cursor !== undefined && { before: Number(cursor) }) });
      const oldest = messages[0];
      return {
        items: messages.map(shownMessage).reverse(),
        next_cursor: has_older && oldest !== undefined ? String(oldest.number) : null,
      };
    },

    async send({ text = '' }: Draft, watcher) {
      const response = await sendToLink(token, visit, { text }, watcher.signal);
      let name: string | undefined;
      const last = await readAnswer(response, (event, data: Readonly<Record<string, unknown>>) => {
        if (event === 'started') {
          name = String(data.number);
          watcher.onRun(name);
        } else if (event === 'text') watcher.onRecord({ type: 'text_delta', text: String(data.text) });
        else if (event === 'reset') watcher.onRestart();
        else if (event === 'status' && data.status === 'waiting') watcher.onRecord({ type: 'waiting', approvals: [] });
      });
      if (last?.event === 'result' || last?.event === 'error' || watcher.signal.aborted) return;
      if (name === undefined) throw new ApiError(0);
      watcher.onRestart();
      await follow(name, watcher);
    },

    follow,

    async stop() {
      await call('stopChatMessage', args);
    },
  };
}

function shownMessage(message: Message): ChatMessage {
  const { number, status, text, answer, error, created_at } = message;
  return {
    number,
    run_id: String(number),
    status: STATUSES[status],
    input: text ?? '',
    output: isUnderWay(message) ? null : answer,
    error: error === null ? null : { code: 'NO_ANSWER', message: error },
    created_at,
    ended_at: isUnderWay(message) ? null : created_at,
  };
}
