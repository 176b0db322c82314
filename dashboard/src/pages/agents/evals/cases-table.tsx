import { useQueries, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { ChevronDown, ChevronRight } from 'lucide-react';
import { Fragment, useEffect, useRef, useState } from 'react';
import { Button as AriaButton } from 'react-aria-components/Button';
import { call } from '../../../api/client.ts';
import { keyOf } from '../../../api/query.ts';
import { useWorkspace } from '../../../api/session.ts';
import { Button } from '../../../ui/button.tsx';
import { classes } from '../../../ui/classes.ts';
import { Badge } from '../../../ui/data/status.tsx';
import { ErrorBox } from '../../../ui/error-box.tsx';
import { Checkbox } from '../../../ui/field.tsx';
import { Link } from '../../../ui/link.tsx';
import { Loading } from '../../../ui/loading.tsx';
import { Section } from '../../../ui/page.tsx';
import { escapeText } from '../../../ui/text/escape-text.ts';
import { CaseDetails } from './case-details.tsx';
import {
  type CaseRun,
  type EvalCase,
  type Evaluation,
  inputText,
  isOpen,
  type Lane,
  lanesOf,
  laneText,
  POLL_MS,
  scoreOf,
} from './evaluation.ts';
import { Mark, wordOf } from './mark.tsx';

const route = getRouteApi('/signed-in/$workspace/agents/$name/evals/$eval');
const NOT_PASSED = 'not-passed';

interface Params {
  readonly id: string;
  readonly eval_id: string;
}

/** The cases of an evaluation: one row each, and one column for each lane, whose cells are runs. */
export function CasesTable({ params, evaluation }: { readonly params: Params; readonly evaluation: Evaluation }) {
  const { only, case: opened } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: { readonly only?: string; readonly case?: string }) =>
    void navigate({ search: (now) => ({ ...now, ...next }), replace: true, resetScroll: false });
  const isFiltered = only === NOT_PASSED;
  const { cases, error, retry, more, isFetching } = useCases(params, evaluation);
  // The filter is about all cases, and an address may name one of a later page.
  const seeksMore = more !== undefined && (isFiltered || Number(opened) > cases.length) && !isFetching && !error;
  useEffect(() => {
    if (seeksMore) more();
  }, [seeksMore, more]);
  const shown = isFiltered ? cases.filter(({ passed }) => passed !== true) : cases;
  const lanes = lanesOf(cases);
  return (
    <Section
      title="Cases"
      isFramed={false}
      actions={
        <div data-filter>
          <Checkbox value={isFiltered} onChange={(next) => change({ only: next ? NOT_PASSED : undefined })}>
            Only not passed
          </Checkbox>
        </div>
      }
    >
      <div className="flex min-w-0 flex-col gap-3">
        {shown.length > 0 && (
          <div className="overflow-x-auto rounded-lg border border-line bg-raised">
            <table className="w-full border-collapse text-left">
              <caption className="sr-only">Cases</caption>
              <thead>
                <tr className="border-b border-line bg-panel text-xs text-soft">
                  <th scope="col" className="w-full min-w-40 px-3 py-1.5 font-medium">
                    Case
                  </th>
                  {lanes.map((each) => (
                    <th key={each.lane} scope="col" className="px-3 py-1.5 font-medium whitespace-nowrap">
                      {laneText(each)}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {shown.map((each) => (
                  <CaseRow
                    key={each.number}
                    of={each}
                    lanes={lanes}
                    suite={evaluation.suites.length > 1 ? each.suite : undefined}
                    isOpened={opened === String(each.number)}
                    onToggle={(isOpened) => change({ case: isOpened ? String(each.number) : undefined })}
                  />
                ))}
              </tbody>
            </table>
          </div>
        )}
        {isFetching && <Loading />}
        {error && <ErrorBox error={error} onRetry={retry} />}
        {isFiltered && shown.length === 0 && more === undefined && !isFetching && !error && (
          <p className="text-soft">All cases passed.</p>
        )}
        {more !== undefined && !isFetching && !isFiltered && (
          <div className="flex flex-wrap items-center gap-3">
            <Button onPress={more}>Show more cases</Button>
            <span className="text-soft">
              {cases.length} of {evaluation.counts.cases}
            </span>
          </div>
        )}
      </div>
    </Section>
  );
}

/**
 * Reads the cases page by page. While the evaluation runs, the pages whose runs have not all ended are read again. `more`
 * is undefined after the last page.
 */
function useCases(params: Params, evaluation: Evaluation) {
  const { id: workspaceId } = useWorkspace();
  const [cursors, setCursors] = useState<readonly (string | undefined)[]>([undefined]);
  const isRunning = evaluation.status === 'running';
  const pages = useQueries({
    queries: cursors.map((cursor) => ({
      queryKey: keyOf('listEvalCases', params, cursor, workspaceId),
      queryFn: ({ signal }: { readonly signal: AbortSignal }) =>
        call('listEvalCases', { params, query: { cursor } }, { workspaceId, signal }),
      refetchInterval: ({ state: { data } }: { state: { data?: { readonly cases: readonly EvalCase[] } } }) =>
        isRunning && data !== undefined && isOpen(data.cases, evaluation) ? POLL_MS : (false as const),
    })),
  });
  const client = useQueryClient();
  const wasRunning = useRef(isRunning);
  useEffect(() => {
    // Results may have come after the last time.
    if (wasRunning.current && !isRunning) void client.invalidateQueries({ queryKey: keyOf('listEvalCases') });
    wasRunning.current = isRunning;
  }, [client, isRunning]);
  const next = pages.at(-1)?.data?.next_cursor ?? undefined;
  return {
    cases: pages.flatMap(({ data }) => data?.cases ?? []),
    error: pages.find((page) => page.error)?.error,
    retry: () => void Promise.all(pages.filter((page) => page.error).map((page) => page.refetch())),
    isFetching: pages.some(({ isPending, error }) => isPending && !error),
    more: next === undefined ? undefined : () => setCursors([...cursors, next]),
  };
}

function CaseRow({
  of: each,
  lanes,
  suite,
  isOpened,
  onToggle,
}: {
  readonly of: EvalCase;
  readonly lanes: readonly Lane[];
  /** Undefined if there is only one. */
  readonly suite: string | undefined;
  readonly isOpened: boolean;
  readonly onToggle: (isOpened: boolean) => void;
}) {
  const { number, description, must, vars, passed, runs } = each;
  const row = useRef<HTMLTableRowElement>(null);
  const isFirst = useRef(isOpened);
  useEffect(() => {
    // An address that names a case leads to it.
    if (isFirst.current) row.current!.scrollIntoView({ block: 'nearest' });
  }, []);
  const Icon = isOpened ? ChevronDown : ChevronRight;
  const why = passed === true ? null : runs.find(({ lane, reason }) => lane === 'candidate' && reason !== null)?.reason;
  return (
    <Fragment>
      <tr ref={row} data-row="" className="border-b border-line last:border-0 focus-within:bg-hover hover:bg-hover">
        <td className="min-w-40 px-3 py-2 align-top">
          <div className="flex flex-wrap items-start gap-x-2">
            <AriaButton
              aria-expanded={isOpened}
              onPress={() => onToggle(!isOpened)}
              className="flex min-h-6 min-w-0 items-start gap-1.5 rounded text-left font-medium"
            >
              <Icon size={15} aria-hidden className="mt-0.5 shrink-0 text-soft" />
              <span className="mt-0.5 flex">
                <Mark outcome={passed === null ? 'open' : passed ? 'passed' : 'failed'} />
              </span>
              <span className="min-w-0">
                {number}. {escapeText(description)}
              </span>
            </AriaButton>
            {must && <Badge tone="info">Must pass</Badge>}
          </div>
          <div className="pl-6 text-xs text-soft">
            {suite !== undefined && <p>{escapeText(suite)}</p>}
            <p className="line-clamp-2 max-sm:hidden">{inputText(vars)}</p>
            {why != null && (
              <p className={classes('line-clamp-2', passed === null ? 'text-warn' : 'text-bad')}>{escapeText(why)}</p>
            )}
          </div>
        </td>
        {lanes.map(({ lane }) => (
          <td key={lane} className="min-w-20 px-3 py-2 align-top sm:min-w-32">
            <ul aria-label={`Runs of case ${number}, ${lane}`} className="flex flex-wrap gap-1">
              {runs
                .filter((run) => run.lane === lane)
                .map((run) => (
                  <li key={run.run_id}>
                    <RunLink run={run} number={number} />
                  </li>
                ))}
            </ul>
          </td>
        ))}
      </tr>
      {isOpened && (
        <tr className="border-b border-line last:border-0">
          <td colSpan={lanes.length + 1} className="p-3 sm:pl-9">
            <CaseDetails of={each} />
          </td>
        </tr>
      )}
    </Fragment>
  );
}

function RunLink({ run, number }: { readonly run: CaseRun; readonly number: number }) {
  const { slug: workspace } = useWorkspace();
  const score = scoreOf(run);
  const label = `Run ${run.repeat} of case ${number}, ${laneText(run)}: ${wordOf(run.status)}`;
  return (
    <Link
      to="/$workspace/runs/$run"
      params={{ workspace, run: run.run_id }}
      aria-label={score === undefined ? label : `${label}, score ${score}`}
      title={run.reason === null ? undefined : escapeText(run.reason)}
      className="flex h-6 min-w-6 items-center gap-1 rounded px-1 hover:bg-panel"
    >
      <Mark outcome={run.status} />
      <span className="text-text">{score}</span>
    </Link>
  );
}
