import { useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { isUnderWay } from '../../api/run-status.ts';
import { useWorkspace } from '../../api/session.ts';
import { count, Money } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Duration, Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { DiffView } from '../../ui/text/diff.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { JsonView } from '../../ui/text/viewer.tsx';
import { useBody } from './body-view.tsx';
import { linesOf } from './lines.ts';
import { useWaterfall } from './use-waterfall.ts';

type Run = AnswerOf<'getRun'>;
type Pair = readonly [Run, Run];

const sidesOf = ([a, b]: Pair) =>
  [
    ['A', a],
    ['B', b],
  ] as const;

/** Two runs side by side: figures, input, output and trace. The parameters `a` and `b` are their ids. */
export function ComparePage() {
  const { id: workspace_id } = useWorkspace();
  const { a = '', b = '' } = useSearch({ strict: false }) as { readonly a?: string; readonly b?: string };
  const enabled = a !== '' && b !== '';
  const query = { body: 'false' } as const;
  const first = useOperation('getRun', { params: { workspace_id, run_id: a }, query }, { enabled });
  const second = useOperation('getRun', { params: { workspace_id, run_id: b }, query }, { enabled });
  const error = first.error ?? second.error;
  return (
    <Page title="Compare runs" isWide>
      {!enabled && <p className="text-soft">Select two runs in the list, then choose Compare.</p>}
      {enabled && error && (
        <ErrorBox
          error={error}
          onRetry={() => {
            void first.refetch();
            void second.refetch();
          }}
        />
      )}
      {enabled && !error && !(first.data && second.data) && <Loading />}
      {first.data && second.data && !error && <Comparison runs={[first.data, second.data]} />}
    </Page>
  );
}

function Comparison({ runs }: { readonly runs: Pair }) {
  return (
    <>
      <Figures runs={runs} />
      <Bodies title="Input" member="input_data" runs={runs} />
      <Bodies title="Output" member="output_data" runs={runs} />
      <Traces runs={runs} />
    </>
  );
}

const FIGURES: readonly (readonly [title: string, cell: (run: Run) => ReactNode])[] = [
  ['Agent', (run) => escapeText(`${run.agent_name}@${run.agent_version}`)],
  ['Status', ({ status }) => <Status value={status} />],
  ['Error', ({ error_message }) => escapeText((error_message ?? '–').slice(0, 300))],
  ['Started', ({ started_at, created_at }) => <Time at={started_at ?? created_at} />],
  ['Duration', ({ duration_ms }) => <Duration ms={duration_ms} />],
  ['Model', ({ llm_model }) => escapeText(llm_model ?? '–')],
  ['Tokens', (run) => count((run.input_tokens ?? 0) + (run.output_tokens ?? 0))],
  ['Provider cost', ({ cost_usd }) => <Money usd={cost_usd} />],
];

function Figures({ runs }: { readonly runs: Pair }) {
  const { slug: workspace } = useWorkspace();
  return (
    <div className="rounded-lg border border-line bg-raised">
      <table className="w-full table-fixed border-collapse text-left">
        <caption className="sr-only">Figures of the two runs</caption>
        <thead>
          <tr className="border-b border-line bg-panel">
            <th scope="col" className="w-28 px-3 py-1.5 text-xs font-medium text-soft">
              Run
            </th>
            {sidesOf(runs).map(([side, { id }]) => (
              <th key={side} scope="col" className="px-3 py-1.5 font-medium">
                {side}{' '}
                <Link to="/$workspace/runs/$run" params={{ workspace, run: id }} className="font-mono">
                  {id.slice(0, 8)}
                </Link>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {FIGURES.map(([title, cell]) => (
            <tr key={title} className="border-b border-line last:border-0">
              <th scope="row" className="px-3 py-1.5 font-normal text-soft">
                {title}
              </th>
              {sidesOf(runs).map(([side, run]) => (
                <td key={side} className="px-3 py-1.5 align-top break-words">
                  {cell(run)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Bodies({
  title,
  member,
  runs,
}: {
  readonly title: string;
  readonly member: 'input_data' | 'output_data';
  readonly runs: Pair;
}) {
  const { id: workspace_id } = useWorkspace();
  const [a, b] = runs;
  const first = useBody({ workspace_id, run_id: a.id }, member, a.status);
  const second = useBody({ workspace_id, run_id: b.id }, member, b.status);
  const error = first.error ?? second.error;
  const bodies = [first.data, second.data];
  const values = bodies.flatMap((body) => (body && 'value' in body ? [body.value] : []));
  const isLoading = !error && bodies.includes(undefined);
  return (
    <Section title={title} isFramed={false}>
      {error && <ErrorBox error={error} />}
      {isLoading && <Loading />}
      {!isLoading && !error && values.length < 2 && (
        <p className="text-soft">Too large to compare. Open each run to download it.</p>
      )}
      {values.length === 2 && (
        <div className="flex min-w-0 flex-col gap-3">
          <DiffView
            label={`Differences of the ${title.toLowerCase()}`}
            before={textOf(values[0])}
            after={textOf(values[1])}
          />
          <div className="grid min-w-0 gap-3 md:grid-cols-2">
            {sidesOf(runs).map(([side, run], place) => (
              <div key={side} className="min-w-0">
                <h3 className="pb-1 font-medium">Run {side}</h3>
                <JsonView value={values[place]} name={`${run.id}-${title.toLowerCase()}`} />
              </div>
            ))}
          </div>
        </div>
      )}
    </Section>
  );
}

function Traces({ runs: [a, b] }: { readonly runs: Pair }) {
  const { id: workspace_id } = useWorkspace();
  const first = useWaterfall({ workspace_id, run_id: a.id }, isUnderWay(a.status));
  const second = useWaterfall({ workspace_id, run_id: b.id }, isUnderWay(b.status));
  const error = first.error ?? second.error;
  return (
    <Section title="Trace" isFramed={false}>
      {error && <ErrorBox error={error} />}
      {!error && !(first.data && second.data) && <Loading />}
      {first.data && second.data && (
        <DiffView label="Differences of the trace" before={traceText(first.data)} after={traceText(second.data)} />
      )}
    </Section>
  );
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

/** Formats the steps of a chain, without times, as indented lines. */
const traceText = ({ runs, at }: NonNullable<ReturnType<typeof useWaterfall>['data']>): string =>
  linesOf(runs, at)
    .map(({ depth, name, status }) => `${'  '.repeat(depth)}${name}: ${status}`)
    .join('\n');
