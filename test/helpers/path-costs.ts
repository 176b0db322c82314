import { createClient } from '#core/api/client.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { fireDue } from '#core/automation/schedules/runs/fire.ts';
import { type DueSchedule, listDue } from '#core/automation/schedules/store.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { openDatabase } from '#local/database/database.ts';
import { OperationCounter } from './counting-table.ts';
import { type MemoryDeps, memoryDeps } from './memory-deps.ts';
import { memoryTables } from './memory-tables.ts';
import { publishCode } from './platform.ts';
import { addUser } from './users.ts';
import { createWebApp } from './web-app.ts';

/** Table operations of one request or one run of a schedule, including work after its answer. */
export interface PathCost {
  /** Items read or written. */
  readonly items: number;
  /** SQL statements on a single machine: one per read that neither the cache nor the write queue answers. */
  readonly statements: number;
  /** Rows written to the journal on a single machine. */
  readonly rows: number;
  /** Writes to the journal; all rows of one turn of the event loop share a write. */
  readonly groups: number;
  /** Operations such as `main.get`, in order of completion. */
  readonly operations: readonly string[];
}

/** In-memory platform that counts operations, with a prompt agent, its webhook and its schedule. */
export interface CountedPlatform {
  readonly prompt: () => Promise<PathCost>;
  readonly stream: () => Promise<PathCost>;
  /** A message of a session that has some already. */
  readonly session: () => Promise<PathCost>;
  /** The same at the session's own address. */
  readonly message: () => Promise<PathCost>;
  readonly getAgent: () => Promise<PathCost>;
  readonly webhook: () => Promise<PathCost>;
  readonly schedule: () => Promise<PathCost>;
  /** Runs a program; requires a sandbox. */
  readonly program: () => Promise<PathCost>;
}

const INPUT = { name: 'Ada' };

/** Ids by whose end all calls of a workspace are counted in one shard: the first request has then read it. */
class OneShardIds extends SystemIds {
  override uuid(): string {
    return super.uuid().slice(0, -6).padEnd(36, '0');
  }
}

/** Starts a counted platform, which closes with the calling test. */
export async function countedPlatform(
  settings: Parameters<typeof memoryDeps>[0],
  parts: Partial<Pick<AllDeps, 'sandbox' | 'blobs'>> = {},
): Promise<CountedPlatform> {
  const uncounted = memoryDeps(settings);
  const counter = new OperationCounter();
  const sql = countedDatabase();
  const background: Promise<void>[] = [];
  const { endedRuns, ...tables } = memoryTables(uncounted.clock, { database: sql.database });
  const { main } = tables;
  const deps: MemoryDeps = {
    ...uncounted,
    ...parts,
    ids: new OneShardIds(),
    main: counter.count(main, 'main'),
    runs: counter.count(tables.runs, 'runs'),
    counters: counter.count(tables.counters, 'counters'),
    endedRuns,
    background(work) {
      background.push(work);
      return work;
    },
  };
  const { key, slug, workspaceId } = await addUser(deps, 'counted');
  const send = sender(deps, key);

  await send('PUT', `/workspaces/${workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' });
  const { agent } = await send('POST', '/agents', {
    name: 'greeter',
    type: 'prompt',
    description: 'Greets',
    prompt: 'Greet {{name}}.',
    supported_providers: ['anthropic'],
    input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  });
  const schedules = `/workspaces/${workspaceId}/schedules`;
  const common = { agent: `${slug}/greeter`, input_data: INPUT };
  const { schedule: hook } = await send('POST', schedules, { ...common, schedule_type: 'webhook' });
  await send('POST', schedules, { ...common, cron_expression: '* * * * *' });
  const hookPath = new URL(hook.webhook_url, 'http://127.0.0.1').pathname;
  const run = `/${slug}/greeter/v1/run`;

  const measured = async (work: () => Promise<unknown>, prepare = async () => {}): Promise<PathCost> => {
    // The first request of a process fills the caches.
    await prepare();
    await work();
    await Promise.all(background);
    await prepare();
    const { items, operations } = counter;
    const before = { items, operations: operations.length, ...sql.count() };
    await work();
    await Promise.all(background);
    const after = sql.count();
    return {
      items: counter.items - before.items,
      statements: after.statements - before.statements,
      rows: after.rows - before.rows,
      groups: after.groups - before.groups,
      operations: operations.slice(before.operations).map((operation) => `${operation.table}.${operation.method}`),
    };
  };
  return {
    prompt: () => measured(() => send('POST', run, INPUT)),
    stream: () => measured(() => send('POST', run, INPUT, { accept: 'text/event-stream' })),
    async session() {
      const session = await send('POST', `/workspaces/${workspaceId}/sessions`, { agent: `${slug}/greeter` });
      const headers = { 'x-platform-session': session.id };
      return measured(
        () => send('POST', run, INPUT, headers),
        async () => void (await send('POST', run, INPUT, headers)),
      );
    },
    async message() {
      const session = await send('POST', `/workspaces/${workspaceId}/sessions`, { agent: `${slug}/greeter` });
      const say = () => send('POST', `/workspaces/${workspaceId}/sessions/${session.id}/messages`, { input: INPUT });
      return measured(say, async () => void (await say()));
    },
    getAgent: () => measured(() => send('GET', `/agents/${agent.id}`)),
    // A webhook needs only its address.
    webhook: () => measured(() => send('POST', hookPath, INPUT, { authorization: '' })),
    async schedule() {
      let due: DueSchedule[] = [];
      const dueNow = async (): Promise<void> => {
        await uncounted.clock.advance(60_000);
        due = await Array.fromAsync(listDue({ main }, uncounted.clock.now()));
      };
      return measured(async () => {
        for (const { id: scheduleId, item } of due) await fireDue(deps, { workspaceId, scheduleId, item });
      }, dueNow);
    },
    async program() {
      const app = createWebApp(deps, routes, allHandlers(deps));
      const fetch = (url: string | URL | Request, init?: RequestInit) => app(new Request(url, init));
      const client = createClient({ baseUrl: 'http://127.0.0.1', key, fetch });
      await publishCode(client, 'program', { 'main.py': 'print(1)' });
      return measured(() => send('POST', `/${slug}/program/v1/run`, {}));
    },
  };
}

/** Returns a function that sends a request to the platform and returns the body. Throws unless it succeeds. */
function sender(deps: AllDeps, key: string) {
  const app = createWebApp(deps, routes, allHandlers(deps));
  return async (method: string, path: string, json?: object, headers: Record<string, string> = {}) => {
    const response = await app(
      new Request(`http://127.0.0.1${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        ...(json && { body: JSON.stringify(json) }),
      }),
    );
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return response.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text) : text;
  };
}

/** Creates an in-memory database that counts the statements of tables. */
function countedDatabase() {
  const database = openDatabase(':memory:');
  let statements = 0;
  const prepare = database.db.prepare.bind(database.db);
  database.db.prepare = (...args) => {
    const statement = prepare(...args);
    for (const method of ['run', 'get', 'all'] as const) {
      const perform = statement[method].bind(statement) as (...values: unknown[]) => unknown;
      const counted = (...values: unknown[]): unknown => {
        statements++;
        return perform(...values);
      };
      Object.defineProperty(statement, method, { value: counted });
    }
    return statement;
  };
  let rows = 0;
  const groups = new Set<Promise<void>>();
  const write = database.write.bind(database);
  database.write = (written) => {
    rows += written.length;
    const kept = write(written);
    groups.add(kept);
    return kept;
  };
  return { database, count: () => ({ statements, rows, groups: groups.size }) };
}
