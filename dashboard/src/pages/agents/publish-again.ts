import { publishBodyOf } from '#core/manifest/publish-body.ts';
import { call } from '../../api/client.ts';
import { toast } from '../../ui/toast.tsx';
import { readBundle } from './bundle-zip.ts';
import { uploadBundle } from './send-file.ts';
import type { Version } from './version.ts';

/** Publishes what a version holds as the next version. Returns the service key that this made, if it did. Throws what the requests throw. */
export async function publishAgain(
  version: Version,
  options: { readonly workspaceId: string },
): Promise<string | undefined> {
  const zip = version.code_bundle_url === null ? undefined : await readBundle(version.id, options);
  const { agent, service_key } = await call('createAgent', { body: publishBodyOf(version) }, options);
  if (zip !== undefined) await uploadBundle(agent.id, zip, options);
  toast({ tone: 'good', text: `${version.version} is ${agent.version} now.` });
  return service_key;
}
