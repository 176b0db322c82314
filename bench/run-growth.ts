import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { writeCursor } from '#core/http/cursor.ts';
import {
  ask,
  load,
  ms,
  type Platform,
  ROOT,
  type Row,
  residentBytes,
  startPlatform,
  startProgram,
  timed,
} from './harness.ts';
import type { Load } from './load.ts';
import { makeRunData, type RunData } from './run-data.ts';
import { median } from './statistics.ts';

const FEW = 10_000;
const MANY = [1_000_000, 10_000_000];
const COMPUTED = 100_000_000;
/** Calls are measured in this many turns of each platform. */
const TURNS = 7;
const PAGES = 15;
const EXPIRED = 100_000;
const MB = 1e6;

const DATABASE = 'platform.sqlite';
const number = (count: number): string => count.toLocaleString('en');
const megabytes = (bytes: number): string => `${(bytes / MB).toFixed(0)} MB`;
const sizeOf = (data: RunData): number => statSync(join(data.folder, DATABASE)).size;

/**
 * Measures a platform with many runs in its data folder beside one with few. Makes 20 GB of data, in `TMPDIR`. A backup needs
 * twice as much, so that, expiry and the return of space are measured with a million.
 */
export async function benchRunGrowth(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-runs-'));
  const llm = await startProgram(join(ROOT, 'bench/llm-server.ts'));
  const llmUrl = `http://127.0.0.1:${llm.port}`;
  try {
    const make = (count: number) => makeRunData(join(folder, String(count)), count, llmUrl);
    const few = await make(FEW);
    const rows: Row[] = [];
    const kept: RunData[] = [];
    for (const count of MANY) {
      const many = await make(count);
      kept.push(many);
      rows.push(...(await besideFew(many, few, llmUrl)));
    }
    rows.push(...computed(kept));
    for (const work of worksOf(kept[0]!, folder)) rows.push(await duringWork(kept[0]!, llmUrl, work));
    return rows;
  } finally {
    llm.process.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Started extends Platform {
  readonly data: RunData;
  readonly startMs: number;
  readonly memory: number;
}

async function startOn(data: RunData, llmUrl: string): Promise<Started> {
  const began = performance.now();
  const platform = await startPlatform(data.folder, { PLATFORM_ANTHROPIC_URL: `${llmUrl}/v1` });
  const known = { ...platform, key: data.key, data };
  await ask(known, '/org');
  return { ...known, startMs: performance.now() - began, memory: residentBytes(platform.process.pid!) };
}

const calls = ({ url, key }: Platform, seconds = 3): Promise<Load> =>
  load(`${url}/main/agent-0/v1/run`, [`Authorization: Bearer ${key}`], {
    connections: 10,
    seconds,
    body: '{"name":"Ada"}',
  });

/** Compares starts, memory, calls and lists. */
async function besideFew(many: RunData, few: RunData, llmUrl: string): Promise<Row[]> {
  const starts: [Started[], Started[]] = [[], []];
  // Reads the file into the machine's cache, as on a machine that runs.
  for (const data of [few, many]) await (await startOn(data, llmUrl)).stop();
  for (let turn = 0; turn < 3; turn++) {
    for (const [side, data] of [few, many].entries()) {
      for (const earlier of starts[side]!.slice(-1)) await earlier.stop();
      starts[side]!.push(await startOn(data, llmUrl));
    }
  }
  const [beside, ours] = starts.map((all) => all.at(-1)!) as [Started, Started];
  try {
    const compare = (
      what: string,
      of: (started: Started) => number,
      show: (value: number) => string,
      max: number,
    ): Row => {
      const [b, o] = starts.map((all) => median(all.map(of))) as [number, number];
      return ratioRow(`${what}, with ${number(many.count)} runs`, [o, show], [b, `with ${number(few.count)}`], max);
    };
    const rows = [
      compare('start until the first answer', ({ startMs }) => startMs, ms, 1.2),
      compare('memory after the start', ({ memory }) => memory, megabytes, 1.1),
    ];
    // Before the calls, which are all in the same minute.
    const fewLists = listsOf(few);
    for (const [index, { name, first, last }] of listsOf(many).entries()) {
      const [firstFew, firstMany, lastMany] = await timesOf([
        [beside, fewLists[index]!.first],
        [ours, first],
        [ours, last],
      ]);
      const of = `${name} with ${number(many.count)} runs`;
      rows.push(ratioRow(`${of}, first page`, [firstMany!, ms], [firstFew!, `with ${number(few.count)}`], 2));
      rows.push(ratioRow(`${of}, last page`, [lastMany!, ms], [firstMany!, 'first page'], 1.5));
    }
    const loads: [Load[], Load[]] = [[], []];
    for (let turn = -1; turn < TURNS; turn++) {
      for (const [side, platform] of [beside, ours].entries()) {
        const result = await calls(platform);
        if (result.failed > 0) throw new Error(`${result.failed} calls failed`);
        if (turn >= 0) loads[side]!.push(result);
      }
    }
    const [p50b, p50] = loads.map((all) => median(all.map(({ p50Ms }) => p50Ms))) as [number, number];
    const what = `prompt call, 10 connections, p50, with ${number(many.count)} runs`;
    rows.push(ratioRow(what, [p50, ms], [p50b, `with ${number(few.count)}`], 1.1));
    return rows;
  } finally {
    await beside.stop();
    await ours.stop();
  }
}

interface List {
  readonly name: string;
  readonly first: string;
  /** The deepest page that the API reaches. */
  readonly last: string;
}

/** The lists of runs, with the paths of two of their pages. */
function listsOf({ workspaceId, agentId, scheduleId, lastPageFrom }: RunData): List[] {
  const logs = (name: string, query: string): List => ({
    name: `GET /usage/logs${name}`,
    first: `/usage/logs?limit=50${query}`,
    last: `/usage/logs?limit=50&offset=10000${query}`,
  });
  const runs = `/workspaces/${workspaceId}/runs?limit=20`;
  const schedule = `/workspaces/${workspaceId}/schedules/${scheduleId}/runs?limit=20`;
  // As after all earlier pages.
  const cursor = writeCursor([workspaceId, []], [lastPageFrom, 'f'.repeat(32), 1000, 1000, false]);
  return [
    { name: 'GET /workspaces/{id}/runs', first: runs, last: `${runs}&cursor=${encodeURIComponent(cursor)}` },
    logs('', ''),
    logs('?agent_name=', '&agent_name=agent-1'),
    logs('?status=timeout', '&status=timeout'),
    logs('?tenant_id=', '&tenant_id=tenant-1'),
    {
      name: 'GET /agents/{id}/logs',
      first: `/agents/${agentId}/logs`,
      last: `/agents/${agentId}/logs?before=${lastPageFrom}`,
    },
    { name: 'GET .../schedules/{id}/runs', first: schedule, last: `${schedule}&offset=980` },
  ];
}

/** Returns the median times of requests that alternate. */
async function timesOf(requests: readonly (readonly [Platform, string])[]): Promise<number[]> {
  const times: number[][] = requests.map(() => []);
  for (let turn = -2; turn < PAGES; turn++) {
    for (const [index, [platform, path]] of requests.entries()) {
      const took = await timed(() => ask(platform, path));
      if (turn >= 0) times[index]!.push(took);
    }
  }
  return times.map(median);
}

/** What a hundred million would take: each of them adds as much as those between the two largest measurements. */
function computed(all: readonly RunData[]): Row[] {
  const [less, more] = all.slice(-2) as [RunData, RunData];
  const each = (sizeOf(more) - sizeOf(less)) / (more.count - less.count);
  const size = sizeOf(more) + each * (COMPUTED - more.count);
  return [
    {
      what: `size of the database with ${number(COMPUTED)} runs, computed`,
      ours: `${(size / 1e9).toFixed(0)} GB`,
      beside: `${number(more.count)}: ${(sizeOf(more) / 1e9).toFixed(1)} GB, ${number(less.count)}: ${(sizeOf(less) / 1e9).toFixed(1)} GB`,
      result: `${(each / 1000).toFixed(2)} kB a run`,
      bound: 'at most 2.5 kB a run',
      isMet: each <= 2_500,
    },
  ];
}

/** Work on the data of a platform while that answers calls. */
interface Work {
  readonly what: string;
  /** Changes the data of the stopped platform so that the work is due. */
  readonly prepare: () => void;
  readonly begin: () => { readonly isOver: () => boolean; readonly end: () => Promise<unknown> };
}

function worksOf(data: RunData, folder: string): Work[] {
  const change = (sql: string) => (): void => {
    const db = new DatabaseSync(join(data.folder, DATABASE));
    db.exec(sql);
    db.close();
  };
  const until = (sql: string) => () => {
    const db = new DatabaseSync(join(data.folder, DATABASE), { readOnly: true });
    return { isOver: () => db.prepare(sql).get()!.over === 1, end: async () => db.close() };
  };
  return [
    {
      what: `a backup of ${number(data.count)} runs`,
      prepare() {},
      begin() {
        const args = ['cli/main.ts', 'backup', join(folder, 'backup.tar.gz'), '--data', data.folder];
        const done = promisify(execFile)(process.execPath, args, { cwd: ROOT });
        let isOver = false;
        done.finally(() => (isOver = true)).catch(() => {});
        return { isOver: () => isOver, end: () => done };
      },
    },
    {
      what: `the expiry of ${number(EXPIRED)} runs`,
      prepare: change(`UPDATE runs SET ttl = 1 WHERE (pk, sk) IN
        (SELECT pk, sk FROM runs INDEXED BY runs_ttl WHERE ttl IS NOT NULL ORDER BY ttl LIMIT ${EXPIRED})`),
      begin: until('SELECT NOT EXISTS (SELECT 1 FROM runs WHERE ttl = 1) AS over'),
    },
    {
      what: 'the return of space to the disk',
      // The records of half of all runs.
      prepare: change(
        `DELETE FROM runs WHERE pk BETWEEN 'WS#${data.workspaceId}#RUN#0' AND 'WS#${data.workspaceId}#RUN#7'`,
      ),
      begin: until('SELECT freelist_count < 0.26 * page_count AS over FROM pragma_freelist_count, pragma_page_count'),
    },
  ];
}

/** Measures calls of one platform without and with some work. */
async function duringWork(data: RunData, llmUrl: string, { what, prepare, begin }: Work): Promise<Row> {
  prepare();
  // Not the same process: some work begins five seconds after the start.
  const before = await startOn(data, llmUrl);
  await calls(before, 2);
  const quiet = [await calls(before, 2)];
  await before.stop();
  const platform = await startOn(data, llmUrl);
  try {
    await calls(platform, 2);
    const busy: Load[] = [];
    const began = performance.now();
    const work = begin();
    while (!work.isOver()) busy.push(await calls(platform));
    const seconds = (performance.now() - began) / 1000;
    await work.end();
    const [p99b, p99] = [quiet, busy].map((all) => median(all.map(({ p99Ms }) => p99Ms))) as [number, number];
    const failed = busy.reduce((sum, each) => sum + each.failed, 0);
    const row = ratioRow(`prompt call, 10 connections, p99 during ${what}`, [p99, ms], [p99b, 'without'], 3);
    return { ...row, ours: `${row.ours}, for ${seconds.toFixed(0)} s`, isMet: row.isMet && failed === 0 };
  } finally {
    await platform.stop();
  }
}

/** Row of a ratio that must not be above `max`. */
function ratioRow(
  what: string,
  [value, show]: readonly [number, (value: number) => string],
  [beside, name]: readonly [number, string],
  max: number,
): Row {
  const ratio = value / beside;
  return {
    what,
    ours: show(value),
    beside: `${name}: ${show(beside)}`,
    result: `${ratio.toFixed(2)} x`,
    bound: `at most ${max} x`,
    isMet: ratio <= max,
  };
}
