import { Brain, CircleCheck, CircleX, LoaderCircle, Wrench } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import { duration, useNow } from '../ui/data/time.tsx';
import { ErrorBox } from '../ui/error-box.tsx';
import { Loading } from '../ui/loading.tsx';
import { escapeText } from '../ui/text/escape-text.ts';
import { cutLine, JsonView, TextView } from '../ui/text/viewer.tsx';
import type { AnswerPart } from './live-answer.ts';
import type { ToolStep } from './transport.ts';

/** What a model thought, folded. */
export function Thought({ text, isOpen = false }: { readonly text: string; readonly isOpen?: boolean }) {
  return (
    <Fold
      isOpen={isOpen}
      summary={
        <>
          <Brain size={14} aria-hidden className="shrink-0" />
          Thoughts
        </>
      }
    >
      <p dir="auto" className="max-h-80 overflow-auto text-soft [unicode-bidi:plaintext] whitespace-pre-wrap">
        {escapeText(text)}
      </p>
    </Fold>
  );
}

/** A call of a tool as it happens. */
export function LiveTool({ part }: { readonly part: Extract<AnswerPart, { kind: 'tool' }> }) {
  const isRunning = part.status === 'running';
  const now = useNow(isRunning ? 500 : 0);
  return (
    <Fold
      summary={<ToolLine tool={part.tool} status={part.status} ms={(part.endedAt ?? now) - part.startedAt} />}
      isPlain={part.brief === ''}
    >
      <p dir="ltr" className="font-mono text-xs text-soft [unicode-bidi:plaintext] whitespace-pre-wrap">
        {cutLine(escapeText(part.brief))}
      </p>
    </Fold>
  );
}

/** The calls of tools of an ended run, which are read when they are unfolded. */
export function StoredSteps({
  read,
  name,
}: {
  readonly read: () => Promise<readonly ToolStep[]>;
  /** Name of downloaded files. */
  readonly name: string;
}) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Fold
      onOpen={() => setOpen(true)}
      summary={
        <>
          <Wrench size={14} aria-hidden className="shrink-0" />
          Steps
        </>
      }
    >
      {isOpen && <ReadSteps read={read} name={name} />}
    </Fold>
  );
}

function ReadSteps({ read, name }: Parameters<typeof StoredSteps>[0]) {
  const [state, setState] = useState<{ readonly steps?: readonly ToolStep[]; readonly error?: unknown }>({});
  // biome-ignore lint/correctness/useExhaustiveDependencies: they are read once.
  useEffect(() => {
    read().then(
      (steps) => setState({ steps }),
      (error: unknown) => setState({ error }),
    );
  }, []);
  if (state.error !== undefined) return <ErrorBox error={state.error} />;
  if (state.steps === undefined) return <Loading lines={2} />;
  if (state.steps.length === 0) return <p className="text-soft">No tools were called.</p>;
  const hasContent = state.steps.some((step) => step.arguments !== undefined || step.result !== undefined);
  return (
    <>
      {!hasContent && <p className="text-soft">The workspace does not store what tools are given and answer.</p>}
      <ol className="flex min-w-0 flex-col gap-1">
        {state.steps.map((step, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the steps of an ended run do not change.
          <li key={index} className="min-w-0">
            <Fold
              summary={<ToolLine tool={step.tool} status={step.status} ms={step.duration_ms} />}
              isPlain={step.arguments === undefined && step.result === undefined}
            >
              <div className="flex min-w-0 flex-col gap-2">
                {step.arguments !== undefined && (
                  <Labelled label="Arguments">
                    <TextOrJson text={step.arguments} name={`${name}-${index + 1}-arguments`} />
                  </Labelled>
                )}
                {step.result !== undefined && (
                  <Labelled label="Result">
                    <TextOrJson text={step.result} name={`${name}-${index + 1}-result`} />
                  </Labelled>
                )}
              </div>
            </Fold>
          </li>
        ))}
      </ol>
    </>
  );
}

const Labelled = ({ label, children }: { readonly label: string; readonly children: ReactNode }) => (
  <div className="flex min-w-0 flex-col gap-1">
    <p className="text-xs text-soft">{label}</p>
    {children}
  </div>
);

/** A text, shown as JSON if it is an object or a list. */
function TextOrJson({ text, name }: { readonly text: string; readonly name: string }) {
  if (!/^\s*[{[]/.test(text)) return <TextView text={text} name={name} />;
  try {
    return <JsonView value={JSON.parse(text)} name={name} />;
  } catch {
    return <TextView text={text} name={name} />;
  }
}

const ICONS = { running: LoaderCircle, ok: CircleCheck, error: CircleX };
const COLOURS = { running: 'text-info animate-spin [animation-duration:2s]', ok: 'text-good', error: 'text-bad' };
const WORDS = { running: 'running', ok: '', error: 'failed' };

function ToolLine({
  tool,
  status,
  ms,
}: {
  readonly tool: string;
  readonly status: ToolStep['status'];
  readonly ms: number | undefined;
}) {
  const Icon = ICONS[status];
  return (
    <>
      <Icon size={14} aria-hidden className={`shrink-0 ${COLOURS[status]}`} />
      <span className="min-w-0 font-mono text-xs">{cutLine(escapeText(tool))}</span>
      <span className="whitespace-nowrap">
        {[WORDS[status], ms !== undefined && ms >= 100 && duration(ms)].filter(Boolean).join(' · ')}
      </span>
    </>
  );
}

/** A line that unfolds. @param isPlain whether there is nothing to unfold */
export function Fold({
  summary,
  children,
  isOpen = false,
  isPlain = false,
  onOpen,
}: {
  readonly summary: ReactNode;
  readonly children: ReactNode;
  readonly isOpen?: boolean;
  readonly isPlain?: boolean;
  readonly onOpen?: () => void;
}) {
  if (isPlain) return <div className="flex min-w-0 items-center gap-1.5 px-1 py-0.5 text-soft">{summary}</div>;
  return (
    <details open={isOpen} onToggle={({ currentTarget }) => currentTarget.open && onOpen?.()} className="min-w-0">
      <summary className="flex w-fit max-w-full min-w-0 items-center gap-1.5 rounded px-1 py-0.5 text-soft marker:content-none hover:bg-hover">
        {summary}
        <span aria-hidden className="text-xs [[open]>summary>&]:rotate-90">
          ›
        </span>
      </summary>
      <div className="mt-1 ml-2 min-w-0 border-l border-line py-1 pl-3">{children}</div>
    </details>
  );
}
