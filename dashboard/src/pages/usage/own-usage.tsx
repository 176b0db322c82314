import { ChartColumn } from 'lucide-react';
import { Suspense } from 'react';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Figures } from '../../ui/data/figures.tsx';
import { Credits, count, Money, percent, shortCount, usd } from '../../ui/data/numbers.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Duration, duration, Time } from '../../ui/data/time.tsx';
import { NoCalls } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { WhenVisible } from '../../ui/when-visible.tsx';
import { Chart } from './chart.ts';
import { CsvButton } from './csv-button.tsx';

const MAX_TENANTS = 200;

interface Asked {
  readonly days: number;
  readonly tenant?: string;
}
const queryOf = ({ days, tenant }: Asked) => ({ days, ...(tenant !== undefined && { tenant_id: tenant }) });

/** Calls, errors, tokens, cost and latency of the workspace, or of one tenant. */
export function OwnUsage({ days, tenant }: Asked) {
  const { slug } = useWorkspace();
  const query = queryOf({ days, tenant });
  const usage = useOperation('getUsage', { query });
  const series = useOperation('getUsageTimeseries', { query });
  const error = usage.error ?? series.error;
  if (error) return <ErrorBox error={error} onRetry={() => void Promise.all([usage.refetch(), series.refetch()])} />;
  if (!usage.data || !series.data) return <Loading />;
  const sums = usage.data;
  const isNothing = sums.total_calls === 0 && sums.input_tokens === 0;
  return (
    <>
      <Figures
        label="Sums"
        figures={[
          { name: 'Calls', value: count(sums.total_calls), note: `${shortCount(sums.calls_remaining)} left today` },
          {
            name: 'Failed',
            value: percent(sums.total_errors, sums.total_calls),
            note: `${count(sums.total_errors)} ${sums.total_errors === 1 ? 'call' : 'calls'}`,
          },
          {
            name: 'Tokens in',
            value: shortCount(sums.input_tokens),
            note: `${shortCount(sums.cache_read_tokens)} from cache`,
          },
          { name: 'Tokens out', value: shortCount(sums.output_tokens) },
          {
            name: 'Models',
            value: <Money usd={sums.models_usd} />,
            note:
              sums.unpriced_runs > 0
                ? `excluding ${count(sums.unpriced_runs)} runs without a known price`
                : 'at provider prices',
          },
          { name: 'Credits', value: <Credits cents={sums.credits_cents} />, note: 'for paid agents' },
        ]}
      />
      {isNothing ? (
        <NoCalls icon={ChartColumn} title="No calls in this period" slug={slug}>
          Run an agent here or from a terminal. Its usage appears when the run ends:
        </NoCalls>
      ) : (
        <>
          <Series points={series.data.points} tenant={tenant} />
          {tenant === undefined && (
            <WhenVisible>
              <Times days={days} />
            </WhenVisible>
          )}
          <WhenVisible>
            <ByAgent days={days} tenant={tenant} />
          </WhenVisible>
          {tenant === undefined && (
            <>
              <WhenVisible>
                <ByTenant days={days} />
              </WhenVisible>
              <WhenVisible>
                <Compute days={days} />
              </WhenVisible>
            </>
          )}
        </>
      )}
    </>
  );
}

interface Point {
  readonly date: string;
  readonly calls: number;
  readonly errors: number;
  readonly credits_cents: number;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly models_usd?: number;
}

function Series({ points, tenant }: { readonly points: readonly Point[]; readonly tenant?: string }) {
  const rows = points.map(({ date, calls, errors, credits_cents, ...models }) => ({
    date,
    good: calls - errors,
    errors,
    input: models.input_tokens ?? 0,
    output: models.output_tokens ?? 0,
    models: models.models_usd ?? 0,
    credits: credits_cents / 100,
  }));
  return (
    <>
      <Section
        title="Calls per day"
        description="Sub-calls count as part of the call that made them."
        actions={
          <CsvButton
            name={tenant === undefined ? 'usage-by-day' : 'usage-of-tenant-by-day'}
            head={['date', 'calls', 'errors', 'input_tokens', 'output_tokens', 'models_usd', 'credits_usd']}
            rows={rows.map((row) => [
              row.date,
              row.good + row.errors,
              row.errors,
              row.input,
              row.output,
              row.models,
              row.credits,
            ])}
          />
        }
      >
        <Suspense fallback={<Loading />}>
          <Chart
            label="Calls per day"
            rows={rows}
            at="date"
            format={count}
            series={[
              { key: 'good', label: 'Completed', colour: '--good', kind: 'bar' },
              { key: 'errors', label: 'Failed', colour: '--bad', kind: 'bar' },
            ]}
          />
        </Suspense>
      </Section>
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <Section title="Cost per day">
          <Suspense fallback={<Loading />}>
            <Chart
              label="Cost per day"
              rows={rows}
              at="date"
              format={usd}
              hasParts
              series={[
                { key: 'models', label: 'Models', colour: '--accent', kind: 'bar' },
                { key: 'credits', label: 'Credits', colour: '--warn', kind: 'bar' },
              ]}
            />
          </Suspense>
        </Section>
        <Section title="Tokens per day">
          <Suspense fallback={<Loading />}>
            <Chart
              label="Tokens per day"
              rows={rows}
              at="date"
              format={shortCount}
              series={[
                { key: 'input', label: 'In', colour: '--accent', kind: 'bar' },
                { key: 'output', label: 'Out', colour: '--good', kind: 'bar' },
              ]}
            />
          </Suspense>
        </Section>
      </div>
    </>
  );
}

