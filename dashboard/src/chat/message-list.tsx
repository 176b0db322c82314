import { ArrowDown } from 'lucide-react';
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { Button } from '../ui/button.tsx';
import { ErrorBox } from '../ui/error-box.tsx';
import { Loading } from '../ui/loading.tsx';
import { Message, type MessageActions, Refused, Sent } from './message.tsx';
import type { Chat } from './use-chat.ts';

/** Distance from the end up to which the list follows what comes. */
const END_PX = 80;
/** Distance from the beginning at which older messages are read. */
const START_PX = 400;

/** The messages of a session. It opens at its end, follows what comes, and reads older messages when it is scrolled up. */
export function MessageList({
  chat,
  actions,
  empty,
}: {
  readonly chat: Chat;
  readonly actions: MessageActions;
  /** Shown in a session without messages. */
  readonly empty: ReactNode;
}) {
  const { messages, live, refused, answers, error, isLoading, hasOlder, isLoadingOlder, loadOlder, send, forget } =
    chat;
  const box = useRef<HTMLElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const first = messages[0]?.number;
  const shown = useRef({ first, height: 0 });
  // Older messages come above what is read, which stays where it is.
  useLayoutEffect(() => {
    const { current } = box;
    if (current === null) return;
    const before = shown.current;
    if (first !== undefined && before.first !== undefined && first < before.first) {
      current.scrollTop += current.scrollHeight - before.height;
    }
    shown.current = { first, height: current.scrollHeight };
  });
  const follow = useRef(isFollowing);
  follow.current = isFollowing;
  // Texts grow when they are drawn, too, which is later.
  useEffect(() => {
    const content = box.current!.firstElementChild!;
    const observer = new ResizeObserver(() => {
      // The list of a session that begins is replaced while it grows.
      if (follow.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
    });
    observer.observe(content);
    return () => observer.disconnect();
  }, []);
  const toEnd = () => {
    setFollowing(true);
    box.current!.scrollTop = box.current!.scrollHeight;
  };
  // What somebody sends is shown.
  useEffect(() => {
    if (live?.draft === undefined) return;
    setFollowing(true);
    box.current!.scrollTop = box.current!.scrollHeight;
  }, [live?.draft]);
  const look = () => {
    const { scrollHeight, scrollTop, clientHeight } = box.current!;
    setFollowing(scrollHeight - scrollTop - clientHeight < END_PX);
    if (scrollTop < START_PX && hasOlder) void loadOlder();
  };
  const isListed = live?.runId !== undefined && messages.some(({ run_id }) => run_id === live.runId);
  const isEmpty = messages.length === 0 && live === undefined && refused === undefined && !isLoading;
  return (
    <div className="relative flex min-h-0 grow flex-col">
      <section
        ref={box}
        aria-label="Conversation"
        // A scrollable area must be reachable by keyboard.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
        tabIndex={0}
        onScroll={look}
        className="min-h-0 grow overflow-y-auto outline-offset-[-2px] [overflow-anchor:none]"
      >
        <div className="mx-auto flex min-h-full w-full max-w-3xl flex-col gap-4 px-3 py-4 sm:px-4">
          <h2 className="sr-only">Conversation</h2>
          {isLoading && <Loading />}
          {hasOlder && (
            <div className="flex justify-center">
              <Button variant="quiet" isPending={isLoadingOlder} onPress={() => void loadOlder()}>
                Older messages
              </Button>
            </div>
          )}
          {isEmpty && error === undefined && empty}
          <ol aria-label="Messages" className="flex min-w-0 flex-col gap-5">
            {messages.map((message) => (
              <li key={message.number} className="flex min-w-0 flex-col gap-2">
                <Message
                  message={message}
                  live={live?.runId === message.run_id ? live : undefined}
                  heard={answers.get(message.run_id)}
                  {...actions}
                />
              </li>
            ))}
            {live?.draft !== undefined && !isListed && (
              <li className="flex min-w-0 flex-col gap-2">
                <Sent live={live} waiting={actions.waiting} />
              </li>
            )}
            {refused !== undefined && (
              <li className="flex min-w-0 flex-col gap-2">
                <Refused
                  {...refused}
                  onRetry={() => {
                    forget();
                    send(refused.draft);
                  }}
                />
              </li>
            )}
          </ol>
          {error !== undefined && <ErrorBox error={error} onRetry={() => void chat.refresh()} />}
        </div>
      </section>
      {!isFollowing && messages.length > 0 && (
        <div className="absolute inset-x-0 bottom-2 flex justify-center">
          <Button icon={ArrowDown} onPress={toEnd}>
            Jump to end
          </Button>
        </div>
      )}
    </div>
  );
}
