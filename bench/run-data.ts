import { hash } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { createClient } from '#core/api/client.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Item } from '#core/ports/table.ts';
import { listItems } from '#core/runs/agent-logs/ended-runs.ts';
import { headKey, newRunItems, runExpiry, runIdOf, runsByTime, workspaceIdOf } from '#core/runs/items.ts';
import { type EndedRun, endedRunFrom } from '#core/runs/usage/ended-run.ts';
import { joinSums, sumName, sumShardOf, usageOf } from '#core/runs/usage/rollup.ts';
import type { SumChange } from '#core/runs/usage/sum-change.ts';
import { nameOf, Row, TABLES } from '#local/database/rows.ts';
import { type Platform, startPlatform } from './harness.ts';
import { publishPrompt } from './prompts.ts';

const DAY_MS = 24 * 3600 * 1000;
const RETENTION_DAYS = 30;
/** Runs are spread over these last days, so that none of them expires during a measurement. */
const SPREAD_MS = 28 * DAY_MS;

const AGENTS = 4;
const TENANTS = 3;
/** Runs of one agent in the same second, as in a batch job. */
const TOGETHER = 20;
/** One second in this many has runs of the agent that fails. */
const FAILS_EACH = 20;
const SHARD = sumShardOf('local');
const TOLD_EACH = 500_000;
/** Number of the oldest seconds that the last page of a list is from. */
const LAST_SECONDS = 10;

/** Data folder of a stopped platform with many runs. */
export interface RunData {
  readonly folder: string;
  readonly count: number;
  readonly key: string;
  readonly workspaceId: string;
  readonly agentId: string;
  readonly scheduleId: string;
  /** Time of a run after which there are only a few, ISO 8601. */
  readonly lastPageFrom: string;
}

type Examples = Omit<RunData, 'folder' | 'count' | 'lastPageFrom'>;

/**
 * Makes the data of a platform with `count` ended runs of the last four weeks. A real platform makes one run of each kind;
 * the others are its records with another id and time, so they have the form that the platform writes, and what follows
 * from a run's end comes from the platform's own functions. Rows are written in the order of the table, which
 * is many times faster than the order in which runs end.
 */
export async function makeRunData(folder: string, count: number, llmUrl: string): Promise<RunData> {
  const made = await makeExamples(folder, llmUrl);
  const db = new DatabaseSync(join(folder, 'platform.sqlite'));
  try {
    checkCopies(db, made.workspaceId);
    const plan = multiply(db, made.workspaceId, count);
    return { folder, count, ...made, lastPageFrom: isoTime(plan.startOf(plan.slots - LAST_SECONDS)) };
  } finally {
    db.close();
  }
}

/** Makes the runs that are copied: of each agent one, and one of each tenant, of a schedule, and one that fails. */
async function makeExamples(folder: string, llmUrl: string): Promise<Examples> {
  const platform = await startPlatform(folder, { PLATFORM_ANTHROPIC_URL: `${llmUrl}/v1` });
  try {
    return await makeRuns(platform);
  } finally {
    await platform.stop();
  }
}

async function makeRuns({ url, key }: Platform): Promise<Examples> {
  const client = createClient({ baseUrl: url, key });
  const { workspaces } = await client.listWorkspaces({});
  const workspaceId = workspaces[0]!.id;
  const params = { workspace_id: workspaceId };
  await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-bench' } });
  const call = async (agent: string, status: number, headers: Record<string, string> = {}): Promise<void> => {
    const response = await fetch(`${url}/main/${agent}/latest/run`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      body: '{"name":"Ada"}',
    });
    if (response.status !== status) throw new Error(`${agent}: ${response.status} ${await response.text()}`);
  };
  const agentIds: string[] = [];
  for (let n = 0; n < AGENTS; n++) {
    const { agent } = await publishPrompt(client, `agent-${n}`, 'claude-haiku-4-5');
    agentIds.push(agent.id);
    await call(`agent-${n}`, 200);
    for (let tenant = 0; tenant < TENANTS; tenant++) {
      await call(`agent-${n}`, 200, { 'x-platform-tenant': `tenant-${tenant}` });
    }
  }
  await publishPrompt(client, 'agent-fails', 'claude-bench-9000', { timeout_seconds: 1 });
  await call('agent-fails', 504);
  const { schedule } = await client.createSchedule({
    params,
    body: { agent: 'main/agent-0', cron_expression: '0 0 1 1 *', input_data: { name: 'Ada' } },
  });
  await client.triggerSchedule({ params: { ...params, schedule_id: schedule.id }, body: { name: 'Ada' } });
  // Its end is counted in the background.
  await setTimeout(1000);
  return { key: key!, workspaceId, agentId: agentIds[0]!, scheduleId: schedule.id };
}

