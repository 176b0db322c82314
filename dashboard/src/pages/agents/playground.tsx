import { useLocation, useNavigate, useSearch } from '@tanstack/react-router';
import { Play, Square } from 'lucide-react';
import { lazy, Suspense, useEffect, useMemo, useState } from 'react';
import { FileTrigger } from 'react-aria-components/FileTrigger';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { API_URL } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { classes } from '../../ui/classes.ts';
import { bytes, count, percent, usd } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { duration, Time, useNow } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { sampleOf } from '../../ui/sample-value.ts';
import { CodeBlock } from '../../ui/text/code.tsx';
import { JsonView, TextView } from '../../ui/text/viewer.tsx';
import { toast } from '../../ui/toast.tsx';
import { type Progress, useCall } from './run-call.ts';
import { LANGUAGES, type Language, snippetOf } from './snippets.ts';

const Editor = lazy(() => import('../../ui/text/editor.tsx'));
const SchemaForm = lazy(() => import('../../ui/schema-form.tsx'));

/** An agent of the workspace, or a public agent. */
type Agent = AnswerOf<'getPublicAgent'> & Partial<AnswerOf<'listAgents'>[number]>;

/** Number of latest runs whose inputs can be loaded. */
const MAX_RECENT = 8;

/** See `renderPrompt` of the platform. */
const PLACEHOLDER = /\{\{\s*([\w-]+)\s*\}\}/g;

const HEADERS: readonly (readonly [header: string, label: string, description: string])[] = [
  ['x-platform-tenant', 'Tenant', 'Attributes usage to one of your customers'],
  ['x-platform-skills', 'Additional skills', 'org/skill@v1, separated by commas'],
  ['x-platform-max-hops', 'Maximum hops', 'Maximum depth of sub-calls'],
  ['idempotency-key', 'Idempotency key', 'Repeating a key within 24 hours returns the first response'],
];

function parsed(text: string): { readonly value?: Record<string, unknown>; readonly problem?: string } {
  try {
    const value: unknown = text.trim() === '' ? {} : JSON.parse(text);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return { problem: 'The input must be a JSON object: { … }.' };
    }
    return { value: value as Record<string, unknown> };
  } catch (error) {
    return { problem: `The input is not valid JSON: ${(error as Error).message}.` };
  }
}

/** Returns an initial input: a sample of the schema, or the placeholders of a prompt without one. */
function firstInputOf({ input_schema, prompt }: Agent): unknown {
  if (input_schema?.properties !== undefined || !prompt) return sampleOf(input_schema);
  return Object.fromEntries([...prompt.matchAll(PLACEHOLDER)].map(([, name]) => [name, '']));
}

/** Whether a value contains empty texts, which a sample has where the user must write something. */
const hasGaps = (value: unknown): boolean =>
  typeof value === 'object' && value !== null ? Object.values(value).some(hasGaps) : value === '' || value === null;

/** Search parameters of a playground. */
interface Shown {
  readonly input?: string;
  /** Id of the run whose input is loaded first. */
  readonly from?: string;
}

/**
 * Calls an agent with an input edited as a form or as JSON. The JSON text is the source of truth: the form edits it, so
 * members without a form field are preserved.
 */
