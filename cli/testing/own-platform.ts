import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Client } from '#core/api/client.ts';
import type { Host } from '../cli.ts';
import { clientOf } from '../connection.ts';
import { UsageError } from '../failure.ts';

/** The repository that this module lies in; the package lies in none. */
const REPOSITORY = join(import.meta.dirname, '../..');
const STOP_MS = 10_000;

export interface OwnPlatform {
  readonly client: Client;
  readonly workspaceId: string;
  /** Slug of its workspace. */
  readonly org: string;
  /** Ends the platform and removes its data. */
  close(): Promise<void>;
}

/**
 * Starts a platform for tests alone, with data of its own, in a process of its own.
 *
 * @param org Slug of its workspace
 * @param settings Settings of the platform beside the usual ones
 *
 * Throws UsageError outside of the repository, and if the platform does not start.
 */
export async function startOwnPlatform(
  { env, fetch }: Pick<Host, 'env' | 'fetch'>,
  org: string,
  settings: Readonly<Record<string, string>>,
): Promise<OwnPlatform> {
  const start = join(env.PLATFORM_REPOSITORY ?? REPOSITORY, 'local/start.ts');
  if (!existsSync(start)) {
    throw new UsageError(`Tests start a platform of their own, but there is no ${start}.`, {
      hint: 'Set PLATFORM_REPOSITORY to a clone of the repository, or test on a running platform with --live.',
    });
  }
  const folder = mkdtempSync(join(tmpdir(), 'platform-tests-'));
  // Settings of the user's own platform are not those of this one, and no key of a provider reaches it.
  const inherited = Object.entries(env).filter(([name]) => !/^PLATFORM_|_API_KEY$|_BASE_URL$/.test(name));
  const child = spawn(process.execPath, [start, '--no-examples', '--child'], {
    env: {
      ...Object.fromEntries(inherited),
      PLATFORM_PORT: '0',
      PLATFORM_DATA: folder,
      PLATFORM_WORKSPACE: org,
      PLATFORM_LOG_LEVEL: 'error',
      ...settings,
    },
    // The end of stdin ends the platform, also when this process is killed.
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const close = async () => {
    await stop(child);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const { url, key } = await addressOf(child);
    const client = await clientOf({ url, key, source: 'the tests' }, undefined, { fetch });
    return { client, org, workspaceId: (await client.getOrg({})).id, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Reads what the first start prints: the address, and the key that is shown once. */
async function addressOf(child: ChildProcess): Promise<{ url: string; key: string }> {
  let problem = '';
  child.stderr!.on('data', (chunk) => (problem = `${problem}${chunk}`.slice(-2000)));
  let key: string | undefined;
  for await (const line of createInterface(child.stdout!)) {
    key ??= /^API key:\s+(\S+)/.exec(line)?.[1];
    const url = /^Platform:\s+(http\S+)/.exec(line)?.[1];
    if (url === undefined || key === undefined) continue;
    // What it prints later is not read, and must not fill the pipe.
    child.stdout!.resume();
    return { url, key };
  }
  throw new UsageError(`The platform for the tests did not start: ${problem.trim()}`, { exitCode: 1 });
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await ended;
  clearTimeout(timer);
}
