/**
 * `npm run costs`: counts the AWS requests of each kind of call in the rehearsal, prices them, and writes
 * `docs/costs.md`. CPU times are measured on this machine.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineStage, type FargateSettings, PROGRAM_RISKS, type ProgramSettings } from '#lib/config.ts';
import { FUNCTIONS, POOL_FUNCTIONS } from '#lib/functions.ts';
import { startAwsEmulators } from '#test/helpers/aws-emulators.ts';
import {
  type Counted,
  countRequests,
  LOOP_TURNS,
  PLAIN_LOOP,
  PROGRAM_RUN,
  SUB_CALLS,
  type Waits,
  writeFigures,
} from '#test/rehearsal/costs.ts';
import type { Lambda } from '#test/rehearsal/lambda.ts';
import { startRehearsal } from '#test/rehearsal/platform.ts';
import { buildFunctions } from './build-functions.ts';
import { idleCosts } from './idle-costs.ts';
import { serviceCosts } from './service-costs.ts';

/** Prices in US dollars for us-east-1, without free tiers. */
const PRICES = {
  /** REST API, first tier: aws.amazon.com/api-gateway/pricing. */
  gatewayRequest: 3.5e-6,
  /** arm64, first tier: aws.amazon.com/lambda/pricing. */
  invocation: 0.2e-6,
  lambdaGbSecond: 0.0000133334,
  /** Above 512 MB of a function's disk. */
  lambdaDiskGbSecond: 3.09e-8,
  /** On demand: aws.amazon.com/dynamodb/pricing. */
  readUnit: 0.125e-6,
  writeUnit: 0.625e-6,
  /** S3 Standard: aws.amazon.com/s3/pricing. */
  s3Get: 0.4e-6,
  s3Put: 5e-6,
  /** Secrets Manager: aws.amazon.com/secrets-manager/pricing. */
  secretRequest: 5e-6,
  /** Fargate on ARM, billed by the second with a minimum of one minute: aws.amazon.com/fargate/pricing. */
  fargateCpuSecond: 0.03238 / 3600,
  fargateGbSecond: 0.00356 / 3600,
  /** The least that is billed of a MicroVM of 512 MB, a quarter of a processor: aws.amazon.com/lambda/pricing. */
  microvmSecond: 0.25 * 0.0000276944 + 0.5 * 0.0000036667,
  /** Public IPv4 address, one per task: aws.amazon.com/vpc/pricing. */
  addressSecond: 0.005 / 3600,
  /** Bedrock AgentCore Runtime: aws.amazon.com/bedrock/agentcore/pricing. */
  agentCoreCpuSecond: 0.0895 / 3600,
  agentCoreGbSecond: 0.00945 / 3600,
};
const MODEL_SECONDS = 5;
/** Assumed duration of a program; the counted programs do nothing. */
const PROGRAM_SECONDS = 1;
/** Assumed latency of DynamoDB in the same Region. */
const TABLE_REQUEST_SECONDS = 0.005;
/**
 * Memory at which a function gets one full processor: docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html.
 */
const MB_A_PROCESSOR = 1769;
/** Peak memory of a small agent. AgentCore bills used memory, not configured memory. */
const AGENT_CORE_GB = 0.25;
const MILLION = 1e6;
const ALL_FUNCTIONS = { ...FUNCTIONS, ...POOL_FUNCTIONS };

const gb = (memoryMb: number): number => memoryMb / 1024;
/** Returns the duration of a function: its CPU time divided by its share of a processor. */
const workSeconds = ({ cpuMs, memoryMb }: Counted['invocations'][number]): number =>
  (cpuMs / 1000) * Math.max(1, MB_A_PROCESSOR / memoryMb);
const tableSeconds = ({ tableRequests }: Counted): number => tableRequests * TABLE_REQUEST_SECONDS;
const ownSeconds = (counted: Counted): number =>
  counted.invocations.reduce((sum, each) => sum + workSeconds(each), tableSeconds(counted));
/** Default size of a task. */
const TASK = taskOf('costs');
const taskSecond =
  (TASK.cpu / 1024) * PRICES.fargateCpuSecond + gb(TASK.memoryMb) * PRICES.fargateGbSecond + PRICES.addressSecond;
/** Time from the pull of a task's image until it can be claimed. */
const TASK_START_SECONDS = 45;
/**
 * Price of Fargate Spot relative to Fargate: it varies between 30 and 50%; the maximum is used:
 * aws.amazon.com/fargate/pricing.
 */
