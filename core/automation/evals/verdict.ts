import type { PassRule } from '#core/manifest/evals/suite.ts';
import { MAX_REPEAT } from '#core/manifest/evals/suite.ts';
import type { Lane, Outcome } from './outcome.ts';

export const VERDICTS = ['passed', 'failed', 'regressed', 'inconclusive'] as const;
export type Verdict = (typeof VERDICTS)[number];

/** Returns how an evaluation ended, as the predicate of a sentence. */
export const endInWords = (verdict: Verdict): string => (verdict === 'inconclusive' ? 'was inconclusive' : verdict);

/** Two-sided 95% of the normal distribution. */
const Z = 1.959963984540054;
/** One-sided level of the comparison with the baseline: only "worse" counts. */
const ALPHA = 0.05;

/** Cases of one lane. */
export interface Share {
  readonly passed: number;
  readonly failed: number;
  /** Cases of which nothing is known: the judge or the platform failed, or the budget was spent. */
  readonly undecided: number;
  /** Passed of those that are decided; null if none is. */
  readonly share: number | null;
  /** Wilson's interval of the share; null if no case is decided. */
  readonly interval: readonly [number, number] | null;
}

/** Pairs of runs, each of the same case and repeat on both versions; or each repeat with the recorded run of its case. */
export interface Comparison {
  readonly pairs: number;
  /** Passed on the baseline, or in the recorded run, only. */
  readonly worse: number;
  /** Passed on the candidate only. */
  readonly better: number;
  /** Probability of at least `worse` worse pairs, if both versions are equally good. */
  readonly p: number;
}

export interface Summary {
  readonly candidate: Share;
  readonly baseline: Share | null;
  /** The recorded runs of the cases that have one. Absent if none has. */
  readonly observed?: Share;
  readonly comparison: Comparison | null;
  /** Repeats of each case that would decide, if they turn out as these; null if it is decided, or if more cases are needed. */
  readonly repeatsNeeded: number | null;
}

/** The runs of one case. */
export interface CaseOutcomes {
  readonly suite: number;
  readonly must: boolean;
  readonly runs: { readonly [L in Lane]?: readonly (Outcome | undefined)[] };
}

type Rule = { readonly name: string; readonly threshold: number; readonly pass: PassRule; readonly repeat: number };

/**
 * Decides an evaluation (`docs/interface/evals.md#verdict`). `against`: what it is compared with. `stopped` says why not all runs were made.
 */
export function verdictOf(
  suites: readonly Rule[],
  cases: readonly CaseOutcomes[],
  {
    against,
    stopped,
  }: { readonly against?: Exclude<Lane, 'candidate'> | undefined; readonly stopped?: string | undefined } = {},
): { readonly verdict: Verdict; readonly reason: string | null; readonly summary: Summary } {
  const observed = cases.filter(({ runs }) => runs.observed !== undefined);
  const candidate = shareOf(suites, cases, 'candidate');
  const comparison = against === undefined ? null : compare(cases, against);
  const decide = (verdict: Verdict, reason: string | null, repeatsNeeded: number | null = null) => ({
    verdict,
    reason,
    summary: {
      candidate,
      baseline: against === 'baseline' ? shareOf(suites, cases, 'baseline') : null,
      ...(observed.length > 0 && { observed: shareOf(suites, observed, 'observed') }),
      comparison,
      repeatsNeeded,
    },
  });

  const before = against === 'observed' ? 'in the recorded run only' : 'on the baseline only';
  const differences = `${comparison?.worse} runs passed ${before}, and ${comparison?.better} on this version only`;
  if (comparison !== null && comparison.p <= ALPHA) return decide('regressed', `${differences}.`);
  const below = suites.flatMap((suite, index) => {
    const own = cases.filter((each) => each.suite === index);
    return standingOf(suite, own) ?? [];
  });
  const failure = below.find(({ isSure }) => isSure);
  if (failure !== undefined) return decide('failed', failure.reason);
  const open = below[0];
  if (open !== undefined) return decide('inconclusive', [stopped, open.reason].filter(Boolean).join(' '));
  if (stopped !== undefined && candidate.undecided > 0) return decide('inconclusive', stopped);
  if (comparison !== null && comparison.worse > comparison.better) {
    const repeat = Math.max(...suites.map((suite) => suite.repeat));
    const needed = repeatsNeeded(comparison, repeat);
    const wanted =
      needed === undefined
        ? `more cases would decide: ${MAX_REPEAT} repeats are not enough`
        : `${needed} repeats of each case would decide`;
    return decide('inconclusive', `${differences}, which may be chance; ${wanted}.`, needed ?? null);
  }
  return decide('passed', null);
}

