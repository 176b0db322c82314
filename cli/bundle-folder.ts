import type { Dirent } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join, matchesGlob } from 'node:path';
import { zipSync } from 'fflate';
import { hasCode } from '#core/errors.ts';

/** What a client leaves out of a bundle unless the manifest's `bundle.include` asks for it (`contract.md` 12). */
const EXCLUDED = [
  '**/__pycache__/**',
  '**/*.pyc',
  '**/{venv,env,site-packages}/**',
  '{dist,build}/**',
  '{pyproject.toml,setup.py,setup.cfg,tsconfig.json}',
  '**/node_modules/**',
  '{yarn.lock,pnpm-lock.yaml,poetry.lock,Pipfile.lock,uv.lock}',
  '{README,CHANGELOG,LICENSE}*',
  '{docs,scripts,sample-files}/**',
  '{Dockerfile*,docker-compose*,Makefile}',
  '{tests,test,__tests__}/**',
  '**/{test_*.py,*_test.py,conftest.py}',
  '**/*.{test,spec}.*',
  '{agent.json,schema.json,prompt.md,sample-input.json}',
  '**/*.zip',
];
/** Needed to install dependencies, whatever the manifest excludes. */
const ALWAYS = ['requirements.txt', 'package.json', 'package-lock.json'];
const MAX_FILES = 10_000;
/** Zips begin in 1980: the same files always make the same bytes. */
const FIXED_TIME = new Date('1980-01-01T00:00:00');

export interface AgentFolder {
  /** The body of POST /agents. */
  readonly body: Record<string, unknown>;
  /** The zip for POST /agents/{id}/upload; only of programs. */
  readonly bundle?: Uint8Array;
}

/**
 * Reads an agent's folder as it is published: `agent.json`, with the schemas of `schema.json` and the text of
 * `prompt.md` where those exist, and for a program its code as a zip. Links and dot files are left out.
 *
 * Throws an error that names the file and what is wrong with it.
 */
export async function readAgentFolder(folder: string): Promise<AgentFolder> {
  const manifest = await readJsonObject(folder, 'agent.json');
  if (manifest === undefined) throw new Error(`${join(folder, 'agent.json')} is missing: it is the agent's manifest.`);
  const schemas = await readJsonObject(folder, 'schema.json');
  const prompt = await readIfThere(join(folder, 'prompt.md'));
  const { bundle: patterns, ...rest } = manifest;
  const body = {
    ...rest,
    ...(schemas?.input !== undefined && { input_schema: schemas.input }),
    ...(schemas?.output !== undefined && { output_schema: schemas.output }),
    ...(prompt !== undefined && { prompt: prompt.toString() }),
  };
  const isProgram = manifest.runtime !== undefined || ['tool', 'code'].includes(String(manifest.type));
  if (!isProgram || manifest.loop !== undefined) return { body };

  const { include = [], exclude = [] } = (patterns ?? {}) as { include?: string[]; exclude?: string[] };
  const matches = (path: string, globs: readonly string[]) => globs.some((glob) => matchesGlob(path, glob));
  const paths = (await listFiles(folder, '')).filter(
    (path) => ALWAYS.includes(path) || matches(path, include) || !matches(path, [...EXCLUDED, ...exclude]),
  );
  if (paths.length === 0) throw new Error(`${folder} holds no code: nothing is left after the excluded files.`);
  const files = await Promise.all(paths.map(async (path) => [path, await readFile(join(folder, path))] as const));
  return { body, bundle: zipSync(Object.fromEntries(files), { mtime: FIXED_TIME, level: 9 }) };
}

async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

async function readJsonObject(folder: string, name: string): Promise<Record<string, unknown> | undefined> {
  const path = join(folder, name);
  const text = await readIfThere(path);
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text.toString());
  } catch (error) {
    throw new Error(`${path} is not valid JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Error(`${path} must hold a JSON object.`);
  }
  return value as Record<string, unknown>;
}

/** Paths below `folder`, sorted, separated by `/`. */
async function listFiles(folder: string, prefix: string): Promise<string[]> {
  const entries = (await readdir(join(folder, prefix), { withFileTypes: true })).filter(
    (entry: Dirent) => !entry.name.startsWith('.') && entry.name !== 'node_modules' && entry.name !== '__pycache__',
  );
  const paths: string[] = [];
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = prefix === '' ? entry.name : `${prefix}/${entry.name}`;
    if (entry.isDirectory()) paths.push(...(await listFiles(folder, path)));
    else if (entry.isFile()) paths.push(path);
    if (paths.length > MAX_FILES)
      throw new Error(`${folder} has more than 10,000 files: exclude some in bundle.exclude.`);
  }
  return paths;
}
