import { Paperclip, SendHorizontal, SlidersHorizontal, Square, X } from 'lucide-react';
import { lazy, type Ref, Suspense, useEffect, useId, useImperativeHandle, useMemo, useRef, useState } from 'react';
import { FileTrigger } from 'react-aria-components/FileTrigger';
import { textMemberOf } from '#core/execution/input/text-member.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { bytes } from '../ui/data/numbers.tsx';
import { Loading } from '../ui/loading.tsx';
import { sampleOf } from '../ui/sample-value.ts';
import { escapeText } from '../ui/text/escape-text.ts';
import { restOfSchema } from './message-text.ts';
import type { Draft } from './transport.ts';

const SchemaForm = lazy(() => import('../ui/schema-form.tsx'));

type Members = Readonly<Record<string, unknown>>;

/** Files that an agent takes with a message. */
export interface AcceptedFiles {
  /** Media types and endings; empty for all. */
  readonly accept: readonly string[];
  readonly max: number | null;
}

export interface ComposerProps {
  /** Schema of the agent's input. Without one, a text is sent. */
  readonly schema: Members | null | undefined;
  /** Absent if the agent takes no files. */
  readonly files?: AcceptedFiles;
  readonly isRunning: boolean;
  /** Why nothing can be sent; absent if it can. */
  readonly disabled?: string;
  /** A promise that is rejected leaves what was written. */
  readonly onSend: (draft: Draft) => void | Promise<void>;
  readonly onStop: () => void;
  readonly ref?: Ref<ComposerHandle>;
}

export interface ComposerHandle {
  readonly focus: () => void;
}

/** Height up to which the field grows with its text. */
const MAX_HEIGHT = 240;

/**
 * Where a message is written: Enter sends, Shift and Enter begin a line, Esc stops the answer. An agent whose input has
 * more than a text gets a form for the rest; one without a text gets a form alone.
 */
export function Composer({ schema, files, isRunning, disabled, onSend, onStop, ref }: ComposerProps) {
  const member = useMemo(() => textMemberOf(schema ?? null), [schema]);
  const rest = useMemo(() => restOfSchema(schema, member), [schema, member]);
  const preset = useMemo(() => (rest === undefined ? {} : (sampleOf(rest) as Members)), [rest]);
  const isNeeded = rest !== undefined && (member === undefined || (rest.required as readonly string[]).length > 0);
  const [text, setText] = useState('');
  const [more, setMore] = useState<Members>(preset);
  const [isFormOpen, setFormOpen] = useState(isNeeded);
  const [chosen, setChosen] = useState<readonly File[]>([]);
  const field = useRef<HTMLTextAreaElement>(null);
  const hint = useId();
  useImperativeHandle(ref, () => ({ focus: () => field.current?.focus() }), []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the height follows the text.
  useEffect(() => {
    const { current } = field;
    if (current === null) return;
    current.style.height = 'auto';
    current.style.height = `${Math.min(MAX_HEIGHT, current.scrollHeight)}px`;
  }, [text]);

  const isReady = !isRunning && disabled === undefined && (member === undefined || text.trim() !== '');
  const send = async () => {
    if (!isReady) return;
    const input = { ...more, ...(member !== undefined && { [member]: text }) };
    try {
      await onSend({ ...(schema ? { input } : { text }), ...(chosen.length > 0 && { files: chosen }) });
    } catch {
      return;
    }
    setText('');
    setChosen([]);
    field.current?.focus();
  };
  return (
    <form
      aria-label="Write a message"
      className="mx-auto w-full max-w-3xl px-3 pb-3 sm:px-4"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <div className="flex flex-col gap-2 rounded-2xl border border-edge bg-raised p-2 focus-within:border-accent">
        {rest !== undefined && isFormOpen && (
          <div className="max-h-[40dvh] overflow-y-auto px-1 pt-1">
            <Suspense fallback={<Loading />}>
              <SchemaForm schema={rest} value={more as Record<string, unknown>} onChange={setMore} />
            </Suspense>
          </div>
        )}
        {member !== undefined && (
          <textarea
            ref={field}
            aria-label="Message"
            aria-describedby={hint}
            placeholder="Write a message"
            rows={1}
            value={text}
            onChange={({ target }) => setText(target.value)}
            onKeyDown={(event) => {
              if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
              event.preventDefault();
              void send();
            }}
            className="w-full resize-none bg-transparent px-1.5 py-1 text-base outline-none"
          />
        )}
        {chosen.length > 0 && (
          <ul aria-label="Files" className="flex flex-wrap gap-1">
            {chosen.map((file, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: two files may have one name.
              <li key={index} className="flex items-center gap-1 rounded-md bg-hover pl-2">
                {escapeText(file.name)} <span className="text-soft">{bytes(file.size)}</span>
                <IconButton
                  icon={X}
                  label={`Remove ${file.name}`}
                  onPress={() => setChosen(chosen.filter((each) => each !== file))}
                />
              </li>
            ))}
          </ul>
        )}
        <div className="flex items-center gap-1">
          {files !== undefined && (
            <FileTrigger
              allowsMultiple
              acceptedFileTypes={files.accept.length > 0 ? [...files.accept] : undefined}
              onSelect={(added) => setChosen([...chosen, ...(added ?? [])].slice(0, files.max ?? undefined))}
            >
              <IconButton icon={Paperclip} label="Add files" />
            </FileTrigger>
          )}
          {rest !== undefined && member !== undefined && (
            <Button
              variant="quiet"
              icon={SlidersHorizontal}
              aria-expanded={isFormOpen}
              onPress={() => setFormOpen(!isFormOpen)}
            >
              Input
            </Button>
          )}
          <p id={hint} className="grow px-1 text-xs text-soft max-sm:hidden">
            {disabled ??
              (isRunning ? 'Esc stops' : member === undefined ? '' : 'Enter sends, Shift Enter begins a new line')}
          </p>
          <span className="grow sm:hidden" />
          {isRunning ? (
            <Button icon={Square} onPress={onStop}>
              Stop
            </Button>
          ) : (
            <Button type="submit" variant="primary" icon={SendHorizontal} isDisabled={!isReady}>
              Send
            </Button>
          )}
        </div>
      </div>
    </form>
  );
}
