import { describe, expect, test } from 'vitest';
import type { Outcome } from './outcome.ts';
import { type CaseOutcomes, caseOutcome, probabilityOf, verdictOf, wilson } from './verdict.ts';

const [P, F, E] = ['passed', 'failed', 'error'] as const;
const suite = { name: 'a.yaml', threshold: 1, pass: 'all', repeat: 1 } as const;
const cases = (outcomes: readonly (Outcome | undefined)[], must = false): CaseOutcomes[] =>
  outcomes.map((outcome) => ({ suite: 0, must, runs: { candidate: [outcome] } }));
const pairs = (all: readonly (readonly [before: Outcome, now: Outcome])[]): CaseOutcomes[] =>
  all.map(([before, now]) => ({ suite: 0, must: false, runs: { baseline: [before], candidate: [now] } }));

test.each<[number, number, number, number]>([
  // Values of Brown, Cai and DasGupta (2001), and of R's prop.test without correction.
  [0, 10, 0, 0.2775],
  [5, 10, 0.2366, 0.7634],
  [9, 10, 0.5958, 0.9821],
  [10, 10, 0.7225, 1],
  [81, 263, 0.2553, 0.3662],
])("Wilson's interval of %i of %i", (passed, total, low, high) => {
  const [from, to] = wilson(passed, total);
  expect(from).toBeCloseTo(low, 4);
  expect(to).toBeCloseTo(high, 4);
});

test.each<[number, number, number]>([
  [0, 0, 1],
  [1, 0, 0.5],
  [5, 0, 0.03125],
  [5, 1, 7 / 64],
  [8, 2, 56 / 1024],
  [0, 5, 1],
  [1000, 900, 0.011554],
])("McNemar's exact test of %i worse and %i better pairs", (worse, better, p) => {
  expect(probabilityOf(worse, better)).toBeCloseTo(p, 5);
});

test.each<[Parameters<typeof caseOutcome>[0], (Outcome | undefined)[], ReturnType<typeof caseOutcome>]>([
  ['all', [P, P], P],
  ['all', [P, F], F],
  ['all', [P, E], undefined],
  ['all', [F, E], F],
  ['most', [P, P, F], P],
  ['most', [P, F], F],
  ['most', [P, F, undefined], undefined],
  ['most', [P, P, undefined], P],
  ['any', [F, P, E], P],
  ['any', [F, F], F],
  ['any', [F, undefined], undefined],
  ['any', [], undefined],
])('%s of %j', (rule, runs, outcome) => {
  expect(caseOutcome(rule, runs)).toBe(outcome);
});

describe('without a baseline', () => {
  test.each<[string, Partial<typeof suite> | { threshold: number }, CaseOutcomes[], string, string | null]>([
    ['all passed', {}, cases([P, P]), 'passed', null],
    ['one failed', {}, cases([P, F]), 'failed', 'a.yaml: 1 of 2 cases passed, and 2 must.'],
    ['enough passed', { threshold: 0.5 }, cases([P, F]), 'passed', null],
    ['a share that is no binary number', { threshold: 0.7 }, cases([P, P, P, P, P, P, P, F, F, F]), 'passed', null],
    [
      'one that must pass failed',
      { threshold: 0.5 },
      [...cases([P]), ...cases([F], true)],
      'failed',
      'a.yaml: 1 of the cases that must pass failed.',
    ],
    ['an error that does not matter', { threshold: 0.5 }, cases([P, E]), 'passed', null],
    [
      'an error that decides',
      {},
      cases([P, E]),
      'inconclusive',
      'a.yaml: 1 of 2 cases passed, and 2 must. 1 are not decided.',
    ],
    ['an error where too many failed', {}, cases([F, E]), 'failed', 'a.yaml: 0 of 2 cases passed, and 2 must.'],
    [
      'an error of one that must pass',
      { threshold: 0 },
      cases([E], true),
      'inconclusive',
      'a.yaml: 1 of the cases that must pass are not decided.',
    ],
  ])('%s', (_, more, outcomes, verdict, reason) => {
    expect(verdictOf([{ ...suite, ...more }], outcomes)).toMatchObject({ verdict, reason });
  });

  test('what was stopped decides nothing', () => {
    const stopped = verdictOf([{ ...suite, threshold: 0.5 }], cases([P, P, undefined]), {
      stopped: 'The budget is spent.',
    });
    expect(stopped).toMatchObject({
      verdict: 'inconclusive',
      reason: 'The budget is spent.',
      summary: { candidate: { undecided: 1 } },
    });
  });

  test('each suite has its own threshold', () => {
    const other = { ...suite, name: 'b.yaml', threshold: 0 };
    const outcomes = [...cases([P]), ...cases([F]).map((each) => ({ ...each, suite: 1 }))];
    expect(verdictOf([suite, other], outcomes)).toMatchObject({
      verdict: 'passed',
      summary: { candidate: { share: 0.5 } },
    });
  });
});

