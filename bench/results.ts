import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { basename, join } from 'node:path';
import { ROOT, type Row } from './harness.ts';

/** Result of one section in its own file, so that a section can be measured again alone. */
export interface Results {
  /** ISO 8601. */
  readonly measuredAt: string;
  readonly version: string;
  readonly machine: string;
  /** Load average of the machine at the start, or null if unknown. */
  readonly load: number | null;
  readonly rows: readonly Row[];
}

const FOLDER = join(ROOT, 'bench/results');
export const PAGE = join(FOLDER, 'README.md');
const fileOf = (section: string): string => join(FOLDER, `${section}.json`);

/** Returns machine, load and date. Call it before the measurement, so that the load is that of other processes. */
export function conditions(): Omit<Results, 'rows'> {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const memory = Math.round(totalmem() / 1024 ** 3);
  return {
    measuredAt: new Date().toISOString(),
    version,
    machine: `${availableParallelism()} x ${cpus()[0]?.model}, ${memory} GB, Node ${process.versions.node}`,
    load: Math.round(loadavg()[0]! * 10) / 10,
  };
}

/** The committed results of a section; `undefined` if there are none. */
export function committedResults(section: string): Results | undefined {
  if (!existsSync(fileOf(section))) return undefined;
  return JSON.parse(readFileSync(fileOf(section), 'utf8')) as Results;
}

/** Writes the results of a section and the page of all results. */
export function keepResults(section: string, results: Results): void {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(fileOf(section), `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(PAGE, pageOfResults());
}

/** Formats the rows as a Markdown table. */
export function tableOf(rows: readonly Row[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [
    line(['what', 'ours', 'beside', 'result', 'to reach', '']),
    line(['---', '---', '---', '---', '---', '---']),
    ...rows.map((row) => line([row.what, row.ours, row.beside, row.result, row.bound, row.isMet ? '' : 'MISSED'])),
  ].join('\n');
}

/** Names of the sections that have committed results. */
export const measuredSections = (): string[] =>
  readdirSync(FOLDER)
    .filter((file) => file.endsWith('.json'))
    .map((file) => basename(file, '.json'))
    .sort();

/** The committed results of all sections, each with its date, machine and load. */
export function pageOfResults(): string {
  const parts = measuredSections().flatMap((section) => {
    const { measuredAt, version, machine, load, rows } = committedResults(section)!;
    const others = load === null ? '' : `, load ${load} by others at the start`;
    return [`## ${section}`, `${measuredAt.slice(0, 10)}, version ${version}, on ${machine}${others}.`, tableOf(rows)];
  });
  const intro =
    'Medians of interleaved runs. The ratios count: both sides ran in turn on the same machine. `npm run bench` measures all anew, `npm run bench -- --only SECTION` one.';
  return `${['# What was measured', intro, ...parts].join('\n\n')}\n`;
}