export function Playground({ agent }: { readonly agent: Agent }) {
  const { input: mode = 'form', from } = useSearch({ strict: false }) as Shown;
  const navigate = useNavigate();
  const workspace = useWorkspace();
  const sample = useLocation({ select: ({ state }) => state.input });
  const [first] = useState(() => sample ?? JSON.stringify(firstInputOf(agent), null, 2));
  const [text, setText] = useState(first);
  const [files, setFiles] = useState<readonly File[]>([]);
  const [headers, setHeaders] = useState<Readonly<Record<string, string>>>({});
  const [endpoint, setEndpoint] = useState(agent.default_endpoint);
  const { progress, run, cancel } = useCall(workspace.id);
  const { value, problem } = useMemo(() => parsed(text), [text]);
  const recent = useOperation('listRuns', {
    params: { workspace_id: workspace.id },
    query: { agent_name: agent.name, limit: MAX_RECENT },
  });
  // An agent without a complete sample opens with the input of its latest run, unless the user was faster.
  const isIncomplete = value !== undefined && (Object.keys(value).length === 0 || hasGaps(value));
  const latest = text === first && isIncomplete ? recent.data?.runs[0]?.id : undefined;
  const loaded = from ?? latest;
  const earlier = useOperation(
    'getRunLogs',
    { params: { workspace_id: workspace.id, run_id: loaded ?? '' } },
    { enabled: loaded !== undefined, staleTime: Number.POSITIVE_INFINITY },
  );
  const [latestText, setLatestText] = useState<string>();
  useEffect(() => {
    if (!earlier.data) return;
    const next = JSON.stringify(earlier.data.input_data ?? {}, null, 2);
    setText(next);
    if (from === undefined) setLatestText(next);
  }, [earlier.data, from]);

  const given = Object.fromEntries(Object.entries(headers).filter(([, each]) => each !== ''));
  const params = { org: agent.org_slug, agent: agent.name, version: agent.version, endpoint };
  const start = () => {
    if (value === undefined || progress.isRunning) return;
    void run({ params, input: value, files, headers: given });
  };
  useKeys({ 'Mod+Enter': start });

  const hasForm = Object.keys((agent.input_schema?.properties as object | undefined) ?? {}).length > 0;
  const showsForm = mode === 'form' && hasForm;
  const showAs = (next: string) =>
    void navigate({ to: '.', search: (now) => ({ ...now, input: next }), replace: true });

  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      <div className="flex min-w-0 flex-col gap-4">
        <Section
          title="Input"
          actions={
            hasForm && (
              <fieldset className="flex rounded-md border border-line p-0.5">
                <legend className="sr-only">Show the input as</legend>
                {(['form', 'json'] as const).map((each) => (
                  <button
                    key={each}
                    type="button"
                    aria-pressed={showsForm === (each === 'form')}
                    onClick={() => showAs(each)}
                    className={classes(
                      'rounded px-2 py-0.5 font-medium',
                      showsForm === (each === 'form') ? 'bg-selected text-text' : 'text-soft hover:text-text',
                    )}
                  >
                    {each === 'form' ? 'Form' : 'JSON'}
                  </button>
                ))}
              </fieldset>
            )
          }
        >
          <div className="flex flex-col gap-3">
            {from !== undefined && earlier.error && (
              <ErrorBox error={earlier.error} title="The input of that run could not be loaded" />
            )}
            {text === latestText && <p className="text-soft">This is the input of the latest run.</p>}
            <Suspense fallback={<Loading />}>
              {showsForm && value !== undefined && (
                <SchemaForm
                  schema={agent.input_schema!}
                  value={value}
                  onChange={(next) => setText(JSON.stringify(next, null, 2))}
                />
              )}
              {showsForm && value === undefined && (
                <div role="alert" className="flex flex-col items-start gap-2">
                  <p className="text-bad">{problem} Nothing is lost: fix the JSON to show the form again.</p>
                  <Button onPress={() => showAs('json')}>Show as JSON</Button>
                </div>
              )}
              {!showsForm && <Editor label="Input as JSON" value={text} onChange={setText} />}
            </Suspense>
            {!showsForm && problem && <p className="text-bad">{problem}</p>}
            {agent.accepts_files && <Files agent={agent} files={files} onChange={setFiles} />}
            <details>
              <summary className="font-medium">Headers and endpoint</summary>
              <div className="mt-2 grid gap-3 sm:grid-cols-2">
                <TextField label="Endpoint" value={endpoint} onChange={setEndpoint} />
                {HEADERS.map(([header, label, description]) => (
                  <TextField
                    key={header}
                    label={label}
                    description={description}
                    value={headers[header] ?? ''}
                    onChange={(next) => setHeaders({ ...headers, [header]: next })}
                  />
                ))}
              </div>
            </details>
            <div className="flex flex-wrap items-center gap-2">
              <Button
                variant="primary"
                icon={Play}
                onPress={start}
                isPending={progress.isRunning}
                isDisabled={value === undefined || agent.runnable === false}
              >
                Run
              </Button>
              {progress.isRunning && progress.runId !== undefined && (
                <Button
                  variant="danger"
                  icon={Square}
                  onPress={() => void cancel().catch((error) => toast({ tone: 'bad', error }))}
                >
                  Cancel run
                </Button>
              )}
              <span className="text-xs text-soft">Ctrl Enter</span>
              <span className="grow" />
              <Estimate agent={agent} />
            </div>
            {agent.runnable === false && (
              <p className="text-warn">
                {agent.environment_status === 'building'
                  ? 'Dependencies are being installed.'
                  : (agent.environment_error ?? 'This agent has no code yet, so it cannot run.')}
              </p>
            )}
          </div>
        </Section>
      </div>
      <div className="flex min-w-0 flex-col gap-4">
        <Result progress={progress} name={agent.name} />
        <Snippets
          call={{
            url: API_URL,
            ...params,
            input: JSON.stringify(value ?? {}),
            files: files.map(({ name }) => name),
            headers: given,
          }}
        />
        <Recent runs={recent.data?.runs ?? []} />
      </div>
    </div>
  );
}

