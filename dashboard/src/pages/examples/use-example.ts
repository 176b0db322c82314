import gallery from 'virtual:gallery';
import { call } from '../../api/client.ts';
import type { Workspace } from '../../api/session.ts';
import { readInWorker } from '../../publishing/read-in-worker.ts';
import { uploadBundle } from '../../publishing/send-file.ts';

/** The examples belong to this workspace in the repository. */
const HOME = 'main/';

type Files = Readonly<Record<string, string | { readonly base64: string }>>;

/** Returns an example after those that it needs. */
function withNeeds(name: string): string[] {
  const needs = gallery.find((entry) => entry.name === name)?.needs ?? [];
  return [...new Set([...needs.flatMap(withNeeds), name])];
}

/**
 * Publishes an example in a workspace, and before it the examples that it needs; those already there are kept. Returns
 * the sample input, and the service key if one was created. Throws ApiError or Error.
 */
export async function publishExample(
  name: string,
  workspace: Pick<Workspace, 'id' | 'slug'>,
): Promise<{ readonly input: string | undefined; readonly serviceKey: string | undefined }> {
  // The files are large, so the page loads them on use.
  const { default: files } = await import('virtual:gallery-files');
  let serviceKey: string | undefined;
  for (const each of withNeeds(name)) {
    const versions = await call('listAgents', { query: { name: each } }, { workspaceId: workspace.id });
    if (versions.some(({ runnable }) => runnable)) continue;
    serviceKey = await publish(each, files[each]!, workspace);
  }
  const input = files[name]!['sample-input.json'];
  return { input: typeof input === 'string' ? input : undefined, serviceKey };
}

async function publish(name: string, files: Files, { id: workspaceId, slug }: Pick<Workspace, 'id' | 'slug'>) {
  const { body, bundle } = await readInWorker(
    Object.entries(files).map(([path, content]) => ({
      path: `${name}/${path}`,
      file: new Blob([path === 'agent.json' ? inWorkspace(content as string, slug) : bytesOf(content)]),
    })),
  );
  const { agent, service_key } = await call('createAgent', { body } as never, { workspaceId });
  if (bundle) await uploadBundle(agent.id, bundle as Uint8Array<ArrayBuffer>, { workspaceId });
  return service_key;
}

const bytesOf = (content: Files[string]): string | Uint8Array<ArrayBuffer> =>
  typeof content === 'string' ? content : Uint8Array.from(atob(content.base64), (sign) => sign.charCodeAt(0));

/** Lets the copy call the agents of its own workspace. */
function inWorkspace(text: string, slug: string): string {
  const manifest = JSON.parse(text) as { manifest?: { dependencies: { id: string }[] } };
  for (const dependency of manifest.manifest?.dependencies ?? []) {
    if (dependency.id.startsWith(HOME)) dependency.id = `${slug}/${dependency.id.slice(HOME.length)}`;
  }
  return JSON.stringify(manifest);
}
