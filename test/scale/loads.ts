import { type KeeperDeps, onKeeperEvent } from '#aws/services/keeper.ts';
import { fireFromQueue } from '#aws/timers/timer-queue.ts';
import { SecretStore } from '#core/accounts/secrets/store.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { publish } from '#core/agents/publish.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { agentMembers } from '#core/automation/schedules/changes/scheduled-agent.ts';
import { fireOverdue, sweepScheduleRuns } from '#core/automation/schedules/runs/fire.ts';
import type { Schedule } from '#core/automation/schedules/schedule.ts';
import { ScheduleStore } from '#core/automation/schedules/store.ts';
import { UsageStore } from '#core/billing/usage/store.ts';
import { sumEndedRuns } from '#core/billing/usage/sum-ended-runs.ts';
import { checkDefinition } from '#core/manifest/parsing/manifest.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { FeedRecord } from '#core/ports/feed.ts';
import type { HostedService, ServiceHost } from '#core/ports/service-host.ts';
import { headKey } from '#core/runs/items.ts';
import { emptyResult, endedWith } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import type { Service } from '#core/services/service.ts';
import { INITIAL_STATE } from '#core/services/state.ts';
import { ServiceStore } from '#core/services/store.ts';
import { withoutListeners } from '#test/helpers/agents.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { LambdaModel, LambdaThrottle } from './lambda.ts';
import { LevelMeter, RateMeter, TokenBucket } from './meters.ts';
import type { Limits } from './quotas.ts';
import { createWorld, type World } from './world.ts';

/** Result of a load. */
export interface Outcome {
  /** Number of requests, runs or checks by outcome. */
  readonly ended: Readonly<Record<string, number>>;
  /** Peak demand of each quota, by id. */
  readonly demand: Readonly<Record<string, number>>;
  readonly world: World;
}

export interface LoadProps {
  readonly limits: Limits;
  /** Whether limits refuse requests or only count the demand. */
  readonly throttles: boolean;
}

const PROMPT = {
  name: 'greeter',
  type: 'prompt',
  description: 'Greets',
  prompt: 'Greet {{name}}.',
  supported_providers: ['anthropic'],
  input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
} as const;

export const dynamoProps = ({ limits, throttles }: LoadProps) => ({
  latencyMs: limits.tableMs,
  partition: { read: limits.partitionReads, write: limits.partitionWrites },
  table: { read: limits.tableReads, write: limits.tableWrites },
  throttles,
});
export const lambdaOf = ({ clock }: World, { limits, throttles }: LoadProps) =>
  new LambdaModel({
    clock,
    concurrency: limits.concurrency,
    scaling: limits.scaling,
    reserved: limits.reserved,
    startMs: limits.coldStartMs,
    throttles,
  });

/**
 * Who calls what: one workspace its one agent; a hundred workspaces their own agents evenly; or so with half of the calls,
 * the other half being calls of one workspace to its ten agents, or calls of all workspaces to one public agent.
 */
export type Callers = 'one' | 'even' | 'half one workspace' | 'half one agent';

interface Calls {
  /** Calls per second. */
  readonly rate: number;
  readonly seconds: number;
  readonly modelMs: number;
  /** @default 'one' */
  readonly callers?: Callers;
  readonly seed?: number;
}

const WORKSPACES = 100;
const BUSY_AGENTS = 10;

