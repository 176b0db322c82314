import { useQueryClient } from '@tanstack/react-query';
import { useParams, useSearch } from '@tanstack/react-router';
import { lazy, type ReactNode, Suspense, useEffect, useRef, useState } from 'react';
import { heldText } from '#core/base/held-text.ts';
import type { AnswerOf } from '../../api/client.ts';
import { keyOf, useOperation } from '../../api/query.ts';
import { isUnderWay } from '../../api/run-status.ts';
import { useWorkspace } from '../../api/session.ts';
import { isNotFound } from '../../api-error.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useLive } from '../../live/use-live.ts';
import { Credits, count, Money } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Duration, duration, Time, useNow } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { FactsRow, Page } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { AnsiText } from '../../ui/text/ansi-text.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { cutLine } from '../../ui/text/viewer.tsx';
import { BodyView } from './body-view.tsx';
import type { LogPiece } from './log-lines.ts';
import { LogTab } from './log-tab.tsx';
import { RunActions } from './run-actions.tsx';
import { RunScores } from './run-scores.tsx';
import { TraceTab } from './trace-tab.tsx';
import { TreeTab } from './tree-tab.tsx';

const TurnsTab = lazy(() => import('./turns-tab.tsx'));
const WaitingPart = lazy(() => import('../../approvals/waiting-part.tsx'));

const TABS = ['trace', 'turns', 'logs', 'input', 'output', 'tree', 'raw'] as const;
type TabName = (typeof TABS)[number];
/** Minimum interval of refetches, so that a burst of events causes one. */
const REFRESH_MS = 1_000;
/** Number of stderr lines shown with the error of a failed run. */
const TAIL_LINES = 20;

type Run = AnswerOf<'getRun'>;

/** One run, with the steps of its complete call chain. */
export function RunPage() {
  const { run = '' } = useParams({ strict: false });
  // The key resets the state, so that output is not carried over to the next run.
  return <RunView key={run} name={run} />;
}

function RunView({ name }: { readonly name: string }) {
  const { id: workspace_id } = useWorkspace();
  const search = useSearch({ strict: false }) as { tab?: TabName };
  const tab = TABS.find((each) => each === search.tab) ?? 'trace';
  const {
    data: run,
    error,
    refetch,
  } = useOperation('getRun', {
    params: { workspace_id, run_id: name },
    query: { body: 'false' },
  });
  const client = useQueryClient();
  const [output, setOutput] = useState<readonly LogPiece[]>([]);
  const [isPaused, setPaused] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const refresh = () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      for (const each of ['getRun', 'getRunWaterfall', 'listTraceEvents', 'listApprovals'] as const) {
        void client.invalidateQueries({ queryKey: keyOf(each) });
      }
    }, REFRESH_MS);
  };
  const isRunning = isUnderWay(run?.status);
  // What was decided on this page stays there.
  const [hasWaited, setWaited] = useState(false);
  useEffect(() => {
    if (run?.status === 'waiting') setWaited(true);
  }, [run?.status]);
  const state = useLive({
    name: 'listRunEvents',
    args: { params: { workspace_id, run_id: name } },
    isPaused,
    isOn: isRunning || (run !== undefined && tab === 'logs'),
    onEvent: ({ type, data }) => {
      if (type === 'progress' && (data.type === 'stdout' || data.type === 'stderr')) {
        const piece = { stream: data.type, text: String(data.text) } as const;
        setOutput((old) => [...old, piece]);
      } else if (isRunning) refresh();
    },
    onGap: refresh,
  });
  if (isNotFound(error)) {
    return (
      <Page title="Run not found">
        <ErrorBox error={error} />
        <p className="text-soft">
          Runs are deleted after a retention period.{' '}
          <Link to="/r/$run" params={{ run: name }}>
            Search all your workspaces
          </Link>
        </p>
      </Page>
    );
  }
  if (error && !run) {
    return (
      <Page title="Run">
        <ErrorBox error={error} onRetry={() => void refetch()} />
      </Page>
    );
  }
  if (!run) {
    return (
      <Page title="Run" isWide>
        <Loading />
      </Page>
    );
  }
  const params = { workspace_id, run_id: run.id };
  return (
    <Page
      title={`Run ${run.id.slice(0, 8)}`}
      isWide
      description={<Source run={run} />}
      actions={
        <>
          {isRunning && <LiveBadge state={state} onPause={() => setPaused(!isPaused)} />}
          <RunActions run={run} />
        </>
      }
      tabs={
        <Tabs
          label="Parts of the run"
          tabs={TABS.filter((each) => each !== 'turns' || run.has_turns).map((each) => ({
            label: each[0]!.toUpperCase() + each.slice(1),
            search: { ...search, tab: each === 'trace' ? undefined : each },
            isCurrent: each === tab,
          }))}
        />
      }
    >
      <About run={run} />
      {(run.status === 'waiting' || hasWaited) && (
        <Suspense>
          <WaitingPart params={params} />
        </Suspense>
      )}
      {run.failed_attempts.length > 0 && <FailedAttempts attempts={run.failed_attempts} />}
      {run.error_message !== null && <Failure run={run} params={params} />}
      <RunScores params={params} />
      {tab === 'trace' && <TraceTab params={params} isRunning={isRunning} />}
      {tab === 'turns' && (
        <Suspense fallback={<Loading />}>
          <TurnsTab run={run} isRunning={isRunning} />
        </Suspense>
      )}
      {tab === 'logs' && <LogTab name={run.id} pieces={output} isRunning={isRunning} isOver={state === 'over'} />}
      {tab === 'input' && <BodyView params={params} member="input_data" state={run.status} />}
      {tab === 'output' && <BodyView params={params} member="output_data" state={run.status} />}
      {tab === 'tree' && <TreeTab params={params} isRunning={isRunning} />}
      {tab === 'raw' && <BodyView params={params} state={run.status} />}
    </Page>
  );
}