const SPOT_SHARE = 0.5;
const CODE_RUN = 'code run (warm pool)';
const TASK_LEAST_SECONDS = 60;
/** Maximum lifetime of a task that serves several requests (runner/server/warm-time.ts). */
const TASK_LIFE_SECONDS = 15 * 60;
/** Assumed time between two programs in one task: closing a session, cleanup, claiming and opening the next one. */
const TURNOVER_SECONDS = 0.5;
/** Returns the task seconds of a program in a task that is always busy, including its share of the start. */
const warmSeconds =
  (PROGRAM_SECONDS + TURNOVER_SECONDS) * ((TASK_START_SECONDS + TASK_LIFE_SECONDS) / TASK_LIFE_SECONDS);

const programSeconds = ({ tasks, programs }: Counted): number => (tasks + programs) * PROGRAM_SECONDS;
/** Memory of the function for short programs. */
const PROGRAM_MB = programsOf('costs').memoryMb;
/** Functions that wait while a program runs. */
const besideAProgram = ({ programs }: Counted): Waits => ({ turns: 0, calls: 1, dispatch: programs > 0 ? 0 : 1 });

/** Returns the cost of one request in dollars, without waiting for models. */
const platformCost = (counted: Counted): number =>
  counted.gatewayRequests * PRICES.gatewayRequest +
  counted.invocations.length * PRICES.invocation +
  counted.invocations.reduce((sum, each) => sum + workSeconds(each) * gb(each.memoryMb), 0) * PRICES.lambdaGbSecond +
  (tableSeconds(counted) * gb(FUNCTIONS.calls.memoryMb) + programSeconds(counted) * waitGb(besideAProgram(counted))) *
    PRICES.lambdaGbSecond +
  counted.readUnits * PRICES.readUnit +
  counted.writeUnits * PRICES.writeUnit +
  counted.s3Gets * PRICES.s3Get +
  counted.s3Puts * PRICES.s3Put +
  counted.others.filter((action) => action.startsWith('secretsmanager:')).length * PRICES.secretRequest;

const waitGb = ({ calls, dispatch = 0 }: Waits): number =>
  calls * gb(FUNCTIONS.calls.memoryMb) + dispatch * gb(POOL_FUNCTIONS['sandbox-dispatch'].memoryMb);
const waitCost = ({ waits }: Counted): number => waitGb(waits) * MODEL_SECONDS * PRICES.lambdaGbSecond;

/** Price of a second of the function for short programs, with its disk of 6 GB: aws.amazon.com/lambda/pricing. */
const programSecond = gb(PROGRAM_MB) * PRICES.lambdaGbSecond + 5.5 * PRICES.lambdaDiskGbSecond;

/**
 * Returns the cost from start to end of its tasks, including waiting for models, but not waiting in the pool; or of its
 * programs in a function.
 */
const taskCost = ({ tasks, programs, isWarm, waits: { task = 0 } }: Counted): number => {
  if (programs > 0) return programs * PROGRAM_SECONDS * programSecond;
  if (isWarm) return tasks * warmSeconds * taskSecond;
  const seconds = tasks * (TASK_START_SECONDS + PROGRAM_SECONDS) + task * MODEL_SECONDS;
  return Math.max(tasks * TASK_LEAST_SECONDS, seconds) * taskSecond;
};

/**
 * Assumptions about the server of calls. No page that we found has the price of Lambda Web Functions, which bill the
 * same things as AgentCore Runtime: processor time and used memory.
 */
const SERVER = {
  /** Memory that an environment uses. */
  gb: 0.5,
  /** Calls that wait in it at once: ten a second of five seconds each. */
  atOnce: 50,
};
/** Returns the cost of compute of a call in the server of calls, at a multiple of AgentCore's prices. */
const serverCost = ({ invocations, waits }: Counted, times: number): number => {
  const cpuSeconds = invocations.reduce((sum, { cpuMs }) => sum + cpuMs / 1000, 0);
  const gbSeconds = (SERVER.gb / SERVER.atOnce) * MODEL_SECONDS * waits.turns;
  return PRICES.invocation + times * (cpuSeconds * PRICES.agentCoreCpuSecond + gbSeconds * PRICES.agentCoreGbSecond);
};
/** Returns the cost of a call in the server of calls, API Gateway and tables included. */
const sharedCost = (counted: Counted, times: number): number =>
  counted.gatewayRequests * PRICES.gatewayRequest + serverCost(counted, times) + unitCost(counted);