function Files({
  agent: { accept, max_files },
  files,
  onChange,
}: {
  readonly agent: Agent;
  readonly files: readonly File[];
  readonly onChange: (files: readonly File[]) => void;
}) {
  return (
    <div className="flex flex-col items-start gap-2">
      <FileTrigger
        allowsMultiple
        acceptedFileTypes={accept.length > 0 ? [...accept] : undefined}
        onSelect={(chosen) => onChange([...files, ...(chosen ?? [])].slice(0, max_files ?? undefined))}
      >
        <Button>Add files</Button>
      </FileTrigger>
      <ul className="flex flex-col gap-1">
        {files.map((file, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: two files may have one name.
          <li key={index} className="flex items-center gap-2">
            {file.name} <span className="text-soft">{bytes(file.size)}</span>
            <Button variant="quiet" onPress={() => onChange(files.filter((each) => each !== file))}>
              Remove
            </Button>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Estimate({ agent: { org_slug, name, version } }: { readonly agent: Agent }) {
  const params = { org: org_slug, agent: name, version };
  const { data } = useOperation('getCostEstimate', { params }, { staleTime: 60_000, retry: false });
  const { sample_size = 0, p50_cost_usd, p95_cost_usd, avg_duration_ms, success_rate } = data?.estimate ?? {};
  if (sample_size === 0) return <span className="text-xs text-soft">No runs yet for an estimate</span>;
  return (
    <span className="text-xs text-soft">
      {p50_cost_usd !== undefined &&
        `About ${usd(p50_cost_usd)}, 95% of runs below ${usd(p95_cost_usd ?? p50_cost_usd)}, at provider prices · `}
      {avg_duration_ms !== undefined && `${duration(avg_duration_ms)} · `}
      {success_rate !== undefined &&
        `${percent(success_rate, 1)} success · ${count(sample_size)} ${sample_size === 1 ? 'run' : 'runs'}`}
    </span>
  );
}

function Result({ progress, name }: { readonly progress: Progress; readonly name: string }) {
  const { isRunning, startedAt, endedAt, runId, text, output, steps, result, error } = progress;
  const { slug } = useWorkspace();
  const now = useNow(isRunning ? 200 : 0);
  const state = isRunning ? 'running' : error !== undefined ? 'failed' : 'completed';
  return (
    <Section
      title="Result"
      actions={
        startedAt !== undefined && (
          <div className="flex items-center gap-2">
            <Status value={state} />
            <span className="text-soft">{duration((endedAt ?? now) - startedAt)}</span>
            {runId && (
              <Link to="/$workspace/runs/$run" params={{ workspace: slug, run: runId }}>
                Open run
              </Link>
            )}
          </div>
        )
      }
    >
      <div className="flex flex-col gap-3" aria-live="polite" aria-busy={isRunning}>
        {startedAt === undefined && <p className="text-soft">Run the agent, and the response streams here.</p>}
        {steps.length > 0 && (
          <ol className="max-h-40 list-inside list-decimal overflow-auto text-soft">
            {steps.map((step, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: steps are only added.
              <li key={index}>{step}</li>
            ))}
          </ol>
        )}
        {text !== '' && result === undefined && <TextView text={text} name={`${name}-text`} />}
        {error !== undefined && <ErrorBox error={error} />}
        {result !== undefined && <JsonView value={result.data ?? result} name={`${name}-result`} />}
        {output !== '' && (
          <details open={error !== undefined}>
            <summary className="font-medium">Logs</summary>
            <div className="mt-2">
              <TextView text={output} name={`${name}-output`} />
            </div>
          </details>
        )}
      </div>
    </Section>
  );
}

function Snippets({ call: made }: { readonly call: Parameters<typeof snippetOf>[1] }) {
  const [language, setLanguage] = useState<Language>('curl');
  return (
    <Section
      title="Call from code"
      actions={
        <div className="w-36">
          <Select
            label="Language"
            isLabelHidden
            value={language}
            onChange={(next) => setLanguage(next as Language)}
            choices={LANGUAGES.map((each) => ({ id: each, label: each }))}
          />
        </div>
      }
    >
      <CodeBlock text={snippetOf(language, made)} />
    </Section>
  );
}

function Recent({ runs }: { readonly runs: AnswerOf<'listRuns'>['runs'] }) {
  const navigate = useNavigate();
  if (runs.length === 0) return null;
  return (
    <Section title="Recent inputs">
      <ul className="flex flex-col">
        {runs.map((each) => (
          <li key={each.id} className="flex items-center gap-3 border-b border-line py-1.5 last:border-0">
            <Status value={each.status} />
            <span className="grow text-soft">
              <Time at={each.created_at} /> · {each.agent_version}
            </span>
            <Button
              variant="quiet"
              onPress={() => void navigate({ to: '.', search: (now) => ({ ...now, from: each.id }), replace: true })}
            >
              Load input
            </Button>
          </li>
        ))}
      </ul>
    </Section>
  );
}
