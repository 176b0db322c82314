import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '#core/api/client.ts';
import { startChildPlatform } from '../child-platform.ts';
import type { Host } from '../shared/cli.ts';
import { clientOf } from '../signing-in/connection.ts';

export interface OwnPlatform {
  readonly client: Client;
  readonly workspaceId: string;
  /** Slug of its workspace. */
  readonly org: string;
  /** Stops the platform and deletes its data. */
  close(): Promise<void>;
}

/**
 * Starts a platform for tests only, with its own data and process.
 *
 * @param org Slug of its workspace
 * @param settings Additional settings of the platform
 *
 * Throws UsageError if the platform does not start.
 */
export async function startOwnPlatform(
  { env, fetch }: Pick<Host, 'env' | 'fetch'>,
  org: string,
  settings: Readonly<Record<string, string>>,
): Promise<OwnPlatform> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-tests-'));
  const removeData = () => rmSync(folder, { recursive: true, force: true });
  // Settings of the user's own platform do not apply to this one, and it gets no provider keys.
  const inherited = Object.entries(env).filter(([name]) => !/^PLATFORM_|_API_KEY$|_BASE_URL$/.test(name));
  const platform = await startChildPlatform({
    ...Object.fromEntries(inherited),
    PLATFORM_PORT: '0',
    PLATFORM_DATA: folder,
    PLATFORM_WORKSPACE: org,
    PLATFORM_LOG_LEVEL: 'error',
    ...settings,
  }).catch((error) => {
    removeData();
    throw error;
  });
  const close = async () => {
    await platform.stop();
    removeData();
  };
  try {
    const { url, key } = platform;
    const client = await clientOf({ url, key, source: 'the tests' }, undefined, { fetch });
    return { client, org, workspaceId: (await client.getOrg({})).id, close };
  } catch (error) {
    await close();
    throw error;
  }
}
