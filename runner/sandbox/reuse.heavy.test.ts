import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { reuseConformance } from '#test/conformance/sandbox-reuse.ts';
import { noContainer, serveBlobs, startContainer, WRITABLE } from '#test/helpers/runner.ts';
import { warmMs } from '../server/warm-time.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

const root = mkdtempSync(join(tmpdir(), 'runner-reuse-test-'));
const blobs = new FolderBlobs(join(root, 'blobs'));
let links: Awaited<ReturnType<typeof serveBlobs>>;
beforeAll(async () => {
  links = await serveBlobs(blobs);
});
afterAll(() => {
  links.close();
  rmSync(root, { recursive: true });
});

// Bubblewrap creates the container; the test is skipped if it cannot.
const problem = await noContainer();
describe.skipIf(problem !== undefined)(`in a container${problem ? ` (${problem})` : ''}`, () => {
  reuseConformance(
    async () => ({
      start: startContainer,
      blobs,
      linkTo: (key) => links.linkTo(key),
      writable: WRITABLE,
    }),
    { isContainer: true },
  );
});

test('a runner waits half a minute for its next session, after the minute that is paid anyway, and never past 15 minutes', () => {
  const minute = 60_000;
  expect(warmMs(0)).toBe(minute + 30_000);
  expect(warmMs(50_000)).toBe(40_000);
  expect(warmMs(minute)).toBe(30_000);
  expect(warmMs(10 * minute)).toBe(30_000);
  expect(warmMs(15 * minute - 10_000)).toBe(10_000);
  expect(warmMs(15 * minute)).toBe(0);
  expect(warmMs(20 * minute)).toBeLessThan(0);
});
