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

/** Tag with the time when a function was stopped, and prefix of the tags with its previous settings. */
const PREFIX = 'platform:stopped';
const AT = `${PREFIX}-at`;
/** Tag with its previous reserved concurrency, or `none`. */
const RESERVED = `${PREFIX}-reserved`;
/** Tag with its previous provisioned concurrency, as `<alias or version>=<number>` separated by spaces. */
const PROVISIONED = `${PREFIX}-provisioned`;
/** Tag that says whether it had enabled queue triggers. */
const QUEUES = `${PREFIX}-queues`;
const TAGS = [AT, RESERVED, PROVISIONED, QUEUES];

/** Allowance for invocations that started before all Lambda hosts knew of the stop. */
const MARGIN_MS = 60_000;

/** A deployed function that uses the platform's tables. */
export interface Writer {
  readonly name: string;
  /** Epoch milliseconds from which no invocation is running. @default - not stopped */
  readonly idleFrom: number | undefined;
}

interface Found extends Writer {
  readonly arn: string;
  readonly timeoutMs: number;
  readonly tags: Readonly<Record<string, string>>;
  /** Reserved concurrency of the function. */
  readonly reserved: number | undefined;
  /** Ids of its queue triggers, including those of its aliases. */
  readonly queues: readonly string[];
}

/**
 * Lists the functions of a platform that use its tables, and whether they are stopped. Nothing else writes to the
 * tables: no other role of the stacks may, and sandboxes and services have no rights and use the API.
 *
 * @param platform Name prefix of its stacks, such as `platform-prod`.
 */
export const writersOf = (lambda: LambdaClient, platform: string): Promise<Writer[]> => findWriters(lambda, platform);

/**
 * Stops all of them, whatever invokes them: the API, clocks, queues, events or each other. Sets their concurrency to
 * zero (docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html) and disables queue triggers, because
 * unhandled messages would go to the dead-letter queue. Running invocations continue, at most until the function's time
 * limit. Idempotent; each function's tags keep its previous settings.
 */
export async function stopWriters(lambda: LambdaClient, platform: string, now: () => number): Promise<Writer[]> {
  const stopped: Writer[] = [];
  for (const each of await findWriters(lambda, platform)) {
    stopped.push(each.idleFrom === undefined ? await stop(lambda, each, now) : each);
  }
  return stopped;
}

/** Restores the previous settings. Idempotent. Returns the names of the functions that were stopped. */
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
  // The tags are written first, so that the next stop completes an interrupted one.
  if (!(AT in tags)) {
    const before = {
      [RESERVED]: String(reserved ?? 'none'),
      ...(provisioned.length > 0 && { [PROVISIONED]: provisioned.join(' ') }),
      ...(queues.length > 0 && { [QUEUES]: 'read' }),
    };
    await lambda.send(new TagResourceCommand({ Resource: arn, Tags: { [AT]: timeOf(now()), ...before } }));
  }
  for (const UUID of queues) await lambda.send(new UpdateEventSourceMappingCommand({ UUID, Enabled: false }));
  // Provisioned concurrency may not exceed reserved concurrency.
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

/** Formats a time to the second, as a tag value. */
const timeOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