/** Simulates calls of prompt agents at an even rate for some seconds, until every call has ended. */
export async function calls(
  props: LoadProps,
  { rate, seconds, modelMs, callers = 'one', seed }: Calls,
): Promise<Outcome> {
  const { limits, throttles } = props;
  const world = createWorld({
    ...dynamoProps(props),
    plan: 'enterprise',
    modelMs,
    seed,
    plans: (plans) => ({
      ...plans,
      enterprise: {
        ...plans.enterprise,
        concurrent_calls: throttles ? limits.planConcurrency : limits.planConcurrencyMax,
      },
    }),
  });
  const { clock, deps, quiet, random } = world;
  const lambda = lambdaOf(world, props);
  const gateway = new TokenBucket(clock, { rate: limits.gatewayRate, burst: limits.gatewayBurst });
  const requests = new RateMeter(clock);
  const sendOn = (target: typeof deps) => {
    const app = createWebApp(target, routes, allHandlers(target));
    return async (key: string, method: string, path: string, json: object): Promise<number> => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const response = await app(
        new Request(`http://127.0.0.1${path}`, { method, headers, body: JSON.stringify(json) }),
      );
      const text = await response.text();
      if (response.status >= 500) world.lines.set(text.slice(0, 120), 1);
      return response.status;
    };
  };
  const prepare = async (...request: Parameters<ReturnType<typeof sendOn>>): Promise<void> => {
    const status = await sendOn(quiet)(...request);
    if (status >= 300) throw new Error(`${request[1]} ${request[2]} answered ${status}`);
  };
  const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' };
  const users = await clock.until(
    Array.fromAsync({ length: callers === 'one' ? 1 : WORKSPACES }, async (_, n) => {
      const user = await addUser(quiet, n === 0 ? 'busy' : `w${n}`);
      await prepare(user.key, 'PUT', `/workspaces/${user.workspaceId}/secrets`, secret);
      for (let agent = 0; agent < (n === 0 ? BUSY_AGENTS : 1); agent++) {
        const name = agent === 0 ? PROMPT.name : `${PROMPT.name}${agent}`;
        await prepare(user.key, 'POST', '/agents', { ...PROMPT, name, is_public: true });
      }
      return user;
    }),
  );
  const busy = users[0]!;
  /** Returns the key of the next call and its path. */
  const next = (): readonly [key: string, path: string] => {
    const user = random.pick(users);
    const isHalf = random.chance(0.5);
    if (callers === 'half one agent' && isHalf) return [user.key, `/${busy.slug}/greeter/v1/run`];
    if (callers === 'half one workspace' && isHalf) {
      const agent = random.between(0, BUSY_AGENTS - 1);
      return [busy.key, `/${busy.slug}/greeter${agent === 0 ? '' : agent}/v1/run`];
    }
    return [user.key, `/${user.slug}/greeter/v1/run`];
  };
  const send = sendOn(deps);
  // Loads modules and fills the caches of a process.
  await clock.until(
    send(busy.key, 'POST', `/${busy.slug}/greeter/v1/run`, { name: 'Ada' }).then(() => world.settled()),
  );

  const ended: Record<string, number> = {};
  const note = (what: string) => {
    ended[what] = (ended[what] ?? 0) + 1;
  };
  const underWay = new LevelMeter();
  const call = async (): Promise<void> => {
    const [key, path] = next();
    requests.add();
    if (throttles && !gateway.take()) return note('429 by API Gateway');
    try {
      await lambda.invoke('calls', async () => {
        underWay.add(1);
        await clock.sleep(limits.ownMs.calls);
        note(String(await send(key, 'POST', path, { name: 'Ada' })));
        underWay.add(-1);
      });
    } catch (error) {
      if (!(error instanceof LambdaThrottle)) throw error;
      note('429 by Lambda');
    }
  };
  const load = async (): Promise<void> => {
    const all: Promise<void>[] = [];
    for (let n = 0; n < rate * seconds; n++) {
      all.push(call());
      if ((n + 1) % Math.max(1, Math.round(rate / 1000)) === 0) await clock.sleep(Math.max(1, 1000 / rate));
    }
    await Promise.all(all);
    await world.settled();
  };
  await clock.until(load());
  return {
    ended,
    world,
    demand: {
      gatewayRate: requests.peak,
      concurrency: lambda.all.peak,
      scaling: lambda.environmentsOf('calls'),
      planConcurrency: underWay.peak,
    },
  };
}

/** Shards of the stream of a table that takes some thousand writes a second. */
const STREAM_SHARDS = 16;