/** The agent version of a run and what started it. */
function Source({ run }: { readonly run: Run }) {
  const { slug: workspace } = useWorkspace();
  const runLink = (id: string) => (
    <Link to="/$workspace/runs/$run" params={{ workspace, run: id }} className="underline">
      {id.slice(0, 8)}
    </Link>
  );
  return (
    <>
      <Link
        to="/$workspace/agents/$name"
        params={{ workspace, name: run.agent_name }}
        search={{ v: run.agent_version }}
        className="underline"
      >
        {run.agent_name}@{run.agent_version}
      </Link>
      {run.channel !== null && ` by ${escapeText(run.channel)}${run.is_canary ? ', its canary' : ''}`}
      {run.endpoint !== 'run' && ` ${escapeText(run.endpoint)}`} ·{' '}
      {run.schedule_id === null ? (
        `by ${run.trigger_source}`
      ) : (
        <Link
          to="/$workspace/schedules/$schedule"
          params={{ workspace, schedule: run.schedule_id }}
          className="underline"
        >
          by schedule
        </Link>
      )}
      {run.replay_of_run_id !== null && (
        <>
          {' '}
          · {run.branch === null ? 'replay' : 'branch'} of {runLink(run.replay_of_run_id)}
          {run.branch !== null && ` from turn ${run.branch.from_turn}`}
        </>
      )}
      {run.parent_run_id !== null && <> · called by {runLink(run.parent_run_id)}</>}
      {run.session_id !== null && (
        <>
          {' '}
          ·{' '}
          <Link
            to="/$workspace/agents/$name/chat"
            params={{ workspace, name: run.agent_name }}
            search={{ session: run.session_id }}
            className="underline"
          >
            Open chat
          </Link>
        </>
      )}{' '}
      · <Time at={run.created_at} />
    </>
  );
}

