import { type Zippable, zipSync } from 'fflate';
import { minimatch } from 'minimatch';
import type { SuiteFiles } from '../evals/suite.ts';
import { checkSkillFiles, type GivenSkillFile, parseSkill, sizeProblems } from '../skill.ts';
import { readEvalFiles } from './eval-files.ts';
import { type IgnoreRules, isHidden } from './ignore-rules.ts';

/**
 * Excluded from a bundle unless the manifest's `bundle.include` matches
 * (`docs/interface/agents.md#what-a-client-packs`).
 */
const EXCLUDED = [
  'agent.json',
  '**/{__pycache__,venv,env,site-packages,node_modules}/**',
  '**/*.pyc',
  '{dist,build,docs,evals,scripts,tests,test,__tests__}/**',
  '{setup.py,setup.cfg,tsconfig*.json}',
  'Pipfile.lock',
  '{README,CHANGELOG,LICENSE,AGENTS}*',
  '{Dockerfile*,docker-compose*,Makefile}',
  '**/{test_*.py,*_test.py,conftest.py}',
  '**/*.{test,spec}.*',
  '**/*.zip',
];
const ENGINES_OF_PROGRAMS = ['tool', 'code'];
const SCRIPT = /\.[cm]?[jt]s$/;
const FOR_NODE = /^(?:package(?:-lock)?\.json|tsconfig[\w.-]*\.json|pnpm-lock\.yaml|pnpm-workspace\.yaml|yarn\.lock)$/;
/**
 * Text files in which line ends do not matter: git for Windows checks them out with CRLF. Other files are packed
 * unchanged.
 */
const LINES = /\.(?:[cm]?[jt]sx?|py|pyi|json|toml|ya?ml|ini|cfg|txt|md|sh|pl|rb|html|css|sql|j2|jinja2?|xml|svg)$/i;
const MAX_FILES = 10_000;
const MB = 1024 * 1024;
/** Limits of POST /agents/{id}/upload: expanded size and zip size. */
const MAX_EXPANDED_BYTES = 250 * MB;
const MAX_ZIP_BYTES = 25 * MB;
/** The earliest time that a zip can store, so that the same files always give the same bytes. */
const FIXED_TIME = new Date('1980-01-01T00:00:00');
const UNIX = 3;
const REGULAR_FILE = 0o100000;

export interface AgentFolder {
  /** The body of POST /agents. */
  readonly body: Record<string, unknown>;
  /** The zip for POST /agents/{id}/upload; only for programs, and loops with `bundle`. */
  readonly bundle?: Uint8Array;
  /** Content of the zip, by path. */
  readonly files?: ReadonlyMap<string, Uint8Array>;
  /** Its suites, if its manifest has a gate: the member `eval_files` of the body of POST /agents. */
  readonly evalFiles?: SuiteFiles;
}

/** An agent's folder on any storage. Paths are relative to it and use `/`. */
export interface Folder {
  /** Returns the name of the folder, or of a file in it, for messages. */
  nameOf(path?: string): string;
  /** Lists plain files and folders in a subfolder, `''` for itself; links and special files are omitted. */
  entries(path: string): Promise<readonly { readonly name: string; readonly isFolder: boolean }[]>;
  /** Bytes. */
  sizeOf(path: string): Promise<number>;
  /** Reads a file; `undefined` if it does not exist. If it cannot be read, throws an Error whose message names it. */
  read(path: string): Promise<Uint8Array | undefined>;
  /** Rules of `.gitignore` files above the folder. */
  readonly ignored: IgnoreRules;
}

interface SourceFile {
  /** Path relative to the folder, separated by `/`. */
  readonly path: string;
  readonly size: number;
  /** Whether git ignores it: then only `bundle.include` adds it. */
  readonly ignored: boolean;
}

