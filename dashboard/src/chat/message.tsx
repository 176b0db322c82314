import { GitFork, Pencil, RefreshCw } from 'lucide-react';
import { lazy, memo, type ReactNode, Suspense, useDeferredValue } from 'react';
import { ApiError } from '../api-error.ts';
import { bytes } from '../ui/data/numbers.tsx';
import { Status } from '../ui/data/status.tsx';
import { absoluteTime, relativeTime, useNow } from '../ui/data/time.tsx';
import { ErrorBox } from '../ui/error-box.tsx';
import { escapeText } from '../ui/text/escape-text.ts';
import { JsonView, TextView } from '../ui/text/viewer.tsx';
import { type AnswerPart, type LiveAnswer, lastTextOf } from './live-answer.ts';
import { readableOf, textOfInput } from './message-text.ts';
import { SmallButton, SmallCopy } from './small-button.tsx';
import { Fold, LiveTool, StoredSteps, Thought } from './steps.tsx';
import type { ChatMessage, Draft, ToolStep } from './transport.ts';
import type { LiveMessage } from './use-chat.ts';

// It comes at the same time as the messages.
const loading = import('./markdown.tsx');
const Markdown = lazy(() => loading);

/** What somebody can do with a message. What is absent is not offered. */
export interface MessageActions {
  /** Asks again: with another text in place of this message. */
  readonly onEdit?: (message: ChatMessage) => void;
  /** Goes on elsewhere, with the messages up to this one. */
  readonly onFork?: (message: ChatMessage) => void;
  /** Sends the same once more. */
  readonly onRetry?: (draft: Draft) => void;
  readonly steps?: (runId: string) => Promise<readonly ToolStep[]>;
  /** Shown below an answer: what it cost, and its run. */
  readonly facts?: (message: ChatMessage) => ReactNode;
  /** What a run waits for. */
  readonly waiting?: (runId: string) => ReactNode;
}

interface MessageProps extends MessageActions {
  readonly message: ChatMessage;
  /** What is heard of its run, if that is under way. */
  readonly live?: LiveMessage;
  /** What was heard of its run while the page was open. */
  readonly heard?: LiveAnswer;
}

/** A message of a session: what was asked, and the answer. */
export const Message = memo(function ChatMessageView({ message, live, heard, ...actions }: MessageProps) {
  const { onEdit, onFork } = actions;
  const text = textOfInput(message.input);
  const isOver = message.ended_at !== null;
  return (
    <>
      <Asked input={message.input}>
        {text !== undefined && <SmallCopy text={text} label="Copy message" />}
        {onEdit !== undefined && isOver && (
          <SmallButton icon={Pencil} label="Edit and ask again" onPress={() => onEdit(message)} />
        )}
      </Asked>
      {live !== undefined ? (
        <Making live={live} waiting={actions.waiting} />
      ) : (
        <Answered message={message} heard={heard} {...actions}>
          {onFork !== undefined && isOver && (
            <SmallButton icon={GitFork} label="Fork from here" onPress={() => onFork(message)} />
          )}
        </Answered>
      )}
    </>
  );
});

/** A message that was sent and is not in the list yet. */
export function Sent({ live, waiting }: { readonly live: LiveMessage; readonly waiting: MessageActions['waiting'] }) {
  const { text, input, files = [] } = live.draft ?? {};
  return (
    <>
      <Asked input={text ?? input} files={files} />
      <Making live={live} waiting={waiting} />
    </>
  );
}

/** A message that was refused. */
export function Refused({
  draft,
  error,
  onRetry,
}: {
  readonly draft: Draft;
  readonly error: unknown;
  readonly onRetry: () => void;
}) {
  return (
    <>
      <Asked input={draft.text ?? draft.input} files={draft.files} />
      <ErrorBox title="This message was not sent" error={error} onRetry={onRetry} />
    </>
  );
}

function Asked({
  input,
  files = [],
  children,
}: {
  readonly input: unknown;
  readonly files?: readonly File[];
  readonly children?: ReactNode;
}) {
  const text = textOfInput(input);
  return (
    <div className="flex min-w-0 flex-col items-end gap-0.5">
      <h3 className="sr-only">You</h3>
      <div className="max-w-[min(42rem,90%)] min-w-0 rounded-2xl rounded-br-md bg-selected px-3.5 py-2">
        {text !== undefined ? (
          <p dir="auto" className="text-base [unicode-bidi:plaintext] whitespace-pre-wrap">
            {escapeText(text)}
          </p>
        ) : (
          <JsonView value={input} name="input" />
        )}
        {files.map((file, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: two files may have one name.
          <p key={index} className="text-soft">
            {escapeText(file.name)} · {bytes(file.size)}
          </p>
        ))}
      </div>
      <div className="flex h-8">{children}</div>
    </div>
  );
}

