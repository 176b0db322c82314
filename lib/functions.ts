import { BACKGROUND_FUNCTIONS, type BackgroundFunctionName } from '#core/api/background.ts';
import { CALL_FUNCTION_SECONDS } from '#core/base/time-limits.ts';
import type { FunctionName } from '#core/http/route.ts';
import type { IndexName } from '#core/ports/table.ts';
import { TABLE_NAMES, type TableName } from '#core/ports/table-rules.ts';
import type { Stage } from './config.ts';

/** DynamoDB actions on single items. A transaction needs the actions of its parts. */
type ItemAction = 'GetItem' | 'BatchGetItem' | 'PutItem' | 'UpdateItem' | 'DeleteItem' | 'ConditionCheckItem';

/** Permissions of a function on a table. */
export interface TableAccess {
  readonly items: readonly ItemAction[];
  /** The table itself or the indexes that it queries. @default - none */
  readonly query?: readonly ('table' | IndexName)[];
}

/** First segments of blob keys. */
export const BLOB_FOLDERS = [
  'bundles',
  'definitions',
  'journals',
  'layers',
  'runs',
  'sessions',
  'storage',
  'transfers',
  'uploads',
] as const;
export type BlobFolder = (typeof BLOB_FOLDERS)[number];

export interface BlobAccess {
  readonly read: readonly BlobFolder[];
  /** @default - none */
  readonly write?: readonly BlobFolder[];
  /** @default - none */
  readonly remove?: readonly BlobFolder[];
}

/** `read` and `write` include what signs messages. */
export type SecretsUse = 'sign' | 'read' | 'write';

export type DataKeysUse = 'open' | 'both';

/** Size and permissions of a deployed function. It has no other permissions. */
export interface FunctionSpec {
  readonly memoryMb: number;
  readonly timeoutSeconds: number;
  /** @default - no table */
  readonly tables?: { readonly [Name in TableName]?: TableAccess };
  /** @default - no blobs */
  readonly blobs?: BlobAccess;
  /**
   * Whether it reads the secrets of workspaces, in the place that the stage names, or also changes them, or only reads
   * those that sign messages: it has the rights of {@link VAULT_TABLES} in addition to `tables`.
   *
   * @default - no secrets
   */
  readonly secrets?: SecretsUse;
  /**
   * Whether it opens data keys of workspaces, as a function that only sends what others sealed does, or also makes them.
   *
   * @default - neither
   */
  readonly dataKeys?: DataKeysUse;
  /** Whether it calls models: on Bedrock, and with the operator's own table, if the stage has these. @default false */
  readonly models?: boolean;
  /** Whether it calls the payment provider, if the stage has one. @default false */
  readonly payments?: boolean;
  /** Whether it accepts commands of the operator, if the stage has an operator key. @default false */
  readonly operator?: boolean;
  /**
   * Whether it notes which runs the operator's collector gets, if the stage has one, or sends their spans, for which it reads
   * the secret with the headers.
   *
   * @default - neither
   */
  readonly telemetry?: 'note' | 'send';
  /** Whether it signs the cards of agents, if the stage has a key for them. @default false */
  readonly cardKey?: boolean;
  /** Whether it handles sign-in with the stage's OpenID provider, if there is one. @default false */
  readonly oidc?: boolean;
  /** Whether it sends e-mail, if the stage has a sender address. @default false */
  readonly mail?: boolean;
  /** Functions that it invokes. @default - none */
  readonly calls?: readonly BackgroundFunctionName[];
  /** Whether it sends work on to itself, which Lambda otherwise takes for a loop by mistake. @default false */
  readonly callsItself?: boolean;
  /** Whether it reads the logs of services. @default false */
  readonly serviceLogs?: boolean;
  /** Whether it opens sandboxes, for runs or only for installations, or reports their type. @default - neither */
  readonly sandbox?: 'open' | 'install' | 'know';
  /** Whether it creates and removes EventBridge schedules, or also lists them. @default - neither */
  readonly timers?: 'set' | 'list';
  /** Trigger settings for the queue of those schedules. @default - no trigger */
  readonly timerQueue?: { readonly batchSize: number; readonly maxConcurrency: number };
  /** Trigger settings for the ends of runs in the stream of the table `runs`. @default - no trigger */
  readonly runStream?: { readonly batchSize: number; readonly windowSeconds: number };
}

/** CPU grows with memory: a cold start at 512 MB takes twice as long. */
const MEMORY_MB = 1024;
/**
 * Functions that wait for models and programs are billed for memory in the meantime (docs/costs.md). They use a quarter
 * of this.
 */
