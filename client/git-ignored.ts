import { readFile, stat } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { IgnoreRules } from '#core/manifest/folder/ignore-rules.ts';

/** Returns a path with `/` as separator on every system. */
export const withSlashes = (path: string): string => (sep === '/' ? path : path.replaceAll(sep, '/'));

/** Returns the ignore rules from the parent folders in the repository; without a repository, no rules. */
export async function rulesAbove(folder: string): Promise<IgnoreRules> {
  let rules = new IgnoreRules();
  for (const above of await foldersAbove(folder)) {
    const text = await readRules(above);
    if (text !== undefined) rules = rules.with({ above: withSlashes(relative(above, folder)) }, text);
  }
  return rules;
}

/** Returns the ignore rules including those of its own `.gitignore`. */
export async function rulesOf(folder: string): Promise<IgnoreRules> {
  const [rules, own] = await Promise.all([rulesAbove(folder), readRules(folder)]);
  return own === undefined ? rules : rules.with({ below: '' }, own);
}

/** Returns the parent folders, starting at the top of the repository. */
async function foldersAbove(folder: string): Promise<string[]> {
  const above: string[] = [];
  for (let at = folder; !(await isThere(join(at, '.git'))); at = dirname(at)) {
    if (dirname(at) === at) return [];
    above.unshift(dirname(at));
  }
  return above;
}

const readRules = (folder: string): Promise<string | undefined> =>
  readFile(join(folder, '.gitignore'), 'utf8').catch(() => undefined);

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );
