import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe } from 'vitest';
import { sandboxConformance } from '#test/conformance/sandbox.ts';
import { FolderBlobs } from '../folder-blobs.ts';
import { createLocalSandbox } from './local-sandbox.ts';

const root = mkdtempSync(join(tmpdir(), 'sandbox-test-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

for (const kind of ['unshare', 'bubblewrap'] as const) {
  const blobs = new FolderBlobs(join(root, kind, 'blobs'));
  const create = () => createLocalSandbox({ cacheFolder: join(root, kind, 'cache'), blobs, kind, prestart: 2 });
  const tried = await create();
  const { problem } = await tried.status();
  await tried.close();

  describe.skipIf(problem !== undefined)(
    `${kind}${problem === undefined ? '' : ` cannot work here: ${problem}`}`,
    () => {
      sandboxConformance(async () => ({ sandbox: await create(), blobs }));
    },
  );
}