const WAITING_MEMORY_MB = 512;
/** API Gateway ends a buffered integration after 29 s. */
export const BUFFERED_SECONDS = 29;
/** Lambda's maximum: the time limits of an installation and its packing (`aws/config.ts`), and 20 s for the record. */
const INSTALL_SECONDS = 900;

/** Lambda's maximum: a durable run leaves it earlier, at the end of a turn (`functions/loop-worker`). */
const WORK_SECONDS = 900;

/** A scheduled run may be queued for five minutes, and then takes as long as a call. */
const SCHEDULE_SECONDS = 660;

/** Authentication reads a caller's key and membership, and writes the key's last use: `core/api/auth.ts`. */
const AUTHENTICATE: readonly ItemAction[] = ['GetItem', 'UpdateItem'];
/** Rate limits count requests of callers, and of addresses without a key: `core/accounts/limits`. */
const LIMIT: readonly ItemAction[] = ['GetItem', 'UpdateItem'];

/**
 * Lambda accepts events of 6 MB, in which a multipart body is base64 and a JSON body is escaped. Larger bodies are
 * uploaded to S3 first (`core/agents/uploads`).
 */
export const MAX_BODY_MB = 4;

/** Rights on tables that the use of secrets needs, in each place. */
const VAULT_TABLES: Record<Exclude<Stage['secrets'], 'both'>, Record<SecretsUse, Required<FunctionSpec>['tables']>> = {
  'secrets-manager': {
    // The stamp that validates cached secrets.
    sign: { counters: { items: ['GetItem'] } },
    read: { counters: { items: ['GetItem'] } },
    // Writers also lock the vault of a workspace.
    write: { counters: { items: ['GetItem', 'PutItem', 'DeleteItem'] } },
  },
  envelope: {
    sign: { main: { items: ['GetItem'] } },
    read: { main: { items: ['GetItem'] } },
    write: { main: { items: ['GetItem', 'PutItem'] } },
  },
};

/** Rights on the records of MicroVMs whose program waits for another run. */
const WARM_VMS: Required<FunctionSpec>['tables'] = {
  counters: { items: ['PutItem', 'DeleteItem'], query: ['table'] },
};

/** Returns the rights of a function on tables in this stage. */
export function tablesOf(
  { tables = {}, secrets, sandbox }: FunctionSpec,
  stage: Stage,
): Required<FunctionSpec>['tables'] {
  const places = stage.secrets === 'both' ? (['secrets-manager', 'envelope'] as const) : [stage.secrets];
  const all = [
    tables,
    ...(secrets === undefined ? [] : places.map((place) => VAULT_TABLES[place][secrets])),
    ...(sandbox === 'open' && stage.sandbox.kind === 'microvm' ? [WARM_VMS] : []),
  ];
  const merged = TABLE_NAMES.map((name) => {
    const items = new Set(all.flatMap((each) => each[name]?.items ?? []));
    const query = new Set(all.flatMap((each) => each[name]?.query ?? []));
    const access = { items: [...items], ...(query.size > 0 && { query: [...query] }) };
    return [name, items.size === 0 ? undefined : access] as const;
  });
  return Object.fromEntries(merged.filter(([, access]) => access !== undefined));
}

/** Bodies of runs, and the orders and journals of durable ones, which few functions read. */
const KEEP_RUNS = {
  read: ['definitions', 'runs'],
  write: ['journals', 'runs'],
  remove: ['journals'],
} as const satisfies BlobAccess;

/**
 * The same for functions whose runs may belong to a session: what was said in it goes on, and is erased if it is deleted
 * while they work.
 */
const KEEP_SESSIONS = {
  read: [...KEEP_RUNS.read, 'journals', 'sessions'],
  write: [...KEEP_RUNS.write, 'sessions'],
  remove: ['journals', 'runs', 'sessions'],
} as const satisfies BlobAccess;

/** Permissions of functions that run schedules: those of a call without a caller, plus the schedule's own records. */
const RUN_SCHEDULES = {
  memoryMb: WAITING_MEMORY_MB,
  timeoutSeconds: SCHEDULE_SECONDS,
  tables: {
    // A run whose end does not change its schedule uses a condition check on it.
    main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem', 'ConditionCheckItem'], query: ['table', 'gsi1'] },
    // Budgets read usage.
    runs: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table'] },
    counters: { items: LIMIT },
  },
  blobs: KEEP_RUNS,
  secrets: 'read',
  // Durable runs leave it.
  calls: ['loop-worker'],
  // Durable runs begin. Loops open the tokens of connections, and seal new ones.
  dataKeys: 'both',
  models: true,
  sandbox: 'open',
} as const satisfies FunctionSpec;