/**
 * Reads an agent's folder for a publish: `agent.json`, the schemas of `schema.json`, and the text of `prompt.md`, and
 * for a program, or a loop with `bundle`, its code as a zip. The manifest's `bundle.include` adds files that are excluded by default or by
 * `bundle.exclude`. A pattern without a slash applies in every folder; one that matches a folder applies to everything
 * below it. Links, dot files, `node_modules` and `__pycache__` are never packed. `requirements.txt` always is, and
 * `package.json` with its lock is if the bundle contains a script for Node: `npm ci` needs both. Files that git ignores
 * are excluded, too.
 *
 * The same files give the same bytes on every system: paths use `/`, CRLF in source texts becomes LF, and a file is
 * executable if it begins as a script or a program does.
 *
 * A folder with a SKILL.md is always a skill, and its other files belong to it, except for dot files, README, CHANGELOG,
 * LICENSE, AGENTS and `agent.json`. Files that are not UTF-8 text are encoded as base64.
 *
 * With `"evals": {"gate": true}`, the suites in `evals/` and the files that they name are read, too.
 *
 * Throws an Error whose message names the file and the fix.
 */
export async function readAgentFolder(folder: Folder): Promise<AgentFolder> {
  const skill = await readText(folder, 'SKILL.md');
  if (skill !== undefined) return { body: await readSkill(folder, skill) };
  const manifest = await readJsonObject(folder, 'agent.json');
  if (manifest === undefined) {
    throw new Error(`${folder.nameOf('agent.json')} is missing: write the agent's manifest there.`);
  }
  const agent = await readAgent(folder, manifest);
  if ((manifest.evals as { gate?: unknown } | null | undefined)?.gate !== true) return agent;
  const evalFiles = await readEvalFiles({
    nameOf: (path) => folder.nameOf(path),
    entries: (path) => folder.entries(path),
    text: (path) => readText(folder, path),
  });
  return evalFiles === undefined ? agent : { ...agent, evalFiles };
}

async function readAgent(folder: Folder, manifest: Record<string, unknown>): Promise<AgentFolder> {
  const { bundle: patterns, ...rest } = manifest;
  const body = { ...rest, ...(await readSchemas(folder)) };
  const isProgram = manifest.runtime !== undefined || ENGINES_OF_PROGRAMS.includes(String(manifest.type));
  if (isProgram && manifest.loop === undefined) return { body, ...(await packCode(folder, patterns, selectFiles)) };
  const prompt = await folder.read('prompt.md');
  const withPrompt = prompt === undefined ? body : { ...body, prompt: textIn(withLf(prompt)) };
  // A loop says so if it has code: its folder may hold other files.
  if (patterns == null || (manifest.loop === undefined && manifest.type !== 'agent')) return { body: withPrompt };
  return { body: { ...withPrompt, bundle: patterns }, ...(await packCode(folder, patterns, selectFilesOfLoop)) };
}

/** Reads the publish body of a folder with a SKILL.md (`docs/interface/skills.md#skillmd`). */
async function readSkill(folder: Folder, text: string): Promise<Record<string, unknown>> {
  const { skill, errors } = parseSkill(text);
  const found = await listFiles(folder);
  const kept = found.filter(
    ({ path, ignored }) => !ignored && !matchesGlob(path, '{SKILL.md,agent.json,README*,CHANGELOG*,LICENSE*,AGENTS*}'),
  );
  const field = 'files beside SKILL.md';
  // Their sizes are checked first: the folder may hold anything.
  const tooMuch = sizeProblems(kept, field);
  const read = tooMuch.length > 0 ? [] : kept.map(({ path }) => readSkillFile(folder, path));
  const checked = checkSkillFiles(await Promise.all(read), field);
  const problems = [...errors, ...tooMuch, ...checked.errors];
  if (skill === undefined || problems.length > 0) {
    throw new Error(`${folder.nameOf()}: ${problems.map(({ field, message }) => `${field} ${message}`).join('; ')}.`);
  }
  return {
    name: skill.name,
    type: 'skill',
    description: skill.description,
    prompt: skill.body,
    ...(checked.files.length > 0 && { skill_files: checked.files }),
    allow_local_download: true,
  };
}

async function readSkillFile(folder: Folder, path: string): Promise<GivenSkillFile> {
  const bytes = (await folder.read(path)) ?? new Uint8Array();
  const isText = isUtf8(bytes) && !bytes.includes(0);
  return isText ? { path, content: textIn(withLf(bytes)) } : { path, content: base64Of(bytes), encoding: 'base64' };
}

