import { parseArgs } from 'node:util';
import { benchAgents } from './agents.ts';
import { benchDashboard } from './dashboard.ts';
import { benchDashboardSoak } from './dashboard-soak.ts';
import { benchDev } from './dev.ts';
import { benchDocs } from './docs.ts';
import { benchEvals } from './evals.ts';
import { benchFirstRequests } from './first-requests.ts';
import { type Row, withPlatform } from './harness.ts';
import { benchInstall } from './install.ts';
import { benchLambda } from './lambda-entries.ts';
import { benchLoops } from './loops.ts';
import { benchMcp } from './mcp.ts';
import { benchOrchestrator } from './orchestrator.ts';
import { benchPrices } from './prices.ts';
import { benchPrompts } from './prompts.ts';
import { describeRegression, figuresOf, type Regression, regressionsOf } from './regressions.ts';
import { committedResults, conditions, keepResults, type Results, tableOf } from './results.ts';
import { benchRoundTrips } from './round-trips.ts';
import { benchRunGrowth } from './run-growth.ts';
import { benchSandboxes } from './sandboxes.ts';
import { benchSchedules } from './schedules.ts';
import { benchServices } from './services.ts';
import { benchSessions } from './sessions.ts';
import { benchSoak } from './soak.ts';
import { benchTasks } from './tasks.ts';
import { benchTelemetry } from './telemetry.ts';
import { benchUsage } from './usage.ts';
import { benchWaiting } from './waiting.ts';
import { benchWarm } from './warm.ts';
import { benchWebhooks } from './webhooks.ts';
import { benchWires } from './wires.ts';

/**
 * `npm run bench`: alternates each measurement with its baseline, and writes medians as a table to stdout and, by
 * section, to
 * `bench/results/`. The ratios matter; the figures themselves depend on the machine.
 */
const SECTIONS: { readonly [name: string]: (minutes?: number) => Promise<Row[]> } = {
  install: benchInstall,
  agents: () => withPlatform(benchAgents),
  prompts: () => withPlatform(benchPrompts),
  'round-trips': benchRoundTrips,
  loops: () => withPlatform(benchLoops),
  warm: () => withPlatform(benchWarm),
  orchestrator: () => withPlatform(benchOrchestrator),
  dev: () => withPlatform(benchDev),
  dashboard: benchDashboard,
  docs: benchDocs,
  usage: benchUsage,
  growth: benchRunGrowth,
  tasks: benchTasks,
  telemetry: benchTelemetry,
  prices: () => withPlatform(benchPrices),
  evals: () => withPlatform(benchEvals),
  webhooks: () => withPlatform(benchWebhooks),
  wires: () => withPlatform(benchWires),
  mcp: () => withPlatform(benchMcp),
  schedules: benchSchedules,
  waiting: benchWaiting,
  sessions: benchSessions,
  sandboxes: benchSandboxes,
  services: () => withPlatform(benchServices),
  soak: (minutes) => withPlatform((bench) => benchSoak(bench, minutes)),
  'dashboard-soak': benchDashboardSoak,
  lambda: benchLambda,
  'first-requests': benchFirstRequests,
};

/** Sections that take minutes and run only on request. */
const LONG: readonly string[] = ['growth', 'soak', 'dashboard-soak'];

/** Number of repetitions: a figure that is worse once may be noise, a figure that is always worse is not. */
const TRIES = 3;

const HELP = `Usage: npm run bench [-- OPTIONS]

Options:
  --only SECTION   measure this only; more than once for more sections:
                   ${Object.keys(SECTIONS).join(', ')}
  --soak           measure memory over time, too: of the platform ten minutes, of the dashboard's list of runs thirty; and
                   a data folder with ten million runs, which needs 25 GB in TMPDIR
  --minutes N      so long instead, and keep no results
  --check          compare with bench/results instead of writing there, and fail if a figure is worse by more than its
                   tolerance (counts: nothing, ratios: a quarter, times: twice as long) in each of three tries;
                   a missed mark does not fail. For a change of one path: --check --only SECTION
  --help           show this

What is measured, how to read it and what CI checks by counts: docs/architecture.md#measurements.
`;

function wanted(): { sections: string[]; isCheck: boolean; minutes?: number } {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      soak: { type: 'boolean' },
      minutes: { type: 'string' },
      check: { type: 'boolean', default: false },
      help: { type: 'boolean' },
    },
  });
  const isCheck = values.check;
  if (values.help) return { sections: [], isCheck };
  const unknown = values.only?.filter((name) => !(name in SECTIONS)) ?? [];
  if (unknown.length > 0) throw new Error(`there is no section ${unknown.join(', ')}\n\n${HELP}`);
  const sections = values.only ?? Object.keys(SECTIONS).filter((name) => values.soak || !LONG.includes(name));
  const minutes = values.minutes === undefined ? undefined : Number(values.minutes);
  if (minutes !== undefined && !(Number.isInteger(minutes) && minutes > 0)) {
    throw new Error(`--minutes must be a whole number above 0, not ${values.minutes}`);
  }
  return { sections, isCheck, minutes };
}

async function measureSection(name: string, minutes?: number): Promise<Row[]> {
  const rows = await SECTIONS[name]!(minutes);
  for (const row of rows) process.stderr.write(`${row.what}: ${row.ours} beside ${row.beside}: ${row.result}\n`);
  return rows;
}

/** Repeats a section until no figure is worse than noise explains; returns the figures that were worse every time. */
async function checkSection(name: string, committed: Results): Promise<Regression[]> {
  const before = figuresOf(committed.rows);
  let worse: Regression[] = [];
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const now = regressionsOf(figuresOf(await measureSection(name)), before);
    const isStill = (regression: Regression): boolean => now.some((other) => other.before === regression.before);
    worse = attempt === 0 ? now : worse.filter(isStill);
    if (worse.length === 0) return [];
    for (const each of worse) process.stderr.write(`try ${attempt + 1} of ${TRIES}: ${describeRegression(each)}\n`);
  }
  return worse;
}

async function check(sections: readonly string[]): Promise<void> {
  let isWorse = false;
  for (const name of sections) {
    const committed = committedResults(name);
    if (committed === undefined) {
      process.stdout.write(`${name}: nothing to compare with, \`npm run bench -- --only ${name}\` measures it\n`);
      continue;
    }
    const { machine, load } = conditions();
    const worse = await checkSection(name, committed);
    const lines = [
      `${name}: on ${machine}, load ${load} at the start,`,
      `  against ${committed.measuredAt} on ${committed.machine}, load ${committed.load ?? 'unknown'}:`,
      ...(worse.length === 0 ? ['nothing is worse than noise explains'] : worse.map(describeRegression)).map(
        (line) => `  ${line}`,
      ),
    ];
    process.stdout.write(`${lines.join('\n')}\n`);
    isWorse ||= worse.length > 0;
  }
  if (isWorse) process.exitCode = 1;
}

async function measure(sections: readonly string[], minutes?: number): Promise<void> {
  for (const name of sections) {
    const under = conditions();
    const rows = await measureSection(name, minutes);
    if (minutes === undefined) keepResults(name, { ...under, rows });
    process.stdout.write(`\n${tableOf(rows)}\n`);
    if (rows.some((row) => !row.isMet)) process.exitCode = 1;
  }
}

try {
  const { sections, isCheck, minutes } = wanted();
  if (sections.length === 0) process.stdout.write(HELP);
  else if (isCheck) await check(sections);
  else await measure(sections, minutes);
} catch (error) {
  process.stderr.write(`${(error as Error).stack}\n`);
  process.exitCode = 1;
}
