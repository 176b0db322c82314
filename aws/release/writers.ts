import {
  DeleteFunctionConcurrencyCommand,
  DeleteProvisionedConcurrencyConfigCommand,
  type FunctionConfiguration,
  GetFunctionConcurrencyCommand,
  type LambdaClient,
  ListTagsCommand,
  PutFunctionConcurrencyCommand,
  PutProvisionedConcurrencyConfigCommand,
  paginateListEventSourceMappings,
  paginateListFunctions,
  paginateListProvisionedConcurrencyConfigs,
  TagResourceCommand,
  UntagResourceCommand,
  UpdateEventSourceMappingCommand,
} from '@aws-sdk/client-lambda';

/** When a function was stopped, and what it had before: `PREFIX` and the member's name. */
const PREFIX = 'platform:stopped';
const AT = `${PREFIX}-at`;
/** Executions that were reserved for it, or `none`. */
const RESERVED = `${PREFIX}-reserved`;
/** Environments that were kept started, as `<alias or version>=<number>` with spaces between. */
const PROVISIONED = `${PREFIX}-provisioned`;
/** Whether it read queues. */
const QUEUES = `${PREFIX}-queues`;
const TAGS = [AT, RESERVED, PROVISIONED, QUEUES];

/** For an invocation that began before the last of Lambda's hosts knew of the stop. */
const MARGIN_MS = 60_000;

/** A deployed function that knows the tables of a platform. */
export interface Writer {
  readonly name: string;
  /** Epoch milliseconds from which nothing of it runs any more. @default - it runs */
  readonly idleFrom: number | undefined;
}

interface Found extends Writer {
  readonly arn: string;
  readonly timeoutMs: number;
  readonly tags: Readonly<Record<string, string>>;
  /** Executions that are reserved for it. */
  readonly reserved: number | undefined;
  /** Ids of what reads queues for it, also for one of its aliases. */
  readonly queues: readonly string[];
}

/**
 * The functions of a platform that know its tables, and whether they are stopped. Nothing else writes to the tables: no other role of the
 * stacks may, and sandboxes and services have no rights at all, they ask the API.
 *
 * @param platform as the names of its stacks begin, such as `platform-prod`
 */
export const writersOf = (lambda: LambdaClient, platform: string): Promise<Writer[]> => findWriters(lambda, platform);

/**
 * Stops all of them: whoever calls them, API, clocks, queues, events or each other. No execution is allowed any more
 * (docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html), and no queue is read, because messages that cannot be handled
 * would go to the dead-letter queue. What runs goes on until it ends, at the function's time limit at the latest. Safe to repeat; what
 * each function had is kept in its tags.
 */
export async function stopWriters(lambda: LambdaClient, platform: string, now: () => number): Promise<Writer[]> {
  const stopped: Writer[] = [];
  for (const each of await findWriters(lambda, platform)) {
    stopped.push(each.idleFrom === undefined ? await stop(lambda, each, now) : each);
  }
  return stopped;
}

/** Lets them run as before. Safe to repeat. Returns the names of those that were stopped. */
export async function startWriters(lambda: LambdaClient, platform: string): Promise<string[]> {
  const started: string[] = [];
  for (const each of await findWriters(lambda, platform)) {
    if (!(AT in each.tags)) continue;
    await start(lambda, each);
    started.push(each.name);
  }
  return started;
}

async function findWriters(lambda: LambdaClient, platform: string): Promise<Found[]> {
  const functions: FunctionConfiguration[] = [];
  for await (const { Functions = [] } of paginateListFunctions({ client: lambda }, {})) functions.push(...Functions);
  const own = functions.filter(({ Environment }) => Environment?.Variables?.PLATFORM_TABLE_PREFIX === `${platform}-`);
  if (own.length === 0) {
    const region = await lambda.config.region();
    throw new Error(
      `No function of ${platform} is in ${region}: name the platform as its stacks begin, and set AWS_REGION to where it is.`,
    );
  }
  const queues = await queuesByFunction(lambda);
  const found: Found[] = [];
  for (const { FunctionName, FunctionArn: arn, Timeout: timeout } of own) {
    const name = FunctionName!;
    const { Tags: tags = {} } = await lambda.send(new ListTagsCommand({ Resource: arn }));
    const { ReservedConcurrentExecutions: reserved } = await lambda.send(
      new GetFunctionConcurrencyCommand({ FunctionName }),
    );
    const timeoutMs = timeout! * 1000;
    const isStopped = reserved === 0 && tags[AT] !== undefined;
    const idleFrom = isStopped ? Date.parse(tags[AT]!) + timeoutMs + MARGIN_MS : undefined;
    found.push({ name, arn: arn!, timeoutMs, tags, reserved, queues: queues.get(name) ?? [], idleFrom });
  }
  return found;
}

