import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach } from 'vitest';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { startScriptedLlm } from './scripted-llm/server.ts';

/**
 * What the loops of a test file run with: a scripted model, and a sandbox of this machine, which `problem` says to be
 * missing. Both end with the file; the model forgets its script after each test.
 */
export async function startLoopWorld() {
  const folder = mkdtempSync(join(tmpdir(), 'loop-world-'));
  const blobs = new FolderBlobs(join(folder, 'blobs'));
  const sandbox = await createLocalSandbox({ cacheFolder: join(folder, 'cache'), blobs, kind: 'auto', prestart: 2 });
  const { problem } = await sandbox.status();
  const server = await startScriptedLlm();
  afterEach(() => server.reset());
  afterAll(async () => {
    await Promise.all([server.close(), sandbox.close()]);
    rmSync(folder, { recursive: true, force: true });
  });
  return { sandbox, problem, server };
}