/** Returns why a suite has not passed; `isSure` if no undecided case can change that. Undefined if it has. */
function standingOf(
  suite: Rule,
  cases: readonly CaseOutcomes[],
): { readonly isSure: boolean; readonly reason: string } | undefined {
  const outcomes = cases.map((each) => ({
    must: each.must,
    outcome: caseOutcome(suite.pass, each.runs.candidate ?? []),
  }));
  const count = (outcome: Outcome | undefined) => outcomes.filter((each) => each.outcome === outcome).length;
  const [passed, failed] = [count('passed'), count('failed')];
  const undecided = cases.length - passed - failed;
  const mustFailed = outcomes.filter(({ must, outcome }) => must && outcome === 'failed').length;
  if (mustFailed > 0)
    return { isSure: true, reason: `${suite.name}: ${mustFailed} of the cases that must pass failed.` };
  // Shares are compared as counts, so that 0.1 + 0.2 decides nothing.
  const needed = Math.ceil(suite.threshold * cases.length - 1e-9);
  const counts = `${suite.name}: ${passed} of ${cases.length} cases passed, and ${needed} must.`;
  if (passed + undecided < needed) return { isSure: true, reason: counts };
  if (passed < needed) return { isSure: false, reason: `${counts} ${undecided} are not decided.` };
  const mustOpen = outcomes.filter(({ must, outcome }) => must && outcome === undefined).length;
  return mustOpen > 0
    ? { isSure: false, reason: `${suite.name}: ${mustOpen} of the cases that must pass are not decided.` }
    : undefined;
}

/** Returns the outcome of a case from those of its repeats; undefined if errors or missing runs may change it. */
export function caseOutcome(rule: PassRule, runs: readonly (Outcome | undefined)[]): 'passed' | 'failed' | undefined {
  if (runs.length === 0) return undefined;
  const passed = runs.filter((outcome) => outcome === 'passed').length;
  const failed = runs.filter((outcome) => outcome === 'failed').length;
  const needed = { all: runs.length, most: Math.floor(runs.length / 2) + 1, any: 1 }[rule];
  if (passed >= needed) return 'passed';
  return failed > runs.length - needed ? 'failed' : undefined;
}

function shareOf(suites: readonly Rule[], cases: readonly CaseOutcomes[], lane: Lane): Share {
  const outcomes = cases.map(({ suite, runs }) => caseOutcome(suites[suite]!.pass, runs[lane] ?? []));
  const passed = outcomes.filter((outcome) => outcome === 'passed').length;
  const failed = outcomes.filter((outcome) => outcome === 'failed').length;
  const decided = passed + failed;
  return {
    passed,
    failed,
    undecided: cases.length - decided,
    share: decided === 0 ? null : passed / decided,
    interval: decided === 0 ? null : wilson(passed, decided),
  };
}

/** Wilson's score interval of 95% (E. B. Wilson, JASA 22 (1927) 209-212). */
export function wilson(passed: number, total: number): readonly [number, number] {
  const share = passed / total;
  const centre = share + Z ** 2 / (2 * total);
  const spread = Z * Math.sqrt((share * (1 - share)) / total + Z ** 2 / (4 * total ** 2));
  const scale = 1 + Z ** 2 / total;
  return [Math.max(0, (centre - spread) / scale), Math.min(1, (centre + spread) / scale)];
}

function compare(cases: readonly CaseOutcomes[], against: Exclude<Lane, 'candidate'>): Comparison {
  let [pairs, worse, better] = [0, 0, 0];
  for (const { runs } of cases) {
    for (const [index, now] of (runs.candidate ?? []).entries()) {
      const before = runs[against]?.[against === 'observed' ? 0 : index];
      if (!isDecided(now) || !isDecided(before)) continue;
      pairs++;
      if (now === before) continue;
      if (before === 'passed') worse++;
      else better++;
    }
  }
  return { pairs, worse, better, p: probabilityOf(worse, better) };
}

const isDecided = (outcome: Outcome | undefined): boolean => outcome === 'passed' || outcome === 'failed';

/**
 * The exact test of McNemar for paired outcomes, one-sided (Q. McNemar, Psychometrika 12 (1947) 153-157): if both versions are equally good,
 * each pair that differs is worse with probability 1/2. Returns the probability of at least `worse` such pairs, to a millionth.
 */
export function probabilityOf(worse: number, better: number): number {
  const total = worse + better;
  let logChoose = 0;
  let sum = 0;
  // From the last term to the first: C(total, total) is 1.
  for (let count = total; count >= worse; count--) {
    sum += Math.exp(logChoose - total * Math.LN2);
    logChoose += Math.log(count) - Math.log(total - count + 1);
  }
  return Math.min(1, Math.round(sum * 1e6) / 1e6);
}

/** Returns how many repeats would decide, if the shares of worse and better pairs stay the same. */
function repeatsNeeded({ worse, better }: Comparison, repeat: number): number | undefined {
  for (let repeats = repeat + 1; repeats <= MAX_REPEAT; repeats++) {
    const times = repeats / repeat;
    if (probabilityOf(Math.round(worse * times), Math.round(better * times)) <= ALPHA) return repeats;
  }
  return undefined;
}
