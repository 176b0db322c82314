import { filesNamedIn, isSuiteFile, MAX_SUITE_BYTES } from '#core/manifest/evals/suite.ts';
import type { ChosenFile } from '../../../publishing/chosen-folder.ts';

/** A file that is sent: a suite, or what an assert of one names. */
export interface SuiteFile {
  /** Name that the asserts use. */
  readonly name: string;
  readonly path: string;
  readonly text: string;
  /** In bytes. */
  readonly size: number;
}

/** Removes the folder that all files are in from their paths. */
export function withoutTopFolder(chosen: readonly ChosenFile[]): readonly ChosenFile[] {
  const top = `${chosen[0]?.path.split('/')[0]}/`;
  if (!chosen.every(({ path }) => path.startsWith(top))) return chosen;
  return chosen.map(({ path, file }) => ({ path: path.slice(top.length), file }));
}

/**
 * Reads the suites among chosen files, and the files that their asserts name. Of the folder of an agent, suites are in
 * `evals`, as for `platform eval`. What is named and not chosen is left out: the answer of the API names it. Throws Error
 * if there is no suite, or they are too large.
 */
export async function readSuiteFiles(chosen: readonly ChosenFile[]): Promise<readonly SuiteFile[]> {
  const possible = chosen.filter(({ path }) => isSuiteFile(path));
  const inEvals = possible.filter(({ path }) => /^evals\/[^/]+$/.test(path));
  const suites = inEvals.length > 0 ? inEvals : possible.filter(({ path }) => !path.includes('/'));
  if (suites.length === 0) {
    throw new Error(
      'No suite is among the files. Choose YAML or JSON files, or the folder of the agent with its evals.',
    );
  }
  checkSize(suites);
  const own = await Promise.all(suites.map((each) => readAs(each)));
  const named = new Map<string, ChosenFile>();
  for (const { path, text } of own) {
    for (const name of filesNamedIn(text)) {
      const found = findNamed(chosen, path, name);
      if (found !== undefined) named.set(name, found);
    }
  }
  const all = new Set([...suites, ...named.values()]);
  checkSize([...all]);
  const isNamed = new Set(named.values().map(({ path }) => path));
  return [
    ...own.filter(({ path }) => !isNamed.has(path)),
    ...(await Promise.all([...named].map(([name, file]) => readAs(file, name)))),
  ];
}

const readAs = async ({ path, file }: ChosenFile, name = path): Promise<SuiteFile> => ({
  name,
  path,
  text: await file.text(),
  size: file.size,
});

/** Finds a file beside the suite, in the folder, or, as files that are chosen alone have no folders, by its last name. */
function findNamed(chosen: readonly ChosenFile[], suite: string, name: string): ChosenFile | undefined {
  const folder = suite.slice(0, suite.lastIndexOf('/') + 1);
  return [folder + name, name, name.slice(name.lastIndexOf('/') + 1)]
    .map((wanted) => chosen.find(({ path }) => path === wanted))
    .find((found) => found !== undefined);
}

function checkSize(files: readonly ChosenFile[]): void {
  const size = files.reduce((sum, { file }) => sum + file.size, 0);
  if (size <= MAX_SUITE_BYTES) return;
  throw new Error(`The files have ${size} bytes, and at most ${MAX_SUITE_BYTES} are allowed. Choose some of them.`);
}
