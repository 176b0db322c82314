import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { TEMPLATES } from '#cli/templates.ts';
import { readSuites } from '#core/manifest/evals/read-suites.ts';
import { readSuiteFiles } from './suite-files.ts';

const FOLDER = join(import.meta.dirname, '../../examples/templates');
/** They are not started by calls. */
const WITHOUT = ['skill', 'web-app', 'worker'];

test.each(Object.keys(TEMPLATES).filter((name) => !WITHOUT.includes(name)))(
  'the suites of the template %s are read',
  (name) => {
    const { cases } = readSuites(readSuiteFiles(join(FOLDER, name), undefined, FOLDER));
    for (const { asserts, vars, description } of cases) {
      expect(asserts.length, description).toBeGreaterThan(0);
      expect(vars, description).not.toEqual({});
      expect(description).not.toMatch(/^case \d/);
    }
  },
);

test('templates that are not started by calls have none', () => {
  expect(
    readdirSync(FOLDER)
      .filter((name) => !existsSync(join(FOLDER, name, 'evals')))
      .sort(),
  ).toEqual(WITHOUT);
});
