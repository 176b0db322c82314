import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SandboxPool } from '#aws/fargate/pool.ts';
import { streamCall } from '#test/helpers/events.ts';
import { clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { POOL, type Rehearsal } from './platform.ts';

/** The AWS usage of one client request, including work after its answer. */
export interface Counted {
  readonly what: string;
  /** Processes that wait for models. */
  readonly waits: Waits;
  /** Requests to API Gateway, including those of agents. */
  readonly gatewayRequests: number;
  /** Tasks that this request uses. */
  readonly tasks: number;
  /** Events of the function for short programs. */
  readonly programs: number;
  /** Whether these tasks have served requests of the same kind before, and stay for further ones. */
  readonly isWarm: boolean;
  readonly invocations: Rehearsal['lambda']['invocations'];
  readonly readUnits: number;
  readonly writeUnits: number;
  /** Requests to DynamoDB. */
  readonly tableRequests: number;
  readonly s3Gets: number;
  readonly s3Puts: number;
  /** All other AWS requests, such as `secretsmanager:GetSecretValue`. */
  readonly others: readonly string[];
}

/** Figures of a request that do not vary between machines or repetitions. */
export type Figures = Readonly<Record<keyof ReturnType<typeof figuresOf>, number>>;
export const figuresOf = (counted: Counted) => ({
  functions: counted.invocations.length,
  memoryMb: counted.invocations.reduce((sum, { memoryMb }) => sum + memoryMb, 0),
  gatewayRequests: counted.gatewayRequests,
  tableRequests: counted.tableRequests,
  readUnits: counted.readUnits,
  writeUnits: counted.writeUnits,
  s3Gets: counted.s3Gets,
  s3Puts: counted.s3Puts,
  others: counted.others.length,
});

/** Excluded, because it covers all workspaces and grows with what other tests publish. */
const CATALOG = '`GET` of the public catalog';
/** Lambda reads streams for the functions that it invokes, for nothing. */
const READS_STREAM = /^dynamodb:(DescribeStream|GetRecords|GetShardIterator|ListStreams)$/;
/** Returns the requests with stable figures. While a request waits for a task, it polls tables repeatedly. */
export const comparable = (counted: readonly Counted[]): Counted[] =>
  counted.filter(({ what, tasks }) => tasks === 0 && what !== CATALOG);
const FILE = join(import.meta.dirname, 'costs.json');
/** Reads the committed figures by kind of request; `npm run costs` writes them. */
export const readFigures = (): Readonly<Record<string, Figures>> => JSON.parse(readFileSync(FILE, 'utf8'));
export function writeFigures(counted: readonly Counted[]): void {
  const kinds = comparable(counted).map((each) => [each.what, figuresOf(each)]);
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(kinds), undefined, 2)}\n`);
}

/** Number of awaited model turns. Two functions that wait for the same turn both count. */
export interface Waits {
  /** Sequential turns: the caller's wait. */
  readonly turns: number;
  /** Turns that a `calls` function waits for. */
  readonly calls: number;
  /** Turns that a `sandbox-dispatch` function waits for. @default 0 */
  readonly dispatch?: number;
  /** Turns that a task waits for. @default 0 */
  readonly task?: number;
}

const NO_WAIT: Waits = { turns: 0, calls: 0 };
const ONE_TURN: Waits = { turns: 1, calls: 1 };
export const LOOP_TURNS = 20;
export const PLAIN_LOOP = `loop of ${LOOP_TURNS} turns, answered later`;
export const PROGRAM_RUN = 'code run (Lambda function, warm)';
export const SUB_CALLS = 5;
/** Sends all requests concurrently. */
const ORCHESTRATOR = `
import('agent-platform-sdk').then(async ({ AgentClient }) => {
  const client = new AgentClient();
  const greet = () => client.call('costs/greeter@v1', { name: 'Ada' });
  console.log(JSON.stringify(await Promise.all([${Array(SUB_CALLS).fill('greet()').join(', ')}])));
});
`;

const MODEL_KEY = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' };

/** Number of warm-up requests: while V8 compiles, requests take several times the CPU time of later ones. */
const WARM_UP = 10;

/**
 * Maximum number of runs in a partition that a listing reads at once (`core/ports/merged-query.ts`): a partition with
 * more takes a second query, and which partition a run falls into is random.
 */
const MAX_IN_PARTITION = 7;

/** Returns the start of the oldest of the newest runs of which no partition has more than {@link MAX_IN_PARTITION}. */
function startOfFew(runs: readonly { readonly id: string; readonly started_at: string | null }[]): string {
  const inPartition = new Map<string, number>();
  let start = '';
  for (const { id, started_at } of runs) {
    const partition = id[0]!;
    const count = (inPartition.get(partition) ?? 0) + 1;
    if (count > MAX_IN_PARTITION) break;
    inPartition.set(partition, count);
    start = started_at ?? start;
  }
  return start;
}

/**
 * Sends each kind of request several times and counts the last one, when the function is warm and its caches are
 * filled. Requests that use tasks take two minutes, because each waits until its tasks are replaced.
 *
 * @param options.onlyPrograms Counts only the run of a short program, in a stage that has them
 */
export async function countRequests(
  target: Rehearsal,
  { withTasks = false, onlyPrograms = false }: { readonly withTasks?: boolean; readonly onlyPrograms?: boolean },
): Promise<Counted[]> {
  const { gate, lambda, ecs, chaos } = target;
  const { key, slug, workspaceId } = await target.addUser('costs');
  const client = clientOf(target, key);
  await client.putSecret({ params: { workspace_id: workspaceId }, body: MODEL_KEY });
  const { agent } = await client.createAgent({
    body: {
      name: 'greeter',
      type: 'prompt',
      description: 'Greets',
      prompt: 'Greet {{name}}.',
      supported_providers: ['anthropic'],
      input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    },
  });
  const path = `/${slug}/greeter/v1/run`;
  const json = { name: 'Ada' };
  const send = async (method: string, to: string, options: Parameters<typeof request>[3] = {}) => {
    const answer = await request(target, method, to, { key, ...options });
    if (answer.status >= 400) throw new Error(`${method} ${to}: ${JSON.stringify(answer.body)}`);
    return answer;
  };

  await publishCode(client, 'adder', { 'main.js': `console.log(JSON.stringify({ ok: true }))` });
  const manifest = {
    manifest_version: 1,
    max_hops: 1,
    timeout_ms: 60_000,
    dependencies: [{ id: `${slug}/greeter`, version: 'v1' }],
  };
  await publishCode(client, 'conductor', { 'main.js': ORCHESTRATOR }, { manifest });
  const turns = [
    { toolCalls: [{ name: 'bash', input: { command: 'date' } }] },
    { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] },
  ];
  const prompt = `Do it. [[llm ${JSON.stringify(turns)}]]`;
  await client.createAgent({
    body: {
      name: 'looper',
      type: 'agent',
      description: 'Loops',
      prompt,
      supported_providers: ['anthropic'],
      required_secrets: [],
    },
  });
  // There is no such tool, so these need no sandbox.
  const looks = Array.from({ length: LOOP_TURNS - 1 }, () => ({ toolCalls: [{ name: 'look', input: {} }] }));
  for (const [name, durable] of [
    ['turns-plain', false],
    ['turns-durable', true],
  ] as const) {
    await client.createAgent({
      body: {
        ...{ name, durable, type: 'agent', description: 'Loops', supported_providers: ['anthropic'] },
        ...{ prompt: `Do it. [[llm ${JSON.stringify([...looks, turns[1]])}]]`, required_secrets: [] },
        loop: { tools: [] },
      },
    });
  }
  const { schedule } = await client.createSchedule({
    params: { workspace_id: workspaceId },
    body: { agent: `${slug}/greeter`, schedule_type: 'webhook' },
  });
  const hook = new URL(schedule.webhook_url!).pathname;

  const counted: Counted[] = [];
  /** Ends of tasks that earlier tests left warm; pool-keeper would be counted with whatever request they interrupt. */
  const heldEvents: (() => Promise<void>)[] = [];
  const pool = new SandboxPool(target.deps, { max: POOL.max, startMs: POOL.startSeconds * 1000 });
  /** A new tenant makes each call a new kind, so that no used task fits it. */
  let tenants = 0;
  const alone = () => ({ headers: { 'x-platform-tenant': `costs-${tenants++}` } });
  /** Waits until used tasks are replaced or idle, and all work has ended. */
  const settled = async (): Promise<void> => {
    do {
      await lambda.settled();
      await ecs.settled();
      await target.deps.clock.sleep(50);
    } while ((await pool.read()).slots.some(({ state }) => state !== 'idle' && state !== 'warm'));
    await lambda.settled();
  };
  let tasks = 0;
  chaos.onCall = (_, event) => {
    if (event?.ends) tasks += 1;
  };
  const count = async (
    what: string,
    waits: Waits,
    act: () => Promise<unknown>,
    { warmUp = WARM_UP, isWarm = false } = {},
  ): Promise<void> => {
    // Work of earlier tests takes longer than functions cache secrets.
    await settled();
    for (let i = 0; i < warmUp; i++) await act();
    await settled();
    const [calls, runs] = [gate.calls.length, lambda.invocations.length];
    tasks = 0;
    await act();
    await settled();
    const made = gate.calls
      .slice(calls)
      .filter(({ principal, action }) => principal !== 'operator' && !READS_STREAM.test(action));
    const of = (service: string) => made.filter((call) => call.service === service);
    const s3 = of('s3').map(({ action }) => action);
    const invocations = lambda.invocations.slice(runs);
    const isGet = (action: string) => action === 's3:GetObject';
    counted.push({
      what,
      waits,
      gatewayRequests: invocations.filter(({ fn }) => !/-(loop-worker|sandbox-dispatch|pool-keeper|programs)$/.test(fn))
        .length,
      tasks,
      programs: invocations.filter(({ fn }) => fn.endsWith('-programs')).length,
      isWarm,
      invocations,
      readUnits: of('dynamodb').reduce((sum, { readUnits }) => sum + readUnits, 0),
      writeUnits: of('dynamodb').reduce((sum, { writeUnits }) => sum + writeUnits, 0),
      tableRequests: of('dynamodb').length,
      s3Gets: s3.filter(isGet).length,
      s3Puts: s3.filter((action) => !isGet(action)).length,
      others: made.filter(({ service }) => service !== 'dynamodb' && service !== 's3').map(({ action }) => action),
    });
  };

  await settled();
  const add = (options: object = {}) => send('POST', `/${slug}/adder/v1/run`, { json: { a: 1 }, ...options });
  if (onlyPrograms) {
    await count(PROGRAM_RUN, NO_WAIT, () => add());
    return counted;
  }
  if (!withTasks) chaos.onTaskEvent = (deliver) => void heldEvents.push(deliver);
  await count('prompt call', ONE_TURN, () => send('POST', path, { json }));
  await count('prompt call, streamed', ONE_TURN, async () => {
    const call = await streamCall(target, path, { key, json });
    await Array.fromAsync(call.records);
  });
  await count('prompt call, answered later', ONE_TURN, () =>
    send('POST', path, { json, headers: { prefer: 'respond-async' } }),
  );
  let repeats = 0;
  await count('prompt call with an `Idempotency-Key`', ONE_TURN, () =>
    send('POST', path, { json, headers: { 'idempotency-key': `costs-${repeats++}` } }),
  );
  await count('webhook to a prompt agent', ONE_TURN, () => send('POST', hook, { json }));
  const run = (await send('POST', path, { json })).headers.get('x-run-id');
  const asks = { turns: LOOP_TURNS, calls: LOOP_TURNS };
  const loop = (durable: string) => () =>
    send('POST', `/${slug}/turns-${durable}/v1/run`, { json, headers: { prefer: 'respond-async' } });
  await count(PLAIN_LOOP, asks, loop('plain'), { warmUp: 3 });
  await count(`durable loop of ${LOOP_TURNS} turns, answered later`, asks, loop('durable'), { warmUp: 3 });
  await count('`GET` of a run', NO_WAIT, () => send('GET', `/workspaces/${workspaceId}/runs/${run}`));
  const { runs: newest } = await client.listRuns({ params: { workspace_id: workspaceId }, query: { limit: 100 } });
  const from = startOfFew(newest);
  await count('`GET` of a page of runs', NO_WAIT, () =>
    send('GET', `/workspaces/${workspaceId}/runs?limit=20&from=${from}`),
  );
  await count('`GET` of an agent', NO_WAIT, () => send('GET', `/agents/${agent.id}`));
  await count('`GET` of the agents of a workspace', NO_WAIT, () => send('GET', '/agents'));
  await count(CATALOG, NO_WAIT, () => send('GET', '/public/agents'));
  await count('`GET /usage`', NO_WAIT, () => send('GET', '/usage'));
  await count('`GET /health`', NO_WAIT, () => send('GET', '/health'));
  await count('publishing a prompt', NO_WAIT, () =>
    send('POST', '/agents', { json: { name: 'other', type: 'prompt', description: 'Says', prompt: 'Say it.' } }),
  );
  if (withTasks) {
    // Each of these requests except the second uses its own task, which is then replaced.
    const few = { warmUp: 2 };
    await count('code run (warm pool)', NO_WAIT, () => add(alone()), few);
    await count('code run (task already warm)', NO_WAIT, () => add(), { ...few, isWarm: true });
    await count(
      'tool loop: two turns, one command',
      { turns: 2, calls: 2, task: 2 },
      () => send('POST', `/${slug}/looper/v1/run`, { json, ...alone() }),
      few,
    );
    await count(
      `orchestrator with ${SUB_CALLS} prompt calls at once`,
      { turns: 1, calls: 1 + SUB_CALLS, dispatch: 1, task: 1 },
      () => send('POST', `/${slug}/conductor/v1/run`, { json: {}, ...alone() }),
      few,
    );
  }
  chaos.onCall = undefined;
  chaos.onTaskEvent = undefined;
  for (const deliver of heldEvents) await deliver();
  return counted;
}
