import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readAgentFolder } from '#cli/bundle-folder.ts';
import { type ApiError, type Client, createClient } from '#core/client.ts';
import { createOwnerKey } from '#core/workspaces/bootstrap.ts';
import type { LocalServer } from './server.ts';

export const EXAMPLES_FOLDER = join(import.meta.dirname, '..', 'examples');
/** Main table: that the examples were published once; whoever deletes them shall not get them back. */
const PUBLISHED = { pk: 'PLATFORM', sk: 'EXAMPLES' };

export const exampleNames = (): string[] =>
  readdirSync(EXAMPLES_FOLDER).filter((name) => existsSync(join(EXAMPLES_FOLDER, name, 'agent.json')));

/**
 * Publishes the agents of `examples/`, once in the life of a data folder; after a start that was interrupted, those that
 * are missing. `report` gets a line for each. One that cannot be published here does not stop the others.
 */
export async function publishExamples(server: LocalServer, report: (line: string) => void): Promise<void> {
  const { main } = server.deps;
  if (await main.get(PUBLISHED)) return;
  const { key, revoke } = await createOwnerKey(server.deps, 'publishes the examples');
  const client = createClient({ baseUrl: server.url, key });
  const known = new Set((await client.listAgents({})).filter((agent) => agent.runnable).map((agent) => agent.name));
  for (const name of exampleNames().filter((example) => !known.has(example))) {
    report(`publishing examples/${name}`);
    await publish(client, name).catch((error: ApiError | Error) => report(`  not published: ${error.message}`));
  }
  await main.put(PUBLISHED);
  await revoke();
}

async function publish(client: Client, name: string): Promise<void> {
  const { body, bundle } = await readAgentFolder(join(EXAMPLES_FOLDER, name));
  const { agent } = await client.createAgent({ body });
  if (bundle === undefined) return;
  const form = new FormData();
  form.set('file', new Blob([bundle as Uint8Array<ArrayBuffer>], { type: 'application/zip' }), 'bundle.zip');
  const params = { id: agent.id };
  const upload = await client.uploadBundle({ params, body: form });
  let { environment_status: status, environment_error: problem } = upload;
  while (status === 'building') {
    await sleep(500);
    status = (await client.getAgent({ params })).environment_status;
  }
  if (status !== 'failed') return;
  if (!problem) problem = (await client.listAgentLogs({ params, query: { limit: 1 } }))[0]?.error_message ?? null;
  throw new Error(`its dependencies could not be installed:\n${problem}`);
}