/** Simulates ends of runs of one agent, whose sums the shards of the stream write all at the same moments. */
export async function endsOfOneAgent(
  props: LoadProps,
  { rate, seconds, seed }: { readonly rate: number; readonly seconds: number; readonly seed?: number },
): Promise<Outcome & { readonly ends: number; readonly summed: number }> {
  const world = createWorld({ ...dynamoProps(props), plan: 'enterprise', modelMs: 0, seed });
  const { deps, clock, dynamo } = world;
  const ends = rate * seconds;
  const workspaceId = deps.ids.uuid();
  const runs = new RunStore({ ...deps, onRunEnd: () => {} }, workspaceId);
  const quiet = new RunStore({ ...world.quiet, onRunEnd: () => {} }, workspaceId);
  const shards = Array.from({ length: STREAM_SHARDS }, (): FeedRecord[] => []);
  const ended = { ended: 0, refused: 0 };
  const end = async (n: number): Promise<void> => {
    const run = {
      agentId: workspaceId,
      agentWorkspaceId: workspaceId,
      agentOrg: 'acme',
      agentName: 'busy',
      agentVersion: 'v1',
      id: deps.ids.uuid(),
      engine: 'direct_llm',
      endpoint: 'run',
      triggerSource: 'api',
      startedAt: clock.now(),
      deadline: clock.now(),
      input: {},
    } as const;
    await quiet.start(run, { hasLease: true });
    await clock.sleep((n * 1000) / rate);
    if (!(await runs.finish(run, emptyResult(endedWith(undefined), null)).catch(() => false))) {
      ended.refused++;
      return;
    }
    ended.ended++;
    const item = (await world.quiet.runs.get(headKey(workspaceId, run.id)))!;
    shards[n % STREAM_SHARDS]!.push({ sequence: String(n).padStart(9, '0'), item });
  };
  const sum = async (shard: number): Promise<void> => {
    for (let second = 0; second <= seconds; second++) {
      await clock.sleep(1000);
      const records = shards[shard]!.splice(0);
      await sumEndedRuns(deps, { shard: `shard-${shard}`, onMalformed: async () => {} }, records);
    }
  };
  await clock.until(
    Promise.all([...Array.from({ length: ends }, (_, n) => end(n)), ...Array.from(shards, (_, shard) => sum(shard))]),
  );
  const days = [isoTime(clock.now()).slice(0, 10)];
  const rollups = await new UsageStore({ runs: world.quiet.runs, clock }, workspaceId).rollups({
    start: 0,
    end: 0,
    days,
  });
  return {
    ended,
    world,
    demand: { conflicts: dynamo.conflicts / ends },
    ends,
    summed: rollups.reduce((all, { totals }) => all + totals.runs!, 0),
  };
}

/** Simulates cron schedules of prompt agents that are all due in one minute, a hundred for each workspace. */
export async function schedulesOfOneMinute(
  props: LoadProps,
  { schedules, modelMs, scale }: { readonly schedules: number; readonly modelMs: number; readonly scale: number },
): Promise<Outcome> {
  const { limits, throttles } = props;
  // Rates and counts are scaled alike, so that the same requests collide.
  const world = createWorld({ ...dynamoProps(props), scale, plan: 'team', modelMs });
  const { clock, deps, quiet } = world;
  const lambda = new LambdaModel({
    clock,
    concurrency: limits.concurrency / scale,
    scaling: limits.scaling / scale,
    reserved: Object.fromEntries(Object.entries(limits.reserved).map(([fn, n]) => [fn, n / scale])),
    startMs: limits.coldStartMs,
    throttles,
  });
  const minute = Math.ceil(clock.now() / 60_000) * 60_000 + 60_000;
  const due = await clock.until(prepareSchedules(quiet, { schedules, minute }));
  const ended = { completed: 0, missed: 0, open: 0 };
  const queue: string[] = [];
  const queued = new LevelMeter();
  const fired = new RateMeter(clock);
  const fires = new LevelMeter();
  let isOver = false;

  const scheduler = async (): Promise<void> => {
    await clock.sleep(minute - clock.now());
    const bucket = new TokenBucket(clock, { rate: limits.schedulerRate / scale });
    for (const body of due) {
      if (throttles) await bucket.wait();
      fired.add();
      queue.push(body);
      queued.add(1);
    }
  };
  /** Lambda reads a queue with five batches at first, then more each minute, up to the stage's maximum. */
  const reader = async (startsAt: number): Promise<void> => {
    await clock.sleep(Math.max(0, minute + startsAt - clock.now()));
    while (!isOver) {
      const batch = queue.splice(0, limits.batchSize);
      if (batch.length === 0) {
        await clock.sleep(100);
        continue;
      }
      queued.add(-batch.length);
      const messages = batch.map((body) => ({ messageId: body, body }));
      const handle = () => fireFromQueue(deps, messages);
      fires.add(1);
      const again = await lambda.invoke('schedule-fired', handle).catch((error: unknown) => {
        if (!(error instanceof LambdaThrottle)) throw error;
        return undefined;
      });
      fires.add(-1);
      // Throttled messages return to the queue; failed ones return after the visibility timeout, which exceeds this
      // load.
      if (again === undefined) {
        queue.push(...batch);
        queued.add(batch.length);
        await clock.sleep(1000);
      }
    }
  };
  const readers = Array.from({ length: limits.fires / scale }, (_, n) =>
    reader(n < Math.max(1, limits.queueReaders / scale) ? 0 : ((n * scale) / limits.queueReadersAMinute) * 60_000),
  );
  const sweeper = async (): Promise<void> => {
    const sweeps: Promise<unknown>[] = [];
    for (let tick = 1; tick <= WATCHED_MINUTES; tick++) {
      await clock.sleep(minute + tick * 60_000 - clock.now());
      const look = async () => {
        await Promise.allSettled([fireOverdue(deps, limits.sweptAtOnce / scale), sweepScheduleRuns(deps)]);
      };
      sweeps.push(lambda.invoke('schedule-sweeper', look).catch(() => {}));
    }
    isOver = true;
    await Promise.all(sweeps);
  };
  const load = async (): Promise<void> => {
    await Promise.all([scheduler(), sweeper(), ...readers]);
    await world.settled();
  };
  await clock.until(load());
  for (const body of due) {
    const { workspace_id, schedule_id } = JSON.parse(body);
    const schedule = (await new ScheduleStore(quiet, workspace_id).find(schedule_id))!;
    if (schedule.runCount === 0) ended.missed += 1;
    else ended.completed += 1;
  }
  const times = (n: number) => n * scale;
  return {
    ended: Object.fromEntries(Object.entries(ended).map(([what, n]) => [what, times(n)])),
    world,
    demand: {
      schedulerRate: times(fired.peak),
      fires: times(fires.peak),
      concurrency: times(lambda.all.peak),
      queue: times(queued.peak),
    },
  };
}

