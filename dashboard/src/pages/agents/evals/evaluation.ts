import type { AnswerOf } from '../../../api/client.ts';
import { escapeText } from '../../../ui/text/escape-text.ts';

export type Evaluation = AnswerOf<'getEval'>;
export type EvalCase = AnswerOf<'listEvalCases'>['cases'][number];
export type CaseRun = EvalCase['runs'][number];

/** Milliseconds between two requests for an evaluation that is running. */
export const POLL_MS = 2_000;
/** Length of the input of a case beside its description. */
const MAX_INPUT = 160;

/** Returns the verdict; without one, the status. */
export const stateOf = ({ verdict, status }: Pick<Evaluation, 'verdict' | 'status'>): string => verdict ?? status;

/** Formats the progress: "12 of 40 runs". */
export const progressText = ({ counts: { done, runs } }: Pick<Evaluation, 'counts'>): string =>
  `${done} of ${counted(runs, 'run')}`;

/** Says in a sentence what the state means. */
export function sentenceOf(evaluation: Pick<Evaluation, 'verdict' | 'status' | 'version' | 'baseline' | 'counts'>) {
  const { version } = evaluation;
  const baseline = baselineText(evaluation);
  switch (stateOf(evaluation)) {
    case 'running':
      return `${progressText(evaluation)} are done.`;
    case 'passed':
      return evaluation.baseline === null
        ? `${version} passed.`
        : `${version} passed, and is not worse than ${baseline}.`;
    case 'regressed':
      return `${version} is worse than ${baseline}, and this is unlikely to be chance.`;
    case 'inconclusive':
      return `These runs do not decide about ${version}.`;
    case 'aborted':
      return 'The evaluation was aborted, and has no verdict.';
    default:
      return evaluation.verdict === null ? 'The evaluation could not be completed.' : `${version} failed.`;
  }
}

type Share = NonNullable<Evaluation['candidate']>;

/** Formats a share with its interval: "83% (44% to 97%)"; a dash if no case is decided. */
export const shareText = ({ share, interval }: Pick<Share, 'share' | 'interval'>): string =>
  share === null || interval === null
    ? '–'
    : `${wholePercent(share)} (${interval.map((bound) => wholePercent(bound)).join(' to ')})`;

export const wholePercent = (share: number): string => `${Math.round(share * 100)}%`;

/** Formats a probability: "p = 0.016", "p < 0.001". */
export const probabilityText = (p: number): string => (p < 0.001 ? 'p < 0.001' : `p = ${p.toFixed(3)}`);

/** Formats a score with at most two decimals. */
export const scoreText = (score: number): string => String(Math.round(score * 100) / 100);

/** Returns the score of a run; undefined if there is none, or nothing is known about the agent. */
export const scoreOf = ({ status, score }: Pick<CaseRun, 'status' | 'score'>): string | undefined =>
  score === null || status === 'error' ? undefined : scoreText(score);

/** Formats the versions: "v2 against v1". */
export const versionsText = ({ version, baseline }: Pick<Evaluation, 'version' | 'baseline'>): string =>
  baseline === null ? version : `${version} against ${baselineText({ baseline })}`;

/** `baseline` of an evaluation that is compared with the recorded runs of its cases. */
export const OBSERVED = 'observed';

/** Says what a version is compared with: another version, or recorded runs. */
export const baselineText = ({ baseline }: Pick<Evaluation, 'baseline'>): string =>
  baseline === OBSERVED ? 'the recorded runs' : String(baseline);

/** Formats a number with its noun: "1 run", "2 runs". */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

export interface Lane {
  readonly lane: CaseRun['lane'];
  /** Undefined if its runs are of several versions, or of none that is known. */
  readonly version: string | undefined;
}

/** Returns the lanes of the runs of some cases, in the order in which the cases have them. */
export function lanesOf(cases: readonly EvalCase[]): readonly Lane[] {
  // A case whose runs have not all begun may lack a lane.
  const complete = cases.toSorted((a, b) => countLanes(b) - countLanes(a));
  const versions = new Map<CaseRun['lane'], Set<string>>();
  for (const { lane, version } of complete.flatMap(({ runs }) => runs)) {
    const known = versions.get(lane) ?? new Set();
    versions.set(lane, version === null ? known : known.add(version));
  }
  return [...versions].map(([lane, [version, ...others]]) => ({
    lane,
    version: others.length === 0 ? version : undefined,
  }));
}

/** Names a lane, or the lane of a run: "v2 candidate". */
export const laneText = ({ lane, version }: Lane | CaseRun): string => (version ? `${version} ${lane}` : lane);

const countLanes = ({ runs }: EvalCase): number => new Set(runs.map(({ lane }) => lane)).size;

/** Whether runs of these cases have not ended, or not all of them have begun. */
export const isOpen = (cases: readonly EvalCase[], { suites, baseline }: Evaluation): boolean =>
  cases.some(({ runs, suite, run }) => {
    const { repeat } = suites.find(({ name }) => name === suite) ?? { repeat: 1 };
    const replayed = repeat * (baseline === null || baseline === OBSERVED ? 1 : 2);
    return runs.length < replayed + (run === null ? 0 : 1) || runs.some(({ status }) => status === 'running');
  });

/** Returns the beginning of an input on one line, safe to show. */
export function inputText(vars: EvalCase['vars']): string {
  const text = Object.entries(vars)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')
    .replaceAll(/\s+/g, ' ');
  return escapeText(text.length > MAX_INPUT ? `${text.slice(0, MAX_INPUT - 1)}…` : text);
}