function Times({ days }: { readonly days: number }) {
  const { id: workspace_id } = useWorkspace();
  const { data, error, refetch } = useOperation('getWorkspaceMetrics', { params: { workspace_id }, query: { days } });
  return (
    <Section title="Run duration" description="All runs, including sub-calls.">
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Suspense fallback={<Loading />}>
          <Chart
            label="Run duration"
            rows={data.daily_series}
            at="date"
            format={duration}
            series={[
              { key: 'p50_latency_ms', label: 'Median (p50)', colour: '--accent', kind: 'line' },
              { key: 'p95_latency_ms', label: '95th percentile (p95)', colour: '--warn', kind: 'line' },
            ]}
          />
        </Suspense>
      )}
    </Section>
  );
}

function ByAgent(asked: Asked) {
  const { data, error, refetch } = useOperation('getUsageBreakdown', { query: queryOf(asked) });
  const rows = data?.by_agent ?? [];
  return (
    <Section
      title="By agent"
      isFramed={false}
      actions={
        rows.length > 0 && (
          <CsvButton
            name="usage-by-agent"
            head={[
              'agent',
              'calls',
              'errors',
              'avg_duration_ms',
              'input_tokens',
              'output_tokens',
              'models_usd',
              'credits_usd',
            ]}
            rows={rows.map((each) => [
              `${each.org_slug}/${each.agent_name}`,
              each.calls,
              each.errors,
              each.avg_duration_ms,
              each.input_tokens,
              each.output_tokens,
              each.models_usd,
              each.credits_cents / 100,
            ])}
          />
        )
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Usage by agent"
          rows={rows}
          keyOf={({ org_slug, agent_name }) => `${org_slug}/${agent_name}`}
          columns={[
            { title: 'Agent', cell: ({ org_slug, agent_name }) => `${org_slug}/${agent_name}` },
            { title: 'Calls', cell: ({ calls }) => count(calls), isNumber: true },
            {
              title: 'Failed',
              cell: ({ calls, errors }) => percent(errors, calls),
              isNumber: true,
              from: 'sm',
            },
            {
              title: 'Average duration',
              cell: ({ calls, avg_duration_ms }) => <Duration ms={calls === 0 ? null : avg_duration_ms} />,
              isNumber: true,
              from: 'md',
            },
            {
              title: 'Tokens',
              cell: ({ input_tokens, output_tokens }) => shortCount(input_tokens + output_tokens),
              isNumber: true,
              from: 'md',
            },
            { title: 'Models', cell: ({ models_usd }) => <Money usd={models_usd} />, isNumber: true },
            {
              title: 'Credits',
              cell: ({ credits_cents }) => <Credits cents={credits_cents} />,
              isNumber: true,
              from: 'sm',
            },
          ]}
        />
      )}
    </Section>
  );
}

function ByTenant({ days }: { readonly days: number }) {
  const { slug } = useWorkspace();
  const { data, error, refetch } = useOperation('listUsageTenants', { query: { days, limit: MAX_TENANTS } });
  if (error) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (!data || data.tenants.length === 0) return null;
  const { tenants, total } = data;
  return (
    <Section
      title="By tenant"
      isFramed={false}
      description={total > tenants.length && `${tenants.length} of ${count(total)}, with the most calls.`}
      actions={
        <CsvButton
          name="usage-by-tenant"
          head={['tenant', 'calls', 'errors', 'last_call_at']}
          rows={tenants.map((each) => [each.tenant_id, each.calls, each.errors, each.last_call_at])}
        />
      }
    >
      <Table
        label="Usage by tenant"
        rows={tenants}
        keyOf={({ tenant_id }) => tenant_id}
        linkOf={({ tenant_id }) => ({
          to: '/$workspace/usage',
          params: { workspace: slug },
          search: { days: String(days), tenant: tenant_id },
        })}
        columns={[
          { title: 'Tenant', cell: ({ tenant_id }) => tenant_id },
          { title: 'Calls', cell: ({ calls }) => count(calls), isNumber: true },
          { title: 'Failed', cell: ({ calls, errors }) => percent(errors, calls), isNumber: true },
          { title: 'Last call', cell: ({ last_call_at }) => <Time at={last_call_at} />, from: 'sm' },
        ]}
      />
    </Section>
  );
}

function Compute({ days }: { readonly days: number }) {
  const { data, error, refetch } = useOperation('getComputeUsage', { query: { days } });
  if (error) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (!data || (data.by_agent.length === 0 && data.by_service.length === 0)) return null;
  const rows = [
    ...data.by_agent.map(({ agent_id, agent_name, executions, compute_seconds }) => ({
      id: agent_id,
      name: agent_name,
      kind: 'Agent',
      executions,
      seconds: compute_seconds,
    })),
    ...data.by_service.map(({ service_id, service_name, runtime_minutes }) => ({
      id: service_id,
      name: service_name,
      kind: 'Service',
      executions: null,
      seconds: runtime_minutes * 60,
    })),
  ];
  return (
    <Section
      title="Compute"
      isFramed={false}
      description={`Sandbox time: ${duration(data.total_compute_seconds * 1000)}, service instances: ${duration(data.total_service_minutes * 60_000)}.`}
      actions={
        <CsvButton
          name="compute"
          head={['name', 'kind', 'executions', 'compute_seconds']}
          rows={rows.map(({ name, kind, executions, seconds }) => [name, kind, executions ?? '', seconds])}
        />
      }
    >
      <Table
        label="Compute by agent and service"
        rows={rows}
        keyOf={({ id }) => id}
        columns={[
          { title: 'Name', cell: ({ name }) => name },
          { title: 'Kind', cell: ({ kind }) => kind, from: 'sm' },
          { title: 'Runs', cell: ({ executions }) => (executions === null ? '–' : count(executions)), isNumber: true },
          { title: 'Time', cell: ({ seconds }) => <Duration ms={seconds * 1000} />, isNumber: true },
        ]}
      />
    </Section>
  );
}
