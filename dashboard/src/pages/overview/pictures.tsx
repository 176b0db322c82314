import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Bars } from '../../ui/data/bars.tsx';
import { count } from '../../ui/data/numbers.tsx';
import { Table } from '../../ui/data/table.tsx';
import { duration } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { WhenVisible } from '../../ui/when-visible.tsx';

const HOUR_MS = 3_600_000;
const HOURS = 24;
const SLOWEST = 5;
/** Maximum number of bars in half the width of the page. */
const MAX_DAYS = 12;

const HOUR = new Intl.DateTimeFormat(undefined, { weekday: 'short', hour: '2-digit', minute: '2-digit' });
const DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });
const DOLLARS = new Intl.NumberFormat(undefined, { style: 'currency', currency: 'USD', maximumSignificantDigits: 3 });

const between = (at: number, ms: number) => ({
  from: new Date(at).toISOString(),
  to: new Date(at + ms).toISOString(),
});

/** Calls of the last 24 hours, money of the range, and the slowest agents. */
export function Pictures({ days }: { readonly days: number }) {
  return (
    <>
      <Calls />
      <WhenVisible>
        <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
          <Spent days={days} />
          <Slowest days={days} />
        </div>
      </WhenVisible>
    </>
  );
}

/** Has the height of a chart, so that what is below stays where it is. */
const Waiting = () => (
  <div className="h-36">
    <Loading />
  </div>
);

function Calls() {
  const { slug } = useWorkspace();
  const { data, error, refetch } = useOperation('getUsageTimeseries', { query: { days: 2, granularity: 'hour' } });
  const points = data?.points.slice(-HOURS) ?? [];
  const max = Math.max(0, ...points.map(({ calls }) => calls));
  return (
    <Section title="Calls per hour">
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Waiting />}
      {data && (
        <Bars
          label="Calls per hour"
          workspace={slug}
          top={`${count(max)} ${max === 1 ? 'call' : 'calls'}`}
          first={HOUR.format(Date.parse(points[0]!.date))}
          last={HOUR.format(Date.parse(points.at(-1)!.date))}
          bars={points.map(({ date, calls, errors }) => ({
            key: date,
            label: `${HOUR.format(Date.parse(date))}: ${count(calls)} ${calls === 1 ? 'call' : 'calls'}, ${count(errors)} failed`,
            value: calls,
            bad: errors,
            search: {
              ...between(Date.parse(date), HOUR_MS),
              // Sub-calls are part of the call that made them.
              top: 'on',
              ...(errors > 0 && errors === calls && { status: 'failed' }),
            },
          }))}
        />
      )}
    </Section>
  );
}

function Spent({ days }: { readonly days: number }) {
  const { slug } = useWorkspace();
  const query = { days: Math.min(Math.max(days, 7), MAX_DAYS) };
  const { data, error, refetch } = useOperation('getUsageTimeseries', { query });
  const points = (data?.points ?? []).map(({ date, models_usd = 0, credits_cents }) => ({
    date,
    usd: models_usd + credits_cents / 100,
  }));
  return (
    <Section title="Cost per day">
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Waiting />}
      {data && (
        <Bars
          label="Cost per day"
          workspace={slug}
          top={DOLLARS.format(Math.max(0, ...points.map(({ usd }) => usd)))}
          first={DAY.format(Date.parse(points[0]!.date))}
          last={DAY.format(Date.parse(points.at(-1)!.date))}
          bars={points.map(({ date, usd }) => ({
            key: date,
            label: `${DAY.format(Date.parse(date))}: ${DOLLARS.format(usd)}`,
            value: usd,
            search: between(Date.parse(date), HOURS * HOUR_MS),
          }))}
        />
      )}
    </Section>
  );
}

function Slowest({ days }: { readonly days: number }) {
  const { id: workspace_id, slug } = useWorkspace();
  const { data } = useOperation(
    'getWorkspaceMetrics',
    { params: { workspace_id }, query: { days } },
    // The figures above have just read them.
    { staleTime: 5_000 },
  );
  const agents = (data?.agents ?? [])
    .filter(({ p95_latency_ms }) => p95_latency_ms > 0)
    .toSorted((a, b) => b.p95_latency_ms - a.p95_latency_ms)
    .slice(0, SLOWEST);
  // The figures above show an error of these metrics.
  if (agents.length === 0) return null;
  return (
    <Section title="Slowest agents" isFramed={false}>
      <Table
        label="Slowest agents"
        rows={agents}
        keyOf={({ org_slug, agent_name }) => `${org_slug}/${agent_name}`}
        linkOf={({ agent_name }) => ({
          to: '/$workspace/runs',
          params: { workspace: slug },
          search: { agent: agent_name },
        })}
        columns={[
          { title: 'Agent', cell: ({ agent_name }) => <span className="break-all">{agent_name}</span> },
          { title: 'p95', cell: ({ p95_latency_ms }) => duration(p95_latency_ms), isNumber: true },
        ]}
      />
    </Section>
  );
}
