import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe } from 'vitest';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { warmProgramConformance } from '#test/conformance/warm-programs.ts';

const root = mkdtempSync(join(tmpdir(), 'warm-programs-test-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe.each(['auto', 'unsandboxed'] as const)('%s', (kind) => {
  const setUp = async () => {
    const blobs = new FolderBlobs(join(root, 'blobs'));
    return { sandbox: await createLocalSandbox({ cacheFolder: join(root, kind), blobs, kind }), blobs };
  };
  warmProgramConformance(setUp, { hasLimits: kind === 'auto' });
});
