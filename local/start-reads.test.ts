import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StatementSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { RunStore } from '#core/runs/store.ts';
import { parseLocalConfig } from './config.ts';
import { openDatabase } from './database/database.ts';
import { SqliteTable } from './database/sqlite-table.ts';
import { FolderBlobs } from './files/folder-blobs.ts';
import { startLocalServer } from './server.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'start-reads-'));
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

async function endedRuns(count: number): Promise<void> {
  const database = openDatabase(join(folder, 'platform.sqlite'));
  const clock = new SystemClock();
  const runs = new SqliteTable(database, 'runs', clock);
  const blobs = new FolderBlobs(join(folder, 'blobs'));
  const workspaceId = crypto.randomUUID();
  const store = new RunStore({ runs, blobs, clock, config: parseConfig({}) }, workspaceId);
  for (let n = 0; n < count; n += 1) {
    const startedAt = clock.now() - n * 1000;
    const run = {
      ...{ id: crypto.randomUUID(), agentId: 'agent', agentWorkspaceId: workspaceId, agentOrg: 'main' },
      ...{ agentName: 'agent', agentVersion: 'v1', engine: 'direct_llm' as const, endpoint: 'run' },
      ...{ triggerSource: 'api', startedAt, deadline: startedAt + 1000, input: null },
    };
    await store.start(run);
    await store.finish(run, {
      ...{ status: 'completed', input: null, output: null, stdout: '', stderr: '', trace: [], executionMs: 1 },
      ...{ exitCode: null, errorCode: null, errorMessage: null, creditsCents: 0 },
    });
  }
  await database.close();
}

/** Starts and stops a platform, and returns the rows of the database that it has read meanwhile. */
async function rowsReadByStart(): Promise<number> {
  let rows = 0;
  const { all, get, iterate } = StatementSync.prototype;
  vi.spyOn(StatementSync.prototype, 'all').mockImplementation(function (this: StatementSync, ...values) {
    const found = all.apply(this, values as never);
    rows += found.length;
    return found;
  });
  vi.spyOn(StatementSync.prototype, 'get').mockImplementation(function (this: StatementSync, ...values) {
    const found = get.apply(this, values as never);
    if (found !== undefined) rows += 1;
    return found;
  });
  vi.spyOn(StatementSync.prototype, 'iterate').mockImplementation(function (this: StatementSync, ...values) {
    const found = iterate.apply(this, values as never);
    return found.map((row) => {
      rows += 1;
      return row;
    }) as typeof found;
  });
  const config = parseLocalConfig({ PLATFORM_DATA: folder, PLATFORM_PORT: '0', PLATFORM_SANDBOX_PRESTART: '0' });
  const server = await startLocalServer(config);
  await server.close();
  vi.restoreAllMocks();
  return rows;
}

test('a start reads as many rows with many runs in the data folder as with few', async () => {
  await endedRuns(20);
  const few = await rowsReadByStart();
  await endedRuns(2_000);
  expect(few).toBeGreaterThan(0);
  expect(await rowsReadByStart()).toBe(few);
});
