import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe } from 'vitest';
import type { Target } from '#test/helpers/platform.ts';
import type { Languages } from './languages.ts';

type Suite = (target: () => Target, has: Languages) => void;

const FOLDER = join(import.meta.dirname, 'suites');
const suites = await Promise.all(
  globSync('*.ts', { cwd: FOLDER })
    .sort()
    .map(async (file) => {
      const exported = Object.entries((await import(join(FOLDER, file))) as Record<string, Suite>);
      const found = exported.filter(([name]) => name.endsWith('Suite'));
      if (found.length !== 1) throw new Error(`test/e2e/suites/${file} must export one function that ends in "Suite".`);
      return { name: basename(file, '.ts').replaceAll('-', ' '), run: found[0]![1] };
    }),
);

/**
 * Tests the platform over HTTP only, with every file of `suites/`, which every host must pass. Tests that need an
 * interpreter missing from `has` are skipped by name. The target's workspace must be called `acme`.
 *
 * @param half Every second file, for hosts of which two run side by side. @default - all files
 */
export function platformSuite(target: () => Target, has: Languages, half?: 0 | 1): void {
  for (const [index, { name, run }] of suites.entries()) {
    if (half === undefined || index % 2 === half) describe(name, () => run(target, has));
  }
}
