import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { Ban, Pencil, RotateCw } from 'lucide-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { call } from '../../api/client.ts';
import { keyOf, useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { API_URL } from '../../base.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useLive } from '../../live/use-live.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Loading } from '../../ui/loading.tsx';
import { Money } from '../../ui/numbers.tsx';
import { Facts, Page, Section } from '../../ui/page.tsx';
import { Status } from '../../ui/status.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { Duration, Time } from '../../ui/time.tsx';
import { harmless, JsonView, TextView } from '../../ui/viewer.tsx';
import { type Line, linesOf, Waterfall, type WaterfallRun } from './waterfall.tsx';

const TABS = ['trace', 'logs', 'input', 'output', 'raw'] as const;
type TabName = (typeof TABS)[number];
/** A burst of events is one look at the records. */
const REFRESH_MS = 1_000;

/** One run, with the steps of the whole chain that it is a part of. */
export function RunPage() {
  const { run = '' } = useParams({ strict: false });
  // What one run printed is not the next one's.
  return <OneRun key={run} name={run} />;
}

function OneRun({ name }: { readonly name: string }) {
  const { id: workspace_id, slug } = useWorkspace();
  const { tab = 'trace', span } = useSearch({ strict: false }) as { tab?: TabName; span?: string };
  const params = { workspace_id, run_id: name };
  const { data: run, error, refetch } = useOperation('getRun', { params });
  const client = useQueryClient();
  const [printed, setPrinted] = useState('');
  const [isPaused, setPaused] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const refresh = () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      for (const each of ['getRun', 'getRunWaterfall', 'listTraceEvents'] as const) {
        void client.invalidateQueries({ queryKey: keyOf(each) });
      }
    }, REFRESH_MS);
  };
  const isRunning = run?.status === 'running';
  const state = useLive({
    name: 'listRunEvents',
    args: { params },
    isPaused,
    isOn: isRunning || (run !== undefined && tab === 'logs'),
    onEvent: ({ type, data }) => {
      const isText = type === 'progress' && (data.type === 'stdout' || data.type === 'stderr');
      if (isText) setPrinted((old) => old + String(data.text));
      else if (isRunning) refresh();
    },
    onGap: refresh,
  });
  if (error) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (!run) return <Loading />;
  const agent = `${run.agent_name}@${run.agent_version}`;
  return (
    <Page
      title={`Run ${run.id.slice(0, 8)}`}
      isWide
      description={
        <>
          {agent} · {run.trigger_source} · <Time at={run.created_at} />
        </>
      }
      actions={
        <>
          {isRunning && <LiveBadge state={state} onPause={() => setPaused(!isPaused)} />}
          <Actions run={run} slug={slug} workspaceId={workspace_id} />
        </>
      }
      tabs={
        <Tabs
          label="Parts of the run"
          tabs={TABS.map((each) => ({
            label: each[0]!.toUpperCase() + each.slice(1),
            search: { tab: each === 'trace' ? undefined : each, span },
            isCurrent: each === tab,
          }))}
        />
      }
    >
      <Facts
        facts={[
          ['Status', <Status key="status" value={run.status} />],
          ['Took', <Duration key="took" ms={run.duration_ms} />],
          ['Cost at the provider', <Money key="cost" usd={run.cost_usd} />],
          ...(run.error_message === null
            ? []
            : [['Error', `${run.error_code}: ${harmless(run.error_message)}`] as const]),
        ]}
      />
      {tab === 'trace' && <TraceTab params={params} span={span} isRunning={isRunning} />}
      {tab === 'logs' && <LogsTab name={run.id} printed={printed} isOver={state === 'over'} />}
      {tab === 'input' && <JsonView value={run.input_data} name={`${run.id}-input`} />}
      {tab === 'output' && <JsonView value={run.output_data} name={`${run.id}-output`} />}
      {tab === 'raw' && <JsonView value={run} name={run.id} />}
    </Page>
  );
}

interface RunParams {
  readonly workspace_id: string;
  readonly run_id: string;
}

function TraceTab({
  params,
  span,
  isRunning,
}: {
  readonly params: RunParams;
  readonly span: string | undefined;
  readonly isRunning: boolean;
}) {
  const navigate = useNavigate();
  const { data, error } = useQuery({
    queryKey: keyOf('getRunWaterfall', params),
    queryFn: async ({ signal }) => {
      const runs: WaterfallRun[] = [];
      for (let cursor: string | null = '0'; cursor !== null; ) {
        const query: { limit: number; cursor: string } = { limit: 4000, cursor };
        const page = await call('getRunWaterfall', { params, query }, { signal });
        runs.push(...page.runs);
        cursor = page.next_cursor;
      }
      return { runs, at: Date.now() };
    },
    refetchInterval: isRunning ? 5_000 : false,
  });
  const lines = useMemo(() => (data ? linesOf(data.runs, data.at) : []), [data]);
  if (error) return <ErrorBox error={error} />;
  if (!data) return <Loading />;
  const own = lines.find(({ run }) => run.run_id.startsWith(params.run_id));
  const selected = lines.find(({ id }) => id === span) ?? own ?? lines[0];
  if (!selected) return <p className="text-soft">Nothing of the run is recorded.</p>;
  const select = (id: string) =>
    void navigate({ to: '.', search: (old: object) => ({ ...old, span: id }), replace: true } as never);
  return (
    <div className="grid min-w-0 gap-4 lg:grid-cols-[3fr_2fr]">
      <Waterfall lines={lines} selected={selected.id} onSelect={select} />
      <Selected key={selected.id} line={selected} workspaceId={params.workspace_id} />
    </div>
  );
}

