import { Gauge } from 'lucide-react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { scoreText } from '../../api/score-text.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { count } from '../../ui/data/numbers.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { numberOf, type TabProps } from './version.ts';

type Point = AnswerOf<'getScoreSeries'>['points'][number];

/** What people and programs think of the runs of an agent: each version beside the others, and the newest scores. */
export default function ScoresTab({ agent }: Pick<TabProps, 'agent'>) {
  const { id: workspace_id, slug: workspace } = useWorkspace();
  const of = { params: { workspace_id } };
  const name = `${workspace}/${agent.name}`;
  const series = useOperation('getScoreSeries', { ...of, query: { agent: name } });
  const newest = useOperation('listScores', { ...of, query: { agent: name, limit: '50' } });
  const error = series.error ?? newest.error;
  if (error) return <ErrorBox error={error} onRetry={() => void Promise.all([series.refetch(), newest.refetch()])} />;
  if (series.data === undefined || newest.data === undefined) return <Loading />;
  const sums = sumsOf(series.data.points);
  if (sums.length === 0 && newest.data.runs.length === 0) {
    return (
      <Empty icon={Gauge} title="No scores yet" command={`${COMMAND} scores set ${agent.name} helpful 1`}>
        Score runs on their pages, by the API, or from a terminal. Versions are compared here.
      </Empty>
    );
  }
  return (
    <>
      <Section title="Versions in the last 30 days">
        <Table
          label="Scores by version"
          rows={sums}
          keyOf={({ name: of, source, version }) => [of, source, version].join(' ')}
          empty={<p className="text-soft">No run of the last 30 days has a score.</p>}
          columns={[
            { title: 'Score', cell: (each) => each.name },
            { title: 'Source', cell: (each) => each.source, from: 'sm' },
            { title: 'Version', cell: (each) => each.version },
            { title: 'Scores', cell: (each) => count(each.count), isNumber: true },
            { title: 'Mean', cell: (each) => (each.mean === null ? '–' : shortNumber(each.mean)), isNumber: true },
            {
              title: 'Labels',
              cell: (each) => each.labels.map(({ label, count: times }) => `${escapeText(label)} ${times}`).join(', '),
              from: 'md',
            },
          ]}
        />
        {!series.data.is_complete && <p className="text-soft">There are more scores than this table counts.</p>}
      </Section>
      <Section title="Newest runs with scores">
        <Table
          label="Runs with scores"
          rows={newest.data.runs}
          keyOf={({ run_id }) => run_id}
          linkOf={({ run_id }) => ({ to: '/$workspace/runs/$run', params: { workspace, run: run_id } })}
          columns={[
            { title: 'Run', cell: ({ run_id }) => run_id.slice(0, 8) },
            { title: 'Version', cell: ({ agent_version }) => agent_version },
            {
              title: 'Scores',
              cell: ({ scores }) => scores.map((score) => `${score.name}: ${scoreText(score)}`).join(', '),
            },
            { title: 'Started', cell: ({ started_at }) => <Time at={started_at} />, from: 'sm' },
          ]}
        />
      </Section>
    </>
  );
}

const shortNumber = (value: number): string => String(Math.round(value * 1000) / 1000);

/** Adds up the days, the newest version of each score first. */
function sumsOf(points: readonly Point[]): Omit<Point, 'day'>[] {
  const sums = new Map<
    string,
    { of: Point; count: number; numbers: number; total: number; labels: Map<string, number> }
  >();
  for (const point of points) {
    const id = [point.name, point.source, point.version].join(' ');
    const sum = sums.get(id) ?? { of: point, count: 0, numbers: 0, total: 0, labels: new Map<string, number>() };
    const labelled = point.labels.reduce((all, each) => all + each.count, 0);
    sum.count += point.count;
    sum.numbers += point.count - labelled;
    sum.total += (point.mean ?? 0) * (point.count - labelled);
    for (const { label, count: times } of point.labels) sum.labels.set(label, (sum.labels.get(label) ?? 0) + times);
    sums.set(id, sum);
  }
  return [...sums.values()]
    .map(({ of: { name, source, version }, count: all, numbers, total, labels }) => ({
      name,
      source,
      version,
      count: all,
      mean: numbers === 0 ? null : total / numbers,
      labels: [...labels].map(([label, times]) => ({ label, count: times })).sort((a, b) => b.count - a.count),
    }))
    .sort((a, b) => a.name.localeCompare(b.name) || a.source.localeCompare(b.source) || numberOf(b) - numberOf(a));
}
