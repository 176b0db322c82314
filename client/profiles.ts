import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import envPaths from 'env-paths';
import { hasCode } from '#core/base/errors.ts';

/** Credentials of a user for one platform. */
export interface Profile {
  /** Base URL of the API, without a trailing slash. */
  readonly url: string;
  readonly key: string;
  /** ID of the workspace that commands act in. @default - the personal workspace of the key's owner */
  readonly workspaceId?: string;
}

export interface Profiles {
  /** Name of the profile that commands use by default. */
  readonly current?: string;
  readonly profiles: Readonly<Record<string, Profile>>;
}

/** Returns the user's configuration folder: `XDG_CONFIG_HOME` if set, else the default of the system. */
export const configFolder = (): string => envPaths('agent-platform', { suffix: '' }).config;

const fileIn = (folder: string): string => join(folder, 'profiles.json');

/** Reads the profiles. Throws an Error that names the file if it cannot be read. */
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

/** Replaces the file atomically, readable only by its owner because it contains keys. */
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
 * Saves the key of a platform on this machine, and returns the profile's name: `local`, or `local-4390` for the port of
 * a second platform. Replaces a profile with the same URL, whose data is gone. The profile becomes the current one only
 * if there is none: starting a platform must not affect commands in other shells.
 */
export async function saveLocalProfile(folder: string, profile: Profile): Promise<string> {
  const { current, profiles } = await readProfiles(folder);
  const isFree = profiles.local === undefined || profiles.local.url === profile.url;
  const name = isFree ? 'local' : `local-${new URL(profile.url).port}`;
  await writeProfiles(folder, { current: current ?? name, profiles: { ...profiles, [name]: profile } });
  return name;
}

/** Makes a profile the current one. Throws an Error that lists the profiles if it does not exist. */
export async function switchProfile(folder: string, name: string): Promise<void> {
  const known = await readProfiles(folder);
  profileNamed(known, name);
  await writeProfiles(folder, { ...known, current: name });
}

/** Removes a profile. Returns false if it does not exist. */
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