/** What is known of a line, and what was said in it if the workspace keeps that. */
function Selected({ line, workspaceId }: { readonly line: Line; readonly workspaceId: string }) {
  const { run, step } = line;
  const { data } = useOperation(
    'listTraceEvents',
    {
      params: { workspace_id: workspaceId, trace_id: run.run_id },
      query: { content: 'true', span_id: step?.span_id ?? run.span_id },
    },
    { enabled: run.has_content && step?.span_id !== undefined },
  );
  const said = (data?.events ?? []).flatMap(({ content }) => [
    ...(content?.messages ?? []).map(({ role, tool_name, text }) => [tool_name ? `${role} ${tool_name}` : role, text]),
    ...(content?.arguments ? [['arguments', content.arguments.text]] : []),
    ...(content?.result ? [['result', content.result.text]] : []),
  ]);
  const { steps: _, ...about } = run;
  return (
    <Section title={line.name}>
      <div className="flex min-w-0 flex-col gap-3">
        <JsonView value={step ?? about} name={line.id} />
        {said.map(([what, text], index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: they do not move.
          <div key={index} className="flex flex-col gap-1">
            <h3 className="font-medium">{harmless(what!)}</h3>
            <TextView text={text!} name={`${line.id}-${index}`} />
          </div>
        ))}
        {step && !run.has_content && (
          <p className="text-soft">
            What was said is not kept. An owner can change that for runs from now on: platform workspace update
            --trace-content all
          </p>
        )}
      </div>
    </Section>
  );
}

/** What the run printed, from its beginning. Its events have it also where its record has not, as after a cancellation. */
function LogsTab({
  name,
  printed,
  isOver,
}: {
  readonly name: string;
  readonly printed: string;
  readonly isOver: boolean;
}) {
  if (printed !== '') return <TextView text={printed} name={`${name}-log`} />;
  return <p className="text-soft">{isOver ? 'The run printed nothing.' : 'Nothing was printed yet.'}</p>;
}

interface ActionsProps {
  readonly run: {
    readonly id: string;
    readonly status: string;
    readonly input_data: unknown;
    readonly agent_name: string;
    readonly agent_version: string;
  };
  readonly slug: string;
  readonly workspaceId: string;
}

function Actions({ run, slug, workspaceId }: ActionsProps) {
  const navigate = useNavigate();
  const params = { workspace_id: workspaceId, run_id: run.id };
  const cancel = useAction('requestRunCancel', { stale: ['getRun', 'getRunWaterfall', 'listRuns'] });
  const replay = useAction('replayRun', { stale: ['listRuns'] });
  const [edited, setEdited] = useState<string>();
  const problem = edited === undefined ? undefined : problemOf(edited);
  const start = async (input?: unknown) => {
    const { run_id } = await replay.mutateAsync({ params, body: input === undefined ? {} : { input } } as never);
    setEdited(undefined);
    await navigate({ to: '/$workspace/runs/$run', params: { workspace: slug, run: run_id } });
  };
  const cancelRun = () => cancel.mutate({ params });
  const replayRun = () => void start().catch(() => {});
  const edit = () => setEdited(JSON.stringify(run.input_data, null, 2));
  useKeys({ c: run.status === 'running' ? cancelRun : undefined, e: edit, 'Shift+R': replayRun });
  const curl = `curl -s -X POST ${API_URL}/workspaces/${workspaceId}/runs/${run.id}/replay -H "Authorization: Bearer $PLATFORM_API_KEY"`;
  return (
    <>
      {run.status === 'running' && (
        <Button look="danger" icon={Ban} isPending={cancel.isPending} onPress={cancelRun}>
          Cancel run
        </Button>
      )}
      <Button icon={RotateCw} isPending={replay.isPending} onPress={replayRun}>
        Replay
      </Button>
      <Button icon={Pencil} onPress={edit}>
        Edit and replay
      </Button>
      <CopyButton text={curl} label="Copy as curl" />
      <CopyButton text={`npx platform replay ${run.id}`} label="Copy as command" />
      <Dialog
        title="Edit and replay"
        size="large"
        isOpen={edited !== undefined}
        onClose={() => setEdited(undefined)}
        actions={
          <Button
            look="main"
            isDisabled={problem !== undefined}
            isPending={replay.isPending}
            onPress={() => void start(JSON.parse(edited!)).catch(() => {})}
          >
            Replay with this input
          </Button>
        }
      >
        <TextField label="Input" lines={16} isMono value={edited ?? ''} onChange={setEdited} error={problem} />
      </Dialog>
    </>
  );
}

function problemOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return `The input is no JSON: ${(error as Error).message}`;
  }
}
