import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { benchAgents } from './agents.ts';
import { benchDashboard } from './dashboard.ts';
import { benchDev } from './dev.ts';
import { ROOT, type Row, withPlatform } from './harness.ts';
import { benchLambda } from './lambda-entries.ts';
import { benchLoops } from './loops.ts';
import { benchOrchestrator } from './orchestrator.ts';
import { benchPrompts } from './prompts.ts';
import {
  committedResults,
  describeRegression,
  figuresOf,
  RESULTS,
  type Regression,
  type Results,
  regressionsOf,
} from './regressions.ts';
import { benchRoundTrips } from './round-trips.ts';
import { benchSandboxes } from './sandboxes.ts';
import { benchSchedules } from './schedules.ts';
import { benchServices } from './services.ts';
import { benchSoak } from './soak.ts';
import { benchTasks } from './tasks.ts';
import { benchUsage } from './usage.ts';
import { benchWebhooks } from './webhooks.ts';

/**
 * `npm run bench`: each figure beside something else that runs in turn with it, medians, a table on stdout and in
 * `bench/results/`. The ratios count; the figures themselves depend on the machine.
 */
const SECTIONS: { readonly [name: string]: () => Promise<Row[]> } = {
  agents: () => withPlatform(benchAgents),
  prompts: () => withPlatform(benchPrompts),
  'round-trips': benchRoundTrips,
  loops: () => withPlatform(benchLoops),
  orchestrator: () => withPlatform(benchOrchestrator),
  dev: () => withPlatform(benchDev),
  dashboard: benchDashboard,
  usage: benchUsage,
  tasks: benchTasks,
  webhooks: () => withPlatform(benchWebhooks),
  schedules: benchSchedules,
  sandboxes: benchSandboxes,
  services: () => withPlatform(benchServices),
  soak: () => withPlatform(benchSoak),
  lambda: benchLambda,
};

/** A figure that is worse once may be noise; one that is worse each time is not. */
const TRIES = 3;

const HELP = `Usage: npm run bench [-- OPTIONS]

Options:
  --only SECTION   measure this only, and keep the page in bench/results as it is; more than once for more sections:
                   ${Object.keys(SECTIONS).join(', ')}
  --soak           measure memory over ten minutes, too
  --check          compare with bench/results/latest.json instead of writing it, and fail if a figure is worse by more than
                   its tolerance (counts: nothing, ratios: a quarter, times: twice as long) in each of three tries;
                   a missed mark does not fail. For a change of one path: --check --only SECTION
  --help           show this

What is measured, how to read it and what CI checks by counts: docs/architecture.md#measurements.
`;

function wanted(): { sections: string[]; isCheck: boolean } {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      soak: { type: 'boolean' },
      check: { type: 'boolean', default: false },
      help: { type: 'boolean' },
    },
  });
  const isCheck = values.check;
  if (values.help) return { sections: [], isCheck };
  const unknown = values.only?.filter((name) => !(name in SECTIONS)) ?? [];
  if (unknown.length > 0) throw new Error(`there is no section ${unknown.join(', ')}\n\n${HELP}`);
  const sections = values.only ?? Object.keys(SECTIONS).filter((name) => name !== 'soak' || values.soak);
  return { sections, isCheck };
}

/** Who measured, for the page and the numbers. */
function conditions(): Omit<Results, 'rows'> {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const memory = Math.round(totalmem() / 1024 ** 3);
  return {
    measuredAt: new Date().toISOString(),
    version,
    machine: `${availableParallelism()} x ${cpus()[0]?.model}, ${memory} GB, Node ${process.versions.node}`,
    load: Math.round(loadavg()[0]! * 10) / 10,
  };
}

async function measureSection(name: string): Promise<Row[]> {
  const rows = await SECTIONS[name]!();
  for (const row of rows) process.stderr.write(`${row.what}: ${row.ours} beside ${row.beside}: ${row.result}\n`);
  return rows;
}

/** Measures a section until no committed figure is worse than noise explains; returns those that always were. */
async function checkSection(name: string, committed: Results): Promise<Regression[]> {
  let worse: Regression[] = [];
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const now = regressionsOf(figuresOf(await measureSection(name)), committed.rows);
    const isStill = ({ before }: Regression): boolean => now.some((other) => other.before === before);
    worse = attempt === 0 ? now : worse.filter(isStill);
    if (worse.length === 0) return [];
    for (const each of worse) process.stderr.write(`try ${attempt + 1} of ${TRIES}: ${describeRegression(each)}\n`);
  }
  return worse;
}

async function check(sections: readonly string[]): Promise<void> {
  const committed = committedResults();
  const { measuredAt, machine, load } = conditions();
  const worse: Regression[] = [];
  for (const name of sections) worse.push(...(await checkSection(name, committed)));
  const lines = [
    `Checked ${measuredAt} on ${machine}, load ${load} at the start,`,
    `against ${committed.measuredAt} on ${committed.machine}, load ${committed.load ?? 'unknown'}.`,
    ...(worse.length === 0 ? ['Nothing is worse than noise explains.'] : worse.map(describeRegression)),
  ];
  process.stdout.write(`\n${lines.join('\n')}\n`);
  if (worse.length > 0) process.exitCode = 1;
}

function table(rows: readonly Row[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [
    line(['what', 'ours', 'beside', 'result', 'to reach', '']),
    line(['---', '---', '---', '---', '---', '---']),
    ...rows.map((row) => line([row.what, row.ours, row.beside, row.result, row.bound, row.isMet ? '' : 'MISSED'])),
  ].join('\n');
}

async function measure(sections: readonly string[]): Promise<void> {
  const under = conditions();
  const rows: Row[] = [];
  for (const name of sections) rows.push(...(await measureSection(name)));
  const leftOut = Object.keys(SECTIONS).filter((name) => !sections.includes(name));
  const page = [
    `# Measured ${under.measuredAt.slice(0, 10)}, version ${under.version}`,
    `On ${under.machine}, with a load of ${under.load} by others at the start. Medians of interleaved runs; \`npm run bench\` measures anew.`,
    table(rows),
    ...(leftOut.length > 0 ? [`Left out: ${leftOut.join(', ')} (\`npm run bench -- --help\`).`] : []),
  ].join('\n\n');
  process.stdout.write(`\n${page}\n`);
  if (leftOut.every((name) => name === 'soak')) {
    mkdirSync(join(ROOT, 'bench/results'), { recursive: true });
    writeFileSync(join(ROOT, 'bench/results/latest.md'), `${page}\n`);
    const results: Results = { ...under, rows: figuresOf(rows) };
    writeFileSync(RESULTS, `${JSON.stringify(results, null, 2)}\n`);
  }
  if (rows.some((row) => !row.isMet)) process.exitCode = 1;
}

try {
  const { sections, isCheck } = wanted();
  if (sections.length === 0) process.stdout.write(HELP);
  else if (isCheck) await check(sections);
  else await measure(sections);
} catch (error) {
  process.stderr.write(`${(error as Error).stack}\n`);
  process.exitCode = 1;
}
