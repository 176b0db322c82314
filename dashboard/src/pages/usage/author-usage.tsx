import { Share2 } from 'lucide-react';
import { Suspense } from 'react';
import { useOperation } from '../../api/query.ts';
import { COMMAND } from '../../base.ts';
import { Figures } from '../../ui/data/figures.tsx';
import { Credits, count, percent } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Duration, Time } from '../../ui/data/time.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { Chart } from './chart.ts';
import { CsvButton } from './csv-button.tsx';

/** Other workspaces' usage of the workspace's agents, without identities, inputs or outputs. */
export function AuthorUsage({ days }: { readonly days: number }) {
  const query = { days };
  const usage = useOperation('getAuthorUsage', { query });
  const series = useOperation('getAuthorUsageTimeseries', { query });
  const agents = useOperation('getAuthorUsageBreakdown', { query });
  const all = [usage, series, agents];
  const error = usage.error ?? series.error ?? agents.error;
  if (error) return <ErrorBox error={error} onRetry={() => void Promise.all(all.map((each) => each.refetch()))} />;
  if (!usage.data || !series.data || !agents.data) return <Loading />;
  const { total_calls, total_errors, credits_cents } = usage.data;
  if (total_calls === 0) {
    return (
      <Empty
        icon={Share2}
        title="No other workspace called your agents in this period"
        command={`${COMMAND} update AGENT --public`}
      >
        Other workspaces can call your public agents. Make one public in its settings, or from a terminal:
      </Empty>
    );
  }
  const points = series.data.points.map(({ date, calls, errors }) => ({ date, good: calls - errors, errors }));
  const rows = agents.data.by_agent;
  return (
    <>
      <Figures
        label="Sums"
        figures={[
          { name: 'Calls', value: count(total_calls) },
          { name: 'Failed', value: percent(total_errors, total_calls) },
          { name: 'Callers paid', value: <Credits cents={credits_cents} /> },
        ]}
      />
      <Section title="Calls per day">
        <Suspense fallback={<Loading />}>
          <Chart
            label="Calls per day"
            rows={points}
            at="date"
            format={count}
            series={[
              { key: 'good', label: 'Completed', colour: '--good', kind: 'bar' },
              { key: 'errors', label: 'Failed', colour: '--bad', kind: 'bar' },
            ]}
          />
        </Suspense>
      </Section>
      <Section
        title="By agent"
        isFramed={false}
        actions={
          <CsvButton
            name="usage-by-other-workspaces"
            head={['agent', 'calls', 'errors', 'avg_duration_ms', 'credits_usd']}
            rows={rows.map((each) => [
              `${each.org_slug}/${each.agent_name}`,
              each.calls,
              each.errors,
              each.avg_duration_ms,
              each.credits_cents / 100,
            ])}
          />
        }
      >
        <Table
          label="Usage by agent"
          rows={rows}
          keyOf={({ agent_name }) => agent_name}
          columns={[
            { title: 'Agent', cell: ({ agent_name }) => agent_name },
            { title: 'Calls', cell: ({ calls }) => count(calls), isNumber: true },
            { title: 'Failed', cell: ({ calls, errors }) => percent(errors, calls), isNumber: true },
            {
              title: 'Average duration',
              cell: ({ avg_duration_ms }) => <Duration ms={avg_duration_ms} />,
              isNumber: true,
              from: 'sm',
            },
            {
              title: 'Callers paid',
              cell: ({ credits_cents }) => <Credits cents={credits_cents} />,
              isNumber: true,
              from: 'sm',
            },
          ]}
        />
      </Section>
      <LastCalls days={days} />
    </>
  );
}

function LastCalls({ days }: { readonly days: number }) {
  const { data, error, refetch } = useOperation('listAuthorUsageLogs', { query: { days, limit: 50 } });
  return (
    <Section title="Latest calls" isFramed={false} description={data && `The latest 50 of ${count(data.total)}.`}>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Latest calls"
          rows={data.logs}
          keyOf={({ run_id }) => run_id}
          columns={[
            { title: 'Agent', cell: ({ agent, version }) => `${agent}@${version}` },
            { title: 'Status', cell: ({ status }) => <Status value={status} /> },
            { title: 'Duration', cell: ({ duration_ms }) => <Duration ms={duration_ms} />, isNumber: true, from: 'sm' },
            { title: 'Started', cell: ({ created_at }) => <Time at={created_at} />, from: 'sm' },
          ]}
        />
      )}
    </Section>
  );
}
