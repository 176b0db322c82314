import { constants } from 'node:fs';
import { lstat, open, readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { rulesOf } from '#client/git-ignored.ts';
import { UsageError } from '#client/usage-error.ts';
import { hasCode } from '#core/base/errors.ts';
import { readPythonProject } from '#core/manifest/bundle/python-project.ts';
import { isHidden } from '#core/manifest/folder/ignore-rules.ts';

/** A file of the project's own code. */
export interface SourceText {
  /** Path from the folder of the project, separated by `/`. */
  readonly path: string;
  readonly text: string;
}

/** A dependency as a file of the project declares it. */
export interface Declared {
  /** Name in the spelling of its registry: of PyPI in lower case with hyphens. */
  readonly name: string;
  /** The whole requirement, such as `fastapi[standard]>=0.115`; of npm the range. */
  readonly requirement: string;
  readonly file: string;
  /** Line in the file, from 1. */
  readonly line: number;
}

interface PackageJson {
  readonly name?: unknown;
  readonly type?: unknown;
  readonly scripts: Readonly<Record<string, string>>;
  readonly devDependencies: readonly string[];
}

/** What is read of an existing folder to find its framework. */
export interface Project {
  readonly folder: string;
  readonly name: string;
  /** The project's own code, without tests, hidden files, installed packages and what git ignores. */
  readonly sources: readonly SourceText[];
  readonly dependencies: { readonly python: readonly Declared[]; readonly javascript: readonly Declared[] };
  /** Whether a `requirements.txt` or a `pyproject.toml` is there. */
  readonly hasPythonRequirements: boolean;
  readonly packageJson: PackageJson | undefined;
  /** Returns the text of a file of the project, also of a hidden one; `undefined` if it does not exist. */
  textOf(path: string): string | undefined;
  has(path: string): boolean;
}

const MAX_DEPTH = 8;
/** Number of files that an upload may have (`docs/interface/agents.md#upload`); the folder of a user or of a disk has more. */
const MAX_ENTRIES = 10_000;
const MAX_SOURCES = 2_000;
/** Generated code is longer than what a person writes. */
const MAX_SOURCE_BYTES = 512 * 1024;
/** Files that are read although they are no code. */
const READ = [
  ...['requirements.txt', 'pyproject.toml', 'package.json', 'langgraph.json', 'Dockerfile', 'adk.yaml', '.npmrc'],
  ...['.actor/actor.json', '.actor/input_schema.json', '.actor/INPUT_SCHEMA.json', '.actor/Dockerfile'],
  ...['INPUT_SCHEMA.json', 'input_schema.json'],
];
const CODE = /\.(?:py|[cm]?[jt]sx?)$/;
/** Files that tell how code is used, such as the placeholders of CrewAI. */
const CONFIGURATION = /\.ya?ml$/;
const UNREAD =
  /(?:^|\/)(?:venv|env|site-packages|dist|build|tests?|__tests__|migrations)\/|(?:^|\/)(?:test_[^/]*|[^/]*_test|conftest)\.py$|\.(?:test|spec)\.[^/]*$|\.d\.[cm]?ts$/;

/**
 * Reads an existing project. Links are neither followed nor read: they may lead out of the folder, and a publish leaves
 * them out. Throws UsageError if a file that declares dependencies is broken or cannot be read, and if the folder has
 * too many files to be a project.
 */
export async function readProject(folder: string, maxEntries = MAX_ENTRIES): Promise<Project> {
  const found = await lstat(folder).catch(() => undefined);
  if (found === undefined) throw new UsageError(`${folder} does not exist: name the folder of your project.`);
  const all = await listFiles(folder, maxEntries);
  const texts = new Map<string, string>();
  for (const path of READ) {
    const text = await readText(folder, path);
    if (text !== undefined) texts.set(path, text);
  }
  const sources: SourceText[] = [];
  for (const path of all.filter((each) => !UNREAD.test(each))) {
    if (!CODE.test(path) && !CONFIGURATION.test(path)) continue;
    if (sources.length === MAX_SOURCES) break;
    const text = await readText(folder, path, MAX_SOURCE_BYTES).catch(() => undefined);
    if (text !== undefined) sources.push({ path, text });
  }
  const paths = new Set([...all, ...texts.keys()]);
  const byPath = new Map([...sources.map(({ path, text }) => [path, text] as const), ...texts]);
  const packageJson = packageJsonOf(texts.get('package.json'));
  return {
    folder,
    name: basename(folder),
    sources,
    dependencies: {
      python: await pythonDependencies(folder, texts),
      javascript: javascriptDependencies(texts.get('package.json')),
    },
    hasPythonRequirements: texts.has('requirements.txt') || texts.has('pyproject.toml'),
    packageJson,
    textOf: (path) => byPath.get(path),
    has: (path) => paths.has(path),
  };
}

async function listFiles(folder: string, maxEntries: number): Promise<string[]> {
  const rules = await rulesOf(folder);
  const found: string[] = [];
  let entries = 0;
  const list = async (below: string, depth: number): Promise<void> => {
    const inside = await readdir(join(folder, below), { withFileTypes: true }).catch((error) => {
      if (below === '') throw new UsageError(`${folder} cannot be read: ${reasonOf(error)}.`);
      return [];
    });
    entries += inside.length;
    if (entries > maxEntries) {
      throw new UsageError(`${folder} has more than ${maxEntries} files and folders, too many for one project.`, {
        hint: 'Name the folder of the project itself, such as --from ./my-project.',
      });
    }
    for (const entry of inside.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = below === '' ? entry.name : `${below}/${entry.name}`;
      if (isHidden(entry.name) || rules.ignores(path, entry.isDirectory())) continue;
      if (entry.isFile()) found.push(path);
      else if (entry.isDirectory() && depth < MAX_DEPTH && !UNREAD.test(`${path}/`)) await list(path, depth + 1);
    }
  };
  await list('', 0);
  return found;
}

/** Reads a plain file of the project; `undefined` if it does not exist, is a link or lies behind one, or is too large. */
async function readText(
  folder: string,
  path: string,
  maxBytes = Number.POSITIVE_INFINITY,
): Promise<string | undefined> {
  const parts = path.split('/');
  for (let depth = 1; depth < parts.length; depth++) {
    const above = await lstat(join(folder, ...parts.slice(0, depth))).catch(() => undefined);
    if (!above?.isDirectory()) return undefined;
  }
  try {
    const file = await open(join(folder, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      if ((await file.stat()).size > maxBytes) return undefined;
      return (await file.readFile('utf8')).replaceAll('\r\n', '\n').replace(/^\uFEFF/, '');
    } finally {
      await file.close();
    }
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')) return undefined;
    if (hasCode(error, 'ELOOP')) {
      throw new UsageError(`${path} is a link, which a publish leaves out: replace it by a copy of the file.`);
    }
    throw new UsageError(`${path} cannot be read: ${reasonOf(error)}.`);
  }
}

const reasonOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? (error as Error).message;

/** Spells a name as PyPI compares it. */
export const pypiName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, '-');

const lineOf = (text: string, part: string): number =>
  text.slice(0, Math.max(0, text.indexOf(part))).split('\n').length;

/** Reads `requirements.txt`, with the files that it names, or else `pyproject.toml`, as an upload does. */
async function pythonDependencies(folder: string, texts: ReadonlyMap<string, string>): Promise<Declared[]> {
  const requirements = texts.get('requirements.txt');
  if (requirements !== undefined) return requirementsIn(folder, 'requirements.txt', requirements, new Set());
  const project = texts.get('pyproject.toml');
  if (project === undefined) return [];
  const { dependencies } = await readPythonProject(project).catch((error: Error) => {
    throw new UsageError(error.message);
  });
  return dependencies.map((requirement) => {
    const name = /^[\w.-]+/.exec(requirement)?.[0] ?? requirement;
    return { name: pypiName(name), requirement, file: 'pyproject.toml', line: lineOf(project, name) };
  });
}

async function requirementsIn(folder: string, file: string, text: string, seen: Set<string>): Promise<Declared[]> {
  seen.add(file);
  const found: Declared[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const other = /^\s*(?:-r|--requirement)[\s=]+([\w./-]+)/.exec(line)?.[1]?.replace(/^\.\//, '');
    if (other !== undefined && !seen.has(other) && !other.split('/').includes('..') && !other.startsWith('/')) {
      const below = await readText(folder, other);
      if (below !== undefined) found.push(...(await requirementsIn(folder, other, below, seen)));
    }
    const name = /^\s*([A-Za-z0-9][\w.-]*)/.exec(line)?.[1];
    if (name !== undefined) {
      found.push({ name: pypiName(name), requirement: line.trim(), file, line: index + 1 });
    }
  }
  return found;
}

function parsePackageJson(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UsageError(`package.json is not valid JSON: ${(error as Error).message}`);
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new UsageError('package.json must hold a JSON object, { ... }.');
}

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

function packageJsonOf(text: string | undefined): PackageJson | undefined {
  if (text === undefined) return undefined;
  const { name, type, scripts, devDependencies } = parsePackageJson(text);
  const lines = Object.entries(objectOf(scripts)).filter(
    (each): each is [string, string] => typeof each[1] === 'string',
  );
  return { name, type, scripts: Object.fromEntries(lines), devDependencies: Object.keys(objectOf(devDependencies)) };
}

function javascriptDependencies(text: string | undefined): Declared[] {
  if (text === undefined) return [];
  return Object.entries(objectOf(parsePackageJson(text).dependencies)).map(([name, requirement]) => ({
    name,
    requirement: String(requirement),
    file: 'package.json',
    line: lineOf(text, JSON.stringify(name)),
  }));
}
