import { BACKGROUND_FUNCTIONS, type BackgroundFunctionName } from '#core/api/background.ts';
import { CALL_FUNCTION_SECONDS } from '#core/base/time-limits.ts';
import type { FunctionName } from '#core/http/route.ts';
import type { IndexName } from '#core/ports/table.ts';
import type { TableName } from '#core/ports/table-rules.ts';
import type { Stage } from './config.ts';

/** DynamoDB actions on single items. A transaction needs the actions of its parts. */
type ItemAction = 'GetItem' | 'BatchGetItem' | 'PutItem' | 'UpdateItem' | 'DeleteItem' | 'ConditionCheckItem';

/** Rights of a function on a table. */
export interface TableAccess {
  readonly items: readonly ItemAction[];
  /** The table itself or indexes that it queries. @default - none */
  readonly query?: readonly ('table' | IndexName)[];
}

/** First segments of blob keys. */
export const BLOB_FOLDERS = ['bundles', 'definitions', 'layers', 'runs', 'storage', 'transfers', 'uploads'] as const;
export type BlobFolder = (typeof BLOB_FOLDERS)[number];

export interface BlobAccess {
  readonly read: readonly BlobFolder[];
  /** @default - none */
  readonly write?: readonly BlobFolder[];
  /** @default - none */
  readonly remove?: readonly BlobFolder[];
}

/** Size and rights of a deployed function. It has no other rights. */
export interface FunctionSpec {
  readonly memoryMb: number;
  readonly timeoutSeconds: number;
  /** @default - no table */
  readonly tables?: { readonly [Name in TableName]?: TableAccess };
  /** @default - no blobs */
  readonly blobs?: BlobAccess;
  /** @default - no secrets */
  readonly secrets?: 'read' | 'write';
  /** Whether it asks models: on Bedrock, and with a table of the operator, if the stage has these. @default false */
  readonly models?: boolean;
  /** Whether it speaks with the payment provider, if the stage has one. @default false */
  readonly payments?: boolean;
  /** Whether it takes orders of the operator, if the stage has a key of one. @default false */
  readonly operator?: boolean;
  /** Whether people sign in by it with the OpenID provider of the stage, if that has one. @default false */
  readonly oidc?: boolean;
  /** Whether it sends e-mail, if the stage has a sender address. @default false */
  readonly mail?: boolean;
  /** Functions that it calls. @default - none */
  readonly calls?: readonly BackgroundFunctionName[];
  /** Whether it reads the logs of services. @default false */
  readonly serviceLogs?: boolean;
  /** Whether it opens sandboxes, or only reports their kind. @default - neither */
  readonly sandbox?: 'open' | 'know';
  /** Whether it sets and removes EventBridge schedules, or also lists them. @default - neither */
  readonly timers?: 'set' | 'list';
  /** How it reads the queue of those schedules. @default - it does not */
  readonly timerQueue?: { readonly batchSize: number; readonly maxConcurrency: number };
}

/** CPU grows with memory: a cold start at 512 MB takes twice as long. */
const MEMORY_MB = 1024;
/** Functions that wait for models and programs pay for memory meanwhile (docs/costs.md). They use a quarter of this. */
const WAITING_MEMORY_MB = 512;
/** API Gateway ends a buffered integration after 29 s. */
const BUFFERED_SECONDS = 29;
/** The time limit of an installation, one or two minutes for the sandbox to start, and the writing of the record. */
const INSTALL_SECONDS = 600;

/** A scheduled run may wait five minutes for its turn, and then takes as long as a call. */
const SCHEDULE_SECONDS = 660;

/** Reads a caller's key and membership, writes the key's last use: `core/api/auth.ts`. */
const AUTHENTICATE: readonly ItemAction[] = ['GetItem', 'UpdateItem'];
/** Counts requests of callers, and of addresses without a key: `core/accounts/limits`. */
const LIMIT: readonly ItemAction[] = ['GetItem', 'UpdateItem'];

/**
 * Lambda accepts events of 6 MB, in which a multipart body is base64 and a JSON body is escaped. Larger bodies are uploaded
 * to S3 first (`core/agents/uploads`).
 */