/** An answer that is being made. */
function Making({ live, waiting }: { readonly live: LiveMessage; readonly waiting: MessageActions['waiting'] }) {
  const { answer, runId, isStopping, draft } = live;
  const parts = useDeferredValue(answer.parts);
  const last = answer.parts.at(-1);
  const isSilent = last === undefined || (last.kind === 'tool' && last.status !== 'running');
  const note = isStopping
    ? 'Stopping'
    : (answer.note ?? (isSilent ? (draft !== undefined && runId === undefined ? 'Sending' : 'Working') : undefined));
  return (
    <div className="flex min-w-0 flex-col gap-2" aria-busy>
      <h3 className="sr-only">Answer</h3>
      {parts.map((part, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: parts are only added at the end.
        <Part key={index} part={part} isLast={index === parts.length - 1} />
      ))}
      {answer.output !== '' && <Output text={answer.output} />}
      {answer.isWaiting && runId !== undefined && (waiting?.(runId) ?? <Status value="waiting" />)}
      {note !== undefined && !answer.isWaiting && (
        <p className="flex items-center gap-2 text-soft">
          <span aria-hidden className="size-2 animate-pulse rounded-full bg-accent" />
          {note}…
        </p>
      )}
    </div>
  );
}

function Part({ part, isLast }: { readonly part: AnswerPart; readonly isLast: boolean }) {
  if (part.kind === 'tool') return <LiveTool part={part} />;
  if (part.kind === 'thought') return <Thought text={part.text} isOpen={isLast} />;
  return <AnswerText text={part.text} name="answer" />;
}

const Output = ({ text }: { readonly text: string }) => (
  <details>
    <summary className="text-soft">Logs</summary>
    <TextView text={text} name="logs" />
  </details>
);

function AnswerText({ text, name }: { readonly text: string; readonly name: string }) {
  return (
    <Suspense fallback={<p className="text-base whitespace-pre-wrap">{escapeText(text)}</p>}>
      <Markdown text={text} name={name} />
    </Suspense>
  );
}

const UNDER_WAY: Readonly<Record<string, string>> = {
  queued: 'Waits for its turn…',
  running: 'Working…',
  waiting: 'Waiting…',
};

function Answered({
  message,
  heard,
  children,
  steps,
  facts,
  onRetry,
}: MessageProps & { readonly children: ReactNode }) {
  const { output, error, status, run_id, number, input } = message;
  const { text, whole } = readableOf(output);
  const name = `message-${number}`;
  const isOver = message.ended_at !== null;
  const thoughts = heard?.parts.flatMap((part) => (part.kind === 'thought' ? part.text : [])).join('\n\n');
  const partial = heard === undefined ? '' : lastTextOf(heard);
  const copied = text ?? (whole === undefined ? undefined : JSON.stringify(whole, null, 2));
  return (
    <div className="flex min-w-0 flex-col gap-1.5">
      <h3 className="sr-only">Answer</h3>
      {thoughts ? <Thought text={thoughts} /> : null}
      {steps !== undefined && isOver && <StoredSteps read={() => steps(run_id)} name={name} />}
      {text !== undefined && text !== '' && <AnswerText text={text} name={name} />}
      {text === undefined && whole !== undefined && <JsonView value={whole} name={name} />}
      {text !== undefined && whole !== undefined && (
        <Fold summary="Whole answer">
          <JsonView value={whole} name={name} />
        </Fold>
      )}
      {!isOver && <p className="text-soft">{UNDER_WAY[status] ?? 'Working…'}</p>}
      {status === 'cancelled' && (
        <>
          {partial !== '' && <AnswerText text={partial} name={name} />}
          <div>
            <Status value="cancelled" />
          </div>
        </>
      )}
      {isOver && status !== 'completed' && status !== 'cancelled' && (
        <ErrorBox
          title="No answer"
          error={
            error === null
              ? new Error(`The run ended with the status ${status}.`)
              : new ApiError(422, { error: { code: error.code, message: error.message } })
          }
          {...(onRetry !== undefined && { onRetry: () => onRetry(draftOf(input)) })}
        />
      )}
      {isOver && (
        <div className="flex min-h-8 flex-wrap items-center gap-x-1 text-xs text-soft">
          {copied !== undefined && <SmallCopy text={copied} label="Copy answer" />}
          {children}
          {status === 'cancelled' && onRetry !== undefined && (
            <SmallButton icon={RefreshCw} label="Ask again" onPress={() => onRetry(draftOf(input))} />
          )}
          <span className="ml-1 flex flex-wrap items-center gap-x-2">
            <Age at={Date.parse(message.ended_at!)} />
            {facts?.(message)}
          </span>
        </div>
      )}
    </div>
  );
}

/** Returns a draft that sends an input again as it was. */
const draftOf = (input: unknown): Draft =>
  typeof input === 'string' ? { text: input } : { input: (input ?? {}) as Readonly<Record<string, unknown>> };

const AGE_MS = 30_000;

/** How long ago an answer came. */
function Age({ at }: { readonly at: number }) {
  const now = useNow(AGE_MS);
  return (
    <time dateTime={new Date(at).toISOString()} title={absoluteTime(at)}>
      {relativeTime(at, now)}
    </time>
  );
}