/** Permissions of functions that answer calls. */
const SERVE_CALLS = {
  memoryMb: WAITING_MEMORY_MB,
  timeoutSeconds: CALL_FUNCTION_SECONDS,
  tables: {
    // Paid agents write the ledger. A triggered schedule writes its open run, at whose end the schedule is checked.
    main: { items: [...AUTHENTICATE, 'PutItem', 'DeleteItem', 'ConditionCheckItem'], query: ['table', 'gsi1'] },
    // A service key is looked up in its run's record; a replayed run is found by the prefix of its id.
    runs: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table'] },
    // Admission, budgets of sub-calls, stored responses of calls with an Idempotency-Key, and concurrency leases of streams.
    counters: { items: [...LIMIT, 'PutItem', 'DeleteItem'], query: ['table'] },
  },
  // A replay from a turn reads the journal of its original run.
  blobs: { ...KEEP_SESSIONS, read: [...KEEP_SESSIONS.read, 'uploads'] },
  secrets: 'read',
  // Durable runs leave it.
  calls: ['loop-worker'],
  dataKeys: 'both',
  models: true,
  sandbox: 'open',
} as const satisfies FunctionSpec;

/**
 * Every function of the route table and the background table. `test/stacks` compares the resulting policies with a
 * second list, so that no permission is granted by accident.
 */
