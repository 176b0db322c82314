import type { BackgroundFunctionName } from '#core/api/background.ts';
import { CALL_FUNCTION_SECONDS } from '#core/base/time-limits.ts';
import type { FunctionName } from '#core/http/route.ts';
import type { IndexName } from '#core/ports/table.ts';
import type { TableName } from '#core/ports/table-rules.ts';

/** DynamoDB actions on single items. A transaction needs those of its parts. */
type ItemAction = 'GetItem' | 'BatchGetItem' | 'PutItem' | 'UpdateItem' | 'DeleteItem';

/** What a function does with a table: its single items, and what it queries. */
export interface TableAccess {
  readonly items: readonly ItemAction[];
  /** @default - nothing */
  readonly query?: readonly ('table' | IndexName)[];
}

/** First segments of blob keys. */
export type BlobFolder = 'bundles' | 'definitions' | 'layers' | 'runs' | 'storage' | 'transfers' | 'uploads';

export interface BlobAccess {
  readonly read: readonly BlobFolder[];
  /** @default - none */
  readonly write?: readonly BlobFolder[];
  /** @default - none */
  readonly remove?: readonly BlobFolder[];
}

/** What a deployed function is given, and nothing past it. */
export interface FunctionSpec {
  readonly memoryMb: number;
  readonly timeoutSeconds: number;
  /** @default - no table */
  readonly tables?: { readonly [Name in TableName]?: TableAccess };
  /** @default - no blobs */
  readonly blobs?: BlobAccess;
  /** @default - no secrets */
  readonly secrets?: 'read' | 'write';
  /** Whether it sends e-mail, where the stage has an address to send from. @default false */
  readonly mail?: boolean;
  /** Functions that it calls. @default - none */
  readonly calls?: readonly BackgroundFunctionName[];
  /** Whether it opens sandboxes, or has to know only which ones there are. @default - neither */
  readonly sandbox?: 'open' | 'know';
  /** EventBridge schedules that it sets and removes, or lists as well. @default - none */
  readonly timers?: 'set' | 'list';
  /** How it reads the queue that they send to. @default - not at all */
  readonly timerQueue?: { readonly batchSize: number; readonly maxConcurrency: number };
}

/** Lambda's share of a processor grows with memory: a cold start at 512 MB takes twice as long. */
const MEMORY_MB = 1024;
/** What waits for models and programs is billed by its memory meanwhile: docs/costs.md. It uses a quarter of this. */
const WAITING_MEMORY_MB = 512;
/** API Gateway gives a buffered integration up after 29 s. */
const BUFFERED_SECONDS = 29;
/** An installation may take its limit and the minute or two in which a sandbox starts, and is then written down. */
const INSTALL_SECONDS = 600;

/** A run of a schedule may wait five minutes for its turn, and then take as long as a call. */
const SCHEDULE_SECONDS = 660;

/** A caller's key and membership, and the time of the key's last use: `core/api/auth.ts`. */
const AUTHENTICATE: readonly ItemAction[] = ['GetItem', 'UpdateItem'];
/** What a caller has left, and requests without a key: `core/limits`. */
const LIMIT: readonly ItemAction[] = ['GetItem', 'UpdateItem'];

/**
 * Lambda takes events of 6 MB, in which a multipart body is base64 and a JSON body is escaped: more cannot reach the
 * platform through API Gateway, and goes past it (`core/uploads`).
 */
export const MAX_BODY_MB = 4;

/** What runs the agents of schedules: a call, without its caller, and the schedule's own records. */
const RUN_SCHEDULES = {
  memoryMb: WAITING_MEMORY_MB,
  timeoutSeconds: SCHEDULE_SECONDS,
  tables: {
    main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['table', 'gsi1'] },
    runs: { items: ['GetItem', 'PutItem', 'UpdateItem'] },
    counters: { items: LIMIT },
  },
  blobs: { read: ['definitions', 'runs'], write: ['runs'] },
  secrets: 'read',
  sandbox: 'open',
} as const satisfies FunctionSpec;

