import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

export const ROOT = join(import.meta.dirname, '../..');
const FOLDER = join(ROOT, '.github/workflows');

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

export interface Workflow {
  readonly file: string;
  readonly text: string;
  readonly permissions: unknown;
  readonly jobs: Readonly<
    Record<string, { readonly permissions: Readonly<Record<string, string>>; readonly steps: readonly Step[] }>
  >;
}

/** The workflows of this repository. */
export const readWorkflows = (): Workflow[] =>
  readdirSync(FOLDER).map((file) => {
    const text = readFileSync(join(FOLDER, file), 'utf8');
    return { file, text, ...parse(text) };
  });
