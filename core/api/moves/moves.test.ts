import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser, type TestUser } from '#test/helpers/users.ts';
import { Archive, newKey } from './archive.ts';
import { exportWorkspace } from './export.ts';
import { freeze, type MoveDeps } from './freeze.ts';
import { closeWorkspace, directoryOf, openWorkspace } from './handover.ts';
import { importWorkspace } from './import.ts';

type Cell = MemoryDeps & MoveDeps;
const cellOf = (cell: string): Cell => ({ ...memoryDeps({ cell }), say: () => {}, settleMs: 0 });

let old: Cell;
let next: Cell;
let ada: TestUser;
let archive: Archive;
beforeEach(async () => {
  [old, next] = [cellOf('a'), cellOf('b')];
  ada = await addUser(old, 'ada');
  const folder = mkdtempSync(join(tmpdir(), 'move-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  archive = new Archive(new FolderBlobs(folder), newKey());
});
const OPTIONS = { to: 'b', waitMs: 0, loseRuns: false };

test('moves an empty workspace', async () => {
  const frozen = await freeze(old, 'ada', OPTIONS);
  await exportWorkspace(old, archive, frozen);
  await importWorkspace(next, archive);
  await closeWorkspace(old, archive);
  await openWorkspace(next, archive);
  expect(await directoryOf(archive)).toHaveLength(2);
});
