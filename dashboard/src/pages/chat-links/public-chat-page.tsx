import { getRouteApi } from '@tanstack/react-router';
import { lazy, Suspense, useCallback, useMemo, useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { isNotFound } from '../../api-error.ts';
import { ChatView } from '../../chat/chat-view.tsx';
import type { ChatTransport, Draft } from '../../chat/transport.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page, useTitle } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { linkTransport } from './link-transport.ts';
import { forgetVisit, knownVisit, openVisit } from './visits.ts';

const PublicForm = lazy(() => import('./public-form.tsx'));

type Chat = AnswerOf<'getChat'>;

/** The chat or the form of a link, for people without an account. */
export function PublicChatPage() {
  const { token } = getRouteApi('/chat/$token').useParams();
  const { data, error, refetch } = useOperation('getChat', { params: { chat: token } }, { staleTime: 60_000 });
  if (data === undefined) {
    return (
      <main id="page" tabIndex={-1} className="min-w-0 outline-none">
        <Page title="Chat">
          {error === null ? (
            <Loading />
          ) : isNotFound(error) ? (
            <p role="alert">{error.message}</p>
          ) : (
            <ErrorBox error={error} onRetry={() => void refetch()} />
          )}
        </Page>
      </main>
    );
  }
  return data.kind === 'form' ? (
    <main id="page" tabIndex={-1} className="min-w-0 outline-none">
      <Page title={escapeText(data.title)} description={data.welcome && <Welcome text={data.welcome} />}>
        <Suspense fallback={<Loading />}>
          <PublicForm token={token} chat={data} />
        </Suspense>
      </Page>
    </main>
  ) : (
    <Conversation token={token} chat={data} />
  );
}

const Welcome = ({ text }: { readonly text: string }) => (
  <p dir="auto" className="whitespace-pre-wrap [unicode-bidi:plaintext]">
    {escapeText(text)}
  </p>
);

/** A chat before its first message has no session: who only looks at the page opens none. */
const NOTHING: ChatTransport = {
  list: async () => ({ items: [], next_cursor: null }),
  send: async () => {},
  follow: async () => {},
  stop: async () => {},
};

function Conversation({ token, chat }: { readonly token: string; readonly chat: Chat }) {
  useTitle(chat.title);
  const [visit, setVisit] = useState(() => knownVisit(token));
  const [first, setFirst] = useState<Draft>();
  const [error, setError] = useState<unknown>();
  const [isOpening, setOpening] = useState(false);
  const transport = useMemo(() => (visit === undefined ? NOTHING : linkTransport(token, visit)), [token, visit]);
  const begin = useCallback(
    async (draft: Draft) => {
      setOpening(true);
      setError(undefined);
      try {
        const opened = await openVisit(token, knownVisit(token)?.visitor);
        setFirst(draft);
        setVisit(opened);
      } catch (problem) {
        setError(problem);
      }
      setOpening(false);
    },
    [token],
  );
  const restart = () => {
    forgetVisit(token);
    setFirst(undefined);
    setVisit(undefined);
  };
  return (
    <main id="page" tabIndex={-1} className="flex h-dvh min-w-0 flex-col outline-none">
      <header className="flex items-center gap-2 border-b border-line px-4 py-2">
        <h1 className="min-w-0 grow truncate text-lg font-semibold">{escapeText(chat.title)}</h1>
        {visit !== undefined && <Button onPress={restart}>New chat</Button>}
      </header>
      {error !== undefined && (
        <div className="p-3">
          <ErrorBox error={error} />
        </div>
      )}
      <ChatView
        key={visit?.sessionId ?? 'new'}
        transport={transport}
        isNew={visit === undefined || first !== undefined}
        {...(first !== undefined && { first })}
        onFirst={() => setFirst(undefined)}
        {...(visit === undefined && { onSend: (draft: Draft) => void begin(draft) })}
        composer={{ schema: null, ...(isOpening && { disabled: 'Opening the chat' }) }}
        empty={<Beginning chat={chat} onChoose={visit === undefined ? (text) => void begin({ text }) : undefined} />}
      />
    </main>
  );
}

function Beginning({
  chat,
  onChoose,
}: {
  readonly chat: Chat;
  readonly onChoose: ((text: string) => void) | undefined;
}) {
  return (
    <div className="flex grow flex-col justify-center gap-4 py-8">
      {chat.welcome !== null && <Welcome text={chat.welcome} />}
      {onChoose !== undefined && chat.suggestions.length > 0 && (
        <ul aria-label="Suggestions" className="flex flex-wrap gap-2">
          {chat.suggestions.map((text) => (
            <li key={text}>
              <Button onPress={() => onChoose(text)}>{escapeText(text)}</Button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
