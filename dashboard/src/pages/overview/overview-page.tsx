import type { UseQueryResult } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { useWaiting } from '../../approvals/waiting.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useLiveRefresh } from '../../live/use-live.ts';
import { Figures } from '../../ui/data/figures.tsx';
import { count, shortCount, usd } from '../../ui/data/numbers.tsx';
import { Badge, Status, type Tone } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { duration, Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { WhenVisible } from '../../ui/when-visible.tsx';
import { GetStarted, useChecklist } from './checklist.tsx';
import { Pictures } from './pictures.tsx';

const route = getRouteApi('/signed-in/$workspace/');

const RANGES = [
  [1, 'Today'],
  [7, '7 days'],
  [30, '30 days'],
] as const;
const SHOWN = 5;
/** Equal failures among these are one row. */
const READ_FAILURES = 50;
const SHOWN_DUE = 10;
/** One schedule may take many of the next slots. */
const READ_DUE = 200;

/** Current activity and recent results of a workspace, with a checklist until it is complete or dismissed. */
export function OverviewPage() {
  const { name, slug } = useWorkspace();
  const search = route.useSearch();
  const [days] = RANGES.find(([each]) => String(each) === search.days) ?? RANGES[1];
  const [isPaused, setPaused] = useState(false);
  const live = useLiveRefresh(
    ['run', 'agent', 'schedule', 'message'],
    [
      'listRuns',
      'listApprovals',
      'listAgents',
      'listSchedules',
      'listUpcoming',
      'listWorkspaceMessages',
      'getWorkspaceMetrics',
      'getUsage',
      'getUsageTimeseries',
      'getLimits',
    ],
    { isPaused },
  );
  const checklist = useChecklist();
  return (
    <Page title={name} actions={<LiveBadge state={live} onPause={() => setPaused(!isPaused)} />}>
      {checklist === undefined && <Loading />}
      {checklist && <GetStarted checklist={checklist} />}
      {checklist !== undefined && checklist?.done.includes('run') !== false && (
        <>
          <Tabs
            label="Range"
            tabs={RANGES.map(([each, label]) => ({
              label,
              to: '/$workspace',
              params: { workspace: slug },
              search: { days: String(each) },
              isCurrent: each === days,
            }))}
          />
          <Numbers days={days} />
          <Pictures days={days} />
          <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
            <div className="flex min-w-0 flex-col gap-4">
              <WaitingForYou />
              <WhenVisible>
                <Running />
              </WhenVisible>
              <WhenVisible>
                <Failures />
              </WhenVisible>
            </div>
            <div className="flex min-w-0 flex-col gap-4">
              <WhenVisible>
                <Due />
              </WhenVisible>
              <WhenVisible>
                <Messages />
              </WhenVisible>
            </div>
          </div>
        </>
      )}
    </Page>
  );
}

type Limit = AnswerOf<'getLimits'>['limits'][string] | undefined;
const leftOf = (limit: Limit): string =>
  typeof limit?.limit === 'number' ? shortCount(Math.max(0, limit.limit - (limit.used ?? 0))) : 'Unlimited';
const ofLimit = (limit: Limit): string => (typeof limit?.limit === 'number' ? `of ${shortCount(limit.limit)}` : '');

function Numbers({ days }: { readonly days: number }) {
  const { id: workspace_id } = useWorkspace();
  const metrics = useOperation('getWorkspaceMetrics', { params: { workspace_id }, query: { days } });
  const usage = useOperation('getUsage', { query: { days } });
  const plan = useOperation('getLimits', { params: { workspace_id } });
  const error = metrics.error ?? usage.error ?? plan.error;
  if (error) {
    const retry = () => void Promise.all([metrics.refetch(), usage.refetch(), plan.refetch()]);
    return <ErrorBox error={error} onRetry={retry} />;
  }
  if (!metrics.data || !usage.data || !plan.data) return <Loading lines={2} />;
  const { total_runs, success_rate, p50_latency_ms, p95_latency_ms } = metrics.data.overview;
  const hasRuns = total_runs > 0;
  const { models_usd, unpriced_runs, credits_cents } = usage.data;
  const { daily_calls: prompts, daily_sandbox_calls: programs } = plan.data.limits;
  return (
    <Figures
      label="In this range"
      figures={[
        {
          name: 'Success rate',
          value: hasRuns ? `${success_rate.toFixed(1)}%` : '–',
          note: `of ${count(total_runs)} ${total_runs === 1 ? 'run' : 'runs'}`,
        },
        {
          name: 'Median duration',
          value: hasRuns && p50_latency_ms > 0 ? duration(p50_latency_ms) : '–',
          note: 'p50',
        },
        {
          name: '95th percentile',
          value: hasRuns && p95_latency_ms > 0 ? duration(p95_latency_ms) : '–',
          note: 'p95',
        },
        {
          name: 'Spent',
          value: usd(models_usd + credits_cents / 100),
          note:
            unpriced_runs > 0
              ? `models and credits, excluding ${count(unpriced_runs)} runs without a known price`
              : 'models and credits',
        },
        {
          name: 'Calls left today',
          value: leftOf(prompts),
          note: `${ofLimit(prompts)} for prompts; ${leftOf(programs)} ${ofLimit(programs)} for programs and loops`,
        },
      ]}
    />
  );
}

/** Keeps a minimum width beside a long text, and wraps if there is space. */
const nameOf = (of: { readonly agent_name: string; readonly agent_version: string }) => (
  <span className="inline-block min-w-20">{`${of.agent_name}@${of.agent_version}`}</span>
);

/** A list of the overview with its loading, error and empty states. */
function Listed<Data>({
  query: { data, error, refetch },
  isEmpty,
  empty,
  children,
}: {
  readonly query: UseQueryResult<Data>;
  readonly isEmpty: (data: Data) => boolean;
  readonly empty: ReactNode;
  readonly children: (data: Data) => ReactNode;
}) {
  if (error) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading lines={3} />;
  return isEmpty(data) ? <p className="rounded-lg border border-line p-3 text-soft">{empty}</p> : children(data);
}

function useRuns(status: 'running' | 'waiting' | 'failed' | 'timeout', limit = SHOWN) {
  const { id: workspace_id } = useWorkspace();
  return useOperation('listRuns', { params: { workspace_id }, query: { status, limit } });
}

/** Calls and questions that wait for people; nothing if there are none. */
function WaitingForYou() {
  const { id: workspace_id, slug } = useWorkspace();
  const { data } = useWaiting(workspace_id);
  if (data === undefined || data.approvals.length === 0) return null;
  return (
    <Section
      title="Waiting for you"
      isFramed={false}
      actions={
        <Link to="/$workspace/approvals" params={{ workspace: slug }}>
          All
        </Link>
      }
    >
      <Table
        label="Waiting for you"
        rows={data.approvals.slice(0, SHOWN)}
        keyOf={({ id }) => id}
        linkOf={({ run_id }) => ({ to: '/$workspace/runs/$run', params: { workspace: slug, run: run_id } })}
        columns={[
          { title: 'Agent', cell: nameOf },
          {
            title: 'What',
            cell: ({ tool, question }) => (
              <span className="line-clamp-2">
                {question === null ? `Call ${escapeText(tool)}` : escapeText(question)}
              </span>
            ),
          },
          { title: 'Until', cell: ({ expires_at }) => <Time at={expires_at} />, from: 'sm' },
        ]}
      />
    </Section>
  );
}

function Running() {
  const { slug } = useWorkspace();
  const running = useRuns('running');
  const waiting = useRuns('waiting');
  const lists = [running.data, waiting.data];
  const total = lists.reduce((sum, list) => sum + (list?.total ?? 0), 0);
  const isExact = lists.every((list) => list?.total_is_exact !== false);
  const runs = lists.flatMap((list) => list?.runs ?? []).slice(0, SHOWN);
  return (
    <Section
      title={total > SHOWN ? `Running now (${isExact ? '' : 'at least '}${count(total)})` : 'Running now'}
      isFramed={false}
      actions={<AllRuns status="running" />}
    >
      <Listed
        query={running.error || !running.data ? running : waiting}
        isEmpty={() => runs.length === 0}
        empty="No runs in progress."
      >
        {() => (
          <Table
            label="Running now"
            rows={runs}
            keyOf={({ id }) => id}
            linkOf={({ id }) => ({ to: '/$workspace/runs/$run', params: { workspace: slug, run: id } })}
            columns={[
              { title: 'Agent', cell: nameOf },
              { title: 'Status', cell: ({ status }) => <Status value={status} /> },
              { title: 'Source', cell: ({ trigger_source }) => trigger_source, from: 'sm' },
              { title: 'Started', cell: ({ created_at }) => <Time at={created_at} /> },
            ]}
          />
        )}
      </Listed>
    </Section>
  );
}

const AllRuns = ({ status }: { readonly status: string }) => (
  <Link to="/$workspace/runs" params={{ workspace: useWorkspace().slug }} search={{ status }}>
    All
  </Link>
);

function Failures() {
  const { slug } = useWorkspace();
  const failed = useRuns('failed', READ_FAILURES);
  const timedOut = useRuns('timeout', READ_FAILURES);
  const runs = [...(failed.data?.runs ?? []), ...(timedOut.data?.runs ?? [])].sort((a, b) =>
    a.created_at < b.created_at ? 1 : -1,
  );
  const equal = Map.groupBy(runs, (run) => `${run.agent_name} ${run.status} ${run.error_message}`);
  const groups = [...equal.values()]
    .slice(0, SHOWN)
    .map((own) => ({ ...own[0]!, times: own.length, since: own.at(-1)!.created_at }));
  return (
    <Section title="Recent failures" isFramed={false} actions={<AllRuns status="failed" />}>
      <Listed
        query={failed.error || !failed.data ? failed : timedOut}
        isEmpty={() => runs.length === 0}
        empty="No recent failures."
      >
        {() => (
          <Table
            label="Recent failures"
            rows={groups}
            keyOf={({ id }) => id}
            linkOf={({ id }) => ({ to: '/$workspace/runs/$run', params: { workspace: slug, run: id } })}
            columns={[
              { title: 'Agent', cell: nameOf },
              {
                title: 'Why',
                cell: ({ status, error_message, times, since }) => (
                  <span className="flex min-w-0 flex-col items-start gap-0.5">
                    <span className="flex flex-wrap items-center gap-1">
                      <Status value={status} />
                      {times > 1 && (
                        <span className="text-xs text-soft">
                          {count(times)} times since <Time at={since} />
                        </span>
                      )}
                    </span>
                    <span className="line-clamp-2 text-xs text-soft">{error_message}</span>
                  </span>
                ),
              },
              { title: 'Last', cell: ({ created_at }) => <Time at={created_at} />, from: 'sm' },
            ]}
          />
        )}
      </Listed>
    </Section>
  );
}

function Due() {
  const { id: workspace_id, slug } = useWorkspace();
  const due = useOperation(
    'listUpcoming',
    { params: { workspace_id }, query: { limit: READ_DUE } },
    { refetchInterval: 60_000 },
  );
  return (
    <Section
      title="Next due"
      isFramed={false}
      actions={
        <Link to="/$workspace/schedules" params={{ workspace: slug }}>
          Schedules
        </Link>
      }
    >
      <Listed
        query={due}
        isEmpty={({ slots }) => slots.length === 0}
        empty={
          <>
            Nothing is due in the next 7 days.{' '}
            <Link to="/$workspace/schedules/new" params={{ workspace: slug }} className="underline">
              Create a schedule
            </Link>
          </>
        }
      >
        {({ slots }) => (
          <Table
            label="Next due"
            rows={slots
              .filter((slot, index) => slots.findIndex((each) => each.schedule_id === slot.schedule_id) === index)
              .slice(0, SHOWN_DUE)}
            keyOf={({ schedule_id }) => schedule_id}
            linkOf={({ schedule_id }) => ({
              to: '/$workspace/schedules/$schedule',
              params: { workspace: slug, schedule: schedule_id },
            })}
            columns={[
              { title: 'Agent', cell: nameOf },
              {
                title: 'When',
                cell: ({ at }) => (at === null ? 'Skipped: clock change' : <Time at={at} />),
              },
              {
                title: 'Schedule time',
                cell: ({ local, timezone }) => (
                  <span className="text-soft">
                    {local.replace('T', ' ')} {timezone}
                  </span>
                ),
                from: 'sm',
              },
            ]}
          />
        )}
      </Listed>
    </Section>
  );
}

const LEVELS: Readonly<Record<string, Tone>> = { info: 'info', success: 'good', warning: 'warn', error: 'bad' };

function Messages() {
  const { id: workspace_id, slug } = useWorkspace();
  const messages = useOperation('listWorkspaceMessages', { params: { workspace_id }, query: { limit: SHOWN } });
  return (
    <Section
      title="Messages"
      isFramed={false}
      actions={
        <Link to="/$workspace/messages" params={{ workspace: slug }}>
          All
        </Link>
      }
    >
      <Listed
        query={messages}
        isEmpty={(page) => page.messages.length === 0}
        empty="No messages yet. Agents send them when there is something for people to read."
      >
        {(page) => (
          <Table
            label="Messages"
            rows={page.messages}
            keyOf={({ id }) => id}
            columns={[
              {
                title: 'Message',
                cell: ({ title, agent_name }) => (
                  <span className="flex min-w-0 flex-col">
                    <span className="line-clamp-2 font-medium">{title}</span>
                    <span className="text-xs text-soft">{agent_name}</span>
                  </span>
                ),
              },
              { title: 'Level', cell: ({ level }) => <Badge tone={LEVELS[level]}>{level}</Badge>, from: 'sm' },
              { title: 'Sent', cell: ({ created_at }) => <Time at={created_at} /> },
            ]}
          />
        )}
      </Listed>
    </Section>
  );
}
