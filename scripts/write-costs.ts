/**
 * `npm run costs`: counts in the rehearsal what each kind of request makes AWS do, prices it, and writes `docs/costs.md`.
 * Own times are those of this machine: run it when the machine does nothing else.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FUNCTIONS } from '#lib/functions.ts';
import { startAwsEmulators } from '#test/helpers/aws-emulators.ts';
import { type Counted, countRequests } from '#test/rehearsal/costs.ts';
import type { Lambda } from '#test/rehearsal/lambda.ts';
import { startRehearsal } from '#test/rehearsal/platform.ts';

/** US dollars of us-east-1, without free tiers. */
const PRICES = {
  /** REST API, first tier: aws.amazon.com/api-gateway/pricing. */
  gatewayRequest: 3.5e-6,
  /** arm64, first tier: aws.amazon.com/lambda/pricing. */
  invocation: 0.2e-6,
  lambdaGbSecond: 0.0000133334,
  /** On demand: aws.amazon.com/dynamodb/pricing. */
  readUnit: 0.125e-6,
  writeUnit: 0.625e-6,
  /** S3 Standard: aws.amazon.com/s3/pricing. */
  s3Get: 0.4e-6,
  s3Put: 5e-6,
  /** Of Secrets Manager: aws.amazon.com/secrets-manager/pricing. */
  secretRequest: 5e-6,
  /** Of Bedrock AgentCore Runtime: aws.amazon.com/bedrock/agentcore/pricing. */
  agentCoreCpuSecond: 0.0895 / 3600,
  agentCoreGbSecond: 0.00945 / 3600,
};
const MODEL_SECONDS = 5;
/** At this much memory a function has one processor, and a share of it below: docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html. */
const MB_A_PROCESSOR = 1769;
/** Peak memory of a small agent in AgentCore, which bills what is used and not what is set. */
const AGENT_CORE_GB = 0.25;
const MILLION = 1e6;

const gb = (memoryMb: number): number => memoryMb / 1024;
const ownSeconds = ({ invocations }: Counted): number => invocations.reduce((sum, { ms }) => sum + ms / 1000, 0);
const waitGb = ({ invocations }: Counted): number => gb(invocations[0]?.memoryMb ?? 0);
const waitSeconds = ({ modelTurns }: Counted): number => modelTurns * MODEL_SECONDS;

/** Of one request, in dollars, apart from waiting for models. */
const platformCost = (counted: Counted): number =>
  counted.gatewayRequests * PRICES.gatewayRequest +
  counted.invocations.length * PRICES.invocation +
  counted.invocations.reduce((sum, { ms, memoryMb }) => sum + (ms / 1000) * gb(memoryMb), 0) * PRICES.lambdaGbSecond +
  counted.readUnits * PRICES.readUnit +
  counted.writeUnits * PRICES.writeUnit +
  counted.s3Gets * PRICES.s3Get +
  counted.s3Puts * PRICES.s3Put +
  counted.others.filter((action) => action.startsWith('secretsmanager:')).length * PRICES.secretRequest;

const waitCost = (counted: Counted): number => waitSeconds(counted) * waitGb(counted) * PRICES.lambdaGbSecond;

/** The same as one function behind API Gateway that does nothing but ask the model. */
const bareCost = (counted: Counted): number => PRICES.gatewayRequest + PRICES.invocation + waitCost(counted);

/** The same processor time and waiting in an AgentCore session that is stopped at once; it bills a second at least. */
const agentCoreCost = (counted: Counted): number => {
  const own = ownSeconds(counted);
  const seconds = Math.max(1, own + waitSeconds(counted));
  return own * PRICES.agentCoreCpuSecond + seconds * AGENT_CORE_GB * PRICES.agentCoreGbSecond;
};

