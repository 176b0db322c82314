import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import { isLoopbackName } from '#core/http/loopback.ts';
import { newOwnerKey, startChildPlatform } from '../child-platform.ts';
import { Cli } from '../shared/cli.ts';

export interface DevPlatform {
  /** Connected to this platform. */
  readonly cli: Cli;
  /** Stops the platform after its calls in flight, if it was started here. */
  stop(): Promise<void>;
}

/**
 * Returns the platform of the current connection. If no platform is running on this machine, starts one for the
 * project: a child process with its data in `.platform/local/` of `folder`. Throws UsageError if it cannot be started.
 */
export async function devPlatform(cli: Cli, folder: string): Promise<DevPlatform> {
  const { url } = await cli.connection();
  try {
    await (await cli.anyone()).getHealth({});
    return { cli, stop: async () => {} };
  } catch (error) {
    const isRefused = ((error as Error).cause as { code?: string } | undefined)?.code === 'ECONNREFUSED';
    if (!isRefused || !URL.canParse(url) || !isLoopbackName(new URL(url).hostname)) throw error;
  }
  return startPlatform(cli, folder, url);
}

async function startPlatform(cli: Cli, folder: string, url: string): Promise<DevPlatform> {
  const own = join(folder, '.platform/local');
  await mkdir(own, { recursive: true, mode: 0o700 });
  // Data and key must not be committed.
  await writeFile(join(own, '.gitignore'), '*\n');
  const keyFile = join(own, 'key');
  const { PLATFORM_API_KEY: _, ...env } = cli.host.env;
  const settings = { ...env, PLATFORM_DATA: join(own, 'data'), PLATFORM_PORT: new URL(url).port || '4280' };
  cli.output.note('Starting a platform for this project');
  const known = await readFile(keyFile, 'utf8').catch(() => undefined);
  const hasData = existsSync(settings.PLATFORM_DATA);
  const kept = known?.trim() ?? (hasData ? await newOwnerKey(settings) : undefined);
  const { url: address, key = kept, stop } = await startChildPlatform(settings);
  try {
    if (key === undefined)
      throw new UsageError(`The API key of the data in ${own} is missing: delete the folder and start again.`);
    await writeFile(keyFile, `${key}\n`, { mode: 0o600 });
    const host = { ...cli.host, env: { ...env, PLATFORM_API_URL: address, PLATFORM_API_KEY: key } };
    const ownCli = new Cli(host);
    const { profile: _profile, url: _url, ...options } = cli.options;
    ownCli.use(options);
    return { cli: ownCli, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
