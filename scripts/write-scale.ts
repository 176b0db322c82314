/**
 * `npm run scale`: simulates the loads of `docs/scale.md` with a model of AWS's limits (`test/scale`), and writes the
 * first limits reached to the page.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { callsOfOneWorkspace, lookAtServices, type Outcome, schedulesOfOneMinute } from '#test/scale/loads.ts';
import { limitTable, table } from '#test/scale/page.ts';
import { type Programs, programsInMicrovms, programsOnFargate } from '#test/scale/programs.ts';
import { allLimits, type Limits, stageLimits } from '#test/scale/quotas.ts';

const PAGE = join(import.meta.dirname, '../docs/scale.md');
const MODEL_SECONDS = 5;
const RUNS_A_SECOND = 1_000_000 / 86_400;
const SCHEDULES = 100_000;
const SERVICES = 10_000;
/** The sweep of services is simulated with this fraction of them; it takes proportionally longer with all. */
const SERVICES_SCALE = 5;
const CALLS_A_SECOND = 1000;
/** The load of schedules is simulated at this fraction, with proportionally lower limits. */
const SCALE = 50;
/** Five minutes within which a scheduled run may start: `core/base/time-limits.ts`. */
const WINDOW_SECONDS = 300;

/** Rows of places of tables, the tightest. */
const PLACES = 8;

interface Need {
  readonly what: string;
  readonly limit: number;
  readonly need: number;
  /** Source of `need`. */
  readonly how: string;
}

const show = (n: number): string => (n >= 100 ? Math.round(n).toLocaleString('en-US') : String(Number(n.toFixed(1))));

/** Returns a table of needs, tightest first. */
function needTable(needs: readonly Need[]): string {
  const rows = [...needs]
    .sort((a, b) => b.need / b.limit - a.need / a.limit)
    .map(({ what, limit, need, how }) => [
      what,
      show(limit),
      show(need),
      need > limit ? `**${show(need / limit)} times the limit**` : `${Math.round((1 - need / limit) * 100)}% left`,
      how,
    ]);
  return table(['what', 'limit', 'the load needs', 'room', 'from'], rows);
}

const endedTable = (rows: readonly (readonly [what: string, Outcome])[]): string =>
  table(
    ['simulated', 'result', 'refused by DynamoDB, retries included', 'refused after retries'],
    rows.map(([what, { ended, world }]) => [
      what,
      Object.entries(ended)
        .map(([how, n]) => `${show(n)} ${how}`)
        .join('; '),
      show(world.dynamo.throttled),
      show(world.dynamo.failed),
    ]),
  );

/** The busiest places of tables, by what share of their limit they used. */
function placesOf({ world }: Outcome, limits: Limits, times = 1): Need[] {
  return world.dynamo
    .peaks()
    .map(({ share, kind, peak }) => {
      const of = share.of === 'table' ? 'table' : 'partition';
      const limit = limits[`${of}${kind === 'read' ? 'Reads' : 'Writes'}`];
      return {
        what: `${kind}s of the ${share.of} \`${share.name}\``,
        limit,
        need: share.isShared ? peak * times : peak,
        how: 'counted',
      };
    })
    .filter(({ need, limit }) => need > limit / 5)
    .sort((a, b) => b.need / b.limit - a.need / a.limit)
    .slice(0, PLACES);
}

const progress = (what: string): void => void process.stderr.write(`${what}\n`);

