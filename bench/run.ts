import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { benchAgents } from './agents.ts';
import { ROOT, type Row, withPlatform } from './harness.ts';
import { benchLambda } from './lambda-entries.ts';
import { benchLoops } from './loops.ts';
import { benchOrchestrator } from './orchestrator.ts';
import { benchPrompts } from './prompts.ts';
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
  usage: benchUsage,
  tasks: benchTasks,
  webhooks: () => withPlatform(benchWebhooks),
  schedules: benchSchedules,
  sandboxes: benchSandboxes,
  services: () => withPlatform(benchServices),
  soak: () => withPlatform(benchSoak),
  lambda: benchLambda,
};

const HELP = `Usage: npm run bench [-- OPTIONS]

Options:
  --only SECTION   measure this only, and keep the page in bench/results as it is; more than once for more sections:
                   ${Object.keys(SECTIONS).join(', ')}
  --soak           measure memory over ten minutes, too
  --help           show this
`;

function wantedSections(): string[] {
  const { values } = parseArgs({
    options: { only: { type: 'string', multiple: true }, soak: { type: 'boolean' }, help: { type: 'boolean' } },
  });
  if (values.help) return [];
  const unknown = values.only?.filter((name) => !(name in SECTIONS)) ?? [];
  if (unknown.length > 0) throw new Error(`there is no section ${unknown.join(', ')}\n\n${HELP}`);
  return values.only ?? Object.keys(SECTIONS).filter((name) => name !== 'soak' || values.soak);
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
  const others = loadavg()[0]!.toFixed(1);
  const rows: Row[] = [];
  for (const name of sections) {
    for (const row of await SECTIONS[name]!()) {
      process.stderr.write(`${row.what}: ${row.ours} beside ${row.beside}: ${row.result}\n`);
      rows.push(row);
    }
  }
  const leftOut = Object.keys(SECTIONS).filter((name) => !sections.includes(name));
  const machine = `${availableParallelism()} x ${cpus()[0]?.model}, ${Math.round(totalmem() / 1024 ** 3)} GB, Node ${process.versions.node}`;
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const page = [
    `# Measured ${new Date().toISOString().slice(0, 10)}, version ${version}`,
    `On ${machine}, with a load of ${others} by others at the start. Medians of interleaved runs; \`npm run bench\` measures anew.`,
    table(rows),
    ...(leftOut.length > 0 ? [`Left out: ${leftOut.join(', ')} (\`npm run bench -- --help\`).`] : []),
  ].join('\n\n');
  process.stdout.write(`\n${page}\n`);
  if (leftOut.every((name) => name === 'soak')) {
    mkdirSync(join(ROOT, 'bench/results'), { recursive: true });
    writeFileSync(join(ROOT, 'bench/results/latest.md'), `${page}\n`);
  }
  if (rows.some((row) => !row.isMet)) process.exitCode = 1;
}

try {
  const sections = wantedSections();
  if (sections.length === 0) process.stdout.write(HELP);
  else await measure(sections);
} catch (error) {
  process.stderr.write(`${(error as Error).stack}\n`);
  process.exitCode = 1;
}
