import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import { expandBundle } from '#core/manifest/bundle/bundle.ts';
import { type Folder, readAgentFolder } from '#core/manifest/folder/agent-folder.ts';
import { IgnoreRules } from '#core/manifest/folder/ignore-rules.ts';
import type { GivenSkillFile } from '#core/manifest/skill.ts';
import { skillFileBytes } from '#core/manifest/skill-file-bytes.ts';
import type { Cli } from '../shared/cli.ts';
import type { SourceFile } from './agent-source.ts';
import { readFolder } from './read-folder.ts';

/** A skill that is not on the platform: in a folder, a zip, or an archive of a Git host. */
export interface FoundSkill {
  readonly name: string;
  /** Path of its folder in the source; `''` for the source itself. */
  readonly path: string;
  /** SKILL.md and the files beside it. Paths stay inside the folder on every system. */
  readonly files: ReadonlyMap<string, SourceFile>;
}

const MAX_ARCHIVE_BYTES = 100 * 1024 ** 2;
const DOWNLOAD_MS = 120_000;
/** Folders in folders that are searched for skills. */
const MAX_DEPTH = 6;
const MAX_FOLDERS = 5_000;
/** Skills in `.claude` and `.agents` are found. */
const UNSEARCHED = ['.git', 'node_modules'];

/** Whether a text names a folder, a zip or an address, and not a skill of the platform. */
export const isSkillSource = (text: string): boolean =>
  /^(?:\.|\/|\\|[A-Za-z]:[\\/]|https?:)/.test(text) || /\.zip$/i.test(text);

/**
 * Finds the skills in a source: folders with a SKILL.md, but none inside another skill. They obey the rules for a publish.
 * Throws UsageError, also if there is none.
 */
