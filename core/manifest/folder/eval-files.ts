import { filesNamedIn, isSuiteFile, MAX_SUITE_BYTES, type SuiteFiles } from '../evals/suite.ts';

/** Folder with the suites of an agent, below its own. */
export const SUITES_FOLDER = 'evals';

/** Returns the sentence about files that are too large together; `undefined` if they are not. */
export function suitesTooLarge(files: SuiteFiles): string | undefined {
  const bytes = Object.values(files).reduce((sum, text) => sum + new TextEncoder().encode(text).length, 0);
  if (bytes <= MAX_SUITE_BYTES) return undefined;
  return `The suites have ${bytes} bytes, and at most ${MAX_SUITE_BYTES} are allowed.`;
}

/** The part of an agent's folder that is read here. */
interface Source {
  nameOf(path?: string): string;
  entries(path: string): Promise<readonly { readonly name: string; readonly isFolder: boolean }[]>;
  /** Reads a text; `undefined` if there is no such file. */
  text(path: string): Promise<string | undefined>;
}

/**
 * Reads the suites of an agent's folder and the files that their asserts name, which are beside the suite or in the folder. `undefined` without
 * suites. Throws an Error that names the file.
 */
export async function readEvalFiles(folder: Source): Promise<SuiteFiles | undefined> {
  const hasFolder = (await folder.entries('')).some(({ name, isFolder }) => isFolder && name === SUITES_FOLDER);
  const found = hasFolder ? await folder.entries(SUITES_FOLDER) : [];
  const names = found.flatMap(({ name, isFolder }) => (!isFolder && isSuiteFile(name) ? [name] : [])).sort();
  if (names.length === 0) return undefined;
  const files: Record<string, string> = {};
  for (const suite of names) {
    const path = `${SUITES_FOLDER}/${suite}`;
    const text = (await folder.text(path))!;
    files[path] = text;
    for (const name of filesNamedIn(text)) {
      if (/(^|[/\\])\.\.([/\\]|$)|^[/\\]/.test(name)) {
        throw new Error(`${folder.nameOf(path)} names file://${name}, which is outside the folder of the agent.`);
      }
      const content = (await folder.text(`${SUITES_FOLDER}/${name}`)) ?? (await folder.text(name));
      if (content === undefined) {
        throw new Error(
          `${folder.nameOf(path)} names file://${name}, which is neither beside it nor in ${folder.nameOf()}.`,
        );
      }
      files[name] = content;
    }
  }
  const problem = suitesTooLarge(files);
  if (problem !== undefined) throw new Error(`${folder.nameOf(SUITES_FOLDER)}: ${problem}`);
  return files;
}
