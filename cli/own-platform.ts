import type { MakeOwnPlatform, OwnPlatform } from '#client/own-platform.ts';
import { UsageError } from '#client/usage-error.ts';
import type { Cli } from './shared/cli.ts';

/** Loaded by its path, because the command line imports nothing of a host. */
const HOST_MODULE = new URL('../local/own-platform.ts', import.meta.url);

/**
 * Returns the platform on this machine. Throws UsageError if the connection is to another machine.
 */
export async function ownPlatform(
  cli: Cli,
  { data, anyUrl = false }: { data?: string; anyUrl?: boolean } = {},
): Promise<OwnPlatform> {
  const { env, cwd } = cli.host;
  if (data === undefined && !env.PLATFORM_DATA && !anyUrl) await refuseRemote(cli);
  return (await hostModule())({ env, cwd, data });
}

/** Returns the platform on this machine if the connection is local. Without `data`, it may be a different one. */
export async function ownPlatformIfHere(cli: Cli, data: string | undefined): Promise<OwnPlatform | undefined> {
  const { env, cwd } = cli.host;
  return isHere((await cli.connection()).url) ? (await hostModule())({ env, cwd, data }) : undefined;
}

async function hostModule(): Promise<MakeOwnPlatform> {
  const { createOwnPlatform } = (await import(HOST_MODULE.href)) as { readonly createOwnPlatform: MakeOwnPlatform };
  return createOwnPlatform;
}

async function refuseRemote(cli: Cli): Promise<void> {
  const { url } = await cli.connection();
  if (isHere(url)) return;
  throw new UsageError(
    `This command must run on the machine with the data of the platform; ${url} is another machine.`,
    {
      hint: 'Run it there, or specify a local data folder with --data.',
    },
  );
}

const isHere = (url: string): boolean =>
  URL.canParse(url) && /^(localhost|127\.[\d.]+|\[::1\]|0\.0\.0\.0)$/.test(new URL(url).hostname);

export const DATA_OPTION = ['--data <folder>', 'Data folder (default: PLATFORM_DATA or .data)'] as const;

export function inBytes(bytes: number): string {
  const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];
  let [value, unit] = [bytes, 0];
  for (; value >= 1000 && unit < units.length - 1; unit += 1) value /= 1000;
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}