const dollars = (amount: number): string => `$${(amount * MILLION).toFixed(2)}`;
const table = (head: string[], rows: string[][]): string =>
  [head, head.map((_, i) => (i === 0 ? '---' : '--:')), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

function page(counted: readonly Counted[], needs: Lambda['needs']): string {
  const counts = counted.map((each) => [
    each.what,
    String(each.invocations.length),
    String(each.tableRequests),
    String(each.readUnits),
    String(each.writeUnits),
    `${each.s3Gets} / ${each.s3Puts}`,
    each.others.join(', ') || '-',
    `${Math.round(ownSeconds(each) * 1000)} ms`,
  ]);
  const prices = counted.map((each) => [
    each.what,
    dollars(platformCost(each)),
    each.modelTurns === 0 ? '-' : dollars(waitCost(each)),
    dollars(platformCost(each) + waitCost(each)),
    each.modelTurns === 0 ? '-' : dollars(bareCost(each)),
    each.modelTurns === 0 ? '-' : dollars(agentCoreCost(each)),
  ]);
  const { memoryMb } = FUNCTIONS.calls;
  const promptCpuMs = counted[0]!.invocations[0]!.cpuMs;
  const perWait = MODEL_SECONDS * gb(memoryMb) * PRICES.lambdaGbSecond;
  const memories = [...new Set([256, 512, memoryMb, 1769])].sort((a, b) => a - b);
  return `# What a request costs on AWS

Written by \`npm run costs\` on ${new Date().toISOString().slice(0, 10)}, from requests counted in the rehearsal (docs/aws.md): real bundles in
Lambda's runtime client, DynamoDB Local's count of units, transactions by DynamoDB's rules. Prices are list prices of us-east-1 without free tiers; models
themselves, logs, traces and data transfer are not in them. Each kind of request is counted the second time: the
function runs already, and keeps agents and secrets in memory for some minutes.

## What is counted

${table(['request', 'functions', 'DynamoDB requests', 'read units', 'write units', 'S3 GET / PUT', 'others', 'own time'], counts)}

"Own time" is from the event to the end of all work for it, on the machine that wrote this page, beside whatever else it
did, with a model that answers at once. Lambda gives ${memoryMb} MB ${(memoryMb / MB_A_PROCESSOR).toFixed(2)} of a processor: expect more there.

A test holds the prompt call under 12 write units and 8 read units. Of the writes, 6 are the transaction that ends the run (2 for
each of its two items, 2 for the index in which it moves), 3 begin it, and 2 take and give back its place among the calls at once.
This run's record is below 1 KB, with what went in and came out of it; each further kilobyte, up to 4 KB, is 3 units more.

## What a million cost

${table(['request', 'platform', `waiting ${MODEL_SECONDS} s for each model turn`, 'together', 'bare Lambda + API Gateway', 'AgentCore Runtime'], prices)}

- _Platform_: API Gateway, functions, tables, blobs and secrets: authentication, limits, idempotency, the run's record and usage.
- _Bare_: one function of the same memory behind the same API Gateway that asks the model and does nothing else.
- _AgentCore_: list price of Bedrock AgentCore Runtime ($0.0895 a vCPU-hour, $0.00945 a GB-hour) for the same own time as
  processor time and ${AGENT_CORE_GB} GB for as long as the call takes. It does not bill the processor while an agent waits. It does bill memory
  until the session ends, which is 15 minutes after its last call unless it is stopped: ${dollars(900 * AGENT_CORE_GB * PRICES.agentCoreGbSecond)} more a million
  sessions. What the platform adds to a call (keys, limits, records) would have to be built beside it.

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
  [...needs].map(([name, { initCpuMs, peakMb }]) => {
    const short = name.split('-').slice(2).join('-') as keyof typeof FUNCTIONS;
    return [
      `\`${short}\``,
      `${FUNCTIONS[short].memoryMb} MB`,
      `${Math.ceil(peakMb)} MB`,
      `${Math.round(initCpuMs)} ms`,
    ];
  }),
)}

Sources of the prices: the pricing pages of AWS for API Gateway, Lambda (arm64), DynamoDB (on demand), S3, Secrets Manager
and Bedrock AgentCore. Look them up for your Region before you rely on them; \`scripts/write-costs.ts\` has them in one table.
`;
}

const emulators = await startAwsEmulators();
try {
  const target = await startRehearsal(emulators.endpoints);
  try {
    writeFileSync(
      join(import.meta.dirname, '../docs/costs.md'),
      page(await countRequests(target), target.lambda.needs),
    );
  } finally {
    await target.close();
  }
} finally {
  await emulators.stop();
}
