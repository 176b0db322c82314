import { readProfiles, saveProfile } from '#client/profiles.ts';
import { isLoopbackName } from '#core/http/loopback.ts';
import type { Cli } from '../shared/cli.ts';
import { clientOf } from './connection.ts';

interface SignInSettings {
  /** Workspace to act in. @default - the workspace of --workspace, else the personal workspace of the key's owner */
  readonly workspaceId?: string;
  /** Whether to keep existing profiles: the new one gets a free name, unless --profile sets one. */
  readonly keepsOthers?: boolean;
}

/** Verifies a key, saves it in a profile, and shows its user. Throws the errors of its requests. */
export async function signIn(
  cli: Cli,
  key: string,
  { workspaceId, keepsOthers = false }: SignInSettings = {},
): Promise<void> {
  const { host, options } = cli;
  const url = await cli.signInUrl();
  const client = await clientOf({ url, key, source: 'sign-in' }, workspaceId, cli.wire);
  const [org, { user }] = [await client.getOrg({}), await client.getMe({})];
  const usual = keepsOthers ? await freeName(host.configFolder, nameOf(url)) : nameOf(url);
  const name = options.profile ?? usual;
  const kept = workspaceId ?? (options.workspace ? org.id : undefined);
  await saveProfile(host.configFolder, name, { url, key, workspaceId: kept });
  cli.output.result(
    { profile: name, url, workspace: org.slug, user: user.email },
    () => `Signed in to ${url} as ${user.email}, workspace ${org.slug} (profile ${name}).`,
  );
}

/** Returns `local` for this machine, else the host name. */
const nameOf = (url: string): string => {
  const { hostname: host } = new URL(url);
  return isLoopbackName(host) ? 'local' : host;
};

async function freeName(folder: string, wanted: string): Promise<string> {
  const { profiles } = await readProfiles(folder);
  let name = wanted;
  for (let number = 2; profiles[name] !== undefined; number++) name = `${wanted}-${number}`;
  return name;
}
