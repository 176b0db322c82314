import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readAgentFolder } from '#client/agent-folder.ts';
import { type GalleryEntry, galleryOf } from '#client/gallery.ts';
import { uploadBundle } from '#client/upload-bundle.ts';
import { createOwnerKey } from '#core/accounts/workspaces/bootstrap.ts';
import { type ApiError, type Client, createClient } from '#core/api/client.ts';
import type { LocalServer } from '../server.ts';

export const EXAMPLES_FOLDER = join(import.meta.dirname, '../..', 'examples');
/** Marker in the main table that the examples were published, so that deleted ones are not published again. */
const PUBLISHED = { pk: 'PLATFORM', sk: 'EXAMPLES' };
/** The organization that the manifests name in their dependencies. */
const AUTHOR = 'main';

/** Hint for callers of examples that need a model. */
export const KEY_HINT = 'See "Keys of model providers" in examples/README.md.';

interface Example extends GalleryEntry {
  /** Shell command of a program. */
  readonly command?: string;
  /** `skill` for a folder with a SKILL.md. */
  readonly type: string;
  /** Whether it is deployed as a service instead of called. */
  readonly isService: boolean;
}

/** Lists the folders of `examples/`, each after its dependencies. */
export function listExamples(): Example[] {
  const paths = globSync('*/{agent.json,SKILL.md}', { cwd: EXAMPLES_FOLDER }).map((path) => path.replaceAll('\\', '/'));
  const files = paths.map((path) => [`examples/${path}`, readFileSync(join(EXAMPLES_FOLDER, path), 'utf8')]);
  const gallery = new Map(galleryOf(Object.fromEntries(files)).map((entry) => [entry.name, entry]));
  const ordered = new Set<GalleryEntry>();
  const add = (entry: GalleryEntry): void => {
    for (const need of entry.needs) add(gallery.get(need)!);
    ordered.add(entry);
  };
  for (const entry of gallery.values()) add(entry);
  return [...ordered].map((entry) => {
    const { type, runtime } = manifestOf(entry.name);
    return { ...entry, type, command: runtime?.command, isService: entry.kind === 'service' };
  });
}

const has = (...path: string[]): boolean => existsSync(join(EXAMPLES_FOLDER, ...path));

interface Manifest {
  readonly type: string;
  readonly runtime?: { readonly command: string };
  readonly manifest?: { readonly dependencies: readonly { readonly id: string; readonly version: string }[] };
}

const manifestOf = (name: string): Manifest =>
  has(name, 'SKILL.md')
    ? { type: 'skill' }
    : (JSON.parse(readFileSync(join(EXAMPLES_FOLDER, name, 'agent.json'), 'utf8')) as Manifest);

/**
 * Publishes the agents of `examples/` once per data folder; after an interrupted start, the missing ones. `report` gets
 * a line for each. A failed one does not stop the others.
 */
export async function publishExamples(server: LocalServer, report: (line: string) => void): Promise<void> {
  const { main, config } = server.deps;
  if (await main.get(PUBLISHED)) return;
  const { key, revoke } = await createOwnerKey(server.deps, 'publishes the examples');
  const client = createClient({ baseUrl: server.url, key });
  const known = new Set((await client.listAgents({})).filter((agent) => agent.runnable).map((agent) => agent.name));
  for (const { name } of listExamples().filter((example) => !known.has(example.name))) {
    report(`publishing examples/${name}`);
    await publish(client, name, config.workspaceSlug).catch((error: ApiError | Error) =>
      report(`  not published: ${error.message}`),
    );
  }
  await main.put(PUBLISHED);
  await revoke();
}

async function publish(client: Client, name: string, org: string): Promise<void> {
  const { body, bundle } = await readFor(org, name);
  const { agent } = await client.createAgent({ body });
  if (bundle === undefined) return;
  const params = { id: agent.id };
  const upload = await uploadBundle(client, agent.id, bundle);
  let { environment_status: status, environment_error: problem } = upload;
  while (status === 'building') {
    await sleep(500);
    status = (await client.getAgent({ params })).environment_status;
  }
  if (status !== 'failed') return;
  if (!problem) problem = (await client.listAgentLogs({ params, query: { limit: 1 } }))[0]?.error_message ?? null;
  throw new Error(`its dependencies could not be installed:\n${problem}`);
}

/** Reads the folder and replaces the organization of its dependencies with `org`. */
async function readFor(org: string, name: string) {
  const folder = join(EXAMPLES_FOLDER, name);
  const dependencies = manifestOf(name).manifest?.dependencies ?? [];
  if (org === AUTHOR || dependencies.length === 0) return readAgentFolder(folder);
  const copy = mkdtempSync(join(tmpdir(), `${name}-`));
  try {
    cpSync(folder, copy, { recursive: true });
    const text = readFileSync(join(copy, 'agent.json'), 'utf8');
    writeFileSync(join(copy, 'agent.json'), text.replaceAll(`"id": "${AUTHOR}/`, `"id": "${org}/`));
    return await readAgentFolder(copy);
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}
