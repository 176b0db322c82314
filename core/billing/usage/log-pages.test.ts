import { beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import type { NewRun } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { memoryTables } from '#test/helpers/memory-tables.ts';
import type { LogFilter } from './log-pages.ts';
import { lastDays } from './period.ts';
import { UsageStore } from './store.ts';

const MINUTE_MS = 60_000;
const COUNT = 2_400;
const LIMIT = 10;
const workspaceId = crypto.randomUUID();
const clock = new ManualClock();
const tables = memoryTables(clock);
const deps = { ...tables, blobs: new FolderBlobs('unused'), clock, config: parseConfig({}) };
const period = lastDays(clock.now(), 3);
const newest = Date.parse(`${period.days.at(-1)}T00:00:00Z`) - 1;

type Made = Pick<NewRun, 'id' | 'agentName' | 'tenantId'> & { readonly isFailed: boolean };
/** Newest first. */
const made: Made[] = [];

beforeAll(async () => {
  const store = new RunStore(deps, workspaceId);
  for (let n = 0; n < COUNT; n += 1) {
    // Seven hours, one of which has most of the runs.
    const minutes = n < 1_800 ? 130 + n / 60 : n / 6;
    const isFailed = n % 3 === 0;
    const run: NewRun = {
      id: crypto.randomUUID(),
      agentId: 'agent',
      agentWorkspaceId: workspaceId,
      agentOrg: 'main',
      agentName: `agent-${n % 2}`,
      agentVersion: 'v1',
      engine: 'direct_llm',
      endpoint: 'run',
      // An installation is in no log.
      triggerSource: n === 2_200 ? 'install' : 'api',
      startedAt: Math.floor(newest - minutes * MINUTE_MS),
      deadline: newest + 365 * 24 * 60 * MINUTE_MS,
      tenantId: n % 4 === 0 ? 'tenant' : undefined,
      input: null,
    };
    await store.start(run);
    // One run is not over.
    if (n === 2_300) continue;
    await store.finish(run, {
      ...{ status: isFailed ? 'failed' : 'completed', errorCode: isFailed ? 'LLM_ERROR' : null, errorMessage: null },
      ...{ input: null, output: null, stdout: '', stderr: '', trace: [], executionMs: 1, exitCode: null },
      creditsCents: 0,
    });
    if (run.triggerSource === 'api') made.push({ ...run, isFailed });
  }
  await tables.endedRuns?.settle();
});

/** Reads a page and counts the items that this takes besides the sums. */
async function read(filter: LogFilter, offset: number) {
  const counter = new OperationCounter();
  const store = new UsageStore({ ...deps, runs: counter.count(tables.runs) }, workspaceId);
  await store.rollups(period, filter.tenantId);
  const sums = counter.items;
  const { entries, total } = await store.logs(period, filter, { limit: LIMIT, offset });
  return { ids: entries.map(({ runId }) => runId), total, items: counter.items - 2 * sums };
}

describe.each<[name: string, filter: LogFilter, isIn: (run: Made) => boolean, max: number]>([
  ['all runs', {}, () => true, 400],
  ['runs of an agent', { agentName: 'agent-1' }, ({ agentName }) => agentName === 'agent-1', 2_200],
  ['failed runs', { status: 'failed' }, ({ isFailed }) => isFailed, 400],
  ['runs of a tenant', { tenantId: 'tenant' }, ({ tenantId }) => tenantId !== undefined, 400],
  ['completed runs', { status: 'completed' }, ({ isFailed }) => !isFailed, COUNT + 100],
])('a log of %s', (_, filter, isIn, max) => {
  test('has on each page the runs that belong there, and reads few to find them', async () => {
    const wanted = made.filter(isIn);
    const offsets = [0, 5, 99, 101, 350, 500, 777, 1_100, 1_600, 1_790, 1_950, 2_190, 2_310].filter(
      (n) => n < wanted.length,
    );
    for (const offset of [...offsets, wanted.length - LIMIT, wanted.length - 1, wanted.length]) {
      const { ids, total, items } = await read(filter, offset);
      expect(ids, `at ${offset}`).toEqual(wanted.slice(offset, offset + LIMIT).map(({ id }) => id));
      expect(total).toBe(wanted.length);
      expect(items, `read for ${offset}`).toBeLessThanOrEqual(max);
    }
  });
});