/** The time is past the five minutes after which a minute counts as missed. */
const WATCHED_MINUTES = 7;

/** These are the messages of their timers. */
async function prepareSchedules(
  deps: World['quiet'],
  { schedules, minute }: { readonly schedules: number; readonly minute: number },
): Promise<string[]> {
  const { definition } = checkDefinition(PROMPT);
  const messages: string[] = [];
  for (let made = 0, n = 0; made < schedules; n++) {
    const { workspaceId, userId } = await addUser(deps, `w${n}`);
    await new SecretStore(deps, workspaceId).put({ name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up', userId });
    const workspace = (await findWorkspace(deps, workspaceId))!;
    const agent = await publish(withoutListeners(deps), workspace, definition!, { runnable: true });
    const store = new ScheduleStore(deps, workspaceId);
    for (let i = 0; i < SCHEDULES_A_WORKSPACE && made < schedules; i++, made++) {
      const id = deps.ids.uuid();
      await store.create(scheduleOf({ id, workspaceId, userId, minute, agent: agentMembers(agent) }), schedules);
      const scheduled_time = isoTime(minute);
      messages.push(JSON.stringify({ workspace_id: workspaceId, schedule_id: id, scheduled_time }));
    }
  }
  return messages;
}

const SCHEDULES_A_WORKSPACE = 100;

const scheduleOf = ({
  id,
  workspaceId,
  userId,
  minute,
  agent,
}: {
  readonly id: string;
  readonly workspaceId: string;
  readonly userId: string;
  readonly minute: number;
  readonly agent: ReturnType<typeof agentMembers>;
}): Schedule => ({
  id,
  workspaceId,
  ...agent,
  type: 'cron',
  cronExpression: '0 0 1 * *',
  timezone: 'UTC',
  input: { name: 'Ada' },
  llmProvider: null,
  enabled: true,
  autoUpdate: true,
  overlap: 'allow',
  webhookSecretHash: null,
  webhookSecretPreview: null,
  alertWebhookUrl: null,
  alertOnFailureCount: 3,
  maxConsecutiveFailures: 10,
  consecutiveFailures: 0,
  autoDisabledAt: null,
  nextRunAt: isoTime(minute),
  lastRunAt: null,
  lastRunId: null,
  lastRunStatus: null,
  runCount: 0,
  lackedGrants: null,
  createdBy: userId,
  createdAt: isoTime(minute - 60_000),
  updatedAt: isoTime(minute - 60_000),
  deletedAt: null,
});

const LOOK = { 'detail-type': 'Scheduled Event' } as const;

/** Simulates one check of the keeper over running services with one instance each, on an ECS at its maximum rate. */
export async function lookAtServices(props: LoadProps, { services }: { readonly services: number }): Promise<Outcome> {
  const { limits } = props;
  const world = createWorld({ ...dynamoProps(props), plan: 'enterprise', modelMs: 0 });
  const { clock, deps, quiet } = world;
  const hosted = await clock.until(prepareServices(quiet, services));
  const bucket = new TokenBucket(clock, { rate: limits.ecsReads, burst: limits.ecsReadsBurst });
  const taskBucket = new TokenBucket(clock, { rate: limits.ecsReads, burst: limits.ecsReadsBurst });
  const asks = async (of: TokenBucket, times: number): Promise<void> => {
    for (let n = 0; n < times; n++) await of.wait();
  };
  const reads = Math.ceil(services / 100) + Math.ceil(services / 10);
  const taskReads = 2 * Math.ceil(services / 100);
  const host: ServiceHost = {
    ...({} as ServiceHost),
    async *list() {
      await Promise.all([asks(bucket, reads), asks(taskBucket, taskReads)]);
      yield* hosted;
    },
    address: async () => undefined,
  };
  const startedAt = clock.now();
  let listedAt = 0;
  const watched: ServiceHost = {
    ...host,
    async *list() {
      yield* host.list();
      listedAt = clock.now();
    },
  };
  await clock.until(
    onKeeperEvent({ ...deps, serviceHost: watched } as unknown as KeeperDeps, LOOK).then(() => world.settled()),
  );
  const seconds = (from: number, to: number) => Math.round((to - from) / 1000);
  return {
    ended: {
      'seconds for the list of ECS': seconds(startedAt, listedAt),
      'seconds for the check': seconds(startedAt, clock.now()),
    },
    world,
    demand: {
      keeperSeconds: seconds(startedAt, clock.now()),
      keeperTimeout: seconds(startedAt, clock.now()),
      ecsReads: reads / 60,
      ecsTaskReads: taskReads / 60,
    },
  };
}

async function prepareServices(deps: World['quiet'], services: number): Promise<HostedService[]> {
  const hosted: HostedService[] = [];
  const now = deps.clock.now();
  for (let n = 0; n < services; n++) {
    const [id, workspaceId, instanceId] = [deps.ids.uuid(), deps.ids.uuid(), deps.ids.uuid()];
    const startedAt = now - 3_600_000;
    const service: Service = {
      ...INITIAL_STATE,
      id,
      workspaceId,
      name: `service-${n}`,
      label: `service-${n}`,
      agentId: deps.ids.uuid(),
      agentWorkspaceId: workspaceId,
      agentOrg: 'acme',
      agentName: 'bot',
      agentVersion: 'v1',
      agentFirstVersion: 1,
      command: null,
      args: [],
      env: {},
      requiredSecrets: [],
      optionalSecrets: [],
      extraSecrets: [],
      minInstances: 1,
      maxInstances: 1,
      overlap: true,
      autoUpdate: true,
      alertWebhookUrl: null,
      maxRestartFailures: 5,
      address: `https://service-${n}.example.com`,
      applied: { revision: INITIAL_STATE.revision, at: startedAt, isRunning: true, shape: '' },
      hasRun: true,
      readyRevision: INITIAL_STATE.revision,
      instances: {
        [instanceId]: {
          revision: INITIAL_STATE.revision,
          startedAt,
          sequence: 60,
          isWorker: false,
          restarts: 0,
          failures: 0,
          steadyAt: startedAt + 60_000,
          lastEndAt: null,
          phase: 'ready',
          seenAt: now,
          hasCrashed: false,
          meteredDay: null,
          isMetered: false,
        },
      },
      lastDeployedAt: startedAt,
      createdBy: deps.ids.uuid(),
      createdAt: startedAt,
      updatedAt: startedAt,
    };
    await new ServiceStore(deps, workspaceId).create(service, 10, { type: 'deployed', message: 'Deployed.' });
    const { revision } = INITIAL_STATE;
    hosted.push({
      serviceId: id,
      workspaceId,
      revision,
      isPaused: false,
      instances: [{ instanceId, revision, startedAt }] as never,
      reports: [],
    });
  }
  return hosted;
}
