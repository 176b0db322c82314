import { lazy, Suspense, useRef, useState } from 'react';
import { type AnswerOf, call } from '../../api/client.ts';
import { ApiError, isNotFound } from '../../api-error.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { sampleOf } from '../../ui/sample-value.ts';
import { JsonView, TextView } from '../../ui/text/viewer.tsx';
import { readAnswer, sendToLink } from './link-transport.ts';
import { forgetVisit, knownVisit, openVisit } from './visits.ts';

const SchemaForm = lazy(() => import('../../ui/schema-form.tsx'));

type Input = Record<string, unknown>;
type Answer = { readonly output: unknown } | { readonly error: unknown };

/** Pause between two looks at an answer whose stream was lost. */
const POLL_MS = 2_000;

/** The fields of an agent's input, and the answer to them. */
export default function PublicForm({ token, chat }: { readonly token: string; readonly chat: AnswerOf<'getChat'> }) {
  const { input_schema: schema } = chat;
  const [input, setInput] = useState<Input>(() => (schema === null ? { message: '' } : (sampleOf(schema) as Input)));
  const [answer, setAnswer] = useState<Answer>();
  const [isPending, setPending] = useState(false);
  const stopped = useRef<AbortController>(undefined);

  const submit = async () => {
    setPending(true);
    setAnswer(undefined);
    const own = new AbortController();
    stopped.current = own;
    const { signal } = own;
    try {
      setAnswer(await answerTo(token, input, signal));
    } catch (error) {
      if (!signal.aborted) setAnswer({ error });
    }
    setPending(false);
  };
  const stop = async () => {
    stopped.current?.abort();
    const visit = knownVisit(token);
    if (visit === undefined) return;
    const params = { chat: token, chat_session: visit.sessionId };
    await call('stopChatMessage', { params, headers: { 'x-platform-visitor': visit.visitor } }).catch(() => {});
  };

  return (
    <>
      <form
        className="flex max-w-3xl flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {schema === null ? (
          <TextField
            label="Message"
            lines={5}
            value={String(input.message)}
            onChange={(message) => setInput({ message })}
          />
        ) : (
          <Suspense fallback={<Loading />}>
            <SchemaForm schema={schema} value={input} onChange={setInput} />
          </Suspense>
        )}
        <div className="flex gap-2">
          <Button type="submit" variant="primary" isPending={isPending}>
            Send
          </Button>
          {isPending && <Button onPress={() => void stop()}>Stop</Button>}
        </div>
      </form>
      {isPending && <p role="status">The answer is being made…</p>}
      {answer !== undefined && 'error' in answer && <ErrorBox error={answer.error} />}
      {answer !== undefined && 'output' in answer && (
        <Section title="Answer" isFramed={false}>
          {typeof answer.output === 'string' ? (
            <TextView text={answer.output} name="answer" />
          ) : (
            <JsonView value={answer.output} name="answer" />
          )}
        </Section>
      )}
    </>
  );
}

async function answerTo(token: string, input: Input, signal: AbortSignal): Promise<Answer> {
  let visit = knownVisit(token) ?? (await openVisit(token));
  let response: Response;
  try {
    response = await sendToLink(token, visit, { input }, signal);
  } catch (error) {
    // The session of this browser has expired.
    if (!isNotFound(error)) throw error;
    forgetVisit(token);
    visit = await openVisit(token);
    response = await sendToLink(token, visit, { input }, signal);
  }
  const last = await readAnswer(response, () => {});
  if (last?.event === 'result') return { output: last.data.output };
  if (last?.event === 'error') return { error: failureOf(last.data.message) };
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    signal.throwIfAborted();
    const { messages } = await call('listChatMessages', {
      params: { chat: token, chat_session: visit.sessionId },
      headers: { 'x-platform-visitor': visit.visitor },
      query: { limit: 1 },
    });
    const [message] = messages;
    if (message === undefined) return { error: failureOf(undefined) };
    if (message.status === 'completed') return { output: message.output };
    if (message.error !== null) return { error: failureOf(message.error) };
  }
}

const failureOf = (message: unknown): ApiError =>
  new ApiError(422, { error: { code: 'NO_ANSWER', message: String(message ?? 'There is no answer.') } });
