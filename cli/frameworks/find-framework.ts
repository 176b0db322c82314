import { UsageError } from '#client/usage-error.ts';
import { escaped } from './entries.ts';
import type { Entry, Framework, Project } from './framework.ts';
import { FRAMEWORKS } from './frameworks.ts';

/** A framework in a project, and where it was found. */
export interface Found {
  readonly framework: Framework;
  /** Places such as `requirements.txt:3` and `graph.py:1`; never empty. */
  readonly places: readonly string[];
  readonly entries: readonly Entry[];
}

const MAX_PLACES = 4;

/** Returns every framework that the project declares or imports. */
export function frameworksIn(project: Project): Found[] {
  return FRAMEWORKS.flatMap((framework) => {
    const places = [...declaredIn(project, framework), ...importedIn(project, framework)];
    return places.length === 0 ? [] : [{ framework, places, entries: framework.entriesIn(project) }];
  });
}

function declaredIn({ dependencies }: Project, { language, packages }: Framework): string[] {
  return dependencies[language]
    .filter(({ name }) => packages.includes(name))
    .map(({ file, line }) => `${file}:${line}`);
}

function importedIn({ sources }: Project, { language, packages, modules = packages }: Framework): string[] {
  const names = modules.map(escaped).join('|');
  const [files, imports] =
    language === 'python'
      ? [/\.py$/, new RegExp(`^[ \\t]*(?:from|import)[ \\t]+(?:${names})(?=[\\s.,]|$)`, 'm')]
      : [/\.[cm]?[jt]sx?$/, new RegExp(`\\b(?:from|import|require)\\s*\\(?\\s*["'](?:${names})(?:/[^"']*)?["']`, 'm')];
  return sources
    .filter(({ path }) => files.test(path))
    .flatMap(({ path, text }) => {
      const at = text.search(imports);
      return at < 0 ? [] : [`${path}:${text.slice(0, at).split('\n').length}`];
    })
    .slice(0, MAX_PLACES);
}

/**
 * Returns the framework of the project: the one that `--framework` names, or the only one. Of several, those count that
 * have an entry point and are not part of another one. Throws UsageError that names what was found.
 */
export function chooseFramework(project: Project, given: string | undefined): Found {
  const names = FRAMEWORKS.map(({ name }) => name);
  const found = frameworksIn(project);
  if (given !== undefined) {
    if (!names.includes(given)) throw new UsageError(`Unknown framework "${given}": choose from ${names.join(', ')}.`);
    const chosen = found.find(({ framework }) => framework.name === given);
    if (chosen !== undefined) return chosen;
    throw new UsageError(`${project.folder} neither declares nor imports ${titleOf(given)}.${listed(found)}`);
  }
  const used = new Set(found.flatMap(({ framework }) => framework.uses ?? []));
  const own = found.filter(({ framework }) => !used.has(framework.name));
  const startable = own.filter(({ entries }) => entries.length > 0);
  const candidates = startable.length > 0 ? startable : own;
  if (candidates.length === 1) return candidates[0]!;
  if (candidates.length === 0) {
    throw new UsageError(
      `${project.folder} has no framework that init knows: ${FRAMEWORKS.map(({ title }) => title).join(', ')}. It looks for dependencies in requirements.txt, pyproject.toml and package.json, and for imports.`,
      {
        hint: 'Start from a template with `platform init NAME --template hello-python`, or write agent.json yourself.',
      },
    );
  }
  throw new UsageError(`${project.folder} has several frameworks.${listed(candidates)}`, {
    hint: `Choose one, such as --framework ${candidates[0]!.framework.name}.`,
  });
}

const titleOf = (name: string): string => FRAMEWORKS.find((each) => each.name === name)!.title;

const listed = (found: readonly Found[]): string =>
  found.length === 0
    ? ''
    : ` Found: ${found.map(({ framework, places }) => `${framework.name} (${places.join(', ')})`).join('; ')}.`;

/** Text of an entry, as `--entry` takes it. */
export const entryText = ({ file, name }: Entry): string => (name === undefined ? file : `${file}:${name}`);

/** Names of files that stand in shell lines and in code without quotes. */
const PLAIN_PATH = /^[\w.@+][\w./@+-]*$/;

/**
 * Returns the entry point: the one that `--entry` names, or the one that the framework prefers. Throws UsageError if
 * there is none, if several are equally good, or if its file has a name with special characters.
 */
export function chooseEntry(project: Project, found: Found, given: string | undefined): Entry {
  const entry = given === undefined ? onlyEntry(found) : givenEntry(project, found.entries, given);
  if (PLAIN_PATH.test(entry.file)) return entry;
  throw new UsageError(
    `The entry point ${JSON.stringify(entry.file)} has a name with special characters: rename the file or its folder, with letters, digits, "-", "_" and ".".`,
  );
}

function onlyEntry({ framework, entries }: Found): Entry {
  if (entries.length === 0) {
    throw new UsageError(`${framework.title} was found, but no entry point: ${framework.example}`, {
      hint: 'Name it with --entry FILE:NAME.',
    });
  }
  const declared = entries.filter(({ declaredIn }) => declaredIn !== undefined);
  const best = declared.length > 0 ? declared : entries;
  if (best.length === 1) return best[0]!;
  throw new UsageError(`${framework.title} has several entry points: ${best.map(entryText).join(', ')}.`, {
    hint: `Choose one, such as --entry ${entryText(best[0]!)}.`,
  });
}

function givenEntry(project: Project, entries: readonly Entry[], given: string): Entry {
  const known = entries.find((entry) => entryText(entry) === given.replace(/^\.\//, ''));
  if (known !== undefined) return known;
  const [, file, name] = /^(?:\.\/)?([^:]+?)(?::([A-Za-z_$][\w$]*))?$/.exec(given) ?? [];
  if (file === undefined || !project.has(file)) {
    throw new UsageError(
      `--entry ${given}: the project has no file ${file ?? given}; write it as FILE:NAME, such as src/agent.py:graph.`,
    );
  }
  return { file, ...(name !== undefined && { name }) };
}
