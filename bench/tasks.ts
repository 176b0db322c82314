import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SystemClock } from '#core/ports/clock.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { PRIORITIES, STATUSES } from '#core/tasks/routes.ts';
import { TaskStore } from '#core/tasks/store.ts';
import { openDatabase } from '#local/database.ts';
import { SqliteTable } from '#local/sqlite-table.ts';
import { ms, type Platform, type Row, startPlatform, timed } from './harness.ts';
import { median } from './statistics.ts';

const FEW = 100;
const MANY = 100_000;
const DAY_MS = 24 * 3600 * 1000;
/** Tasks that are made at once: the database commits once for all of them. */
const LANES = 500;
/** Each once before it counts. */
const TIMES = 40;

const QUERIES = [
  '/tasks',
  '/tasks?status=open',
  '/tasks?status=done&priority=low',
  '/tasks?project=project-3',
  '/tasks?project=project-3&priority=urgent',
  '/tasks?overdue=true',
  '/tasks?overdue=true&project=project-3',
];

/** A page of tasks beside 100 tasks and beside 100,000, over HTTP, in turn. */
export async function benchTasks(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-tasks-'));
  const platforms: Platform[] = [];
  try {
    for (const count of [FEW, MANY]) platforms.push(await platformWith(join(folder, String(count)), count));
    const rows: Row[] = [];
    for (const query of QUERIES) {
      const times: [number[], number[]] = [[], []];
      for (let time = -1; time < TIMES; time++) {
        for (const [index, platform] of platforms.entries()) {
          const took = await timed(() => ask(platform, query));
          if (time >= 0) times[index]!.push(took);
        }
      }
      const [beside, ours] = times.map(median) as [number, number];
      rows.push({
        what: `GET ${query}, with ${MANY.toLocaleString('en')} tasks`,
        ours: ms(ours),
        beside: `with ${FEW.toLocaleString('en')}: ${ms(beside)}`,
        result: `${(ours / beside).toFixed(2)} x`,
        reach: 'at most 3 x',
        reached: ours / beside <= 3,
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

async function platformWith(dataFolder: string, count: number): Promise<Platform> {
  const empty = await startPlatform(dataFolder);
  const { id } = (await ask(empty, '/org')) as { id: string };
  await empty.stop();
  await makeTasks(dataFolder, id, count);
  return { ...(await startPlatform(dataFolder)), key: empty.key };
}

/** Of ten projects, every status and priority, due within a year before and after. */
async function makeTasks(dataFolder: string, workspaceId: string, count: number): Promise<void> {
  const database = openDatabase(join(dataFolder, 'platform.sqlite'));
  const clock = new SystemClock();
  const store = new TaskStore(
    { main: new SqliteTable(database, 'main', clock), clock, ids: new SystemIds() },
    workspaceId,
  );
  database.db.exec('PRAGMA synchronous = OFF; PRAGMA cache_size = -200000');
  const lane = async (first: number): Promise<void> => {
    for (let n = first; n < count; n += LANES) {
      await store.create(
        {
          title: `Task ${n}`,
          description: 'Look into it, and say what was found.',
          project: `project-${n % 10}`,
          status: STATUSES[Math.floor(n / 10) % 4],
          priority: PRIORITIES[Math.floor(n / 40) % 4],
          due_date: new Date(clock.now() + ((n % 730) - 365) * DAY_MS).toISOString().slice(0, 10),
        },
        'bench',
      );
      if (n % 10_000 === 9_999) process.stderr.write(`tasks: ${n + 1} are made\n`);
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, first) => lane(first)));
  database.close();
}