const readItems = (db: DatabaseSync, where: string, ...values: SQLInputValue[]): Item[] =>
  db
    .prepare(`SELECT item FROM runs WHERE ${where}`)
    .all(...values)
    .map(({ item }) => JSON.parse(item as string) as Item);

const readHeads = (db: DatabaseSync, workspaceId: string): Item[] =>
  runsByTime(workspaceId).flatMap(({ pk }) => readItems(db, 'gsi2pk = ?', pk));

/** Returns the record of a run with another id and start. */
function copyOf(head: Item, id: string, startedAt: number): Item {
  const shift = startedAt - Date.parse(head.gsi2sk!);
  const workspaceId = workspaceIdOf(head);
  const body = head.body as unknown as { readonly trace: readonly { readonly at: number }[] };
  return {
    ...head,
    ...headKey(workspaceId, id),
    deadline: (head.deadline as number) + shift,
    ...(head.scheduled_at !== undefined && { scheduled_at: (head.scheduled_at as number) + shift }),
    body: { ...body, trace: body.trace.map((event) => ({ ...event, at: event.at + shift })) },
    ttl: runExpiry({ runRetentionDays: RETENTION_DAYS }, startedAt),
    gsi2pk: `${head.gsi2pk!.slice(0, -1)}${id[0]}`,
    gsi2sk: isoTime(startedAt),
  };
}

/** What an ended run leaves in the table besides its record and sums. */
function othersOf(head: Item): readonly Item[] {
  const { body, body_in, ttl } = head;
  const ended = endedRunFrom(head);
  const stored = { body, body_in } as Parameters<typeof newRunItems>[2]['body'];
  const [, ...listed] = newRunItems(ended.workspaceId, ended.run, { body: stored, ttl: ttl as number, hasLease: true });
  return [...listed, ...usageOf(ended, SHARD).logs];
}

/** Throws if a copy of a record under its own id and time would differ from what the platform wrote. */
function checkCopies(db: DatabaseSync, workspaceId: string): void {
  const stored = db.prepare('SELECT item FROM runs WHERE pk = ? AND sk = ?');
  let others = 0;
  for (const head of readHeads(db, workspaceId)) {
    const copy = copyOf(head, runIdOf(head), Date.parse(head.gsi2sk!));
    const mine = othersOf(copy);
    others += mine.length;
    for (const item of [copy, ...mine]) {
      const written = stored.get(item.pk, item.sk)?.item;
      if (written !== JSON.stringify(item)) throw new Error(`not as the platform writes it: ${JSON.stringify(item)}`);
    }
  }
  if (others < AGENTS * TENANTS + 2) throw new Error('the examples have no entries in logs');
}

/** The runs that there are to be, by number: in the order of their ids, and each with a record to copy. */
class Plan {
  readonly count: number;
  /** Number of seconds that have runs. */
  readonly slots: number;
  readonly #latest = Date.now() - DAY_MS;
  readonly #plain: readonly Item[];
  readonly #ofTenants: readonly (readonly Item[])[];
  readonly #ofSchedule: Item;
  readonly #failed: Item;

