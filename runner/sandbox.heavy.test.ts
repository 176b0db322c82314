import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { sandboxConformance } from '#test/conformance/sandbox.ts';
import { reuseConformance } from '#test/conformance/sandbox-reuse.ts';
import { warmProgramConformance } from '#test/conformance/warm-programs.ts';
import { RunnerSandbox, serveBlobs, startRunner, WarmRunnerSandbox } from '#test/helpers/runner.ts';

const root = mkdtempSync(join(tmpdir(), 'runner-sandbox-test-'));
const blobs = new FolderBlobs(join(root, 'blobs'));
let links: Awaited<ReturnType<typeof serveBlobs>>;
beforeAll(async () => {
  links = await serveBlobs(blobs);
});
afterAll(() => {
  links.close();
  rmSync(root, { recursive: true });
});

// Heavy, because each session starts a Node process. `npm test` runs the same suite on the local sandbox.
describe('a runner with namespaces of its own', { timeout: 120_000 }, () => {
  sandboxConformance(async () => ({ sandbox: new RunnerSandbox((key) => links.linkTo(key)), blobs }));
  warmProgramConformance(async () => ({ sandbox: new WarmRunnerSandbox((key) => links.linkTo(key)), blobs }), {
    isOfOneProcess: false,
  });
  reuseConformance(async () => ({ start: startRunner, blobs, linkTo: (key) => links.linkTo(key) }));
});
