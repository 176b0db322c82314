import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { clientOf } from './platform.ts';
import { compileCacheVariable } from './temporary-folder.ts';

const START = join(import.meta.dirname, '../../local/start.ts');

/** Creates a data folder for consecutive processes, which is removed after the test. */
export function dataFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'platform-kill-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Starts a platform in its own process and waits until it listens. Flags for Node also open an IPC channel. */
export async function startProcess(folder: string, settings: Record<string, string>, flags: readonly string[] = []) {
  const child = spawn(process.execPath, [...flags, START, '--no-examples'], {
    env: {
      PATH: process.env.PATH,
      ...compileCacheVariable(),
      PLATFORM_PORT: '0',
      PLATFORM_DATA: folder,
      // The first start stores its profile here.
      XDG_CONFIG_HOME: folder,
      PLATFORM_LOG_LEVEL: 'error',
      PLATFORM_FIND_OLLAMA: 'off',
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'inherit', ...(flags.length > 0 ? (['ipc'] as const) : [])],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let key: string | undefined;
  for await (const line of createInterface(child.stdout!)) {
    key ??= /sk_live_\S+/.exec(line)?.[0];
    const url = /http:\/\/\S+/.exec(line)?.[0];
    if (url !== undefined) return { child, url, key };
  }
  throw new Error('the platform ended before it listened');
}

/**
 * Starts a platform for the first time with the default `PLATFORM_WORKSPACE`. Returns its key and workspace, with a
 * prompt agent `main/greet` that has a provider key.
 */
export async function startWithGreeter(
  folder: string,
  settings: Record<string, string>,
  flags: readonly string[] = [],
) {
  const platform = await startProcess(folder, settings, flags);
  const key = platform.key!;
  const client = clientOf({ url: platform.url, key });
  const workspaceId = (await client.getOrg({})).id;
  const body = { name: 'ANTHROPIC_API_KEY', value: 'sk-kill' };
  await client.putSecret({ params: { workspace_id: workspaceId }, body });
  const { agent } = await client.createAgent({
    body: { name: 'greet', type: 'prompt', description: 'x', prompt: 'Greet.', supported_providers: ['anthropic'] },
  });
  return { platform, key, workspaceId, agentId: agent.id };
}

export async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
