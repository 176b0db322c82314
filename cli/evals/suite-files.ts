import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import { filesNamedIn, type SuiteFiles } from '#core/manifest/evals/suite.ts';
import { SUITES_FOLDER, suitesTooLarge } from '#core/manifest/folder/eval-files.ts';

/**
 * Reads suites and the files that their asserts name, which are beside the suite or in the folder. Throws UsageError if there is no suite, or a
 * file is missing.
 */
export function readSuiteFiles(folder: string, given: readonly string[] | undefined, cwd: string): SuiteFiles {
  const paths = given?.map((path) => resolve(cwd, path)) ?? suitesIn(folder);
  if (paths.length === 0) {
    throw new UsageError(`No suites in ${join(folder, SUITES_FOLDER)}. Add one, such as evals/first.yaml.`, {
      hint: 'tests:\n  - vars: { text: Hello }\n    assert: [{ type: icontains, value: hello }]',
    });
  }
  const files: Record<string, string> = {};
  for (const path of paths) {
    const text = read(path);
    const name = relative(folder, path);
    files[name.startsWith('..') ? relative(cwd, path) : name] = text;
    for (const wanted of filesNamedIn(text)) {
      const found = [join(dirname(path), wanted), join(folder, wanted)].find((each) => existsSync(each));
      if (found === undefined) {
        throw new UsageError(`${path} names file://${wanted}, which is neither beside it nor in ${folder}.`);
      }
      files[wanted] = read(found);
    }
  }
  const problem = suitesTooLarge(files);
  if (problem === undefined) return files;
  throw new UsageError(problem, { hint: 'Name some of them with --suite.' });
}

const suitesIn = (folder: string): string[] =>
  globSync(`${SUITES_FOLDER}/*.{yaml,yml,json}`, { cwd: folder })
    .sort()
    .map((path) => join(folder, path));

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  }
}