/** Works in browsers and in Node 20, too. */
function base64Of(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES));
  }
  return btoa(text);
}
/** Fewer than the arguments that a call may have. */
const CHUNK_BYTES = 16_384;

async function readSchemas(folder: Folder): Promise<Record<string, unknown>> {
  const schemas = await readJsonObject(folder, 'schema.json');
  if (schemas === undefined) return {};
  if (schemas.input === undefined && schemas.output === undefined) {
    throw new Error(
      `${folder.nameOf('schema.json')} has neither "input" nor "output": put each JSON Schema under its name.`,
    );
  }
  return {
    ...(schemas.input !== undefined && { input_schema: schemas.input }),
    ...(schemas.output !== undefined && { output_schema: schemas.output }),
  };
}

async function packCode(
  folder: Folder,
  given: unknown,
  select: typeof selectFiles,
): Promise<Required<Pick<AgentFolder, 'bundle' | 'files'>>> {
  const patterns = readPatterns(folder, given);
  const files = select(await listFiles(folder, patterns.include.length > 0), patterns);
  if (files.length === 0) {
    throw new Error(
      `${folder.nameOf()} holds no code: add it, or name left-out files in bundle.include of agent.json.`,
    );
  }
  if (files.length > MAX_FILES) {
    throw new Error(
      `${folder.nameOf()} holds ${files.length} files, but at most ${MAX_FILES} can be published: leave some out with bundle.exclude of agent.json.`,
    );
  }
  const expanded = files.reduce((sum, { size }) => sum + size, 0);
  if (expanded > MAX_EXPANDED_BYTES) throw tooLarge(folder, 'code has', expanded, MAX_EXPANDED_BYTES, files);

  const entries: Zippable = {};
  const contents = new Map<string, Uint8Array>();
  for (const { path } of files) {
    const read = (await folder.read(path)) ?? new Uint8Array();
    const content = LINES.test(path) || isScript(read) ? withLf(read) : read;
    const mode = REGULAR_FILE | (isScript(read) || isElf(read) ? 0o755 : 0o644);
    entries[path] = [content, { os: UNIX, attrs: mode << 16 }];
    contents.set(path, content);
  }
  const zip = zipSync(entries, { mtime: FIXED_TIME, level: 9 });
  if (zip.length > MAX_ZIP_BYTES) throw tooLarge(folder, 'code, as a zip, has', zip.length, MAX_ZIP_BYTES, files);
  return { bundle: zip, files: contents };
}

const begins = (bytes: Uint8Array, text: string): boolean =>
  [...text].every((sign, index) => bytes[index] === sign.charCodeAt(0));
const isScript = (bytes: Uint8Array): boolean => begins(bytes, '#!');
const isElf = (bytes: Uint8Array): boolean => begins(bytes, '\x7fELF');

const textIn = (bytes: Uint8Array): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function withLf(bytes: Uint8Array): Uint8Array {
  const hasCrlf = bytes.some((byte, index) => byte === 13 && bytes[index + 1] === 10);
  if (!hasCrlf || !isUtf8(bytes)) return bytes;
  return new TextEncoder().encode(textIn(bytes).replaceAll('\r\n', '\n'));
}

/** Reimplements Node's `matchesGlob`, which browsers do not have. */
const matchesGlob = (path: string, glob: string): boolean =>
  minimatch(path, glob, { nonegate: true, nocomment: true, windowsPathsNoEscape: true });

function selectFiles(all: readonly SourceFile[], { include, exclude }: { include: string[]; exclude: string[] }) {
  const kept = all.filter(
    ({ path, ignored }) =>
      path === 'requirements.txt' ||
      matchesAny(include, path) ||
      !(ignored || EXCLUDED.some((glob) => matchesGlob(path, glob)) || matchesAny(exclude, path)),
  );
  if (kept.some(({ path }) => SCRIPT.test(path))) {
    return all.filter((file) => kept.includes(file) || FOR_NODE.test(file.path));
  }
  return kept.filter(({ path }) => !FOR_NODE.test(path) || matchesAny(include, path));
}

