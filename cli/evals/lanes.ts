import type { Client } from '#core/api/client.ts';

export type Evaluation = Awaited<ReturnType<Client['getEval']>>;
export type Case = Awaited<ReturnType<Client['listEvalCases']>>['cases'][number];
type CaseRun = Case['runs'][number];
type Lane = CaseRun['lane'];

export const ofLane = ({ runs }: Case, wanted: Lane): CaseRun[] => runs.filter(({ lane }) => lane === wanted);
export const ofCandidate = (each: Case): CaseRun[] => ofLane(each, 'candidate');

/** Returns the other lanes that a case has, with their titles: of the baseline, and of recorded runs. */
export const otherLanes = (
  { baseline }: Evaluation,
  cases: readonly Case[],
): (readonly [lane: Lane, title: string])[] =>
  (
    [
      ['observed', 'recorded'],
      ['baseline', String(baseline)],
    ] as const
  ).filter(([lane]) => cases.some((each) => ofLane(each, lane).length > 0));

/** Says how often the runs of a lane passed: a mark for one run, otherwise such as `2/3`. */
export function passedOf(runs: readonly CaseRun[]): string {
  const passed = runs.filter(({ status }) => status === 'passed').length;
  if (runs.length !== 1) return runs.length === 0 ? '' : `${passed}/${runs.length}`;
  return passed === 1 ? '✓' : runs[0]!.status === 'failed' ? '✗' : '?';
}

/** Returns the runs with a reason that the author has to know: those of the version, and recorded ones that cannot be graded. */
export const runsToExplain = ({ runs }: Case): (CaseRun & { readonly reason: string })[] =>
  runs.flatMap((run) => {
    const { lane, status, reason } = run;
    const isWanted = lane === 'candidate' || (lane === 'observed' && status === 'error');
    return reason !== null && isWanted ? [{ ...run, reason }] : [];
  });

/** Says how many cases passed, with the interval; empty where none is decided. */
export function shareText(share: Evaluation['candidate']): string {
  if (share?.share == null) return '';
  const { passed, failed, undecided, interval } = share;
  return `${passed} of ${passed + failed + undecided} cases passed (${percent(interval![0]!)} to ${percent(interval![1]!)})`;
}

const percent = (share: number): string => `${Math.round(share * 100)}%`;