const unitCost = ({ readUnits, writeUnits }: Counted): number =>
  readUnits * PRICES.readUnit + writeUnits * PRICES.writeUnit;

/** Time of a MicroVM beside the session in it (docs/microvms.md). */
const MICROVM_EXTRA_SECONDS = 2;
/** Cost of a MicroVM that stays for a whole loop. */
const loopMicrovm = (LOOP_TURNS * MODEL_SECONDS + MICROVM_EXTRA_SECONDS) * PRICES.microvmSecond;

/** Returns what the run of a short program costs, by what is paid. */
function programProfile(counted: Counted): [string, number][] {
  const own = (isProgram: boolean) =>
    counted.invocations
      .filter(({ fn }) => fn.endsWith('-programs') === isProgram)
      .reduce((sum, each) => sum + workSeconds(each) * gb(each.memoryMb) * PRICES.lambdaGbSecond, 0);
  const waiting = gb(FUNCTIONS.calls.memoryMb) * PRICES.lambdaGbSecond;
  return [
    [`the program: ${PROGRAM_SECONDS} s of ${PROGRAM_MB} MB`, taskCost(counted)],
    [
      `\`calls\` waits for it: ${PROGRAM_SECONDS} s of ${FUNCTIONS.calls.memoryMb} MB`,
      programSeconds(counted) * waiting,
    ],
    ['units of DynamoDB', unitCost(counted)],
    ['API Gateway', counted.gatewayRequests * PRICES.gatewayRequest],
    ['the runner: opening the session, starting the program, removing the session', own(true)],
    ['own time of `calls`, and its requests to tables', own(false) + tableSeconds(counted) * waiting],
    ['requests for functions', counted.invocations.length * PRICES.invocation],
    ['the bundle, read from S3', counted.s3Gets * PRICES.s3Get],
  ];
}

const waitsOrRuns = ({ waits, tasks, programs }: Counted): boolean => waits.turns + tasks + programs > 0;

/** For comparison: plain functions behind API Gateway that only call models, or do the work of the program. */
const bareCost = (counted: Counted): number => {
  const seconds = programSeconds(counted) + counted.waits.calls * MODEL_SECONDS;
  return (
    counted.gatewayRequests * (PRICES.gatewayRequest + PRICES.invocation) +
    seconds * gb(FUNCTIONS.calls.memoryMb) * PRICES.lambdaGbSecond
  );
};

/**
 * For comparison: AgentCore sessions with the same CPU and wait times, stopped immediately; each is billed for at least
 * a second.
 */
const agentCoreCost = (counted: Counted): number => {
  const own = programSeconds(counted) || ownSeconds(counted);
  const seconds = Math.max(counted.gatewayRequests, own + counted.waits.calls * MODEL_SECONDS);
  return own * PRICES.agentCoreCpuSecond + seconds * AGENT_CORE_GB * PRICES.agentCoreGbSecond;
};

function taskOf(name: string): FargateSettings {
  const throttle = { requestsPerSecond: 1, burst: 1 };
  const common = { keepsData: false, logLevel: 'error', logRetentionDays: 7, runRetentionDays: 7, throttle } as const;
  const sandbox = { kind: 'fargate', lambda: { acknowledges: PROGRAM_RISKS } } as const;
  return defineStage({ name, ...common, sandbox }).sandbox as FargateSettings;
}

function programsOf(name: string): ProgramSettings {
  return taskOf(name).lambda!;
}