/** Its servers and tools may be packages alone. The texts are in the body. */
function selectFilesOfLoop(all: readonly SourceFile[], patterns: { include: string[]; exclude: string[] }) {
  const forNode = all.filter(({ path }) => FOR_NODE.test(path) && !matchesAny(patterns.exclude, path));
  const others = selectFiles(all, patterns).filter(({ path }) => !forNode.some((file) => file.path === path));
  return [...others, ...forNode].filter(({ path }) => path !== 'prompt.md' && path !== 'schema.json');
}

/** Whether an author's pattern matches a path or a folder above it. */
function matchesAny(globs: readonly string[], path: string): boolean {
  const parts = path.split('/');
  return globs.some((given) => {
    const glob = given
      .replaceAll('\\', '/')
      .replace(/^\.?\//, '')
      .replace(/\/$/, '');
    const anchored = parts.some((_, index) => matchesGlob(parts.slice(0, index + 1).join('/'), glob));
    return anchored || (!glob.includes('/') && parts.some((part) => matchesGlob(part, glob)));
  });
}

function readPatterns(folder: Folder, given: unknown): { include: string[]; exclude: string[] } {
  const { include = [], exclude = [] } = (given ?? {}) as Record<string, unknown>;
  for (const [name, list] of Object.entries({ include, exclude })) {
    if (!Array.isArray(list) || list.some((glob) => typeof glob !== 'string')) {
      throw new Error(
        `${folder.nameOf('agent.json')}: bundle.${name} is ${JSON.stringify(list)}, but must be a list of glob patterns, such as ["data/**"].`,
      );
    }
  }
  return { include: include as string[], exclude: exclude as string[] };
}

function tooLarge(folder: Folder, what: string, size: number, limit: number, files: readonly SourceFile[]): Error {
  const inMb = (bytes: number) => `${(bytes / MB).toFixed(1)} MB`;
  const largest = files.toSorted((a, b) => b.size - a.size).slice(0, 3);
  return new Error(
    `${folder.nameOf()}: the ${what} ${inMb(size)}, but at most ${inMb(limit)} can be published: leave files out with bundle.exclude of agent.json. The largest are ${largest.map((file) => `${file.path} (${inMb(file.size)})`).join(', ')}.`,
  );
}

async function readText(folder: Folder, name: string): Promise<string | undefined> {
  const bytes = await folder.read(name);
  if (bytes === undefined) return undefined;
  if (!isUtf8(bytes)) throw new Error(`${folder.nameOf(name)} is not text in UTF-8.`);
  return textIn(withLf(bytes));
}

async function readJsonObject(folder: Folder, name: string): Promise<Record<string, unknown> | undefined> {
  const path = folder.nameOf(name);
  const text = await folder.read(name);
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(textIn(text));
  } catch (error) {
    throw new Error(`${path} is not valid JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Error(`${path} must hold a JSON object, { ... }.`);
  }
  return value as Record<string, unknown>;
}

/**
 * Lists the files below a folder, sorted by code units, so that the order is the same in every locale.
 *
 * @param intoIgnored Whether to descend into folders that git ignores.
 */
async function listFiles(folder: Folder, intoIgnored = false): Promise<SourceFile[]> {
  const found: SourceFile[] = [];
  const list = async (below: string, above: IgnoreRules, isIgnored: boolean): Promise<void> => {
    const entries = (await folder.entries(below)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const pathOf = (name: string) => (below === '' ? name : `${below}/${name}`);
    const own = await folder.read(pathOf('.gitignore')).catch(() => undefined);
    const rules = own === undefined ? above : above.with({ below }, textIn(own));
    for (const { name, isFolder } of entries) {
      if (isHidden(name)) continue;
      const path = pathOf(name);
      const ignored = isIgnored || rules.ignores(path, isFolder);
      if (!isFolder) found.push({ path, size: await folder.sizeOf(path), ignored });
      else if (!ignored || intoIgnored) await list(path, rules, ignored);
    }
  };
  await list('', folder.ignored, false);
  return found;
}
