import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseConfig } from '#core/config.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { RunStore } from '#core/runs/store.ts';
import { openDatabase } from '#local/database.ts';
import { FolderBlobs } from '#local/folder-blobs.ts';
import { SqliteTable } from '#local/sqlite-table.ts';
import { ms, type Platform, type Row, startPlatform, timed } from './harness.ts';
import { median } from './statistics.ts';

const FEW = 1_000;
const MANY = 1_000_000;
const DAYS = 30;
const DAY_MS = 24 * 3600 * 1000;
/** Runs that are recorded at once: the database commits once for all of them. */
const LANES = 500;
/** Each once before it counts. */
const TIMES = 30;

const QUERIES = [
  '/usage',
  '/usage?tenant_id=tenant-1',
  '/usage/timeseries',
  '/usage/timeseries?granularity=hour',
  '/usage/breakdown',
  '/usage/tenants',
  '/usage/logs',
  '/usage/logs?status=failed&agent_name=agent-3',
  '/usage/logs?agent_name=agent-1',
  '/usage/logs?tenant_id=tenant-2',
  '/usage/compute',
  '/author-usage',
  '/author-usage/logs',
];

/** What is asked of usage beside 1,000 runs and beside 1,000,000, over HTTP, in turn. */
export async function benchUsage(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-usage-'));
  const platforms: Platform[] = [];
  try {
    for (const count of [FEW, MANY]) platforms.push(await platformWith(join(folder, String(count)), count));
    const [few, many] = platforms as [Platform, Platform];
    const rows: Row[] = [];
    for (const query of QUERIES) {
      const times: [number[], number[]] = [[], []];
      for (let time = -1; time < TIMES; time++) {
        for (const [index, platform] of [few, many].entries()) {
          const took = await timed(() => ask(platform, query));
          if (time >= 0) times[index]!.push(took);
        }
      }
      const [beside, ours] = times.map(median) as [number, number];
      const ratio = ours / beside;
      rows.push({
        what: `GET ${query}, with ${MANY.toLocaleString('en')} runs recorded`,
        ours: ms(ours),
        beside: `with ${FEW.toLocaleString('en')}: ${ms(beside)}`,
        result: `${ratio.toFixed(2)} x`,
        reach: 'at most 2 x',
        reached: ratio <= 2,
      });
    }
    return rows;
  } finally {
    for (const platform of platforms) await platform.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function ask({ url, key }: Platform, path: string): Promise<unknown> {
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${key}` } });
  if (!response.ok) throw new Error(`GET ${path}: ${response.status}`);
  return response.json();
}

/** A platform with this many runs of the last 30 days, of five agents and three tenants; a tenth are of a stranger's. */
async function platformWith(dataFolder: string, count: number): Promise<Platform> {
  const empty = await startPlatform(dataFolder);
  const { id } = (await ask(empty, '/org')) as { id: string };
  await empty.stop();
  await record(dataFolder, id, count);
  return { ...(await startPlatform(dataFolder)), key: empty.key };
}

async function record(dataFolder: string, workspaceId: string, count: number): Promise<void> {
  const database = openDatabase(join(dataFolder, 'platform.sqlite'));
  const clock = new SystemClock();
  const runs = new SqliteTable(database, 'runs', clock);
  const deps = { runs, clock, config: parseConfig({}), blobs: new FolderBlobs(join(dataFolder, 'blobs')) };
  const [own, stranger] = [workspaceId, crypto.randomUUID()].map((id) => new RunStore(deps, id)) as [
    RunStore,
    RunStore,
  ];
  const now = clock.now();
  const agentIds = Array.from({ length: 5 }, () => crypto.randomUUID());
  database.db.exec('PRAGMA synchronous = OFF; PRAGMA cache_size = -200000');
  const recordOne = async (n: number): Promise<void> => {
    const startedAt = now - Math.floor((n / count) * (DAYS - 1) * DAY_MS);
    const run = {
      id: crypto.randomUUID(),
      agentId: agentIds[n % 5]!,
      agentWorkspaceId: workspaceId,
      agentOrg: 'main',
      agentName: `agent-${n % 5}`,
      agentVersion: 'v1',
      engine: n % 5 === 0 ? ('code_runtime' as const) : ('direct_llm' as const),
      endpoint: 'run',
      triggerSource: 'api',
      startedAt,
      deadline: startedAt + 60_000,
      tenantId: n % 2 === 0 ? `tenant-${n % 3}` : undefined,
      input: { name: 'Ada' },
    };
    const isError = n % 100 === 3;
    const runStore = n % 10 === 0 ? stranger : own;
    await runStore.start(run);
    await runStore.finish(run, {
      status: isError ? 'failed' : 'completed',
      input: run.input,
      output: { greeting: 'Hello, Ada!' },
      stdout: '',
      stderr: '',
      trace: [],
      executionMs: 40,
      exitCode: null,
      errorCode: isError ? 'LLM_ERROR' : null,
      errorMessage: isError ? 'The provider failed.' : null,
      inputTokens: 20,
      outputTokens: 10,
      creditsCents: 0,
    });
    if (n % 100_000 === 99_999) process.stderr.write(`usage: ${n + 1} runs are recorded\n`);
  };
  const lane = async (first: number): Promise<void> => {
    for (let n = first; n < count; n += LANES) await recordOne(n);
  };
  await Promise.all(Array.from({ length: LANES }, (_, first) => lane(first)));
  database.close();
}