const dollars = (amount: number): string => `$${(amount * MILLION).toFixed(2)}`;
const table = (head: string[], rows: string[][]): string =>
  [head, head.map((_, i) => (i === 0 ? '---' : '--:')), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

/** Formats requests such as `lambda:InvokeFunction x 3`. */
function othersOf({ others }: Counted): string {
  const counts = Map.groupBy(others, (action) => action);
  return [...counts].map(([action, { length }]) => (length === 1 ? action : `${action} x ${length}`)).join(', ') || '-';
}

function page(counted: readonly Counted[], needs: Lambda['needs']): string {
  const counts = counted.map((each) => [
    each.what,
    String(each.invocations.length),
    String(each.tableRequests),
    String(each.readUnits),
    String(each.writeUnits),
    `${each.s3Gets} / ${each.s3Puts}`,
    othersOf(each),
    each.tasks === 0 ? '-' : String(each.tasks),
    `${Math.round(ownSeconds(each) * 1000)} ms`,
  ]);
  const prices = counted.map((each) => [
    each.what,
    dollars(platformCost(each)),
    each.tasks + each.programs === 0 ? '-' : dollars(taskCost(each)),
    each.waits.turns === 0 ? '-' : dollars(waitCost(each)),
    dollars(platformCost(each) + taskCost(each) + waitCost(each)),
    waitsOrRuns(each) ? dollars(bareCost(each)) : '-',
    waitsOrRuns(each) ? dollars(agentCoreCost(each)) : '-',
  ]);
  const alone = counted.find(({ what }) => what === CODE_RUN)!;
  const spotCost =
    (taskCost(alone) / taskSecond) * (SPOT_SHARE * (taskSecond - PRICES.addressSecond) + PRICES.addressSecond);
  prices.splice(counted.indexOf(alone) + 1, 0, [
    'the same on Fargate Spot, answered later',
    dollars(platformCost(alone)),
    dollars(spotCost),
    '-',
    dollars(platformCost(alone) + spotCost),
    dollars(bareCost(alone)),
    dollars(agentCoreCost(alone)),
  ]);
  const { memoryMb } = FUNCTIONS.calls;
  const prompt = counted[0]!;
  const profile = programProfile(counted.find(({ what }) => what === PROGRAM_RUN)!);
  const isWork = (what: string) => /runner|`calls`/.test(what);
  const programFloor = profile.reduce((sum, [what, cost]) => sum + (isWork(what) ? 0 : cost), 0);
  const plainLoop = counted.find(({ what }) => what === PLAIN_LOOP)!;
  const promptCpuMs = prompt.invocations[0]!.cpuMs;
  const perWait = MODEL_SECONDS * gb(memoryMb) * PRICES.lambdaGbSecond;
  const memories = [...new Set([256, 512, memoryMb, 1769])].sort((a, b) => a - b);
  return `# What a request costs on AWS

Written by \`npm run costs\` on ${new Date().toISOString().slice(0, 10)}, from requests counted in the rehearsal (docs/aws.md): real bundles in
Lambda's runtime client, DynamoDB Local's count of units, transactions by DynamoDB's rules. Prices are list prices of us-east-1 without free tiers; they do
not include models, logs, traces and data transfer. Each kind of request is counted after some repetitions: the
functions are running already, and cache agents and secrets for some minutes.

## What is counted

${table(['request', 'functions', 'DynamoDB requests', 'read units', 'write units', 'S3 GET / PUT', 'others', 'tasks', 'own time'], counts)}

"Own time" is the processor time of the functions on the machine that wrote this page, at the share of a processor that
Lambda gives each (${(FUNCTIONS.calls.memoryMb / MB_A_PROCESSOR).toFixed(2)} to those of ${memoryMb} MB), and ${TABLE_REQUEST_SECONDS * 1000} ms for each request to DynamoDB.

"Tasks" are the tasks on Fargate that the request uses. The request is the first of its task, except for the run with a warm task, which
has served runs of the same kind before (docs/sandbox.md). The work of the function \`pool-keeper\`, which replaces the task
afterwards, is counted with the request. A loop asks its model twice and runs one command, the
orchestrator calls ${SUB_CALLS} prompts at once. A program is taken to work for ${PROGRAM_SECONDS} s.

A test fails when one of these kinds, apart from tasks, needs a tenth more of anything that is counted; it limits the prompt call to 5 write units
and 3 read units. Of the writes, 2 begin the run (its record, and the index of runs by time), 1 ends it, and 2 acquire and release its lease of a concurrent call.
This run's record is below 1 KB, including input and output; each further kilobyte, up to 4 KB, costs 2 more units.
The function \`usage-writer\` sums ended runs in batches of a second: 5 units for a batch with one run (2 each for the sum and the position, 1 for the list
of the agent's runs), and little more for one with many runs of few agents.
Another test counts the writes to each item at 500 calls a second of one workspace: DynamoDB writes 1,000 units a second to an
item, and none gets more than 500.

## What a million cost

${table(['request', 'platform', 'tasks', `waiting ${MODEL_SECONDS} s for each model turn`, 'together', 'bare Lambda + API Gateway', 'AgentCore Runtime'], prices)}

- _Platform_: API Gateway, functions, tables, blobs and secrets: authentication, limits, idempotency, the run's record and usage.
- _Tasks_: ${TASK.cpu / 1024} vCPU and ${gb(TASK.memoryMb)} GB on ARM with a public address, ${(taskSecond * 3600).toFixed(4)} USD an hour, from the start (taken to be ${TASK_START_SECONDS} s) to the end of
  each, ${TASK_LEAST_SECONDS} s at least, as Fargate bills. The time of an idle task in the pool is extra: ${(taskSecond * 3600 * 730).toFixed(2)} USD a month for each that the stage keeps idle.
  A run in a task that is _already warm_ takes ${warmSeconds.toFixed(2)} task seconds: ${PROGRAM_SECONDS} s for the program and ${TURNOVER_SECONDS} s (taken) between two programs, and its share
  of the start, where one run follows the other for the ${TASK_LIFE_SECONDS / 60} minutes of a task. A task with a run every ten seconds has ten task
  seconds a run, ${dollars(10 * taskSecond)} a million; a run whose successor comes more than 30 s later, or of another kind, has its task to itself, which
  then waits for up to ${TASK_LEAST_SECONDS + 30} s from its start and costs up to ${dollars((TASK_START_SECONDS + TASK_LEAST_SECONDS + 30) * taskSecond)} a million.
  [Fargate Spot](sandbox.md#fargate-spot) is taken at ${SPOT_SHARE * 100}% of the price of processor and memory, its address at the full price; AWS changes it, between 30 and 50%.
  [MicroVMs](microvms.md) cost less for single short runs.
  A run [in a Lambda function](sandbox.md#on-aws-short-programs-in-lambda-functions) is counted in an environment that has served runs of
  its kind before: ${PROGRAM_SECONDS} s of ${PROGRAM_MB} MB and a disk of 6 GB, ${dollars(programSecond)} a million; opening the session and removing it
  are in _platform_. A new environment takes a second or two more, for which AWS also charges: its price is not included.
- _Bare_: functions of the same memory behind the same API Gateway, one for each agent, that call the model or do the work of the program,
  and nothing else.
- _AgentCore_: list price of Bedrock AgentCore Runtime ($0.0895 a vCPU-hour, $0.00945 a GB-hour) for the same own time as
  processor time (the program's, where there is one) and ${AGENT_CORE_GB} GB for as long as the call takes. It does not bill the processor while an agent waits. It does bill memory
  until the session ends, which is 15 minutes after its last call unless it is stopped: ${dollars(900 * AGENT_CORE_GB * PRICES.agentCoreGbSecond)} more a million
  sessions. What the platform adds to a call (keys, limits, records) would have to be built separately.

## A short program in a function

Where the money for the last row goes, a million times:

${table(
  ['what', 'a million'],
  profile.map(([what, cost]) => [what, dollars(cost)]),
)}

- _Waiting_ of \`calls\` could only be shared in [its server](#the-server-of-calls), which passes programs on: what a program prints may take hundreds of megabytes as
  parsed JSON, whoever wrote it, and one such run would end the calls of other workspaces. Room for the worst case lets one program at a time into an environment.
- _The program_ has the function's whole memory, 128 MB of it for the runner. With \`memoryMb: 512\` and a limit of 384 MB for programs (\`PLATFORM_SANDBOX_MEMORY_MB\`) it costs a fifth less.
- _The runner_ removes all that a program leaves, so the next run of the same kind begins in a clean environment.
- Of the write units, a program takes one more than a prompt, because its record is above 1 KB.

Without waiting, and without the work of runner and \`calls\`, it would be ${dollars(programFloor)}, so that less is out of reach while a program has this memory.

## Waiting is the bill

While a call waits for a model, its function's memory is paid for: ${MODEL_SECONDS} s at ${memoryMb} MB, which the function \`calls\` has, are
$${perWait.toFixed(7)}, or ${dollars(perWait)} a million calls.

${table(
  [
    'memory',
    'share of a processor',
    "a prompt call's own work then takes",
    `${MODEL_SECONDS} s of waiting, a million times`,
  ],
  memories.map((each) => [
    `${each} MB`,
    (each / MB_A_PROCESSOR).toFixed(2),
    `${Math.round((promptCpuMs * MB_A_PROCESSOR) / each)} ms`,
    dollars(MODEL_SECONDS * gb(each) * PRICES.lambdaGbSecond),
  ]),
)}

Functions that wait for models and programs have ${memoryMb} MB for that reason: beside seconds of waiting, what less processor costs
does not show. Those that a person waits for have more. What they needed here:

${table(
  ['function', 'memory', 'most that it used', 'processor time to start'],
  // Only deployments call the function that handles CloudFormation requests.
  [...needs]
    .filter(([name]) => !name.endsWith('-data-version'))
    .map(([name, { initCpuMs, peakMb }]) => {
      const short = name.split('-').slice(2).join('-') as keyof typeof ALL_FUNCTIONS;
      return [
        `\`${short}\``,
        `${ALL_FUNCTIONS[short].memoryMb} MB`,
        `${Math.ceil(peakMb)} MB`,
        `${Math.round(initCpuMs)} ms`,
      ];
    }),
)}