async function measured(limits: Limits): Promise<string> {
  const day: Programs = { rate: RUNS_A_SECOND, burst: 0, seconds: 60, runMs: 1000, deadlineMs: 300_000 };
  const served = { limits, throttles: true };

  progress('one workspace, counted');
  const modelMs = MODEL_SECONDS * 1000;
  const calls = { rate: CALLS_A_SECOND, seconds: 1, modelMs };
  const counted = await callsOfOneWorkspace({ limits, throttles: false }, calls);
  progress('one workspace, with limits');
  const limited = await callsOfOneWorkspace(served, calls);
  progress('one workspace, with limits, at a tenth');
  const slower = await callsOfOneWorkspace(
    { limits: { ...limits, planConcurrency: 1000 }, throttles: true },
    { ...calls, rate: CALLS_A_SECOND / 10, seconds: 5 },
  );
  progress('schedules');
  const schedules = await schedulesOfOneMinute(served, { schedules: SCHEDULES / SCALE, modelMs, scale: SCALE });
  progress('services');
  const services = await lookAtServices(served, { services: SERVICES / SERVICES_SCALE });
  progress('programs');
  const microvms = await programsInMicrovms(served, day);
  const burst = await programsInMicrovms(served, { ...day, rate: 1, burst: 500, seconds: 5 });
  const fargate = await programsOnFargate(
    { limits: { ...limits, fargateVcpus: limits.poolMax }, throttles: true },
    { ...day, seconds: 10, deadlineMs: 120_000 },
  );
  const waitSeconds = (limits.ownMs.calls + modelMs) / 1000;
  const taskSeconds = limits.taskStartMs / 1000 + 1;
  const writes = (units: number) => `${units} units a run (costs.md)`;
  return `Written by \`npm run scale\` on ${new Date().toISOString().slice(0, 10)}.

### The limits

${limitTable(limits)}

### 1 million code runs a day

${show(RUNS_A_SECOND)} a second, evenly; a program works for 1 s.

${needTable([
  {
    what: 'tasks of the stage at once (`sandbox.max`)',
    limit: limits.poolMax,
    need: RUNS_A_SECOND * taskSeconds,
    how: `${show(RUNS_A_SECOND)} a second x ${taskSeconds} s`,
  },
  {
    what: 'vCPUs of Fargate',
    limit: limits.fargateVcpus,
    need: RUNS_A_SECOND * taskSeconds * limits.taskVcpus,
    how: `tasks x ${limits.taskVcpus}`,
  },
  { what: 'RunTask a second', limit: limits.runTaskRate, need: RUNS_A_SECOND, how: 'one task a run' },
  {
    what: 'RunMicrovm a second, in place of tasks',
    limit: limits.microvmRate,
    need: RUNS_A_SECOND,
    how: 'one VM a run',
  },
  {
    what: 'executions of Lambda',
    limit: limits.concurrency,
    need: RUNS_A_SECOND * 2 * 2,
    how: 'two functions for 2 s a run',
  },
  { what: 'writes to new tables', limit: limits.tableWrites, need: RUNS_A_SECOND * 20, how: writes(20) },
])}

${endedTable([
  [`MicroVMs, one minute`, microvms],
  ['MicroVMs, 500 programs in one moment', burst],
  [`Fargate with ${limits.poolMax} tasks, 10 seconds`, fargate],
])}

### 100,000 schedules in one minute

Prompts whose model answers in ${MODEL_SECONDS} s, a hundred schedules a workspace. A run that has not started after five minutes is missed.

${needTable([
  {
    what: 'invocations of the Scheduler',
    limit: limits.schedulerRate,
    need: SCHEDULES / 60,
    how: 'all within the minute',
  },
  {
    what: 'runs at once: batches of the queue x their size',
    limit: limits.fires * limits.batchSize,
    need: (SCHEDULES * waitSeconds) / WINDOW_SECONDS,
    how: `${show(waitSeconds)} s each, in ${WINDOW_SECONDS} s`,
  },
  {
    what: 'executions of Lambda',
    limit: limits.concurrency,
    need: (SCHEDULES * waitSeconds) / WINDOW_SECONDS / limits.batchSize,
    how: `batches of ${limits.batchSize}`,
  },
  ...placesOf(schedules, limits, SCALE),
])}

${endedTable([[`the whole load, at a 50th`, schedules]])}

### 10,000 services

One instance each, all of them running.

${needTable([
  {
    what: 'services that a gateway reaches (`maxAlbs` x 25)',
    limit: limits.maxAlbs * limits.servicesPerAlb,
    need: SERVICES,
    how: 'one route a service',
  },
  {
    what: 'addresses of the network (`services.cidr`)',
    limit: limits.serviceAddresses,
    need: SERVICES,
    how: 'one an instance',
  },
  {
    what: 'vCPUs of Fargate',
    limit: limits.fargateVcpus,
    need: SERVICES * limits.instanceVcpus,
    how: `${limits.instanceVcpus} each`,
  },
  { what: 'services of the cluster', limit: limits.servicesPerCluster, need: SERVICES, how: 'one ECS service each' },
  {
    what: 'DescribeServices and ListServices a second',
    limit: limits.ecsReads,
    need: services.demand.ecsReads! * SERVICES_SCALE,
    how: '10 a request, each minute',
  },
  {
    what: 'seconds of a check, every 60 s',
    limit: 60,
    need: services.demand.keeperSeconds! * SERVICES_SCALE,
    how: 'simulated',
  },
  {
    what: 'seconds of a check, against its time limit',
    limit: limits.keeperTimeout,
    need: services.demand.keeperSeconds! * SERVICES_SCALE,
    how: 'simulated',
  },
  ...placesOf(services, limits),
])}

${endedTable([['one check by the function `service-keeper`, with a fifth of them', services]])}

### One workspace at 1,000 calls a second

A prompt whose model answers in ${MODEL_SECONDS} s.

${needTable([
  {
    what: 'calls at once of the plan `enterprise`',
    limit: limits.planConcurrency,
    need: CALLS_A_SECOND * waitSeconds,
    how: `${CALLS_A_SECOND} a second x ${show(waitSeconds)} s`,
  },
  { what: 'executions of Lambda', limit: limits.concurrency, need: CALLS_A_SECOND * waitSeconds, how: 'one a call' },
  { what: "requests of the stage's throttle", limit: limits.gatewayRate, need: CALLS_A_SECOND, how: 'one a call' },
  { what: 'new environments in 10 seconds', limit: limits.scaling, need: counted.demand.scaling!, how: 'counted' },
  ...placesOf(counted, limits),
])}

${endedTable([
  ['1,000 a second, for a second', limited],
  ['100 a second for 5 s, with 1,000 calls at once in the plan', slower],
])}
`;
}

const [START, END] = ['<!-- measured -->', '<!-- end of measured -->'];
const page = readFileSync(PAGE, 'utf8');
const [before, rest] = page.split(START);
const after = rest?.split(END)[1];
if (after === undefined) throw new Error(`docs/scale.md lacks ${START} or ${END}`);
writeFileSync(PAGE, `${before}${START}\n\n${await measured(allLimits(stageLimits()))}\n${END}${after}`);