describe('with a baseline', () => {
  const rule = { ...suite, threshold: 0 };
  const decide = (all: Parameters<typeof pairs>[0]) => verdictOf([rule], pairs(all), { against: 'baseline' });
  test('five worse pairs and none better are no chance', () => {
    const outcomes: Parameters<typeof pairs>[0] = [
      [P, F],
      [P, F],
      [P, F],
      [P, F],
      [P, F],
      [P, P],
    ];
    expect(decide(outcomes)).toMatchObject({
      verdict: 'regressed',
      summary: { comparison: { pairs: 6, worse: 5, better: 0, p: 0.03125 }, baseline: { passed: 6 } },
    });
  });

  test('fewer may be chance, and repeats would tell', () => {
    const few = decide([
      [P, F],
      [P, P],
    ]);
    expect(few).toMatchObject({ verdict: 'inconclusive', summary: { repeatsNeeded: 5 } });
    expect(few.reason).toContain('5 repeats of each case would decide');
    const even = decide([
      [P, F],
      [P, F],
      [F, P],
    ]);
    expect(even.summary.repeatsNeeded).toBeGreaterThan(5);
  });

  test('where 20 repeats do not suffice, it asks for cases', () => {
    const close = decide([...Array(11).fill([P, F]), ...Array(10).fill([F, P])]);
    expect(close).toMatchObject({ verdict: 'inconclusive', summary: { repeatsNeeded: null } });
    expect(close.reason).toContain('more cases would decide');
  });

  test('errors are no pairs, and as good as before has passed', () => {
    const outcomes: Parameters<typeof pairs>[0] = [
      [P, E],
      [E, P],
      [F, P],
      [P, P],
    ];
    expect(decide(outcomes)).toMatchObject({
      verdict: 'passed',
      summary: { comparison: { pairs: 2, worse: 0, better: 1 } },
    });
  });
});

describe('with recorded runs', () => {
  const rule = { ...suite, threshold: 0, repeat: 3 };
  const recorded = (before: Outcome, ...candidate: Outcome[]): CaseOutcomes => ({
    ...{ suite: 0, must: false },
    runs: { observed: [before], candidate },
  });

  test('each repeat is paired with the recorded run of its case', () => {
    const outcomes = [recorded(P, F, F, F), recorded(P, F, F, P), ...cases([F])];
    expect(verdictOf([rule], outcomes, { against: 'observed' })).toMatchObject({
      verdict: 'regressed',
      reason: '5 runs passed in the recorded run only, and 0 on this version only.',
      summary: {
        comparison: { pairs: 6, worse: 5, better: 0 },
        baseline: null,
        // The case without a recorded run is none of them.
        observed: { passed: 2, failed: 0, undecided: 0 },
        candidate: { passed: 0, failed: 3 },
      },
    });
  });

  test('one that cannot be graded makes no pair, and leaves the verdict alone', () => {
    const decided = verdictOf([{ ...rule, threshold: 1 }], [recorded(E, P, P, P), recorded(F, P, P, P)], {
      against: 'observed',
    });
    expect(decided).toMatchObject({
      verdict: 'passed',
      summary: { comparison: { pairs: 3, better: 3 }, observed: { failed: 1, undecided: 1 } },
    });
  });

  test('recorded runs beside a baseline change neither the share nor the comparison', () => {
    const outcomes: CaseOutcomes[] = [{ suite: 0, must: true, runs: { observed: [F], baseline: [P], candidate: [P] } }];
    expect(verdictOf([suite], outcomes, { against: 'baseline' })).toMatchObject({
      verdict: 'passed',
      summary: { candidate: { passed: 1, failed: 0 }, observed: { failed: 1 }, comparison: { worse: 0, better: 0 } },
    });
  });
});
