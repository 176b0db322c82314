import { PlatformError } from '#core/base/errors.ts';
import type { AgentDefinition } from '../definition.ts';
import { quote } from '../field-error.ts';
import { buildOf, readPackageJson } from './build-step.ts';
import type { BundleReport } from './bundle.ts';
import { pathProblem } from './safe-path.ts';

/** Well-known entrypoints at the root, in order of preference (`docs/interface/agents.md#entrypoint`). */
const ENTRYPOINTS = [
  'main.py',
  'app.py',
  'bot.py',
  'server.py',
  'index.py',
  'agent.py',
  'run.py',
  '__main__.py',
  'sandbox_main.py',
  'index.js',
  'main.js',
  'app.js',
  'bot.js',
  'server.js',
  'agent.js',
  'main.ts',
  'index.ts',
  'agent.ts',
];
const INTERPRETERS: readonly (readonly [extension: RegExp, interpreter: string])[] = [
  [/\.py$/i, 'python3'],
  [/\.[cm]?[jt]s$/i, 'node'],
];
const EXTENSIONS = '.py, .js, .mjs, .cjs, .ts, .mts or .cts';

type Commands = Pick<AgentDefinition, 'runtime' | 'run_command' | 'entrypoint'>;

/** Returns the command that the author set. */
export const ownCommand = ({ runtime, run_command }: Commands): string | undefined =>
  runtime?.command ?? run_command ?? undefined;

/** Returns why a file cannot be an entrypoint, to complete "the entrypoint ..."; `undefined` if it can. */
export function entrypointProblem(path: string): string | undefined {
  const problem = pathProblem(path);
  if (problem !== undefined) return problem;
  return interpreterOf(path) === undefined ? `must end in ${EXTENSIONS}` : undefined;
}

const interpreterOf = (path: string): string | undefined =>
  INTERPRETERS.find(([extension]) => extension.test(path))?.[1];

/**
 * Returns the file that a build writes and the program starts with: the manifest's `entrypoint`, or without one and
 * without a command, `main` of `package.json`. Returns `undefined` if nothing is built, or if neither names a file.
 */
export function builtEntrypoint(
  bundle: Pick<BundleReport, 'files' | 'textOf'>,
  definition: Commands & Pick<AgentDefinition, 'build'>,
): string | undefined {
  if (ownCommand(definition) !== undefined || buildOf(bundle, definition) === undefined) return undefined;
  const named = definition.entrypoint ?? readPackageJson(bundle)?.main?.replace(/^\.\//, '');
  return named === undefined || entrypointProblem(named) !== undefined ? undefined : named;
}

/**
 * Returns the file that a bundle starts with: the one that the upload names (`x-entrypoint`), else the manifest's
 * `entrypoint`, else the first well-known name at the root. Returns `undefined` if there is none and the manifest has a
 * command. `built` is the result of {@link builtEntrypoint}, which need not be in the bundle.
 *
 * Throws INVALID_INPUT for a named file that is not in the bundle or has no matching interpreter, and if there is
 * nothing to run.
 */
export function detectEntrypoint(
  bundle: Pick<BundleReport, 'files'>,
  definition: Commands,
  named?: string,
  built?: string,
): string | undefined {
  const paths = new Set(bundle.files.map((file) => file.path));
  const command = ownCommand(definition);
  for (const [source, path] of [
    ['The header x-entrypoint', named],
    ['The entrypoint of the manifest', definition.entrypoint ?? undefined],
  ] as const) {
    if (path === undefined) continue;
    if (!paths.has(path) && path !== built) {
      // With a command, the manifest's entrypoint is only informative. One that the upload names must exist.
      if (command !== undefined && path !== named) break;
      throw new PlatformError(
        'INVALID_INPUT',
        `${source} is ${quote(path)}, which is not in the bundle.${zippedFolderHint(paths)}`,
      );
    }
    if (command === undefined && interpreterOf(path) === undefined) {
      throw new PlatformError('INVALID_INPUT', `${source} is ${quote(path)}, but must end in ${EXTENSIONS}.`);
    }
    return path;
  }
  const found = built ?? ENTRYPOINTS.find((name) => paths.has(name));
  if (found === undefined && command === undefined) {
    throw new PlatformError(
      'INVALID_INPUT',
      `The bundle has nothing to run: name a file with the header x-entrypoint or a command as runtime.command in the manifest, or add one of ${ENTRYPOINTS.join(', ')} at the root.${zippedFolderHint(paths)}`,
    );
  }
  return found;
}

/** Files that the author did not create: macOS metadata and dot files. */
const IGNORED = /^(?:__MACOSX\/|\.)/;

/** Returns the single top-level folder that contains all files. */
function onlyFolder(paths: ReadonlySet<string>): string | undefined {
  const own = [...paths].filter((path) => !IGNORED.test(path));
  const folder = own[0]?.split('/', 1)[0];
  return own.length > 0 && own.every((path) => path.startsWith(`${folder}/`)) ? folder : undefined;
}

/** Returns a question as a hint if one folder contains all files; else an empty text. */
function zippedFolderHint(paths: ReadonlySet<string>): string {
  const folder = onlyFolder(paths);
  if (folder === undefined) return '';
  return ` The bundle has everything in the folder ${quote(folder)}: did you zip the folder? Zip its contents instead, or name a file in it with x-entrypoint.`;
}

/**
 * Returns a warning if the manifest's command names a file that is in the bundle's only folder instead of at the root.
 * The command is split into words, without shell evaluation.
 */
export function zippedFolderWarning(bundle: Pick<BundleReport, 'files'>, definition: Commands): string | undefined {
  const paths = new Set(bundle.files.map((file) => file.path));
  const folder = onlyFolder(paths);
  if (folder === undefined) return undefined;
  const words = (ownCommand(definition) ?? '').split(/[\s"';&|<>()]+/).map((word) => word.replace(/^\.\//, ''));
  const missing = words.find((word) => !paths.has(word) && paths.has(`${folder}/${word}`));
  if (missing === undefined) return undefined;
  return `The command names ${quote(missing)}, which is not at the root of the bundle but in the folder ${quote(folder)}, with everything else: did you zip the folder? Zip its contents instead, or let the command name "${folder}/${missing}".`;
}

/**
 * Returns the shell line that runs a code_runtime agent: `runtime.command`, else `run_command`, else the interpreter
 * for `entrypoint`, the result of {@link detectEntrypoint} (`docs/interface/agents.md#entrypoint`).
 *
 * Throws UNPROCESSABLE if there is none of these.
 */
export function entrypointCommand(definition: Commands, entrypoint: string | null): string {
  const command = ownCommand(definition);
  if (command !== undefined) return command;
  const path = entrypoint ?? definition.entrypoint;
  const interpreter = path === null ? undefined : interpreterOf(path);
  if (path === null || interpreter === undefined) {
    throw new PlatformError(
      'UNPROCESSABLE',
      'The agent has nothing to run: neither runtime.command nor run_command nor an entrypoint.',
    );
  }
  // A name that begins with a dash would be read as an option.
  return `${interpreter} ${shellQuote(path.startsWith('-') ? `./${path}` : path)}`;
}

/** Quotes a text as one word of a shell line. */
export const shellQuote = (text: string): string =>
  /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