/** Every function of the route table and of the event table. `test/stacks` compares the policies made of this with a list of their own. */
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
    blobs: { read: ['definitions', 'layers', 'runs', 'uploads'], write: ['bundles', 'definitions'] },
    calls: ['install'],
    sandbox: 'know',
  },
  billing: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      // Reading the balance ends the payments of runs that were lost.
      main: { items: [...AUTHENTICATE, 'PutItem'], query: ['table', 'gsi1'] },
      runs: { items: ['GetItem'] },
      counters: { items: LIMIT },
    },
  },
  calls: {
    memoryMb: WAITING_MEMORY_MB,
    timeoutSeconds: CALL_FUNCTION_SECONDS,
    tables: {
      // Paid agents: the ledger. Schedules that are triggered: the run that is not counted yet.
      main: { items: [...AUTHENTICATE, 'PutItem', 'DeleteItem'], query: ['table', 'gsi1'] },
      // A service key is looked up in the record of its run; a run to be replayed is found by the digits of its id.
      runs: { items: ['GetItem', 'PutItem', 'UpdateItem'], query: ['table'] },
      // Admission, the budgets of sub-calls, and the answers of calls with an Idempotency-Key.
      counters: { items: [...LIMIT, 'PutItem', 'DeleteItem'] },
    },
    blobs: { read: ['definitions', 'runs', 'uploads'], write: ['runs'] },
    secrets: 'read',
    sandbox: 'open',
  },
  catalog: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: AUTHENTICATE, query: ['gsi2'] },
      // Agents look agents up, too.
      runs: { items: ['GetItem'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['definitions'] },
  },
  downloads: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: 60,
    tables: { main: { items: AUTHENTICATE }, runs: { items: ['GetItem'] }, counters: { items: LIMIT } },
    blobs: { read: ['bundles', 'definitions'] },
  },
  install: {
    memoryMb: 512,
    timeoutSeconds: INSTALL_SECONDS,
    tables: {
      // Schedules follow a version that can run.
      main: { items: ['GetItem', 'PutItem', 'UpdateItem'], query: ['table'] },
      runs: { items: ['GetItem', 'PutItem', 'UpdateItem'] },
    },
    blobs: { read: ['bundles', 'definitions', 'runs'], write: ['layers', 'runs'] },
    sandbox: 'open',
  },
  keys: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'BatchGetItem', 'PutItem', 'DeleteItem'], query: ['table'] },
      counters: { items: LIMIT },
    },
  },
  runs: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: AUTHENTICATE },
      runs: { items: ['GetItem', 'BatchGetItem', 'UpdateItem'], query: ['table', 'gsi2'] },
      counters: { items: LIMIT },
    },
    blobs: { read: ['runs'] },
  },
  'schedule-fired': { ...RUN_SCHEDULES, timerQueue: { batchSize: 10, maxConcurrency: 100 } },
  'schedule-sweeper': {
    ...RUN_SCHEDULES,
    tables: { ...RUN_SCHEDULES.tables, main: { ...RUN_SCHEDULES.tables.main, query: ['table', 'gsi1', 'gsi2'] } },
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
  },
  sweeper: {
    memoryMb: 512,
    timeoutSeconds: 60,
    tables: {
      // Credits that lost runs held; alerts, and what the timeline of their schedule says of them.
      main: { items: ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem'], query: ['gsi2'] },
      runs: { items: ['GetItem', 'PutItem', 'UpdateItem'], query: ['gsi1'] },
    },
    blobs: { read: ['runs'], write: ['runs'] },
    // Alerts are signed.
    secrets: 'read',
  },
  storage: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: [...AUTHENTICATE, 'BatchGetItem', 'PutItem', 'DeleteItem'], query: ['table'] },
      // The key of an agent's run.
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
      // The key of an agent's run.
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
    // A form that is signed with this right may do no more than it.
    blobs: { read: [], write: ['uploads'] },
  },
  usage: {
    memoryMb: MEMORY_MB,
    timeoutSeconds: BUFFERED_SECONDS,
    tables: {
      main: { items: AUTHENTICATE },
      runs: { items: [], query: ['table', 'gsi2'] },
      counters: { items: LIMIT },
    },
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

/** What the pool of tasks on Fargate is kept with and reached by, see `aws/fargate`. */
export const POOL_FUNCTIONS = {
  // It waits while a program runs, as long as the function that called it does.
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

/** What looks after the MicroVMs, see `aws/microvm`. */
export const MICROVM_FUNCTIONS = {
  'microvm-sweeper': { memoryMb: 256, timeoutSeconds: 60 },
} as const satisfies Record<string, FunctionSpec>;