  constructor(examples: readonly Item[], count: number) {
    this.count = count;
    this.slots = Math.ceil(count / TOGETHER);
    const find = (...wanted: readonly [name: string, value: string | undefined][]): Item =>
      examples.find((head) => wanted.every(([name, value]) => head[name] === value))!;
    const plain = (n: number, tenant?: string) =>
      find(['agent_name', `agent-${n}`], ['tenant_id', tenant], ['schedule_id', undefined]);
    this.#plain = Array.from({ length: AGENTS }, (_, n) => plain(n));
    this.#ofTenants = this.#plain.map((_, n) =>
      Array.from({ length: TENANTS }, (_, tenant) => plain(n, `tenant-${tenant}`)),
    );
    this.#ofSchedule = find(['trigger_source', 'manual']);
    this.#failed = find(['agent_name', 'agent-fails']);
  }

  /** Returns the numbers of the runs that start in a second. Their ids are far from each other. */
  *runsIn(slot: number): Generator<number> {
    for (let n = slot; n < this.count; n += this.slots) yield n;
  }

  exampleOf(n: number): Item {
    const [slot, place] = this.#placeOf(n);
    if (slot % FAILS_EACH === FAILS_EACH - 1) return this.#failed;
    const agent = slot % AGENTS;
    if (place === 0) return this.#ofTenants[agent]![slot % TENANTS]!;
    return place === 1 && agent === 0 ? this.#ofSchedule : this.#plain[agent]!;
  }

  idOf(n: number): string {
    const first = Math.floor(((n + 0.5) / this.count) * 2 ** 48)
      .toString(16)
      .padStart(12, '0');
    const rest = hash('md5', String(n));
    return `${first.slice(0, 8)}-${first.slice(8)}-4${rest.slice(0, 3)}-8${rest.slice(3, 6)}-${rest.slice(6, 18)}`;
  }

  /** Epoch milliseconds. */
  startOf(n: number): number {
    const [slot, place] = this.#placeOf(n);
    return Math.floor((this.#latest - (slot / this.slots) * SPREAD_MS) / 1000) * 1000 + ((place * 41) % 1000);
  }

  recordOf(n: number): Item {
    return copyOf(this.exampleOf(n), this.idOf(n), this.startOf(n));
  }

  #placeOf = (n: number): readonly [slot: number, place: number] => [n % this.slots, Math.floor(n / this.slots)];
}

type Put = (item: Item) => void;

/** Writes the table anew: first what sorts before the records, then these, then what sorts after them. */
function multiply(db: DatabaseSync, workspaceId: string, count: number): Plan {
  const plan = new Plan(readHeads(db, workspaceId), count);
  db.exec(`
    PRAGMA journal_mode = DELETE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; PRAGMA temp_store = FILE;
    BEGIN;
    CREATE TEMP TABLE others AS SELECT * FROM runs WHERE pk LIKE 'FEED#%' OR pk LIKE 'SUMS#%';
    DROP TABLE runs;
    ${TABLES}
    DROP INDEX runs_gsi1; DROP INDEX runs_gsi2; DROP INDEX runs_ttl;
  `);
  writeOthers(plan, putInto(db, 'others'));
  const records = `WS#${workspaceId}#RUN#`;
  const move = (range: string) => db.exec(`INSERT INTO runs SELECT * FROM others WHERE ${range} ORDER BY pk, sk`);
  move(`pk < '${records}'`);
  const put = putInto(db, 'runs');
  for (let n = 0; n < count; n++) {
    put(plan.recordOf(n));
    if ((n + 1) % TOLD_EACH === 0) process.stderr.write(`${n + 1} of ${count} runs are made\n`);
  }
  move(`pk > '${records}~'`);
  db.exec(`DROP TABLE others; ${TABLES} COMMIT; PRAGMA journal_mode = WAL`);
  return plan;
}

function putInto(db: DatabaseSync, table: string): Put {
  const statement = db.prepare(`INSERT INTO ${table} VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
  return (item) => {
    const { pk, sk, ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk } = new Row('runs', nameOf(item), '', item);
    statement.run(pk, sk, JSON.stringify(item), ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk);
  };
}

/** Writes sums, logs and lists of all runs. Runs of one kind in one second add the same to the sums. */
function writeOthers(plan: Plan, put: Put): void {
  const sums = new Map<string, SumChange>();
  for (let slot = 0; slot < plan.slots; slot++) {
    const ended: EndedRun[] = [];
    for (const [example, runs] of Map.groupBy(plan.runsIn(slot), (n) => plan.exampleOf(n))) {
      const first = endedRunFrom(plan.recordOf(runs[0]!));
      for (const n of runs) {
        if (isListed(example)) for (const item of othersOf(plan.recordOf(n))) put(item);
        ended.push({ ...first, run: { ...first.run, id: plan.idOf(n), startedAt: plan.startOf(n) } });
      }
      for (const { key, set, add } of usageOf(first, SHARD).sums) {
        const all = Object.fromEntries(Object.entries(add).map(([name, value]) => [name, value * runs.length]));
        const change = { key, set, add: all };
        const before = sums.get(sumName(change));
        sums.set(sumName(change), before === undefined ? change : joinSums([before, change]).values().next().value!);
      }
    }
    for (const item of listItems(ended, `${SHARD}.${String(slot).padStart(16, '0')}`)) put(item);
  }
  for (const { key, set, add } of sums.values()) put({ ...key, ...set, ...add } as Item);
}

const isListed = ({ tenant_id, schedule_id, status }: Item): boolean =>
  tenant_id !== undefined || schedule_id !== undefined || status !== 'completed';
