import { statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { EXIT, UsageError } from '#client/usage-error.ts';
import { mayBeCurrent } from '#core/agents/gates/standing.ts';
import type { Client } from '#core/api/client.ts';
import { endInWords } from '#core/automation/evals/verdict.ts';
import {
  type Case,
  type Evaluation,
  ofCandidate,
  ofLane,
  otherLanes,
  passedOf,
  runsToExplain,
  shareText,
} from '../evals/lanes.ts';
import { markdown } from '../evals/markdown.ts';
import { readSuiteFiles } from '../evals/suite-files.ts';
import { readFolder } from '../publishing/read-folder.ts';
import { ownVersions } from '../shared/agent-reference.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { printable, table } from '../shared/output.ts';
import { junit } from '../testing/junit.ts';
import type { TestResult } from '../testing/run-tests.ts';

const POLL_MS = 500;
const MARKS = { true: ['green', '✓'], false: ['red', '✗'], null: ['yellow', '?'] } as const;

const evaluate: Configure = (command, cli) => {
  command
    .argument('[agent]', "The agent's folder, or the name of a published agent, such as main/hello@v3", '.')
    .option('--suite <files...>', "Suites to run (default: evals/*.yaml of the agent's folder)")
    .option('--published', 'Run the suites that were published with the version; it opens its gate if it passes')
    .option(
      '--baseline <version>',
      'Version to compare with on the same cases, such as v3; "latest", the newest other one; "observed", the recorded runs (default: that of the manifest)',
    )
    .option('--repeat <number>', 'Runs of each case, in place of those of the suites')
    .option('--budget <dollars>', 'No further run begins when this is spent')
    .option('--junit <file>', 'Also write the results as JUnit XML')
    .option('--markdown <file>', 'Also write a table of the results in Markdown, for a pull request')
    .addHelpText('after', '\nExample:\n  $ platform eval ./hello --baseline v1')
    .action(async (given, { suite, published, baseline: wanted, repeat, budget, junit: xml, markdown: page }) => {
      if (published && suite !== undefined) throw new UsageError('--published and --suite exclude each other.');
      const path = resolve(cli.host.cwd, given);
      const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
      const folder = isFolder ? path : cli.host.cwd;
      const name = isFolder ? (await readFolder(cli, given)).body.name : given;
      const suites = published ? undefined : readSuiteFiles(folder, suite, cli.host.cwd);
      const [version] = await ownVersions(cli, name);
      const client = await cli.client();
      const baseline = wanted === 'latest' ? await newestOther(cli, version!) : wanted;
      const body = {
        suites,
        ...(baseline !== undefined && { baseline }),
        ...(repeat !== undefined && { repeat: numberOf(repeat, '--repeat') }),
        ...(budget !== undefined && { budget_usd: numberOf(budget, '--budget') }),
      };
      const params = { id: version!.id };
      const started = await client.createEval({ params, body });
      const ended = await follow(cli, params.id, started);
      const cases = await casesOf(client, { ...params, eval_id: ended.eval_id });
      const results = cases.map((each) => resultOf(ended, each));
      if (xml !== undefined) await writeFile(resolve(cli.host.cwd, xml), junit(ended.agent_name, results));
      if (page !== undefined) await writeFile(resolve(cli.host.cwd, page), markdown(ended, cases));
      cli.output.result({ ...ended, cases }, () => inWords(cli, ended, cases));
      const problem = problemOf(ended);
      if (problem !== undefined) throw problem;
    });
};

/** Returns the newest version beside this one that `latest` may name; `undefined` with a note if there is none. */
async function newestOther(
  cli: Cli,
  { org_slug, name, id }: { readonly org_slug: string; readonly name: string; readonly id: string },
): Promise<string | undefined> {
  const versions = await ownVersions(cli, `${org_slug}/${name}`);
  const other = versions.find((each) => each.id !== id && mayBeCurrent(each));
  if (other === undefined) cli.output.note('The agent has no other version: there is nothing to compare with.');
  return other?.version;
}

function numberOf(text: string, option: string): number {
  const number = Number(text);
  if (text.trim() === '' || Number.isNaN(number)) throw new UsageError(`${option} must be a number, not "${text}".`);
  return number;
}

/** Waits for the end of an evaluation. Ctrl-C aborts it. */
async function follow(cli: Cli, id: string, started: Evaluation): Promise<Evaluation> {
  const client = await cli.client();
  const params = { id, eval_id: started.eval_id };
  let evaluation = started;
  const stop = cli.host.onInterrupt(() => {
    cli.output.note('\nAborting the evaluation');
    void client
      .abortEval({ params })
      .catch(() => cli.output.note(`It could not be aborted: run \`platform api abortEval\` for ${params.eval_id}.`))
      .finally(() => cli.host.exit(EXIT.interrupted));
  });
  try {
    let shown = -1;
    while (evaluation.status === 'running') {
      const { done, runs } = evaluation.counts;
      if (done !== shown) cli.output.note(`${done} of ${runs} runs`);
      shown = done;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      evaluation = await client.getEval({ params });
    }
    return evaluation;
  } finally {
    stop();
  }
}

async function casesOf(client: Client, params: { id: string; eval_id: string }): Promise<Case[]> {
  const all: Case[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.listEvalCases({ params, query: { limit: 50, cursor } });
    all.push(...page.cases);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return all;
}

/** Formats the cases with how often each of their asserts passed, then why those that failed did. */
function inWords(cli: Cli, evaluation: Evaluation, cases: readonly Case[]): string {
  const { output } = cli;
  const lanes = otherLanes(evaluation, cases);
  const rows = cases.map((each) => {
    const [style, mark] = MARKS[`${each.passed}`];
    const runs = ofCandidate(each);
    const asserts = (runs.find((run) => run.asserts.length > 0)?.asserts ?? []).map(({ type }, index) => {
      const passed = runs.filter((run) => run.asserts[index]?.pass).length;
      const word = runs.length === 1 ? (passed === 1 ? '✓' : '✗') : `${passed}/${runs.length}`;
      return `${type} ${word}`;
    });
    const others = lanes.map(([lane]) => passedOf(ofLane(each, lane)));
    return [output.style(style, mark), printable(each.description), ...others, asserts.join(', ')];
  });
  const reasons = cases.flatMap((each) =>
    runsToExplain(each).map(
      ({ run_id, reason }) => `${printable(each.description)} (${run_id.slice(0, 8)}): ${printable(reason)}`,
    ),
  );
  const { verdict, status, candidate, cost_usd, baseline } = evaluation;
  const share = shareText(candidate);
  const against = baseline === null ? '' : ` against ${baseline === 'observed' ? 'recorded runs' : baseline}`;
  return [
    table(['', 'case', ...lanes.map(([, title]) => title), 'asserts'], rows, output.width),
    ...reasons,
    `${evaluation.agent_name}@${evaluation.version}${against}: ${verdict ?? status}${share && `, ${share}`}, $${cost_usd.toFixed(4)}`,
  ].join('\n');
}

/** The error that a verdict ends with. */
function problemOf({ verdict, status, reason }: Evaluation): UsageError | undefined {
  const text = [`The evaluation ${verdict === null ? `was ${status}` : endInWords(verdict)}.`, reason]
    .filter(Boolean)
    .join(' ');
  if (verdict === 'passed') return undefined;
  return new UsageError(text, { exitCode: verdict === 'inconclusive' ? EXIT.inconclusive : EXIT.failed });
}

const resultOf = (evaluation: Evaluation, each: Case): TestResult => {
  const runs = ofCandidate(each);
  const notes = otherLanes(evaluation, [each]).map(([lane, title]) => `${title}: ${passedOf(ofLane(each, lane))}`);
  return {
    name: each.description,
    file: each.suite,
    status: each.passed === null ? 'skipped' : each.passed ? 'passed' : 'failed',
    seconds: runs.reduce((sum, { latency_ms }) => sum + (latency_ms ?? 0), 0) / 1000,
    cost_usd: runs.reduce((sum, { cost_usd }) => sum + (cost_usd ?? 0), 0),
    failures: runs.flatMap(({ reason }) => reason ?? []),
    ...(notes.length > 0 && { notes }),
  };
};

export default evaluate;
