import { bodyOfFolder, publishBodyOf } from '#core/manifest/publish-body.ts';
import { call } from '../../api/client.ts';
import { sendableBody, uploadBundle } from '../../publishing/send-file.ts';
import { toast } from '../../ui/toast.tsx';
import { readBundle } from './bundle-zip.ts';
import { readSkillFiles } from './skill-files.ts';
import type { Version } from './version.ts';

/** Texts of suites by name. */
type EvalFiles = Record<string, string>;

/** Republishes a version as the next one. Returns the service key if one was created. Throws request errors. */
export async function publishAgain(
  version: Version,
  options: { readonly workspaceId: string },
): Promise<string | undefined> {
  const zip = version.code_bundle_url === null ? undefined : await readBundle(version.id, options);
  const body = publishBodyOf({ ...version, skill_files: await readSkillFiles(version, options) });
  const evalFiles = version.evals?.gate
    ? ((await call('downloadOwnEvalFiles', { params: { id: version.id } }, options)) as unknown as EvalFiles)
    : undefined;
  const whole = await sendableBody(bodyOfFolder({ body, ...(evalFiles && { evalFiles }) }), options);
  const { agent, service_key } = await call('createAgent', { body: whole }, options);
  if (zip !== undefined) await uploadBundle(agent.id, zip, options);
  toast({ tone: 'good', text: `${version.version} is ${agent.version} now.` });
  return service_key;
}
