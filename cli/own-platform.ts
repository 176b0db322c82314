import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Cli } from './cli.ts';
import { UsageError } from './failure.ts';

/** What the command line can do with a platform whose data is on this machine. The local host implements it. */
export interface OwnPlatform {
  status(): Promise<OwnStatus>;
  /** `file`: of the archive. @default - a name with the time, in the current folder */
  backup(file: string | undefined, options: { readonly withKey: boolean }): Promise<OwnBackup>;
  /** `checkOnly` reads the archive and changes nothing. */
  restore(file: string, options: { readonly checkOnly: boolean }): Promise<OwnRestore>;
  upgrade(options: { readonly checkOnly: boolean }): Promise<OwnUpgrade>;
  checks(): Promise<readonly OwnCheck[]>;
  /** Text of a unit of systemd. */
  systemdUnit(): string;
  /** The program that runs the platform, and its arguments. */
  readonly program: readonly string[];
}

export interface OwnStatus {
  readonly running: boolean;
  readonly pid?: number;
  readonly url?: string;
  readonly started_at?: string;
  /** Of the running platform, else of the installed one. */
  readonly version: string;
  readonly data_folder: string;
  /** `null`: there is no data yet. */
  readonly data_version: number | null;
  readonly sandbox?: OwnSandbox;
  readonly disk: { readonly free_bytes: number; readonly total_bytes: number; readonly problem?: string };
  readonly last_backup?: OwnBackup;
}

export interface OwnSandbox {
  readonly kind: string;
  readonly problem?: string;
  readonly limits_by?: string;
  readonly running: number;
  /** Runs that wait for a place. */
  readonly waiting: number;
  readonly max: number;
}

export interface OwnBackup {
  readonly file: string;
  readonly created_at: string;
  readonly bytes: number;
  readonly files: number;
  readonly data_version: number;
  readonly has_secrets: boolean;
  readonly has_key: boolean;
}

export interface OwnRestore {
  readonly file: string;
  /** `null` if it was only checked. */
  readonly data_folder: string | null;
  readonly created_at: string;
  readonly platform: string;
  readonly data_version: number;
  readonly files: number;
  readonly bytes: number;
  readonly has_secrets: boolean;
  readonly has_key: boolean;
  /** Where the platform looks for the key of the secrets. */
  readonly key_file: string;
  /** Whether secrets can be read after it. */
  readonly key_found: boolean;
}

export interface OwnUpgrade {
  readonly data_folder: string;
  readonly platform: string;
  readonly from_version: number;
  readonly to_version: number;
  /** What keeps the upgrade from being made; empty if nothing does. */
  readonly problems: readonly string[];
  readonly done: boolean;
  readonly backup?: OwnBackup;
}

export interface OwnCheck {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly hint?: string;
}

export interface OwnOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** @default - PLATFORM_DATA, else `.data` */
  readonly data?: string;
}

/** Exported by {@link HOST_MODULE}. */
export type MakeOwnPlatform = (options: OwnOptions) => OwnPlatform;

/** Beside the command line in a clone and in the platform's image; the package of the command line alone has none. */
const HOST_MODULE = new URL('../local/own-platform.ts', import.meta.url);

/**
 * The platform of this machine. Throws UsageError where the platform is not installed, and if another one is meant.
 */
export async function ownPlatform(
  cli: Cli,
  { data, anyUrl = false }: { data?: string; anyUrl?: boolean } = {},
): Promise<OwnPlatform> {
  const { env, cwd } = cli.host;
  if (data === undefined && !env.PLATFORM_DATA && !anyUrl) await refuseRemote(cli);
  const make = await hostModule();
  if (make === undefined) {
    throw new UsageError('The platform itself is not installed here: this is its command line alone.', {
      hint: 'Run this in a clone of the repository after `npm ci`, or in the platform’s container, on the machine that has the data.',
    });
  }
  return make({ env, cwd, data });
}

/** The platform of this machine, if it is installed and the one that commands ask; without a `data` folder of its own it may be another. */
export async function ownPlatformIfHere(cli: Cli, data: string | undefined): Promise<OwnPlatform | undefined> {
  const make = await hostModule();
  const { env, cwd } = cli.host;
  return make && isHere((await cli.connection()).url) ? make({ env, cwd, data }) : undefined;
}

async function hostModule(): Promise<MakeOwnPlatform | undefined> {
  if (!existsSync(fileURLToPath(HOST_MODULE))) return undefined;
  const { createOwnPlatform } = (await import(HOST_MODULE.href)) as { readonly createOwnPlatform: MakeOwnPlatform };
  return createOwnPlatform;
}

async function refuseRemote(cli: Cli): Promise<void> {
  const { url } = await cli.connection();
  if (isHere(url)) return;
  throw new UsageError(`This works on the machine that has the platform’s data; ${url} is another one.`, {
    hint: 'Run it there, or name a data folder of this machine with --data.',
  });
}

const isHere = (url: string): boolean =>
  URL.canParse(url) && /^(localhost|127\.[\d.]+|\[::1\]|0\.0\.0\.0)$/.test(new URL(url).hostname);

export const DATA_OPTION = ['--data <folder>', 'the data folder; PLATFORM_DATA, else .data'] as const;

export function inBytes(bytes: number): string {
  const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];
  let [value, unit] = [bytes, 0];
  for (; value >= 1000 && unit < units.length - 1; unit += 1) value /= 1000;
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}