function About({ run }: { readonly run: Run }) {
  const tokens = (run.input_tokens ?? 0) + (run.output_tokens ?? 0);
  const cached = run.cache_read_tokens ?? 0;
  const facts: (readonly [name: string, value: ReactNode])[] = [
    ['Status', <Status key="status" value={run.status} />],
    ...(run.status === 'queued' && run.run_at !== null
      ? [['Begins', <TimeLeft key="begins" until={run.run_at} />] as const]
      : []),
    ...(run.status === 'queued' && run.held_by !== null ? [['Waits', escapeText(heldText(run.held_by))] as const] : []),
    ...(run.next_attempt_at === null
      ? []
      : [['Next attempt', <TimeLeft key="next" until={run.next_attempt_at} />] as const]),
    ...(run.attempt === null ? [] : [['Attempt', `${run.attempt} of ${run.max_attempts}`] as const]),
    run.status === 'running'
      ? (['Deadline', <TimeLeft key="left" until={run.deadline} />] as const)
      : (['Duration', <Duration key="took" ms={run.duration_ms} />] as const),
    ...(run.llm_model === null ? [] : [['Model', escapeText(run.llm_model)] as const]),
    ...(tokens === 0
      ? []
      : [
          [
            'Tokens',
            `${count(run.input_tokens ?? 0)} in${cached > 0 ? ` (${count(cached)} from cache)` : ''}, ${count(run.output_tokens ?? 0)} out`,
          ] as const,
        ]),
    ...(run.cost_usd === null ? [] : [['Provider cost', <Money key="cost" usd={run.cost_usd} />] as const]),
    ...(run.credits_cents === 0 ? [] : [['Credits', <Credits key="credits" cents={run.credits_cents} />] as const]),
    ...(run.tenant_id === null ? [] : [['Tenant', escapeText(run.tenant_id)] as const]),
    ...(run.scheduled_local === null
      ? []
      : [['Scheduled for', `${run.scheduled_local} ${run.scheduled_zone ?? ''}`] as const]),
  ];
  return <FactsRow facts={facts} />;
}

function TimeLeft({ until }: { readonly until: string }) {
  const left = Date.parse(until) - useNow(1_000);
  return (
    <span>
      {left > 0 ? `in ${duration(Math.ceil(left / 1000) * 1000)}` : 'now'} · <Time at={until} />
    </span>
  );
}

/** Tries of a run that failed before the current or last one. */
function FailedAttempts({ attempts }: { readonly attempts: Run['failed_attempts'] }) {
  return (
    <section aria-label="Failed attempts" className="min-w-0 rounded-lg border border-line p-3">
      <ol className="flex flex-col gap-1">
        {attempts.map(({ started_at, duration_ms, error_code, error_message }, index) => (
          <li key={started_at} className="min-w-0 truncate">
            Attempt {index + 1} · <Time at={started_at} /> · <Duration ms={duration_ms} /> ·{' '}
            <span className="font-medium">{error_code}</span>: {escapeText(error_message)}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** Error of a failed run, with the end of its stderr. */
function Failure({ run, params }: { readonly run: Run; readonly params: { workspace_id: string; run_id: string } }) {
  const { data } = useOperation('getRunLogs', { params }, { staleTime: 60_000, enabled: run.status !== 'cancelled' });
  const { slug: workspace } = useWorkspace();
  const lines = (data?.stderr ?? '').trimEnd().split('\n');
  return (
    <section aria-label="Error" className="flex min-w-0 flex-col gap-2 rounded-lg border border-line bg-bad-ground p-3">
      <p className="whitespace-pre-wrap">
        <span className="font-medium">{run.error_code}</span>: {escapeText(run.error_message!.slice(0, 4_000))}
      </p>
      {lines[0] !== '' && (
        <>
          <pre
            dir="ltr"
            // A scrollable area must be reachable by keyboard.
            // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
            tabIndex={0}
            className="max-h-48 overflow-auto rounded-md border border-line bg-panel p-2 font-mono text-xs [unicode-bidi:plaintext] whitespace-pre-wrap"
          >
            <AnsiText text={lines.slice(-TAIL_LINES).map(cutLine).join('\n')} />
          </pre>
          {lines.length > TAIL_LINES && (
            <p>
              Last {TAIL_LINES} of {count(lines.length)} lines of stderr.{' '}
              <Link
                to="/$workspace/runs/$run"
                params={{ workspace, run: run.id }}
                search={{ tab: 'logs', stream: 'stderr' }}
              >
                Show all
              </Link>
            </p>
          )}
        </>
      )}
    </section>
  );
}