export const FUNCTIONS: { readonly [Name in FunctionName | BackgroundFunctionName]: FunctionSpec } = {
  meta: { memoryMb: 512, timeoutSeconds: BUFFERED_SECONDS },
  a2a: {
    ...SERVE_CALLS,
    tables: {
      ...SERVE_CALLS.tables,
      // Tasks are listed.
      runs: { items: [...SERVE_CALLS.tables.runs.items, 'BatchGetItem'], query: ['table', 'gsi2'] },
    },
    cardKey: true,
  },
  agents: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'BatchGetItem', 'PutItem', 'DeleteItem'], query: ['table', 'gsi1'] },
      // Logs of ended runs, and of installations.
      runs: { items: ['GetItem'], query: ['table', 'gsi1'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['definitions', 'runs', 'uploads'], write: ['bundles', 'definitions'] },
    // Services are updated to a new version.
    calls: ['install', 'service-keeper'],
    sandbox: 'know',
  },
  billing: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // Reading the balance settles the payments of lost runs. The copies of a workspace record whether it has budgets.
      main: { items: [...AUTHENTICATE, 'PutItem'], query: ['table', 'gsi1'] },
      // Budgets read usage.
      runs: { items: ['GetItem'], query: ['table'] },
      counters: { items: LIMIT },
    },
    // Checks the agent that a budget refers to.
    blobs: { read: ['definitions'] },
    payments: true,
    operator: true,
  },
  calls: SERVE_CALLS,
  catalog: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: AUTHENTICATE, query: ['gsi2'] },
      // Agents also read the catalog: the record of an agent's run contains its key.
      runs: { items: ['GetItem'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['definitions'] },
  },
  collector: {
    memoryMb: 512,
    timeoutSeconds: 600,
    // Deleted versions, references to blobs, and storage usage of workspaces.
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
    // A stream ends by itself before this limit.
    timeoutSeconds: CALL_FUNCTION_SECONDS,
    tables: {
      main: { items: AUTHENTICATE, query: ['table', 'gsi1'] },
      runs: { items: ['GetItem', 'BatchGetItem'], query: ['table', 'gsi1', 'gsi2'] },
      // Concurrency leases of streams.
      counters: { items: [...LIMIT, 'PutItem', 'DeleteItem'], query: ['table'] },
    },
    // Whether a run's text can be shown as it is written follows from its agent.
    blobs: { read: ['definitions', 'runs', 'sessions'] },
  },
  install: {
    memoryMb: 512,
    timeoutSeconds: INSTALL_SECONDS,
    tables: {
      // Schedules are updated to a version once it can run.
      main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table'] },
      runs: { items: ['GetItem', 'PutItem', 'UpdateItem'] },
      // Its slot among the workspace's installations, and the launch slot of its MicroVM.
      counters: { items: ['UpdateItem'] },
    },
    // The size of a layer is read once it is written.
    blobs: { read: ['bundles', 'definitions', 'layers', 'runs'], write: ['layers', 'runs'] },
    // Services are updated to the version, too.
    calls: ['service-keeper'],
    sandbox: 'install',
  },
  keys: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // Users who sign in with an OpenID provider for the first time may join a workspace.
      main: { items: [...AUTHENTICATE, 'BatchGetItem', 'PutItem', 'DeleteItem'], query: ['table', 'gsi1'] },
      // Browser sessions, and one-time codes.
      counters: { items: [...LIMIT, 'PutItem', 'DeleteItem'], query: ['table'] },
    },
    oidc: true,
  },
  // A run works as in `calls`, which began it.
  'loop-worker': {
    memoryMb: WAITING_MEMORY_MB,
    timeoutSeconds: WORK_SECONDS,
    tables: {
      // Paid agents write the ledger.
      main: {
        items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem', 'ConditionCheckItem'],
        query: ['table', 'gsi1'],
      },
      runs: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table'] },
      counters: { items: LIMIT },
    },
    blobs: KEEP_SESSIONS,
    secrets: 'read',
    // It sends runs of hours on.
    calls: ['loop-worker'],
    callsItself: true,
    // A run may ask for a later one, whose call is stored.
    dataKeys: 'both',
    models: true,
    sandbox: 'open',
  },
  // Calls as in `calls`, and the operations that are tools: those of `tasks`, `schedules`, `runs` and `catalog`.
  mcp: {
    ...SERVE_CALLS,
    tables: {
      main: {
        items: [...SERVE_CALLS.tables.main.items, 'BatchGetItem'],
        query: [...SERVE_CALLS.tables.main.query, 'gsi2'],
      },
      runs: {
        items: [...SERVE_CALLS.tables.runs.items, 'BatchGetItem'],
        query: ['table', 'gsi1', 'gsi2'],
      },
      counters: SERVE_CALLS.tables.counters,
    },
    // Bodies that were uploaded first are those of other functions.
    blobs: KEEP_SESSIONS,
    timers: 'set',
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
      // Activity in a user's workspaces: memberships, schedules, messages. Links to runs are audited.
      main: { items: [...AUTHENTICATE, 'BatchGetItem', 'PutItem'], query: ['table', 'gsi1'] },
      // Bulk actions and links are written by updates, too. The end of a run that is cancelled while it waits is noted for
      // its announcement, and its place in a queue deleted. A score with a comment needs a run that was not erased.
      runs: {
        items: ['GetItem', 'BatchGetItem', 'PutItem', 'UpdateItem', 'DeleteItem', 'ConditionCheckItem'],
        query: ['table', 'gsi1', 'gsi2'],
      },
      // The answer to a call with an Idempotency-Key is erased with its session.
      counters: { items: [...LIMIT, 'DeleteItem'] },
    },
    // Sessions are opened for an agent, copied, and erased with what was said in their runs.
    blobs: { read: ['definitions', 'runs', 'sessions'], write: ['sessions'], remove: ['journals', 'runs', 'sessions'] },
    // Runs that waited continue after a decision.
    calls: ['loop-worker'],
  },
  // Runs of a batch share its memory, and may belong to different workspaces: the two largest outputs fit
  // (`docs/costs.md`).
  'schedule-fired': { ...RUN_SCHEDULES, memoryMb: 768, timerQueue: { batchSize: 2, maxConcurrency: 400 } },
  'schedule-sweeper': {
    ...RUN_SCHEDULES,
    // What judges got is erased with the run that they judged.
    blobs: { ...KEEP_RUNS, remove: [...KEEP_RUNS.remove, 'runs'] },
    tables: {
      ...RUN_SCHEDULES.tables,
      main: { ...RUN_SCHEDULES.tables.main, query: ['table', 'gsi1', 'gsi2'] },
      // Bulk actions, and the runs that their filters select. Scores check that their runs were not erased.
      runs: {
        items: [...RUN_SCHEDULES.tables.runs.items, 'BatchGetItem', 'ConditionCheckItem'],
        query: ['table', 'gsi1', 'gsi2'],
      },
    },
    // Services are updated to a version once it has passed its gate.
    calls: [...RUN_SCHEDULES.calls, 'service-keeper'],
  },
  schedules: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // The copies of a workspace record whether it has destinations of runs.
      main: { items: [...AUTHENTICATE, 'PutItem', 'DeleteItem', 'BatchGetItem'], query: ['table', 'gsi1'] },
      runs: { items: ['BatchGetItem'], query: ['table'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['definitions'] },
    // Test alerts are signed.
    secrets: 'sign',
    timers: 'set',
  },
  secrets: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // The copies of a workspace record whether its runs are exported.
      main: { items: [...AUTHENTICATE, 'PutItem', 'DeleteItem'], query: ['table', 'gsi1'] },
      // Sign-ins of connections that are under way.
      counters: { items: [...LIMIT, 'PutItem', 'DeleteItem'] },
    },
    secrets: 'write',
    // Tokens of connections are sealed with them.
    dataKeys: 'both',
    // Services that use a changed secret are restarted.
    calls: ['service-keeper'],
  },
  'service-keeper': {
    memoryMb: 512,
    // ECS accepts about one new task definition a second, and a tick may have to renew many services.
    timeoutSeconds: 300,
    tables: {
      // Services of all workspaces with their timelines, and alerts about them.
      main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['gsi2'] },
      // Usage of instances.
      runs: { items: ['UpdateItem'] },
    },
    // What instances start with: their agents, and their secrets. Alerts are signed.
    blobs: { read: ['definitions'] },
    secrets: 'read',
  },
  'service-instances': {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // A report updates the service, its timeline and alerts.
      main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'] },
      counters: { items: LIMIT },
    },
    // A crash loop pauses the service. Containers of tenants call this function, so it asks the keeper for their secrets.
    calls: ['service-keeper'],
    // A signed link has only its signer's permissions.
    blobs: { read: ['bundles', 'layers'] },
    // Alerts are signed.
    secrets: 'sign',
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
      // Payments of lost runs; deliveries, and their entries in the schedule's timeline; budgets, the services that
      // they pause and the copies of workspaces that have budgets.
      main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table', 'gsi1', 'gsi2'] },
      // Open runs, and runs by the id prefix in their leases. Budgets read usage. Places in queues are deleted.
      runs: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table', 'gsi1'] },
      // The stamp that validates its cached secrets, the leases of lost runs, and answers of runs of erased sessions.
      counters: { items: [...LIMIT, 'DeleteItem'], query: ['table'] },
    },
    // Sessions whose time is over are erased.
    blobs: { read: ['runs', 'sessions'], write: ['runs', 'sessions'], remove: ['journals', 'runs', 'sessions'] },
    // Alerts are signed.
    secrets: 'sign',
    telemetry: 'send',
    // What proves a message about a task to its receiver is opened.
    dataKeys: 'open',
    // Budgets pause services. Durable runs whose function died are taken up.
    calls: ['loop-worker', 'service-keeper'],
  },
  storage: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'BatchGetItem', 'PutItem', 'DeleteItem'], query: ['table'] },
      // The record of an agent's run contains its key.
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
      // The record of an agent's run contains its key.
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
    // A signed form has only its signer's permissions.
    blobs: { read: [], write: ['uploads'] },
  },
  usage: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // Estimates are for versions that are visible to the caller; metrics name current ones.
      main: { items: [...AUTHENTICATE, 'BatchGetItem'], query: ['table'] },
      runs: { items: ['BatchGetItem'], query: ['table', 'gsi2'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['definitions'] },
  },
  'usage-writer': {
    memoryMb: 512,
    timeoutSeconds: 120,
    tables: {
      // Sums, the position in the stream, and lists of runs.
      runs: { items: ['GetItem', 'PutItem', 'UpdateItem'] },
      // Runs in flight of budgets.
      counters: { items: ['GetItem', 'UpdateItem'] },
    },
    telemetry: 'note',
    // Sums lag by the window; a longer one has more runs in a write.
    runStream: { batchSize: 1000, windowSeconds: 1 },
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
  // It runs as long as its caller waits for a program.
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

/** Invocation interval, in minutes, of those functions above that a clock invokes. */
export const SANDBOX_CLOCKS = { 'pool-keeper': 1, 'microvm-sweeper': 15 } as const;

/** Functions of the table above that exist only in a stage with services, in the services stack. */
const SERVICES_STACK_FUNCTIONS = ['service-keeper'] as const satisfies BackgroundFunctionName[];
type ServicesStackFunctionName = (typeof SERVICES_STACK_FUNCTIONS)[number];

const isForServices = (name: string): name is ServicesStackFunctionName =>
  SERVICES_STACK_FUNCTIONS.some((each) => each === name);

/** Background functions in the API stack. */
export const API_STACK_FUNCTIONS = BACKGROUND_FUNCTIONS.filter((name) => !isForServices(name)) as readonly Exclude<
  BackgroundFunctionName,
  ServicesStackFunctionName
>[];

/** Whether a function of the table above is part of a stage. */
export const hasFunction = ({ services }: Pick<Stage, 'services'>, name: string): boolean =>
  services.kind !== 'off' || !isForServices(name);
