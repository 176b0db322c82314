import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  closeSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { queryAll } from '#core/ports/table.ts';
import { runIdOf } from '#core/runs/items.ts';
import { usagePartition } from '#core/runs/usage/rollup.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { memoryTables } from '#test/helpers/memory-tables.ts';
import { runHeads } from '#test/helpers/run-heads.ts';
import { openDatabase } from './database.ts';
import { SqliteTable } from './sqlite-table.ts';

const KILLS = 25;

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'database-crash-'));
  path = join(folder, 'platform.sqlite');
});
afterEach(() => rmSync(folder, { recursive: true }));

/**
 * Writes until it is killed: pairs of items in transactions, updated repeatedly, and others that are created and
 * deleted. Prints each acknowledged write as `LANE VERSION`.
 */
const WRITER = `
  const { openDatabase } = await import(process.argv[1]);
  const { SqliteTable } = await import(process.argv[2]);
  const { writeSync } = await import('node:fs');
  const table = new SqliteTable(openDatabase(process.argv[3]), 'main', { now: () => 0 });
  const lane = async (lane) => {
    const [a, b] = ['a', 'b'].map((name) => ({ pk: 'pairs', sk: lane + name }));
    const before = await table.get(a);
    for (let version = (before?.version ?? 0) + 1; ; version += 1) {
      const set = { version, gsi1pk: 'versions', gsi1sk: String(version).padStart(9, '0'), filler: 'x'.repeat(version % 900) };
      const done = await table.transact([
        { op: 'update', key: a, changes: { set, add: { sum: version } } },
        { op: 'put', item: { ...b, ...set } },
        { op: 'put', item: { pk: 'new ' + lane, sk: String(version) } },
        ...(version > 20 ? [{ op: 'delete', key: { pk: 'new ' + lane, sk: String(version - 20) } }] : []),
      ]);
      if (!done.ok) throw new Error('refused');
      writeSync(1, lane + ' ' + version + '\\n');
    }
  };
  for (let n = 0; n < 8; n += 1) void lane('lane' + n);
`;

const sum = (version: number): number => (version * (version + 1)) / 2;

test(`a process that is killed at any moment loses nothing that it answered, ${KILLS} times`, {
  timeout: 300_000,
}, async () => {
  const answered = new Map<string, number>();
  for (let n = 0; n < KILLS; n += 1) {
    const modules = ['./database.ts', './sqlite-table.ts'].map((name) => new URL(name, import.meta.url).href);
    // Redirected to a file: a full pipe would end the process before it is killed.
    const printed = join(folder, `answers-${n}`);
    const file = openSync(printed, 'w');
    const child = spawn(process.execPath, ['--input-type=module', '-e', WRITER, ...modules, path], {
      stdio: ['ignore', file, 'inherit'],
    });
    const closed = once(child, 'close');
    await expect.poll(() => fstatSync(file).size, { interval: 5 }).toBeGreaterThan(0);
    // The time ranges from the first rows in the journal to several applied journal files.
    await setTimeout(Math.random() * 900);
    child.kill('SIGKILL');
    expect(await closed).toEqual([null, 'SIGKILL']);
    closeSync(file);
    for (const line of readFileSync(printed, 'utf8').trimEnd().split('\n')) {
      const [lane, version] = line.split(' ');
      answered.set(lane!, Number(version));
    }

    const warnings: string[] = [];
    const database = openDatabase(path, (message) => warnings.push(message));
    expect(database.db.prepare('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' });
    const table = new SqliteTable(database, 'main', new ManualClock());
    const indexed = (await table.query({ pk: 'versions', index: 'gsi1' })).items.length;
    expect(indexed).toBeGreaterThanOrEqual(2 * answered.size);
    for (const [lane, version] of answered) {
      const [a, b] = await table.batchGet(['a', 'b'].map((name) => ({ pk: 'pairs', sk: lane + name })));
      const kept = a!.version as number;
      // At most one more write, which was in flight.
      expect([version, version + 1]).toContain(kept);
      expect(a).toMatchObject({ sum: sum(kept), filler: 'x'.repeat(kept % 900) });
      expect(b!.version).toBe(kept);
      const news = (await Array.fromAsync(queryAll(table, { pk: `new ${lane}` }))).map(({ sk }) => Number(sk));
      const expected = Array.from({ length: Math.min(kept, 20) }, (_, before) => kept - before);
      expect(news.sort((x, y) => y - x)).toEqual(expected);
      answered.set(lane, kept);
    }
    await database.close();
    expect(warnings).toEqual([]);
  }
});

