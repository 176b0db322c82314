import { PassThrough } from 'node:stream';
import { ECSClient } from '@aws-sdk/client-ecs';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { type AwsConfig, parseAwsConfig } from '#aws/config.ts';
import { type DispatchRequest, dispatch } from '#aws/fargate/dispatch.ts';
import { PoolKeeper, type PoolSettings } from '#aws/fargate/keeper.ts';
import { SandboxPool } from '#aws/fargate/pool.ts';
import { FargateSandbox } from '#aws/fargate/sandbox.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { type FakeEcs, type FakeEcsOptions, startFakeEcs } from './fake-ecs/fake-ecs.ts';
import { type FakeLambda, startFakeLambda } from './fake-lambda.ts';
import { serveBlobs } from './runner.ts';
import { startRunnerTask } from './runner-task.ts';

const DEFINITION = 'arn:aws:ecs:eu-west-1:111122223333:task-definition/sandbox:1';
const ACCOUNT = { region: 'eu-west-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' }, maxAttempts: 1 };

export interface FargateOptions {
  /** Folder of the blobs. */
  readonly folder: string;
  readonly pool?: Partial<Pick<PoolSettings, 'idle' | 'max'>>;
  readonly config?: Partial<AwsConfig>;
  /** Handles an event. @default - delivers it to the keeper once */
  readonly onEvent?: (
    event: Parameters<NonNullable<FakeEcsOptions['onEvent']>>[0],
    deliver: () => Promise<void>,
  ) => unknown;
  /** @default - the real runner */
  readonly start?: FakeEcsOptions['start'];
}

export interface Fargate {
  readonly sandbox: FargateSandbox;
  readonly blobs: FolderBlobs;
  readonly pool: SandboxPool;
  readonly ecs: FakeEcs;
  readonly lambda: FakeLambda;
  readonly log: readonly string[];
  /** Runs the keeper once, as its timer does each minute. */
  minute(): Promise<void>;
  /** Waits until this many tasks are idle. */
  idle(count: number): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts sandboxes on Fargate in one process: the adapter, the two functions behind a fake Lambda, a pool in SQLite,
 * and a fake ECS whose tasks are real runners.
 */
export async function startFargate({
  folder,
  pool: size,
  config: change,
  onEvent,
  start,
}: FargateOptions): Promise<Fargate> {
  const clock = new SystemClock();
  const ids = new SystemIds();
  const database = openDatabase(':memory:');
  const counters = new SqliteTable(database, 'counters', clock);
  const lines: string[] = [];
  const write = (message: string, fields: object = {}) => void lines.push(`${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: write, info: write, warn: write, error: write };
  const deps = { counters, clock, ids, log };
  const blobs = new FolderBlobs(folder);
  const links = await serveBlobs(blobs);
  const settings = {
    cluster: 'sandboxes',
    taskDefinition: DEFINITION,
    subnets: ['subnet-1'],
    securityGroup: 'sg-1',
    hasPublicIp: true,
    idle: 0,
    max: 8,
    startMs: 60_000,
    ...size,
  };
  const ecs = await startFakeEcs({
    clusters: [settings.cluster],
    taskDefinitions: [DEFINITION],
    start: start ?? startRunnerTask,
    async onEvent(event) {
      const deliver = async () => {
        await keeper.onTask(event.detail as never);
        await keeper.refill();
      };
      await (onEvent ? onEvent(event, deliver) : deliver());
    },
  });
  const keeper = new PoolKeeper(new ECSClient({ ...ACCOUNT, endpoint: ecs.url }), deps, settings);
  const lambda = await startFakeLambda(async (name, event) => {
    const output = new PassThrough();
    if (name === 'pool-keeper')
      keeper.refill().then(
        () => output.end('null'),
        (error) => output.destroy(error),
      );
    else {
      dispatch(deps, settings, event as DispatchRequest, output).catch((error) => output.destroy(error));
    }
    return { isStream: true, payload: output };
  });
  const sandbox = new FargateSandbox({
    config: { ...parseAwsConfig({}), ...change },
    clock,
    ids,
    log,
    blobs,
    links: { get: async (key) => links.linkTo(key) },
    lambda: new LambdaClient({ ...ACCOUNT, endpoint: lambda.url }),
    background: (work) => work,
  });
  const pool = new SandboxPool(deps, settings);
  return {
    sandbox,
    blobs,
    pool,
    ecs,
    lambda,
    log: lines,
    async minute() {
      await keeper.reconcile();
      await keeper.refill();
    },
    async idle(count) {
      await keeper.refill();
      for (;;) {
        const { slots } = await pool.read();
        if (slots.filter(({ state }) => state === 'idle').length >= count) return;
        await clock.sleep(20);
      }
    },
    async close() {
      await ecs.close();
      await lambda.close();
      links.close();
      database.close();
    },
  };
}