export const MAX_BODY_MB = 4;

/** Functions that run schedules: rights of a call without a caller, and on the schedule's own records. */
const RUN_SCHEDULES = {
  memoryMb: WAITING_MEMORY_MB,
  timeoutSeconds: SCHEDULE_SECONDS,
  tables: {
    // A run that ends without a change of its schedule checks the schedule.
    main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem', 'ConditionCheckItem'], query: ['table', 'gsi1'] },
    // Budgets read usage.
    runs: { items: ['GetItem', 'PutItem', 'UpdateItem'], query: ['table'] },
    counters: { items: LIMIT },
  },
  blobs: { read: ['definitions', 'runs'], write: ['runs'] },
  secrets: 'read',
  models: true,
  sandbox: 'open',
} as const satisfies FunctionSpec;

/**
 * Every function of the route table and the background table. `test/stacks` compares the resulting policies with a second
 * list, so that no right is granted by accident.
 */
export const FUNCTIONS: { readonly [Name in FunctionName | BackgroundFunctionName]: FunctionSpec } = {
  meta: { memoryMb: 512, timeoutSeconds: BUFFERED_SECONDS },
  agents: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'BatchGetItem', 'PutItem', 'DeleteItem'], query: ['table', 'gsi1'] },
      runs: { items: ['GetItem'], query: ['gsi1'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['definitions', 'runs', 'uploads'], write: ['bundles', 'definitions'] },
    // Services follow a version.
    calls: ['install', 'service-keeper'],
    sandbox: 'know',
  },
  billing: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // Reading the balance settles the payments of lost runs. The copies of a workspace note that it has budgets.
      main: { items: [...AUTHENTICATE, 'PutItem'], query: ['table', 'gsi1'] },
      // Budgets read usage.
      runs: { items: ['GetItem'], query: ['table'] },
      counters: { items: LIMIT },
    },
    // The agent of a budget.
    blobs: { read: ['definitions'] },
    payments: true,
    operator: true,
  },
  calls: {
    memoryMb: WAITING_MEMORY_MB,
    timeoutSeconds: CALL_FUNCTION_SECONDS,
    tables: {
      // Paid agents write the ledger. A triggered schedule writes its open run, whose end checks the schedule.
      main: { items: [...AUTHENTICATE, 'PutItem', 'DeleteItem', 'ConditionCheckItem'], query: ['table', 'gsi1'] },
      // A service key is looked up in its run's record; a replayed run is found by the prefix of its id.
      runs: { items: ['GetItem', 'PutItem', 'UpdateItem'], query: ['table'] },
      // Admission, budgets of sub-calls, answers of calls with an Idempotency-Key.
      counters: { items: [...LIMIT, 'PutItem', 'DeleteItem'] },
    },
    blobs: { read: ['definitions', 'runs', 'uploads'], write: ['runs'] },
    secrets: 'read',
    models: true,
    sandbox: 'open',
  },
  catalog: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: AUTHENTICATE, query: ['gsi2'] },
      // Agents read the catalog, too: the record of an agent's run holds its key.
      runs: { items: ['GetItem'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['definitions'] },
  },
  collector: {
    memoryMb: 512,
    timeoutSeconds: 600,
    // Deleted versions, holders of blobs, and what workspaces use.
    tables: {
      main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table', 'gsi1', 'gsi2'] },
    },
    blobs: { read: [], remove: ['bundles', 'definitions', 'layers'] },
  },
  downloads: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: 60,
    tables: { main: { items: AUTHENTICATE }, runs: { items: ['GetItem'] }, counters: { items: LIMIT } },
    blobs: { read: ['bundles', 'definitions'] },
  },
  events: {
    memoryMb: WAITING_MEMORY_MB,
    // A stream ends by itself before.
    timeoutSeconds: CALL_FUNCTION_SECONDS,
    tables: {
      main: { items: AUTHENTICATE, query: ['table', 'gsi1'] },
      runs: { items: ['GetItem', 'BatchGetItem'], query: ['table', 'gsi2'] },
      // Places of streams.
      counters: { items: [...LIMIT, 'PutItem', 'DeleteItem'], query: ['table'] },
    },
    blobs: { read: ['runs'] },
  },
  install: {
    memoryMb: 512,
    timeoutSeconds: INSTALL_SECONDS,
    tables: {
      // Schedules follow a version once it can run.
      main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table'] },
      runs: { items: ['GetItem', 'PutItem', 'UpdateItem'] },
      // Its place among the installations of its workspace, and its MicroVM's among those that start.
      counters: { items: ['UpdateItem'] },
    },
    // The size of a layer is read once it is written.
    blobs: { read: ['bundles', 'definitions', 'layers', 'runs'], write: ['layers', 'runs'] },
    // Services follow the version, too.
    calls: ['service-keeper'],
    sandbox: 'open',
  },
  keys: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // Who signs in with an OpenID provider for the first time may join a workspace.
      main: { items: [...AUTHENTICATE, 'BatchGetItem', 'PutItem', 'DeleteItem'], query: ['table', 'gsi1'] },
      // Sessions of browsers, and codes that work once.
      counters: { items: [...LIMIT, 'PutItem', 'DeleteItem'], query: ['table'] },
    },
    oidc: true,
  },
  reconciler: {
    memoryMb: 512,
    timeoutSeconds: 900,
    tables: { main: { items: ['GetItem', 'PutItem', 'UpdateItem'], query: ['gsi2'] } },
    payments: true,
  },
  runs: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // What is going on in a user's workspaces: memberships, schedules, messages.
      main: { items: [...AUTHENTICATE, 'BatchGetItem'], query: ['table', 'gsi1'] },
      // Bulk actions are written by updates, too.
      runs: { items: ['GetItem', 'BatchGetItem', 'UpdateItem'], query: ['table', 'gsi2'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['runs'] },
  },
  // Runs of a batch share its memory, and may be of different workspaces: the two largest outputs fit (`docs/costs.md`).
  'schedule-fired': { ...RUN_SCHEDULES, memoryMb: 768, timerQueue: { batchSize: 2, maxConcurrency: 400 } },
  'schedule-sweeper': {
    ...RUN_SCHEDULES,
    tables: {
      ...RUN_SCHEDULES.tables,
      main: { ...RUN_SCHEDULES.tables.main, query: ['table', 'gsi1', 'gsi2'] },
      // Bulk actions, and the runs that their filters mean.
      runs: { items: [...RUN_SCHEDULES.tables.runs.items, 'BatchGetItem'], query: ['table', 'gsi1', 'gsi2'] },
    },
  },
  schedules: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'PutItem', 'DeleteItem', 'BatchGetItem'], query: ['table'] },
      runs: { items: ['BatchGetItem'], query: ['table'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['definitions'] },
    // Test alerts are signed.
    secrets: 'read',
    timers: 'set',
  },
  secrets: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'PutItem', 'DeleteItem'], query: ['table'] },
      // Writers of one vault lock it.
      counters: { items: [...LIMIT, 'PutItem', 'DeleteItem'] },
    },
    secrets: 'write',
    // Services that use a changed secret start again.
    calls: ['service-keeper'],
  },
  'service-keeper': {
    memoryMb: 512,
    // ECS takes about one new task definition a second, and a tick may have to renew many services.
    timeoutSeconds: 300,
    tables: {
      // Services of all workspaces with their timelines, and alerts about them.
      main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['gsi2'] },
      // What instances ran.
      runs: { items: ['UpdateItem'] },
      // The stamp of the secrets that it keeps in memory.
      counters: { items: ['GetItem'] },
    },
    // Alerts are signed.
    secrets: 'read',
  },
  'service-instances': {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // A report changes the service, its timeline and alerts.
      main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'] },
      counters: { items: LIMIT },
    },
    // A crash loop pauses the service.
    calls: ['service-keeper'],
    // A link has no more rights than its signer.
    blobs: { read: ['bundles', 'definitions', 'layers'] },
    secrets: 'read',
  },
  services: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'PutItem', 'DeleteItem'], query: ['table'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['definitions'] },
    calls: ['service-keeper'],
    serviceLogs: true,
  },
  sweeper: {
    memoryMb: 512,
    timeoutSeconds: 60,
    tables: {
      // Payments of lost runs; deliveries, and their entries in the schedule's timeline; budgets, the services that they pause
      // and the copies of workspaces that have some.
      main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table', 'gsi1', 'gsi2'] },
      // Open runs, and runs by the digits that their leases name. Budgets read usage.
      runs: { items: ['GetItem', 'PutItem', 'UpdateItem'], query: ['table', 'gsi1'] },
      // The stamp of the secrets that it keeps in memory, and the leases of lost runs.
      counters: { items: LIMIT, query: ['table'] },
    },
    blobs: { read: ['runs'], write: ['runs'] },
    // Alerts are signed.
    secrets: 'read',
    // Budgets pause services.
    calls: ['service-keeper'],
  },
  storage: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'BatchGetItem', 'PutItem', 'DeleteItem'], query: ['table'] },
      // The record of an agent's run holds its key.
      runs: { items: ['GetItem'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['storage'], write: ['storage'], remove: ['storage'] },
  },
  tasks: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'PutItem', 'DeleteItem'], query: ['table', 'gsi1', 'gsi2'] },
      // The record of an agent's run holds its key.
      runs: { items: ['GetItem'] },
      counters: { items: LIMIT },
    },
  },
  'timer-sweeper': {
    memoryMb: 512,
    timeoutSeconds: 900,
    tables: { main: { items: ['GetItem'], query: ['gsi2'] } },
    timers: 'list',
  },
  uploads: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: { main: { items: AUTHENTICATE }, runs: { items: ['GetItem'] }, counters: { items: LIMIT } },
    // A signed form has no more rights than its signer.
    blobs: { read: [], write: ['uploads'] },
  },
  usage: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // Estimates are for versions that the caller may see; metrics name current ones.
      main: { items: [...AUTHENTICATE, 'BatchGetItem'], query: ['table'] },
      runs: { items: ['BatchGetItem'], query: ['table', 'gsi2'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['definitions'] },
  },
  workspaces: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'PutItem', 'DeleteItem'], query: ['table', 'gsi1'] },
      counters: { items: LIMIT },
    },
    mail: true,
  },
};

