import { type ReactNode, useEffect, useMemo, useRef } from 'react';
import { escapeText } from '../ui/text/escape-text.ts';
import { Composer, type ComposerHandle, type ComposerProps } from './composer.tsx';
import type { MessageActions } from './message.tsx';
import { MessageList } from './message-list.tsx';
import { readableOf } from './message-text.ts';
import type { ChatTransport, Draft } from './transport.ts';
import { type Chat, useChat } from './use-chat.ts';

interface ChatViewProps extends Omit<MessageActions, 'onRetry'> {
  readonly transport: ChatTransport;
  /** Whether the session has no messages yet. @default false */
  readonly isNew?: boolean;
  /** What is sent when the view opens. */
  readonly first?: Draft;
  /** Called when `first` is on its way, so that it is not sent again. */
  readonly onFirst?: () => void;
  /** Sends instead of the session, such as a page that must open one first. */
  readonly onSend?: ComposerProps['onSend'];
  /** Changes when others may have sent messages: the newest are read again. */
  readonly revision?: unknown;
  readonly composer: Pick<ComposerProps, 'schema' | 'files' | 'disabled'>;
  readonly empty: ReactNode;
}

/**
 * A conversation with an agent: its messages, and where the next one is written. Another session needs another `key`.
 * It knows nothing of sign-in: {@link ChatTransport} reaches the platform.
 */
export function ChatView({
  transport,
  isNew,
  first,
  onFirst,
  onSend,
  revision,
  composer,
  empty,
  onEdit,
  onFork,
  steps,
  facts,
  waiting,
}: ChatViewProps) {
  const chat = useChat(transport, { isNew, first });
  const { send, stop, refresh } = chat;
  const field = useRef<ComposerHandle>(null);
  const isRunning = chat.live !== undefined;
  const sendOrOpen = onSend ?? send;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the view opens.
  useEffect(() => {
    if (first !== undefined) onFirst?.();
    // On a screen to touch, this would open the keyboard.
    if (matchMedia('(hover: hover)').matches) field.current?.focus();
  }, []);
  const seen = useRef(revision);
  useEffect(() => {
    if (seen.current === revision) return;
    seen.current = revision;
    if (!isRunning && !isNew) void refresh();
  }, [revision, isRunning, isNew, refresh]);
  useEffect(() => {
    if (!isRunning) return;
    const press = (event: KeyboardEvent) => {
      // Dialogs and menus close by this key.
      if (event.key !== 'Escape' || event.defaultPrevented) return;
      if (document.querySelector('[role="dialog"], [role="alertdialog"], [role="menu"], [role="listbox"]')) return;
      void stop();
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, [isRunning, stop]);
  const actions = useMemo(
    () => ({ onEdit, onFork, onRetry: send, steps, facts, waiting }),
    [onEdit, onFork, send, steps, facts, waiting],
  );
  return (
    <div className="flex min-h-0 min-w-0 grow flex-col">
      <MessageList chat={chat} actions={actions} empty={empty} />
      <Announcer chat={chat} />
      <Composer {...composer} ref={field} isRunning={isRunning} onSend={sendOrOpen} onStop={() => void stop()} />
    </div>
  );
}

/** Length of an answer that is read out; the list has the whole. */
const MAX_READ_OUT = 300;

/** Tells screen readers what happens: the answer once it is whole, not each of its pieces. */
function Announcer({ chat: { live, messages } }: { readonly chat: Chat }) {
  const wasLive = useRef(false);
  const last = messages.at(-1);
  if (live !== undefined) wasLive.current = true;
  let text = '';
  if (live !== undefined) text = live.answer.isWaiting ? 'The agent waits for you.' : 'The agent is answering.';
  else if (wasLive.current && last !== undefined) {
    text =
      last.status === 'completed'
        ? `Answer: ${escapeText(readableOf(last.output).text ?? 'data').slice(0, MAX_READ_OUT)}`
        : last.status === 'cancelled'
          ? 'The answer was stopped.'
          : `No answer: ${escapeText(last.error?.message ?? last.status)}`;
  }
  return (
    <p role="status" className="sr-only">
      {text}
    </p>
  );
}
