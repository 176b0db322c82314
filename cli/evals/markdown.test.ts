import { expect, test } from 'vitest';
import type { Case, Evaluation } from './lanes.ts';
import { markdown } from './markdown.ts';

const DASHBOARD = 'https://agents.example.com/dashboard/acme';
const share = (passed: number, failed: number) => ({
  ...{ passed, failed, undecided: 0, share: passed / (passed + failed) },
  interval: [0.1, 0.9],
});
const evaluation = (more: object = {}) =>
  ({
    ...{ eval_id: 'e1', agent_name: 'triage', version: 'v4', baseline: null, status: 'completed', verdict: 'passed' },
    ...{ reason: null, cost_usd: 0.0412, candidate: share(2, 0), baseline_cases: null, observed_cases: null },
    ...{ comparison: null, counts: { runs: 2, done: 2 }, dashboard_url: `${DASHBOARD}/agents/triage/evals/e1` },
    ...more,
  }) as unknown as Evaluation;
const run = (lane: string, status: string, reason: string | null = null) => ({
  lane,
  status,
  reason,
  run_id: `run-${lane}`,
});
const failing = (description: string, ...runs: object[]) => ({ description, passed: false, runs }) as unknown as Case;

test('an evaluation that passed is a verdict with its share and cost', () => {
  expect(markdown(evaluation(), [])).toBe(`### ✅ triage@v4: passed

|  |  |
| --- | --- |
| verdict | **passed** |
| cases | 2 of 2 cases passed (10% to 90%) |
| cost | $0.0412 |

[The evaluation with all its cases](${DASHBOARD}/agents/triage/evals/e1)
`);
});

test('one that regressed has the comparison, and its failing cases with all lanes and links', () => {
  const regressed = evaluation({
    ...{ verdict: 'regressed', baseline: 'v3', reason: '1 runs passed on the baseline only.' },
    ...{ candidate: share(1, 1), baseline_cases: share(2, 0), observed_cases: share(1, 0) },
    comparison: { pairs: 2, worse: 1, better: 0, p: 0.5 },
  });
  const text = markdown(regressed, [
    failing(
      'refunds',
      run('observed', 'passed'),
      run('candidate', 'failed', 'equals: must be "refund"'),
      run('baseline', 'passed'),
    ),
    { ...failing('greets'), passed: true },
  ]);
  expect(text).toContain('### ❌ triage@v4: regressed');
  expect(text).toContain('| on v3 | 2 of 2 cases passed (10% to 90%) |');
  expect(text).toContain('| recorded runs | 1 of 1 cases passed (10% to 90%) |');
  expect(text).toContain('| against v3 | 1 of 2 runs are worse, 0 better (p = 0.5) |');
  expect(text).toContain('| case | recorded | v3 | v4 | why |\n| --- | --- | --- | --- | --- |\n');
  expect(text).toContain(`| refunds | ✓ | ✓ | ✗ | [equals&#58; must be "refund"](${DASHBOARD}/runs/run-candidate) |`);
  expect(text).not.toContain('greets');
});

test('texts of others stay texts', () => {
  const attack =
    '| x |\n# T <img src=x> [a](http://b) @acme/all #7 `c` \u001b[31m\u202eABC https://d.example ~~e~~ :tada: &lt;';
  const text = markdown(evaluation({ verdict: 'failed', reason: attack }), [
    failing(attack, run('candidate', 'failed', attack)),
  ]);
  const lines = text.split('\n');
  const shown = lines.filter((line) => line.includes('ABC'));
  expect(shown).toHaveLength(2);
  for (const line of shown) {
    const rest = line
      .replaceAll(/&#\d+;/g, '')
      .replaceAll(`](${DASHBOARD}/runs/run-candidate)`, '')
      .replace('| [', '| ')
      .replace('**failed**: ', '');
    expect(rest).not.toMatch(/[<>`@#[\]()~:&\\_\p{C}]/u);
    expect(rest.match(/\|/g)!.length).toBe(line.startsWith('| verdict') ? 3 : 4);
  }
});

test('it stays below what GitHub takes, and says how much it leaves out', () => {
  const cases = Array.from({ length: 500 }, (_, n) =>
    failing(`case ${n} ${'('.repeat(100)}`, run('candidate', 'failed', ')'.repeat(500))),
  );
  const text = markdown(evaluation({ verdict: 'failed', reason: '!'.repeat(500) }), cases);
  expect(text.length).toBeLessThanOrEqual(60_000);
  expect(text).toMatch(/\n\n4\d\d more cases did not pass\.\n\n\[The evaluation/);
  const rows = text.split('\n').filter((line) => line.startsWith('| case ') && !line.startsWith('| case |'));
  expect(rows.at(-1)).toMatch(/ \|$/);
});

test('without a dashboard there are no links, and one that was aborted has no share', () => {
  const text = markdown(
    evaluation({
      ...{ status: 'aborted', verdict: null, candidate: null, dashboard_url: null, reason: 'Aborted by u1.' },
    }),
    [failing('greets', run('candidate', 'cancelled', 'gone'))],
  );
  expect(text).toContain('### ⚠️ triage@v4: aborted');
  expect(text).toContain('| cases | 2 of 2 runs have a result |');
  expect(text).toContain('| greets | ? | gone |');
  expect(text).not.toContain('](');
});
