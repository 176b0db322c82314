import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import envPaths from 'env-paths';
import { hasCode } from '#core/base/errors.ts';

/** What signs a user in at one platform. */
export interface Profile {
  /** Address of the API, without a slash at the end. */
  readonly url: string;
  readonly key: string;
  /** Id of the workspace that commands act in. @default - the personal workspace of the key's owner */
  readonly workspaceId?: string;
}

export interface Profiles {
  /** Name of the profile that commands use unless told otherwise. */
  readonly current?: string;
  readonly profiles: Readonly<Record<string, Profile>>;
}

/** The user's own folder for settings: `XDG_CONFIG_HOME` where it is set, else the system's usual place. */
export const configFolder = (): string => envPaths('agent-platform', { suffix: '' }).config;

const fileIn = (folder: string): string => join(folder, 'profiles.json');

/** Throws an Error that names the file if it cannot be read. */
export async function readProfiles(folder: string): Promise<Profiles> {
  const path = fileIn(folder);
  try {
    const { current, profiles = {} } = JSON.parse(await readFile(path, 'utf8')) as Partial<Profiles>;
    return { current, profiles };
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return { profiles: {} };
    throw new Error(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

/** Replaces the file in one step, readable by its owner alone: it holds keys. */
async function writeProfiles(folder: string, profiles: Profiles): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const next = `${fileIn(folder)}.${process.pid}.tmp`;
  await writeFile(next, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 });
  await rename(next, fileIn(folder));
}

/** Adds or replaces a profile and makes it the current one. */
export async function saveProfile(folder: string, name: string, profile: Profile): Promise<void> {
  const { profiles } = await readProfiles(folder);
  await writeProfiles(folder, { current: name, profiles: { ...profiles, [name]: profile } });
}

/**
 * Keeps the key of a platform on this machine, and returns the profile's name: `local`, or `local-4390` for the port of a
 * second one. A profile of the same address is replaced: its data is gone. It becomes the current profile only if there is
 * none: a platform that starts must not change what the commands of other shells act on.
 */
export async function saveLocalProfile(folder: string, profile: Profile): Promise<string> {
  const { current, profiles } = await readProfiles(folder);
  const isFree = profiles.local === undefined || profiles.local.url === profile.url;
  const name = isFree ? 'local' : `local-${new URL(profile.url).port}`;
  await writeProfiles(folder, { current: current ?? name, profiles: { ...profiles, [name]: profile } });
  return name;
}

/** Throws an Error that lists the profiles there are, if there is none of this name. */
export async function switchProfile(folder: string, name: string): Promise<void> {
  const known = await readProfiles(folder);
  profileNamed(known, name);
  await writeProfiles(folder, { ...known, current: name });
}

/** Returns false if there was no profile of this name. */
export async function removeProfile(folder: string, name: string): Promise<boolean> {
  const { current, profiles } = await readProfiles(folder);
  const { [name]: removed, ...rest } = profiles;
  await writeProfiles(folder, { current: current === name ? Object.keys(rest)[0] : current, profiles: rest });
  return removed !== undefined;
}

export function profileNamed({ profiles }: Profiles, name: string): Profile {
  const profile = profiles[name];
  if (profile !== undefined) return profile;
  const names = Object.keys(profiles).join(', ') || 'none';
  throw new Error(
    `No profile named "${name}". Profiles: ${names}. Create it with \`platform login --profile ${name}\`.`,
  );
}
