import type { Entry, Project } from './framework.ts';

/** Splits Python code into its top-level statements; comments and blank lines belong to the one before. */
const statementsOf = (text: string): string[] => text.split(/^(?=[A-Za-z_@])/m);

/** Quotes a name for a regular expression. */
export const escaped = (name: string): string => name.replace(/[^\w]/g, '\\$&');

const PYTHON_FILE = /\.py$/;
const SCRIPT_FILE = /\.[cm]?[jt]sx?$/;
const FUNCTION = /^def ([A-Za-z]\w*)\(([\s\S]*?)\)\s*(?:->[^:\n]*)?:/;

/**
 * Returns variables at the top of Python modules whose value matches `made`, and functions that need no arguments and
 * contain such a value.
 *
 * @param hint Must occur in the file, such as the import of the framework.
 */
export function pythonEntries({ sources }: Project, made: RegExp, hint: RegExp): Entry[] {
  return sources
    .filter(({ path, text }) => PYTHON_FILE.test(path) && hint.test(text))
    .flatMap(({ path, text }) =>
      statementsOf(text).flatMap((statement): Entry[] => {
        const name = /^([A-Za-z_]\w*)[ \t]*(?::[^=\n]+)?=(?!=)/.exec(statement)?.[1];
        if (name !== undefined) return made.test(statement.replace(/#[^\n]*/g, '')) ? [{ file: path, name }] : [];
        const [, factory, parameters] = FUNCTION.exec(statement) ?? [];
        return factory !== undefined &&
          needsNoArguments(parameters!) &&
          made.test(statement) &&
          /\breturn\b/.test(statement)
          ? [{ file: path, name: factory, isFactory: true }]
          : [];
      }),
    );
}

/** Whether each parameter of a Python function has a default. */
function needsNoArguments(parameters: string): boolean {
  const plain = parameters.replace(/#[^\n]*/g, '').replace(/\[[^[\]]*\]|\([^()]*\)/g, '');
  return plain.split(',').every((each) => /^\s*(?:$|[*/])|=/.test(each));
}

/** Returns Python classes at the top of modules that match `made`. */
export function pythonClasses({ sources }: Project, made: RegExp): Entry[] {
  return sources
    .filter(({ path }) => PYTHON_FILE.test(path))
    .flatMap(({ path, text }) =>
      [...text.matchAll(made)].map(([, name]) => ({ file: path, name: name!, isFactory: true })),
    );
}

/** Returns exported variables of JavaScript and TypeScript modules whose value matches `made`. */
export function scriptEntries({ sources }: Project, made: RegExp, hint: RegExp): Entry[] {
  return sources
    .filter(({ path, text }) => SCRIPT_FILE.test(path) && hint.test(text))
    .flatMap(({ path, text }) => {
      const names = new Map<string, boolean>();
      for (const statement of text.split(/^(?=[A-Za-z_@])/m)) {
        const [, exported, name] =
          /^(export\s+)?(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*(?::[^=\n]+)?=(?!=)/.exec(statement) ?? [];
        if (name !== undefined && made.test(statement)) names.set(name, exported !== undefined);
        if (/^export\s+default\s/.test(statement) && made.test(statement)) names.set('default', true);
      }
      return [...names].flatMap(([name, isExported]): Entry[] => {
        if (isExported) return [{ file: path, name }];
        const as = exportedAs(text, name);
        return as === undefined ? [] : [{ file: path, name: as }];
      });
    });
}

/** Returns the name under which a module exports a variable in a separate statement. */
function exportedAs(text: string, name: string): string | undefined {
  if (new RegExp(`^export\\s+default\\s+${escaped(name)}\\s*;?\\s*$`, 'm').test(text)) return 'default';
  if (new RegExp(`^module\\.exports\\s*=\\s*${escaped(name)}\\s*;?\\s*$`, 'm').test(text)) return 'default';
  for (const [, list] of text.matchAll(/^(?:export|module\.exports\s*=)\s*\{([^}]*)\}/gm)) {
    for (const each of list!.split(',')) {
      const [own, as = own] = each.split(/ as |:/).map((word) => word.trim());
      if (own === name) return as;
    }
  }
  return undefined;
}

/** Returns files of the language that match all patterns, as entries without a name. */
export const filesWith = ({ sources }: Project, file: RegExp, ...patterns: readonly RegExp[]): Entry[] =>
  sources
    .filter(({ path, text }) => file.test(path) && patterns.every((pattern) => pattern.test(text)))
    .map(({ path }) => ({ file: path }));

/** Keeps the entries in Python files that no other file of the project imports; all, if none is left. */
export function preferUnimported({ sources }: Project, entries: readonly Entry[]): readonly Entry[] {
  const imports = sources
    .filter(({ path }) => PYTHON_FILE.test(path))
    .map(({ path, text }) => ({
      path,
      words: new Set(
        text
          .match(/^[ \t]*(?:from|import)[ \t][^\n#]*/gm)
          ?.join()
          .match(/\w+/g),
      ),
    }));
  const moduleOf = (file: string): string => file.split('/').at(-1)!.replace(PYTHON_FILE, '');
  const own = entries.filter(
    ({ file }) => !imports.some(({ path, words }) => path !== file && words.has(moduleOf(file))),
  );
  return own.length > 0 ? own : entries;
}

/** Keeps the entries with the first of these names that occurs; all, if none does. */
export function preferNames(entries: readonly Entry[], ...names: readonly string[]): readonly Entry[] {
  const values = entries.some(({ isFactory }) => !isFactory) ? entries.filter(({ isFactory }) => !isFactory) : entries;
  const name = names.find((each) => values.some((entry) => entry.name === each));
  return name === undefined ? values : values.filter((entry) => entry.name === name);
}

/** Keeps the entries in the first of these files that occurs; all, if none does. */
export function preferFiles(entries: readonly Entry[], ...files: readonly string[]): readonly Entry[] {
  const file = files.find((each) => entries.some((entry) => entry.file === each));
  return file === undefined ? entries : entries.filter((entry) => entry.file === file);
}

/** Keeps the entries in the folder that is the least deep. */
export function preferTop(entries: readonly Entry[]): readonly Entry[] {
  const depthOf = ({ file }: Entry): number => file.split('/').length;
  const top = Math.min(...entries.map(depthOf));
  return entries.filter((entry) => depthOf(entry) === top);
}
