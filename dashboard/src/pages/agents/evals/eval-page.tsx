import { getRouteApi } from '@tanstack/react-router';
import { CircleStop, FlaskConical } from 'lucide-react';
import { useState } from 'react';
import { useAction, useOperation } from '../../../api/query.ts';
import { useWorkspace } from '../../../api/session.ts';
import { Button, LinkButton } from '../../../ui/button.tsx';
import { type Figure, Figures } from '../../../ui/data/figures.tsx';
import { Money, usd } from '../../../ui/data/numbers.tsx';
import { Status } from '../../../ui/data/status.tsx';
import { Duration, Time } from '../../../ui/data/time.tsx';
import { ConfirmDialog } from '../../../ui/dialog.tsx';
import { Empty } from '../../../ui/empty.tsx';
import { ErrorBox } from '../../../ui/error-box.tsx';
import { Link } from '../../../ui/link.tsx';
import { Loading } from '../../../ui/loading.tsx';
import { FactsRow, Page } from '../../../ui/page.tsx';
import { Code } from '../../../ui/text/code.tsx';
import { escapeText } from '../../../ui/text/escape-text.ts';
import { CasesTable } from './cases-table.tsx';
import {
  baselineText,
  counted,
  type Evaluation,
  POLL_MS,
  probabilityText,
  progressText,
  sentenceOf,
  stateOf,
  versionsText,
  wholePercent,
} from './evaluation.ts';

const route = getRouteApi('/signed-in/$workspace/agents/$name/evals/$eval');

/** One evaluation: its verdict, and its cases with a column for each version. */
export function EvalPage() {
  const { name, eval: evalId } = route.useParams();
  const { slug: workspace } = useWorkspace();
  const list = useOperation('listAgents', { query: { name } }, { staleTime: 30_000 });
  const agent = list.data?.[0];
  if (agent !== undefined) return <EvalView key={evalId} agentId={agent.id} />;
  return (
    <Page title="Evaluation">
      {list.error && <ErrorBox error={list.error} onRetry={() => void list.refetch()} />}
      {list.data === undefined && !list.error && <Loading />}
      {list.data && (
        <Empty
          icon={FlaskConical}
          title={`This workspace has no agent “${escapeText(name)}”`}
          action={
            <LinkButton to="/$workspace/agents" params={{ workspace }}>
              All agents
            </LinkButton>
          }
        >
          Evaluations are deleted with their agent.
        </Empty>
      )}
    </Page>
  );
}