export async function readSkillSource(cli: Cli, text: string): Promise<FoundSkill[]> {
  const found = await skillsIn(cli, text);
  if (found.length === 0) throw new UsageError(`${text} has no skill: no folder in it has a SKILL.md.`);
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

async function skillsIn(cli: Cli, text: string): Promise<FoundSkill[]> {
  if (/^https?:/.test(text)) {
    const { archive, path } = archiveOf(text);
    return inArchive(await download(cli, archive), text, path);
  }
  const at = resolve(cli.host.cwd, text);
  const found = await stat(at).catch(() => undefined);
  if (found === undefined) throw new UsageError(`${text} does not exist.`);
  if (found.isDirectory()) return inFolder(cli, at);
  if (found.size > MAX_ARCHIVE_BYTES) throw tooLarge(text);
  return inArchive(await readFile(at), text, '');
}

const tooLarge = (text: string): UsageError =>
  new UsageError(`${text} has more than ${MAX_ARCHIVE_BYTES / 1024 ** 2} MB.`);

async function inFolder(cli: Cli, root: string): Promise<FoundSkill[]> {
  const skills: FoundSkill[] = [];
  let folders = 0;
  const search = async (path: string, depth: number): Promise<void> => {
    if (++folders > MAX_FOLDERS) throw new UsageError(`${root} has more than ${MAX_FOLDERS} folders.`);
    const entries = await readdir(join(root, path), { withFileTypes: true });
    if (entries.some((entry) => entry.isFile() && entry.name === 'SKILL.md')) {
      const text = await readFile(join(root, path, 'SKILL.md'));
      skills.push(skillOf(path, text, (await readFolder(cli, join(root, path))).body));
      return;
    }
    if (depth === MAX_DEPTH) return;
    for (const entry of entries) {
      if (entry.isDirectory() && !UNSEARCHED.includes(entry.name)) await search(join(path, entry.name), depth + 1);
    }
  };
  await search('', 0);
  return skills;
}

/** Reports a fault of an archive. */
function refuse(error: Error): never {
  throw new UsageError(error.message);
}

/** @param below Folder in the archive without its common top folder, to which the search is limited. */
async function inArchive(zip: Uint8Array, name: string, below: string): Promise<FoundSkill[]> {
  const all = new Map<string, Uint8Array>();
  await expandBundle(zip, {
    onFolder() {},
    async onFile({ path }, content) {
      all.set(path, Buffer.concat(await Array.fromAsync(content)));
    },
  }).catch(refuse);
  const files = withoutTop(all);
  const folders = [...files.keys()]
    .filter((path) => path === 'SKILL.md' || path.endsWith('/SKILL.md'))
    .map((path) => path.slice(0, -'/SKILL.md'.length))
    .filter((path) => below === '' || path === below || path.startsWith(`${below}/`))
    .filter((path) => !path.split('/').some((part) => UNSEARCHED.includes(part)));
  const outer = folders.filter((path) => !folders.some((other) => other !== path && isBelow(path, other)));
  return Promise.all(
    outer.map(async (path) => {
      const { body } = await readAgentFolder(folderIn(files, path, name)).catch(refuse);
      return skillOf(path, files.get(path === '' ? 'SKILL.md' : `${path}/SKILL.md`)!, body);
    }),
  );
}

const isBelow = (path: string, folder: string): boolean => folder === '' || path.startsWith(`${folder}/`);

/** Archives of Git hosts have everything in one folder, which is named after the repository and the commit. */
function withoutTop(files: ReadonlyMap<string, Uint8Array>): ReadonlyMap<string, Uint8Array> {
  const tops = new Set([...files.keys()].map((path) => path.split('/', 1)[0]));
  const [top] = tops;
  if (tops.size !== 1 || files.has(top!) || files.has(`${top}/SKILL.md`)) return files;
  return new Map([...files].map(([path, content]) => [path.slice(top!.length + 1), content]));
}

/** Presents the files below `path` as a folder. */
function folderIn(files: ReadonlyMap<string, Uint8Array>, path: string, name: string): Folder {
  const prefix = path === '' ? '' : `${path}/`;
  return {
    nameOf: (file = '') => [name, path, file].filter((part) => part !== '').join('/'),
    async entries(below) {
      const at = below === '' ? prefix : `${prefix}${below}/`;
      const inside = [...files.keys()].filter((each) => each.startsWith(at)).map((each) => each.slice(at.length));
      const folders = new Set(inside.filter((each) => each.includes('/')).map((each) => each.split('/', 1)[0]!));
      const plain = inside.filter((each) => !each.includes('/'));
      return [
        ...plain.map((each) => ({ name: each, isFolder: false })),
        ...[...folders].map((each) => ({ name: each, isFolder: true })),
      ];
    },
    sizeOf: async (file) => files.get(prefix + file)!.byteLength,
    read: async (file) => files.get(prefix + file),
    ignored: new IgnoreRules(),
  };
}

function skillOf(path: string, text: Uint8Array, body: Record<string, unknown>): FoundSkill {
  const { name, skill_files = [] } = body as { name: string; skill_files?: readonly GivenSkillFile[] };
  const files = new Map<string, SourceFile>([['SKILL.md', { content: text, executable: false }]]);
  for (const { path: at, content, encoding } of skill_files) {
    const bytes = skillFileBytes({ content, ...(encoding && { encoding }) });
    files.set(at, { content: bytes, executable: bytes.subarray(0, 2).toString() === '#!' });
  }
  return { name, path, files };
}

/** Returns the address of the zip of a repository, and the folder in it. Throws UsageError. */
export function archiveOf(text: string): { readonly archive: string; readonly path: string } {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') {
    throw new UsageError(`${text} must be an https address without a name or password in it.`);
  }
  const named = segmentsOf(decoded(url.hash.slice(1))).join('/');
  url.hash = '';
  if (url.pathname.toLowerCase().endsWith('.zip')) return { archive: url.href, path: named };
  const [owner, name = '', ...further] = segmentsOf(url.pathname);
  const repository = name.endsWith('.git') ? name.slice(0, -'.git'.length) : name;
  const hasDash = further[0] === '-';
  // The name of a branch in the address is taken as one segment: others are given as `.../archive/<name>.zip`.
  const [tree = 'tree', ref = 'HEAD', ...rest] = hasDash ? further.slice(1) : further;
  if (repository === '' || tree !== 'tree') {
    throw new UsageError(`${text} is neither a .zip nor a repository.`, {
      hint: 'Examples: https://github.com/owner/repository/tree/main/skills, https://host.example/archive.zip#skills/pdf',
    });
  }
  const path = named || decoded(rest.join('/'));
  const base = `${url.origin}/${owner}/${repository}`;
  const isGitLab = hasDash || url.hostname.split('.').includes('gitlab');
  const archive = isGitLab ? `${base}/-/archive/${ref}/${repository}.zip` : `${base}/archive/${ref}.zip`;
  return { archive, path };
}

const segmentsOf = (path: string): string[] => path.split('/').filter((part) => part !== '');

/** Throws UsageError for a "%" that encodes nothing. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new UsageError(`"${text}" in the address is not valid: write "%25" for "%".`);
  }
}

async function download(cli: Cli, address: string): Promise<Uint8Array> {
  const response = await cli.host.fetch(address, { signal: AbortSignal.timeout(DOWNLOAD_MS) }).catch((error: Error) => {
    const { message } = (error.cause as Error | undefined) ?? error;
    throw new UsageError(`${address} cannot be downloaded: ${message}.`);
  });
  if (!response.ok) throw new UsageError(`${address} was answered with HTTP ${response.status}.`);
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MAX_ARCHIVE_BYTES) throw tooLarge(basename(address));
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
