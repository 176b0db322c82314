import { printable } from '../shared/output.ts';
import {
  type Case,
  type Evaluation,
  ofCandidate,
  ofLane,
  otherLanes,
  passedOf,
  runsToExplain,
  shareText,
} from './lanes.ts';

/** GitHub refuses comments of more than 65,536 characters. The rest is for what the sender adds. */
const MAX_CHARACTERS = 60_000;
const MARKS = { passed: '✅', failed: '❌', regressed: '❌', inconclusive: '⚠️' } as const;

/**
 * Formats an evaluation as Markdown of GitHub: what became of it, and the cases that did not pass with their reasons, as many as a comment holds.
 * Texts of suites and of agents stay texts: they make no links, mentions or tables.
 */
export function markdown(evaluation: Evaluation, cases: readonly Case[]): string {
  const { agent_name: name, version, verdict, status, reason, baseline, comparison, cost_usd, counts } = evaluation;
  const outcome = verdict ?? status;
  const facts: (readonly [string, string])[] = [
    ['verdict', `**${outcome}**${reason === null ? '' : `: ${escaped(reason)}`}`],
    ['cases', shareText(evaluation.candidate) || `${counts.done} of ${counts.runs} runs have a result`],
  ];
  const before = shareText(evaluation.baseline_cases);
  if (before !== '') facts.push([`on ${baseline}`, before]);
  const recorded = shareText(evaluation.observed_cases);
  if (recorded !== '') facts.push(['recorded runs', recorded]);
  if (comparison !== null) {
    const { pairs, worse, better, p } = comparison;
    const against = baseline === 'observed' ? 'recorded runs' : String(baseline);
    facts.push([`against ${against}`, `${worse} of ${pairs} runs are worse, ${better} better (p = ${p})`]);
  }
  facts.push(['cost', `$${cost_usd.toFixed(4)}`]);
  const page = evaluation.dashboard_url;
  const head = [
    `### ${verdict === null ? '⚠️' : MARKS[verdict]} ${escaped(name)}@${version}: ${outcome}`,
    '',
    ...rowsOf(['', '', ...facts.map(([title, text]) => `${title} | ${text}`)]),
  ];
  const foot = page === null ? [''] : ['', `[The evaluation with all its cases](${page})`, ''];

  const failing = cases.filter(({ passed }) => passed !== true);
  if (failing.length === 0) return [...head, ...foot].join('\n');
  const lanes = otherLanes(evaluation, cases);
  const titles = ['case', ...lanes.map(([, title]) => title), version, 'why'];
  const lines = [...head, '', `| ${titles.join(' | ')} |`, `|${titles.map(() => ' --- |').join('')}`];
  let room = MAX_CHARACTERS - [...lines, ...foot].join('\n').length - 200;
  let shown = 0;
  for (const each of failing) {
    const others = lanes.map(([lane]) => passedOf(ofLane(each, lane)));
    const reasons = runsToExplain(each).map(({ run_id, reason: why }) => linked(escaped(why), page, run_id));
    const cells = [escaped(each.description), ...others, passedOf(ofCandidate(each)), reasons.join('<br>')];
    const line = `| ${cells.join(' | ')} |`;
    room -= line.length + 1;
    if (room < 0) break;
    lines.push(line);
    shown++;
  }
  if (shown < failing.length) foot.unshift('', `${failing.length - shown} more cases did not pass.`);
  return [...lines, ...foot].join('\n');
}

/** Links a text to the page of a run. `page` is the page of the evaluation, in the same workspace. */
const linked = (text: string, page: string | null, runId: string): string =>
  page === null ? text : `[${text}](${page.slice(0, page.lastIndexOf('/agents/'))}/runs/${runId})`;

/** Formats a table of two columns. The first two cells are its head, which stays empty. */
const rowsOf = ([first, second, ...rows]: readonly string[]): string[] => [
  `| ${first} | ${second} |`,
  '| --- | --- |',
  ...rows.map((row) => `| ${row} |`),
];

/** Writes all signs but a few as entities, so that nothing in a text has a meaning in Markdown, HTML or at GitHub. */
const escaped = (text: string): string =>
  printable(text)
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[^\p{L}\p{M}\p{N} ,;'"]/gu, (sign) => `&#${sign.codePointAt(0)};`);