/** Begins and ends runs, and sums them every few milliseconds, until it is killed. Prints the id of each ended run. */
const RUNNER = `
  const [{ openDatabase }, { SqliteTable }, { LocalFeed }, { startSums }, { RunStore }, { endsRun }, run] = await Promise.all(
    process.argv.slice(1, 8).map((url) => import(url)),
  );
  const { writeSync } = await import('node:fs');
  const clock = { now: () => 2_000_000_000_000, sleep: async () => {} };
  const log = { debug() {}, info() {}, warn() {}, error: (...said) => writeSync(2, JSON.stringify(said)) };
  const database = openDatabase(process.argv[8]);
  const feed = new LocalFeed(database, endsRun, 5);
  const tables = { runs: new SqliteTable(database, 'runs', clock, { feed }), counters: new SqliteTable(database, 'counters', clock) };
  startSums(feed, tables.runs, { ...tables, clock, log });
  const workspaceId = process.argv[9];
  const store = new RunStore({ ...tables, clock, log, config: { runRetentionDays: 30 } }, workspaceId);
  const agent = { agentId: workspaceId, agentWorkspaceId: workspaceId, agentOrg: 'acme', agentVersion: 'v1', engine: 'direct_llm' };
  const lane = async (lane) => {
    for (let n = 0; ; n += 1) {
      const id = crypto.randomUUID();
      const record = { ...agent, id, agentName: 'agent' + (n % 3), endpoint: 'run', triggerSource: 'api', startedAt: clock.now(), deadline: clock.now(), input: {} };
      await store.start(record);
      await store.finish(record, run.emptyResult(run.endedWith(undefined), null));
      writeSync(1, id + '\\n');
    }
  };
  for (let n = 0; n < 8; n += 1) void lane(n);
`;

test(`a process that is killed at any moment counts each ended run once, ${KILLS} times`, {
  timeout: 300_000,
}, async () => {
  const workspaceId = crypto.randomUUID();
  const answered: string[] = [];
  const clock = Object.assign(new ManualClock(), { now: () => 2_000_000_000_000 });
  const modules = [
    './database.ts',
    './sqlite-table.ts',
    './local-feed.ts',
    '../start-sums.ts',
    '../../core/runs/store.ts',
    '../../core/runs/usage/ended-run.ts',
    '../../core/runs/run.ts',
  ].map((name) => new URL(name, import.meta.url).href);
  for (let n = 0; n < KILLS; n += 1) {
    const printed = join(folder, `ended-${n}`);
    const file = openSync(printed, 'w');
    const args = ['--input-type=module', '-e', RUNNER, ...modules, path, workspaceId];
    const child = spawn(process.execPath, args, { stdio: ['ignore', file, 'inherit'] });
    const closed = once(child, 'close');
    await expect.poll(() => fstatSync(file).size, { interval: 5, timeout: 30_000 }).toBeGreaterThan(0);
    await setTimeout(Math.random() * 600);
    child.kill('SIGKILL');
    await closed;
    closeSync(file);
    answered.push(...readFileSync(printed, 'utf8').split('\n').slice(0, -1));

    const database = openDatabase(path);
    const { runs, endedRuns } = memoryTables(clock, { database });
    await endedRuns.settle();
    const heads = await runHeads({ runs }, workspaceId);
    const ended = heads.filter((head) => head.duration_ms !== undefined).map(runIdOf);
    expect(new Set(answered).difference(new Set(ended))).toEqual(new Set());
    const sums = await Array.fromAsync(queryAll(runs, { pk: usagePartition(workspaceId) }));
    expect(sums.reduce((sum, each) => sum + (each.runs as number), 0)).toBe(ended.length);
    await database.close();
  }
  expect(answered.length).toBeGreaterThan(KILLS);
});

/** Leaves the files of a process that is killed after ten writes, each in its own group. */
async function leaveJournal(): Promise<string> {
  const script = `
    const { openDatabase } = await import(process.argv[1]);
    const { SqliteTable } = await import(process.argv[2]);
    const table = new SqliteTable(openDatabase(process.argv[3]), 'main', { now: () => 0 });
    for (let n = 0; n < 10; n += 1) await table.put({ pk: 'p', sk: String(n) });
    process.kill(process.pid, 'SIGKILL');
  `;
  const modules = ['./database.ts', './sqlite-table.ts'].map((name) => new URL(name, import.meta.url).href);
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, ...modules, path], { stdio: 'inherit' });
  await once(child, 'exit');
  const file = readdirSync(folder).find((name) => name.includes('.journal-'));
  return join(folder, file!);
}

async function recovered(): Promise<{ readonly keys: string[]; readonly warnings: string[] }> {
  const warnings: string[] = [];
  const database = openDatabase(path, (message) => warnings.push(message));
  const table = new SqliteTable(database, 'main', new ManualClock());
  const keys = (await table.query({ pk: 'p' })).items.map(({ sk }) => sk);
  await table.put({ pk: 'p', sk: 'after' });
  await database.close();
  return { keys, warnings };
}

test('a journal that ends inside a group counts up to it', async () => {
  const file = await leaveJournal();
  appendFileSync(file, '000000ff 12345678\n["main","p"');
  expect(await recovered()).toEqual({ keys: Array.from({ length: 10 }, (_, n) => String(n)), warnings: [] });
  expect(readdirSync(folder).sort()).toEqual(['platform.sqlite', 'platform.sqlite.lock']);
});

test('a journal that is damaged counts up to the damage, is kept, and the operator is told', async () => {
  const file = await leaveJournal();
  appendFileSync(file, `00000004 00000000\nlost`);
  const { keys, warnings } = await recovered();
  expect(keys).toHaveLength(10);
  expect(warnings).toEqual([expect.stringContaining('is damaged')]);
  expect(readdirSync(folder).filter((name) => name.includes('.damaged-'))).toHaveLength(1);
  expect((await recovered()).warnings).toEqual([]);
});

test('a journal that was cut before others does not let them count', async () => {
  const file = await leaveJournal();
  truncateSync(file, 200);
  appendFileSync(file.replace(/\d+$/, '7'), '');
  const { keys, warnings } = await recovered();
  expect(keys.length).toBeLessThan(10);
  expect(warnings).toHaveLength(1);
});
