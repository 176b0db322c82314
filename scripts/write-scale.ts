/**
 * `npm run scale`: simulates the loads of `docs/scale.md` with a model of AWS's limits (`test/scale`), and writes the
 * first limits reached to the page.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Callers,
  endsOfOneAgent,
  lookAtServices,
  type Outcome,
  calls as playCalls,
  schedulesOfOneMinute,
} from '#test/scale/loads.ts';
import { limitTable, table } from '#test/scale/page.ts';
import { type Programs, programsInMicrovms, programsOnFargate } from '#test/scale/programs.ts';
import { allLimits, type Limits, stageLimits } from '#test/scale/quotas.ts';

const PAGE = join(import.meta.dirname, '../docs/scale.md');
const MODEL_SECONDS = 5;
const DAY_SECONDS = 86_400;
const RUNS_A_SECOND = 1_000_000 / DAY_SECONDS;
/** Runs a day, and the seconds of it that are simulated. */
const DAYS = [
  { runs: 1_000_000, name: '1 million', seconds: 10 },
  { runs: 100_000_000, name: '100 million', seconds: 2 },
] as const;
/** Answer time of the simulated model in these seconds: as many calls end as begin. */
const DAY_MODEL_MS = 500;
const CALLERS: readonly (readonly [Callers, string])[] = [
  ['even', 'evenly'],
  ['half one workspace', 'half of it one workspace'],
  ['half one agent', 'half of it one public agent'],
];
const SEEDS = [1, 2, 3];
/** Ends per second of runs of one agent. */
const END_RATES = [300, 1000, 3000];
/** Tasks of a pool of several parts, which is large enough for some seconds of the programs of a day. */
const LARGE_POOL = 300;
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

/** Returns the least and greatest of some numbers. */
const range = (numbers: readonly number[], unit = ''): string => {
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)].map((n) => show(n) + unit);
  return least === most ? least! : `${least} to ${most}`;
};

/** Quotas that AWS raises on request, and the plan, out of the way of DynamoDB's limits. */
const raised = (limits: Limits): Limits => ({
  ...limits,
  concurrency: 1e6,
  scaling: 1e6,
  gatewayRate: 1e6,
  gatewayBurst: 1e6,
  planConcurrency: limits.planConcurrencyMax,
});

/** Plays the runs of a day, once without limits and then with those of DynamoDB, from several seeds. */
async function daysOfCalls(limits: Limits, waitSeconds: number): Promise<string> {
  const parts: string[] = [];
  for (const { runs, name, seconds } of DAYS) {
    const load = { rate: runs / DAY_SECONDS, seconds, modelMs: DAY_MODEL_MS };
    const rows: string[][] = [];
    const needs: string[] = [];
    for (const [callers, how] of CALLERS) {
      progress(`${name} runs a day, ${how}`);
      const counted = await playCalls({ limits, throttles: false }, { ...load, callers });
      needs.push(`${name}, ${how}:

${needTable([
  { what: 'executions of Lambda', limit: limits.concurrency, need: load.rate * waitSeconds, how: 'one a call' },
  { what: "requests of the stage's throttle", limit: limits.gatewayRate, need: load.rate, how: 'one a call' },
  ...placesOf(counted, limits),
])}`);
      const played: Outcome[] = [];
      for (const seed of SEEDS)
        played.push(await playCalls({ limits: raised(limits), throttles: true }, { ...load, callers, seed }));
      const all = (of: (outcome: Outcome) => number): number[] => played.map(of);
      const sent = all(({ ended }) => Object.values(ended).reduce((sum, n) => sum + n, 0));
      rows.push([
        how,
        `${range(all(({ ended }) => ended['200'] ?? 0))} of ${range(sent)}`,
        range(all(({ world }) => world.dynamo.throttled)),
        range(all(({ world }) => world.dynamo.failed)),
        range(
          all(
            ({ world }, n = played.findIndex((each) => each.world === world)) =>
              (world.dynamo.conflicts / sent[n]!) * 100,
          ),
          '%',
        ),
      ]);
    }
    parts.push(`### ${name} runs a day

${show(load.rate)} a second, prompts whose model answers in ${MODEL_SECONDS} s, from a hundred workspaces. The simulated model answers in ${DAY_MODEL_MS / 1000} s, so that
as many calls end as begin in a second.

${table(
  [
    `with the quotas raised, ${seconds} s from seeds ${SEEDS.join(', ')}`,
    'answered',
    'refused by DynamoDB, retries included',
    'refused after retries',
    'conflicts per call',
  ],
  rows,
)}

${needs.join('\n\n')}
`);
  }
  return parts.join('\n');
}

/** Plays ends of runs of one agent at growing rates, from several seeds. */
async function endsTable(limits: Limits): Promise<string> {
  const rows: string[][] = [];
  for (const rate of END_RATES) {
    progress(`${rate} ends a second`);
    const roomy = { ...limits, partitionReads: 1e6, partitionWrites: 1e6, tableReads: 1e6, tableWrites: 1e6 };
    const [conflicts, refused]: [number[], number[]] = [[], []];
    for (const seed of SEEDS) {
      const free = await endsOfOneAgent({ limits: roomy, throttles: true }, { rate, seconds: 1, seed });
      if (free.summed !== free.ends) throw new Error(`${free.summed} of ${free.ends} runs are summed`);
      conflicts.push((free.demand.conflicts ?? 0) * 100);
      const cold = await endsOfOneAgent({ limits, throttles: true }, { rate, seconds: 1, seed });
      refused.push(cold.world.dynamo.throttled);
    }
    rows.push([show(rate), range(conflicts, '%'), range(refused)]);
  }
  return table(
    ['ends a second', 'conflicts', 'refused by DynamoDB at the limits of new tables, retries included'],
    rows,
  );
}

const progress = (what: string): void => void process.stderr.write(`${what}\n`);

async function measured(limits: Limits): Promise<string> {
  const day: Programs = { rate: RUNS_A_SECOND, burst: 0, seconds: 60, runMs: 1000, deadlineMs: 300_000 };
  const served = { limits, throttles: true };

  progress('one workspace, counted');
  const modelMs = MODEL_SECONDS * 1000;
  const calls = { rate: CALLS_A_SECOND, seconds: 1, modelMs };
  const counted = await playCalls({ limits, throttles: false }, calls);
  progress('one workspace, with limits');
  const limited = await playCalls(served, calls);
  progress('one workspace, with limits, at a tenth');
  const slower = await playCalls(
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
  progress('programs in a large pool');
  const large = await programsOnFargate(
    { limits: { ...limits, fargateVcpus: LARGE_POOL, poolMax: LARGE_POOL }, throttles: true },
    { ...day, seconds: 20 },
  );
  const waitSeconds = (limits.ownMs.calls + modelMs) / 1000;
  const taskSeconds = limits.taskStartMs / 1000 + 1;
  const writes = (units: number) => `${units} units a run (costs.md)`;
  return `Written by \`npm run scale\` on ${new Date().toISOString().slice(0, 10)}.

### The limits

${limitTable(limits)}

${await daysOfCalls(limits, waitSeconds)}
### Runs of one agent that end at once

Completed runs of one agent in one workspace, for a second, from seeds ${SEEDS.join(', ')}. The stream of the table \`runs\` has 16 shards, whose batches come
at the same moments. A conflict is a write that meets a transaction on its item; the retry is billed.

${await endsTable(limits)}

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
  [`Fargate with ${show(LARGE_POOL)} tasks and their processors, 20 seconds`, large],
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