256 MB would halve the price of waiting, and a prompt call with 5 s of it would cost about $27 a million. They are not enough ([0015](decisions/0015-memory-of-calls.md)): this is the
memory of the process of \`calls\` in the rehearsal, with the heap sizes that Lambda gives Node at 512 MB (November 2026, one environment
that served one request after the other, with a garbage collection after each large one). The heap limit does not include Buffers.

| request | memory at its peak |
| --- | --: |
| small requests | 134 MB |
| a text of 3.9 MB in the body | 218 MB |
| a body of 3.9 MB with 280,000 small objects | 263 MB |
| a body of 3.9 MB with 1,300,000 nested arrays | 376 MB |
| a program that prints 9 MB, after these | 389 MB |
| uploads of 16 MB, for a program or as PDFs, after these | 441 MB |
| an upload of JSON of 8 MB for a prompt, after these | 435 MB |

In another run, an upload of JSON for a program took 351 MB with one text of 24 MB, and 425 MB with 440,000 objects in 22 MB after it. Input
for a model is limited to 10 MB, because 16 MB took 515 MB, and JSON to five million values, because eight million
empty arrays in 23 MB took 866 MB.

## The server of calls

With [\`calls: 'web'\`](deploy.md#calls-that-wait) calls that wait share environments. What a call with ${MODEL_SECONDS} s of waiting for each turn then costs a million
times, where ${SERVER.atOnce} wait in one environment that uses ${SERVER.gb} GB. The price of Lambda Web Functions was on no page that we found; it is taken to
be that of AgentCore Runtime, which bills the same things, or three times as much.

${table(
  ['', "at AgentCore's price", 'at three times that price'],
  [
    ['prompt call: processor, memory and requests', ...[1, 3].map((times) => dollars(serverCost(prompt, times)))],
    ['prompt call, with API Gateway and tables', ...[1, 3].map((times) => dollars(sharedCost(prompt, times)))],
    [
      `loop of ${LOOP_TURNS} turns, whose caller waits for ${LOOP_TURNS * MODEL_SECONDS} s, with API Gateway and tables`,
      ...[1, 3].map((times) => dollars(sharedCost(plainLoop, times))),
    ],
    [
      'the same with a MicroVM for its commands, from the first turn to the last',
      ...[1, 3].map((times) => dollars(sharedCost(plainLoop, times) + loopMicrovm)),
    ],
  ],
)}

- A loop whose tools need no sandbox (other agents, MCP servers by address) costs little more than a prompt. One with commands pays for its sandbox, which
  stays from the first command to the end. A MicroVM suspends itself after a minute without requests at the earliest, and what it costs to suspend it
  after each command and resume it was on no page that we found.
- Loops that are answered later, and durable ones, run in functions of their own, and cost what the table above says. They could share an environment only if Lambda
  did not end it: their work outlives the response.

One call a minute has its environment to itself: ${dollars(SERVER.gb * MODEL_SECONDS * PRICES.agentCoreGbSecond)} a million for memory while it waits, and in addition what an environment costs until Lambda removes it,
which is not documented. Without requests it costs nothing.

${idleCosts()}
${serviceCosts()}
## Sources

The pricing pages of AWS for API Gateway, Lambda (arm64), DynamoDB (on demand), S3, Secrets Manager, Fargate, Elastic Load
Balancing and Bedrock AgentCore. Look them up for your Region before you rely on them; \`scripts/write-costs.ts\` and
\`scripts/service-costs.ts\` have them.
`;
}

const emulators = await startAwsEmulators();

/** Counts in a stage of its own, because short programs do not use the tasks of the others. */
async function countPrograms(): Promise<Counted[]> {
  const target = await startRehearsal(emulators.endpoints, { hasPrograms: true, name: 'short' });
  try {
    return await countRequests(target, { onlyPrograms: true });
  } finally {
    await target.close();
  }
}

try {
  await buildFunctions();
  const target = await startRehearsal(emulators.endpoints);
  try {
    const counted = await countRequests(target, { withTasks: true });
    writeFigures(counted);
    const programs = await countPrograms();
    writeFileSync(join(import.meta.dirname, '../docs/costs.md'), page([...counted, ...programs], target.lambda.needs));
  } finally {
    await target.close();
  }
} finally {
  await emulators.stop();
}
