import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Client } from '#core/api/client.ts';
import type { Schedule } from '#core/automation/schedules/schedule.ts';
import { ScheduleStore } from '#core/automation/schedules/store.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import {
  ask,
  load,
  ms,
  PEERS,
  type Platform,
  processorMs,
  ROOT,
  type Row,
  startPlatform,
  startProgram,
  timed,
} from './harness.ts';
import { type DataStore, prepareData } from './prepared-data.ts';
import { publishPrompt } from './prompts.ts';
import { median } from './statistics.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** Pause after a start, during which the platform runs its initial tasks. */
const SETTLING_MS = 10_000;
/** Number of measured minutes, after one warm-up minute. */
const ROUNDS = 3;
/** Concurrent calls of one workspace in the default plan. */
const AT_ONCE = 200;
const seconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(2)} s`;

/** Measures many schedules due in the same minute, and many that are not due. */
export async function benchSchedules(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-schedules-'));
  const llm = await startProgram(join(ROOT, 'bench/llm-server.ts'));
  const scene = { folder, llmUrl: `http://127.0.0.1:${llm.port}` };
  try {
    return [await benchThousand(scene), await benchTenThousand(scene), ...(await benchIdle(scene))];
  } finally {
    llm.process.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Scene {
  readonly folder: string;
  /** URL without a slash at the end. */
  readonly llmUrl: string;
}

const startWith = (dataFolder: string, llmUrl: string): Promise<Platform> =>
  startPlatform(dataFolder, { PLATFORM_ANTHROPIC_URL: `${llmUrl}/v1` });

/** Baseline: a library's timers, set for the middle of the minute, that only call the LLM. */
async function benchThousand({ folder, llmUrl }: Scene): Promise<Row> {
  const count = 1_000;
  const prepared = { count, workspaces: count / AT_ONCE, model: 'claude-bench-500' };
  const platform = await startWith(await prepareSchedules(folder, prepared), llmUrl);
  const hasPeers = existsSync(join(PEERS, 'node_modules/croner'));
  const croner = hasPeers ? await startProgram(join(PEERS, 'croner.mjs'), [llmUrl, String(count)]) : undefined;
  const ours: Burst[] = [];
  const beside: number[] = [];
  try {
    for (let round = -1; round < ROUNDS; round++) {
      const minute = nextMinute();
      const burst = await burstOf(platform, llmUrl, minute, count);
      if (round >= 0) ours.push(burst);
      if (!croner) continue;
      if (Date.now() > minute + MINUTE_MS / 2) throw new Error(`${count} runs took more than half a minute`);
      const last = await lastAsked(llmUrl, minute + MINUTE_MS / 2, count);
      if (round >= 0) beside.push(last);
    }
  } finally {
    croner?.process.kill();
    await platform.stop();
  }
  const last = median(ours.map(({ lastMs }) => lastMs));
  const health = median(ours.map(({ healthMs }) => healthMs));
  // Without croner there is no ratio.
  const ratio = croner ? median(ours.map(({ lastMs }, i) => lastMs / beside[i]!)) : undefined;
  const published = 'n8n, which cannot be installed here, is published with 4.5 s';
  return {
    what: `${count.toLocaleString('en')} schedules of a prompt agent due in the same minute, LLM taking 500 ms`,
    ours: describe(ours, count),
    beside: `${croner ? `as many bare timers of croner: ${seconds(median(beside))}; ` : ''}${published}`,
    result: [seconds(last), ratio && `${ratio.toFixed(1)} x`, `GET /health p99 ${ms(health)}`]
      .filter(Boolean)
      .join(', '),
    bound: 'at most 0.5 s, 1.3 x, at most 50 ms',
    isMet: last <= 500 && (ratio ?? 0) <= 1.3 && health <= 50,
  };
}

/** Baseline: the same number of sequential writes to a table. */
async function benchTenThousand({ folder, llmUrl }: Scene): Promise<Row> {
  const count = 10_000;
  const prepared = { count, workspaces: count / AT_ONCE };
  const platform = await startWith(await prepareSchedules(folder, prepared), llmUrl);
  const ours: Burst[] = [];
  const beside: number[] = [];
  try {
    for (let round = -1; round < ROUNDS; round++) {
      const burst = await burstOf(platform, llmUrl, nextMinute(), count);
      const writes = await timed(() => writeBare(join(folder, `bare-${round}.sqlite`), count));
      if (round < 0) continue;
      ours.push(burst);
      beside.push(writes);
    }
  } finally {
    await platform.stop();
  }
  const last = median(ours.map(({ lastMs }) => lastMs));
  const ratio = median(ours.map(({ lastMs }, i) => lastMs / beside[i]!));
  const health = median(ours.map(({ healthMs }) => healthMs));
  return {
    what: `${count.toLocaleString('en')} of them due in the same minute, LLM answering at once`,
    ours: describe(ours, count),
    beside: `${count.toLocaleString('en')} bare table writes: ${seconds(median(beside))}`,
    result: `${seconds(last)}, ${ratio.toFixed(1)} x, GET /health p99 ${ms(health)}`,
    bound: 'at most 4 s, at most 100 ms',
    isMet: last <= 4_000 && health <= 100,
  };
}

/** Measures the cost of 100,000 schedules due on other days and one due each minute, compared with no schedules. */
async function benchIdle({ folder, llmUrl }: Scene): Promise<Row[]> {
  const count = 100_000;
  const dataFolder = await prepareSchedules(folder, { count, workspaces: 1, vary: onAnotherDay });
  const starts: Start[] = [];
  let platform: Platform | undefined;
  let none: Platform | undefined;
  let shares: number[];
  try {
    for (let round = 0; round < ROUNDS; round++) {
      await none?.stop();
      await platform?.stop();
      // Then the single schedule is due, and its run shows when the timers work.
      await setTimeout(nextMinute() - Date.now());
      const started = Date.now();
      const armed = lastAsked(llmUrl, started, 1);
      platform = await startWith(dataFolder, llmUrl);
      await ask(platform, '/health');
      const healthyMs = Date.now() - started;
      const armedMs = await armed;
      const emptyMs = await timed(async () => {
        none = await startWith(join(folder, 'none'), llmUrl);
        await ask(none, '/health');
      });
      starts.push({ healthyMs, armedMs, emptyMs });
    }
    await setTimeout(SETTLING_MS);
    shares = await Promise.all([platform!, none!].map(idleShare));
  } finally {
    await platform?.stop();
    await none?.stop();
  }
  const [ours, beside] = shares;
  const percent = (share: number): string => `${(share * 100).toFixed(2)}%`;
  const start = (figure: keyof Start): number => median(starts.map((times) => times[figure]));
  const slowest = Math.max(start('healthyMs'), start('armedMs'));
  return [
    {
      what: `an idle minute with ${count.toLocaleString('en')} enabled schedules`,
      ours: `${percent(ours!)} of a core`,
      beside: `with none: ${percent(beside!)}`,
      result: percent(ours!),
      bound: 'under 1%',
      isMet: ours! < 0.01,
    },
    {
      what: 'start with them',
      ours: `first answer after ${seconds(start('healthyMs'))}, first run after ${seconds(start('armedMs'))}`,
      beside: `first answer with none: ${seconds(start('emptyMs'))}`,
      result: seconds(slowest),
      bound: 'under 3 s',
      isMet: slowest < 3_000,
    },
  ];
}

interface Start {
  /** Time from the start of the process to the first answer of GET /health. */
  readonly healthyMs: number;
  /** Time from the start of the process to the run of an overdue schedule. */
  readonly armedMs: number;
  /** Time to the first answer of a platform without schedules. */
  readonly emptyMs: number;
}

function onAnotherDay(first: Schedule, n: number): Schedule {
  const next = new Date(nextMinute() + (1 + (n % 360)) * DAY_MS + (n % 1440) * MINUTE_MS);
  const time = `${next.getUTCMinutes()} ${next.getUTCHours()}`;
  const cron = `${time} ${next.getUTCDate()} ${next.getUTCMonth() + 1} *`;
  return { ...first, cronExpression: cron, nextRunAt: next.toISOString() };
}

/** CPU use of a platform over a minute, in cores. */
async function idleShare({ process: { pid } }: Platform): Promise<number> {
  const before = processorMs(pid!);
  await setTimeout(MINUTE_MS);
  return (processorMs(pid!) - before) / MINUTE_MS;
}

interface Burst {
  /** Time from the start of the minute to the last model call. */
  readonly lastMs: number;
  /** CPU time until the last model call. */
  readonly processorMs: number;
  /** Latencies of GET /health in the seconds after the minute. */
  readonly healthMs: number;
}

function describe(bursts: readonly Burst[], count: number): string {
  const of = (figure: keyof Burst): number => median(bursts.map((burst) => burst[figure]));
  const each = `${ms(of('processorMs') / count)} of a processor each`;
  return `the last asks the model after ${seconds(of('lastMs'))}, ${each}; GET /health meanwhile p99 ${ms(of('healthMs'))}`;
}

/** Returns the next full minute in epoch milliseconds. */
const nextMinute = (): number => Math.ceil(Date.now() / MINUTE_MS) * MINUTE_MS;

/** Measures a minute in which `count` schedules are due. */
async function burstOf(platform: Platform, llmUrl: string, minute: number, count: number): Promise<Burst> {
  const last = lastAsked(llmUrl, minute, count);
  await setTimeout(minute - Date.now());
  const before = processorMs(platform.process.pid!);
  const spent = last.then(() => processorMs(platform.process.pid!) - before);
  const health = await load(`${platform.url}/health`, [], { connections: 2, rate: 100, seconds: 4 });
  return { lastMs: await last, processorMs: await spent, healthMs: health.p99Ms };
}

/**
 * Waits for model call number `count` after `from`, and returns its delay in milliseconds; earlier calls are discarded.
 */
async function lastAsked(llmUrl: string, from: number, count: number): Promise<number> {
  const take = async () => (await (await fetch(llmUrl)).json()) as number[];
  await setTimeout(Math.max(0, from - Date.now() - 100));
  await take();
  const times: number[] = [];
  while (times.length < count) {
    if (Date.now() > from + 3 * MINUTE_MS) throw new Error(`the model was asked ${times.length} times, not ${count}`);
    await setTimeout(100);
    times.push(...(await take()));
  }
  return times[count - 1]! - from;
}

async function writeBare(file: string, count: number): Promise<void> {
  const database = openDatabase(file);
  const table = new SqliteTable(database, 'main', new SystemClock());
  for (let n = 0; n < count; n++) await table.put({ pk: 'BARE', sk: String(n), text: 'x'.repeat(500) });
  await database.close();
}

interface Prepared {
  readonly count: number;
  readonly workspaces: number;
  /** Model of `bench/llm-server.ts`. @default 'claude-bench', which answers at once */
  readonly model?: string;
  /** Derives the other schedules of a workspace from its first. @default a copy */
  readonly vary?: (first: Schedule, n: number) => Schedule;
}

/** Writes the data of a platform with schedules of each minute in this number of workspaces; returns its folder. */
async function prepareSchedules(
  folder: string,
  { count, workspaces, model = 'claude-bench', vary = (first) => first }: Prepared,
): Promise<string> {
  const dataFolder = join(folder, String(count));
  const firsts: Pick<Schedule, 'id' | 'workspaceId'>[] = [];
  const setUp = async (client: Client): Promise<void> => {
    await publishPrompt(client, 'bench', model, { is_public: true });
    const ids = [(await client.listWorkspaces({})).workspaces[0]!.id];
    while (ids.length < workspaces) {
      const { workspace } = await client.createWorkspace({ body: { name: `Bench ${ids.length}` } });
      ids.push(workspace.id);
    }
    for (const workspace_id of ids) {
      const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-bench' };
      await client.putSecret({ params: { workspace_id }, body: secret });
      const body = { agent: 'main/bench', cron_expression: '* * * * *', input_data: { name: 'Ada' } };
      const { schedule } = await client.createSchedule({ params: { workspace_id }, body });
      firsts.push({ id: schedule.id, workspaceId: workspace_id });
    }
  };
  const makeOne = (deps: DataStore) => async (n: number) => {
    if (n < workspaces) return;
    const { id, workspaceId } = firsts[n % workspaces]!;
    const store = new ScheduleStore(deps, workspaceId);
    const first = (await store.find(id))!;
    const schedule = { ...vary(first, n), id: deps.ids.uuid() };
    if (!(await store.create(schedule, count))) throw new Error(`the workspace ${workspaceId} has ${count} schedules`);
  };
  await prepareData(dataFolder, count, makeOne, setUp);
  return dataFolder;
}