async function stop(lambda: LambdaClient, writer: Found, now: () => number): Promise<Writer> {
  const { name, arn, timeoutMs, tags, reserved, queues } = writer;
  const provisioned = await provisionedOf(lambda, name);
  // Written down first, so that a stop that breaks off is completed by the next.
  if (!(AT in tags)) {
    const before = {
      [RESERVED]: String(reserved ?? 'none'),
      ...(provisioned.length > 0 && { [PROVISIONED]: provisioned.join(' ') }),
      ...(queues.length > 0 && { [QUEUES]: 'read' }),
    };
    await lambda.send(new TagResourceCommand({ Resource: arn, Tags: { [AT]: timeOf(now()), ...before } }));
  }
  for (const UUID of queues) await lambda.send(new UpdateEventSourceMappingCommand({ UUID, Enabled: false }));
  // Lambda keeps started no more than it allows.
  for (const each of provisioned) {
    const [Qualifier] = each.split('=');
    await lambda.send(new DeleteProvisionedConcurrencyConfigCommand({ FunctionName: name, Qualifier }));
  }
  await lambda.send(new PutFunctionConcurrencyCommand({ FunctionName: name, ReservedConcurrentExecutions: 0 }));
  const at = timeOf(now());
  await lambda.send(new TagResourceCommand({ Resource: arn, Tags: { [AT]: at } }));
  return { name, idleFrom: Date.parse(at) + timeoutMs + MARGIN_MS };
}

async function start(lambda: LambdaClient, { name, arn, tags, queues }: Found): Promise<void> {
  const ReservedConcurrentExecutions = Number(tags[RESERVED]);
  if (Number.isNaN(ReservedConcurrentExecutions)) {
    await lambda.send(new DeleteFunctionConcurrencyCommand({ FunctionName: name }));
  } else {
    await lambda.send(new PutFunctionConcurrencyCommand({ FunctionName: name, ReservedConcurrentExecutions }));
  }
  for (const each of tags[PROVISIONED]?.split(' ') ?? []) {
    const [Qualifier, count] = each.split('=');
    const ProvisionedConcurrentExecutions = Number(count);
    await lambda.send(
      new PutProvisionedConcurrencyConfigCommand({ FunctionName: name, Qualifier, ProvisionedConcurrentExecutions }),
    );
  }
  if (QUEUES in tags) {
    for (const UUID of queues) await lambda.send(new UpdateEventSourceMappingCommand({ UUID, Enabled: true }));
  }
  await lambda.send(new UntagResourceCommand({ Resource: arn, TagKeys: TAGS }));
}

async function queuesByFunction(client: LambdaClient): Promise<Map<string, string[]>> {
  const queues = new Map<string, string[]>();
  for await (const { EventSourceMappings = [] } of paginateListEventSourceMappings({ client }, {})) {
    for (const { UUID, FunctionArn } of EventSourceMappings) {
      const name = FunctionArn!.split(':')[6]!;
      queues.set(name, [...(queues.get(name) ?? []), UUID!]);
    }
  }
  return queues;
}

async function provisionedOf(client: LambdaClient, FunctionName: string): Promise<string[]> {
  const found: string[] = [];
  const pages = paginateListProvisionedConcurrencyConfigs({ client }, { FunctionName });
  for await (const { ProvisionedConcurrencyConfigs = [] } of pages) {
    for (const { FunctionArn, RequestedProvisionedConcurrentExecutions: count } of ProvisionedConcurrencyConfigs) {
      found.push(`${FunctionArn!.split(':').at(-1)}=${count}`);
    }
  }
  return found;
}

/** To the second: a value of a tag. */
const timeOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
