import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { sandboxConformance } from '#test/conformance/sandbox.ts';
import { reuseConformance } from '#test/conformance/sandbox-reuse.ts';
import { functionRuntime, noContainer, RunnerSandbox, serveBlobs, startFunctionRunner } from '#test/helpers/runner.ts';

const root = mkdtempSync(join(tmpdir(), 'runner-function-test-'));
const blobs = new FolderBlobs(join(root, 'blobs'));
let links: Awaited<ReturnType<typeof serveBlobs>>;
beforeAll(async () => {
  links = await serveBlobs(blobs);
});
afterAll(() => {
  links.close();
  rmSync(root, { recursive: true });
});

// Bubblewrap creates the environment; the test is skipped if it cannot.
const problem = await noContainer();
describe.skipIf(problem !== undefined)(
  `a runner in a Lambda function${problem ? ` (${problem})` : ''}`,
  { timeout: 120_000 },
  () => {
    const linkTo = (key: string) => links.linkTo(key);
    sandboxConformance(
      async () => {
        const sandbox = new RunnerSandbox(linkTo, startFunctionRunner);
        // A function does not look for the interpreters of its image.
        const { interpreters } = await functionRuntime();
        sandbox.status = async () => ({ kind: 'fargate', interpreters });
        return { sandbox, blobs };
      },
      { isFunction: true },
    );
    reuseConformance(async () => ({ start: startFunctionRunner, blobs, linkTo, writable: ['/tmp'] }), {
      isFunction: true,
    });
  },
);