export type PoolFunctionName = 'sandbox-dispatch' | 'pool-keeper';

/** Functions that manage the pool of Fargate tasks, and call its tasks: `aws/fargate`. */
export const POOL_FUNCTIONS = {
  // It waits as long as its caller while a program runs.
  'sandbox-dispatch': {
    memoryMb: 256,
    timeoutSeconds: INSTALL_SECONDS,
    tables: { counters: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table'] } },
  },
  'pool-keeper': {
    memoryMb: 256,
    timeoutSeconds: 60,
    tables: { counters: { items: ['PutItem', 'UpdateItem', 'DeleteItem'], query: ['table'] } },
  },
} as const satisfies Record<PoolFunctionName, FunctionSpec>;

/** Functions that manage MicroVMs: `aws/microvm`. */
export const MICROVM_FUNCTIONS = {
  'microvm-sweeper': { memoryMb: 256, timeoutSeconds: 60 },
} as const satisfies Record<string, FunctionSpec>;

/** Minutes between two calls of the functions above that a clock calls. */
export const SANDBOX_CLOCKS = { 'pool-keeper': 1, 'microvm-sweeper': 15 } as const;

/** Functions of the table above that only a stage with services has, in the stack of the services. */
const SERVICES_STACK_FUNCTIONS = ['service-keeper'] as const satisfies BackgroundFunctionName[];
type ServicesStackFunctionName = (typeof SERVICES_STACK_FUNCTIONS)[number];

const isForServices = (name: string): name is ServicesStackFunctionName =>
  SERVICES_STACK_FUNCTIONS.some((each) => each === name);

/** Background functions in the stack of the API. */
export const API_STACK_FUNCTIONS = BACKGROUND_FUNCTIONS.filter((name) => !isForServices(name)) as readonly Exclude<
  BackgroundFunctionName,
  ServicesStackFunctionName
>[];

/** Whether a function of the table above is part of a stage. */
export const hasFunction = ({ services }: Pick<Stage, 'services'>, name: string): boolean =>
  services.kind !== 'off' || !isForServices(name);
