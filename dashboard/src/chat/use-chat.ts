import { startTransition, useCallback, useEffect, useMemo, useReducer, useRef } from 'react';
import { answerAfter, type LiveAnswer, NO_ANSWER } from './live-answer.ts';
import type { ChatMessage, ChatTransport, Draft } from './transport.ts';

/** Messages of a page: more are read when somebody scrolls up to them. */
const PAGE = 30;
/** Messages of a page that may be in view. */
const IN_VIEW = 8;
/** Time between a run's end and the moment at which the list of messages is read again, if it was too early. */
const AGAIN_MS = 500;
const MAX_AGAIN = 10;

/** A message under way. */
export interface LiveMessage {
  /** What is sent; absent if the message was found in the list. */
  readonly draft?: Draft;
  readonly runId?: string;
  readonly answer: LiveAnswer;
  readonly isStopping: boolean;
}

interface State {
  readonly messages: ReadonlyMap<number, ChatMessage>;
  /** Cursor of the messages before those that are shown; `undefined` before the first page. */
  readonly older: string | null | undefined;
  readonly isLoadingOlder: boolean;
  readonly error: unknown;
  readonly live: LiveMessage | undefined;
  /** A message that was refused, and why. */
  readonly refused: { readonly draft: Draft; readonly error: unknown } | undefined;
  /** Steps of the runs that ended while the page was open. */
  readonly answers: ReadonlyMap<string, LiveAnswer>;
}

const NOTHING: State = {
  messages: new Map(),
  older: undefined,
  isLoadingOlder: false,
  error: undefined,
  live: undefined,
  refused: undefined,
  answers: new Map(),
};

const isUnderWay = ({ status }: ChatMessage): boolean => !ENDED.includes(status);
const ENDED: readonly string[] = ['completed', 'failed', 'timeout', 'cancelled'];

type Change = Partial<State> | ((state: State) => Partial<State>);

/**
 * The messages of a session: the newest page first, older ones on demand, and the message under way as it comes. The
 * component that uses it is mounted anew for another session.
 *
 * @param isNew whether the session has no messages, so that none are read
 * @param first is sent when the page opens
 */
export function useChat(transport: ChatTransport, { isNew = false, first }: { isNew?: boolean; first?: Draft } = {}) {
  const [state, change] = useReducer(
    (now: State, by: Change): State => {
      const next = typeof by === 'function' ? by(now) : by;
      return { ...now, ...next };
    },
    isNew ? { ...NOTHING, older: null } : NOTHING,
  );
  const current = useRef({ state, transport });
  current.current = { state, transport };
  const end = useRef<AbortController>(undefined);

  const read = useCallback(async (cursor?: string): Promise<readonly ChatMessage[]> => {
    const page = await current.current.transport.list({ limit: PAGE, ...(cursor !== undefined && { cursor }) });
    const add = (items: readonly ChatMessage[]) =>
      change((now) => {
        const messages = new Map(now.messages);
        for (const each of items) messages.set(each.number, each);
        // A page of the newest messages says nothing about those before the oldest that is shown.
        const isEdge = cursor !== undefined || now.older === undefined;
        return { messages, error: undefined, ...(isEdge && { older: page.next_cursor }) };
      });
    if (cursor !== undefined) {
      startTransition(() => add(page.items));
      return page.items;
    }
    // What is in view first; the page is drawn before the others are.
    add(page.items.slice(0, IN_VIEW));
    startTransition(() => add(page.items));
    return page.items;
  }, []);

  /** Hears a run until it has ended, then reads its message. */
  const hear = useCallback(
    async (live: LiveMessage, run: (watcher: Parameters<ChatTransport['follow']>[1]) => Promise<void>) => {
      const own = new AbortController();
      end.current?.abort();
      end.current = own;
      let { runId } = live;
      let answer = NO_ANSWER;
      const show = (more: Partial<LiveMessage>) => {
        if (!own.signal.aborted) change((now) => ({ live: { ...live, ...now.live, ...more } }));
      };
      change({ live, refused: undefined });
      try {
        await run({
          signal: own.signal,
          onRun: (id) => {
            runId = id;
            show({ runId });
          },
          onRecord: (record) => {
            answer = answerAfter(answer, record, Date.now());
            show({ answer });
          },
          onRestart: () => {
            answer = NO_ANSWER;
            show({ answer });
          },
        });
      } catch (error) {
        if (own.signal.aborted) return;
        if (runId === undefined) {
          change({ live: undefined, ...(live.draft ? { refused: { draft: live.draft, error } } : { error }) });
          return;
        }
      }
      for (let count = 0; !own.signal.aborted && count < MAX_AGAIN; count++) {
        try {
          const items = await read();
          const message = items.find(({ run_id }) => run_id === runId);
          if (message !== undefined && !isUnderWay(message)) break;
        } catch (error) {
          if (!own.signal.aborted) change({ error });
        }
        await pause(AGAIN_MS, own.signal);
      }
      if (own.signal.aborted) return;
      change((now) => ({
        live: undefined,
        ...(runId !== undefined && { answers: new Map(now.answers).set(runId, answer) }),
      }));
    },
    [read],
  );

  const send = useCallback(
    (draft: Draft) => {
      if (current.current.state.live !== undefined) return;
      const live = { draft, answer: NO_ANSWER, isStopping: false };
      void hear(live, (watcher) => current.current.transport.send(draft, watcher));
    },
    [hear],
  );

  const refresh = useCallback(() => read().catch((error: unknown) => change({ error })), [read]);

  // The first page, and what the page was opened to send.
  const opened = useRef({ isNew, first });
  useEffect(() => {
    if (!opened.current.isNew) void refresh();
    const timer = setTimeout(() => {
      const { first: draft } = opened.current;
      opened.current = { isNew: opened.current.isNew, first: undefined };
      if (draft !== undefined) send(draft);
    });
    return () => clearTimeout(timer);
  }, [refresh, send]);
  useEffect(() => () => end.current?.abort(), []);

  // A message that was under way when the page was opened, or that somebody else sent.
  const messages = useMemo(() => [...state.messages.values()].sort((a, b) => a.number - b.number), [state.messages]);
  const waiting = state.live === undefined ? messages.find(isUnderWay)?.run_id : undefined;
  useEffect(() => {
    if (waiting === undefined) return;
    const live = { runId: waiting, answer: NO_ANSWER, isStopping: false };
    void hear(live, (watcher) => current.current.transport.follow(waiting, watcher));
  }, [waiting, hear]);

  const loadOlder = useCallback(async () => {
    const { older, isLoadingOlder } = current.current.state;
    if (older === null || older === undefined || isLoadingOlder) return;
    change({ isLoadingOlder: true });
    await read(older).catch((error: unknown) => change({ error }));
    change({ isLoadingOlder: false });
  }, [read]);

  const stop = useCallback(async () => {
    const { live } = current.current.state;
    if (live?.runId === undefined || live.isStopping) return;
    change((now) => ({ live: now.live && { ...now.live, isStopping: true } }));
    try {
      await current.current.transport.stop(live.runId);
    } catch (error) {
      change((now) => ({ live: now.live && { ...now.live, isStopping: false }, error }));
    }
  }, []);

  return {
    messages,
    live: state.live,
    refused: state.refused,
    answers: state.answers,
    error: state.error,
    isLoading: state.older === undefined && state.error === undefined,
    hasOlder: typeof state.older === 'string',
    isLoadingOlder: state.isLoadingOlder,
    loadOlder,
    send,
    stop,
    refresh,
    forget: useCallback(() => change({ refused: undefined }), []),
  };
}

export type Chat = ReturnType<typeof useChat>;

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