function EvalView({ agentId }: { readonly agentId: string }) {
  const { name, eval: eval_id } = route.useParams();
  const { slug: workspace } = useWorkspace();
  const [isAborting, setAborting] = useState(false);
  const params = { id: agentId, eval_id };
  const abort = useAction('abortEval', { stale: ['getEval', 'listEvals', 'listEvalCases'], silent: true });
  const {
    data: evaluation,
    error,
    refetch,
  } = useOperation(
    'getEval',
    { params },
    { refetchInterval: ({ state }) => (state.data?.status === 'running' ? POLL_MS : false) },
  );
  const isRunning = evaluation?.status === 'running';
  return (
    <Page
      title={`Evaluation of ${name}`}
      isWide
      heading={
        <span className="flex flex-wrap items-center gap-2">
          <span className="min-w-0">Evaluation of {name}</span>
          {evaluation && <Status value={stateOf(evaluation)} />}
        </span>
      }
      description={
        <>
          <Link to="/$workspace/agents/$name" params={{ workspace, name }} search={{ tab: 'evals' }}>
            All evaluations of {name}
          </Link>
          {evaluation && (
            <>
              {' '}
              · {versionsText(evaluation)} · started <Time at={evaluation.created_at} />
            </>
          )}
        </>
      }
      actions={
        isRunning && (
          <Button variant="danger" icon={CircleStop} onPress={() => setAborting(true)}>
            Abort
          </Button>
        )
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {evaluation === undefined && !error && <Loading />}
      {evaluation && (
        <>
          <Summary evaluation={evaluation} />
          <CasesTable params={params} evaluation={evaluation} />
        </>
      )}
      <ConfirmDialog
        title="Abort this evaluation?"
        isOpen={isAborting}
        onClose={() => setAborting(false)}
        action="Abort evaluation"
        onConfirm={() => abort.mutateAsync({ params })}
      >
        Its runs in progress are cancelled, and it gets no verdict. Results so far stay.
      </ConfirmDialog>
    </Page>
  );
}

function Summary({ evaluation }: { readonly evaluation: Evaluation }) {
  const { reason, counts, cost_usd, budget_usd, created_at, ended_at, judge_prompt, suites } = evaluation;
  const facts = [
    ['Took', ended_at && <Duration key="took" ms={Date.parse(ended_at) - Date.parse(created_at)} />] as const,
    ['Judge prompt', judge_prompt && <Code key="judge">{judge_prompt}</Code>] as const,
  ].filter(([, value]) => value !== null);
  return (
    <section aria-label="Summary" className="flex min-w-0 flex-col gap-4">
      <div>
        <p className="text-lg font-medium">{sentenceOf(evaluation)}</p>
        {reason !== null && <p className="text-soft">{escapeText(reason)}</p>}
      </div>
      {evaluation.status === 'running' && (
        <progress className="h-2 w-full accent-accent" aria-label="Progress" max={counts.runs} value={counts.done} />
      )}
      <Figures
        label="Results"
        figures={[
          ...sharesOf(evaluation),
          ...comparisonOf(evaluation),
          {
            name: 'Runs',
            value: progressText(evaluation),
            note: `${counts.passed} passed, ${counts.failed} failed, ${counted(counts.errors, 'error')}`,
          },
          { name: 'Cost', value: <Money usd={cost_usd} />, note: `of a budget of ${usd(budget_usd)}` },
        ]}
      />
      {facts.length > 0 && <FactsRow facts={facts} />}
      <details open={suites.length === 1}>
        <summary>{suites.length === 1 ? 'Suite' : `${suites.length} suites`}</summary>
        <ul aria-label="Suites" className="mt-1 flex flex-col gap-1">
          {suites.map((suite) => (
            <li key={suite.name}>
              <span className="font-medium">{escapeText(suite.name)}</span>
              {suite.description && <span> {escapeText(suite.description)}</span>}
              <span className="text-soft"> {rulesOf(suite)}</span>
            </li>
          ))}
        </ul>
      </details>
    </section>
  );
}

/** Returns a figure for each lane. */
function sharesOf({ version, baseline, candidate, baseline_cases, observed_cases }: Evaluation): Figure[] {
  const lanes = [
    [`${version} passed`, candidate],
    [`${baseline} passed (baseline)`, baseline_cases],
    ['Recorded runs passed', observed_cases],
  ] as const;
  return lanes.flatMap(([name, cases]) => {
    if (cases === null) return [];
    const { passed, failed, undecided, share, interval } = cases;
    const open = undecided === 0 ? '' : `, ${undecided} not decided`;
    const bounds =
      interval === null ? '' : `, 95% interval ${interval.map((bound) => wholePercent(bound)).join(' to ')}`;
    return {
      name,
      value: share === null ? '–' : wholePercent(share),
      note: `${passed} of ${counted(passed + failed, 'case')}${open}${bounds}`,
    };
  });
}

function comparisonOf(evaluation: Evaluation): Figure[] {
  const { comparison, repeats_needed } = evaluation;
  if (comparison === null) return [];
  const { pairs, worse, better, p } = comparison;
  return [
    {
      name: `Against ${baselineText(evaluation)}`,
      value: `${worse} worse, ${better} better`,
      note: `of ${counted(pairs, 'pair')} of runs, ${probabilityText(p)}`,
    },
    ...(repeats_needed === null
      ? []
      : [{ name: 'Repeats needed', value: repeats_needed, note: 'of each case, to decide it' }]),
  ];
}

const PASS = { all: 'all', most: 'most', any: 'one' } as const;

/** Says what the cases of a suite must do: "90% of the cases must pass; 3 runs of each, of which most must pass". */
function rulesOf({ threshold, repeat, pass, judge }: Evaluation['suites'][number]): string {
  const share = threshold === 1 ? 'All cases must pass' : `${+(threshold * 100).toFixed(2)}% of the cases must pass`;
  const runs = repeat === 1 ? '' : `; ${repeat} runs of each, of which ${PASS[pass]} must pass`;
  const by = judge === null ? '' : `; judged by ${escapeText('model' in judge ? judge.model : judge.agent)}`;
  return `${share}${runs}${by}.`;
}
