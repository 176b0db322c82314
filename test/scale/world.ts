import { GetSecretValueCommand, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { createMcpEndpoint } from '#adapters/mcp/endpoint.ts';
import { createMcpToolServers } from '#adapters/mcp/tool-servers.ts';
import { createToolSignIn } from '#adapters/mcp/tool-sign-in.ts';
import { JoseIdTokens } from '#adapters/oidc/id-tokens.ts';
import { SecretsManagerVault } from '#aws/secrets/secrets-manager-vault.ts';
import { parseConfig } from '#core/base/config.ts';
import type { PlanName, Plans } from '#core/base/plans.ts';
import { LayeredModelTable } from '#core/models/model-table.ts';
import builtIn from '#core/models/models.json' with { type: 'json' };
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import type { Blobs } from '#core/ports/blobs.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { Llm } from '#core/ports/llm.ts';
import { noMail } from '#core/ports/mail.ts';
import type { ModelFacts } from '#core/ports/model-table.ts';
import { NoSandbox } from '#core/ports/no-sandbox.ts';
import { noOperatorKey } from '#core/ports/operator-key.ts';
import { noPayments } from '#core/ports/payments.ts';
import { ProcessRunSignals } from '#core/ports/run-signals.ts';
import { endlessSpace } from '#core/ports/space.ts';
import { endsRun } from '#core/runs/usage/ended-run.ts';
import { openDatabase } from '#local/database/database.ts';
import { LocalFeed } from '#local/database/local-feed.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { startSums } from '#local/start-sums.ts';
import { memoryDataKeys } from '#test/helpers/memory-data-keys.ts';
import { Random } from '#test/simulation/random.ts';
import { FUNCTIONS } from '../../lib/functions.ts';
import { DynamoModel, type DynamoProps } from './dynamo.ts';
import { VirtualClock } from './virtual-clock.ts';

/** Time in the middle of a quarter of a day, so that no sum moves to the next item. */
const START = Date.parse('2035-06-01T14:00:00Z');

/** Time for which Lambda collects ended runs. */
const WINDOW_MS = FUNCTIONS['usage-writer'].runStream!.windowSeconds * 1000;

export interface WorldProps extends Omit<DynamoProps, 'clock' | 'random'> {
  readonly plan: PlanName;
  /** Changes the default plans. */
  readonly plans?: (plans: Plans) => Plans;
  /** Response time of a model, in milliseconds. */
  readonly modelMs: number;
  /** Determines ids, pauses and choices. @default 1 */
  readonly seed?: number | undefined;
}

/** Ids that a seed determines. Every first digit occurs, unlike in simulations of faults. */
class SeededIds extends Random {
  override uuid(): string {
    return this.between(0, 15).toString(16) + super.uuid().slice(1);
  }
}

/** The platform's own code over throttling tables, on a virtual clock. */
export interface World {
  readonly clock: VirtualClock;
  readonly dynamo: DynamoModel;
  readonly random: Random;
  readonly deps: AllDeps;
  /** Dependencies with the same data but without limits, delays and counting, to prepare a load. */
  readonly quiet: AllDeps;
  /** Waits for work that continues after its answer. */
  settled(): Promise<void>;
  /** Number of log lines by message. */
  readonly lines: Map<string, number>;
}

export function createWorld({ plan, plans = (same) => same, modelMs, seed = 1, ...limits }: WorldProps): World {
  const clock = new VirtualClock(START);
  const random = new Random(2 * seed);
  const ids = new SeededIds(2 * seed + 1);
  const dynamo = new DynamoModel({ ...limits, clock, random: () => random.next() });
  const database = openDatabase(':memory:');
  const feed = new LocalFeed(database, endsRun, 0);
  const inner = {
    main: new SqliteTable(database, 'main', clock),
    runs: new SqliteTable(database, 'runs', clock, { feed }),
    counters: new SqliteTable(database, 'counters', clock),
  };
  const tables = {
    main: dynamo.table(inner.main, 'main'),
    runs: dynamo.table(inner.runs, 'runs'),
    counters: dynamo.table(inner.counters, 'counters'),
  };
  const lines = new Map<string, number>();
  const note = (message: string) => void lines.set(message, (lines.get(message) ?? 0) + 1);
  const log = { debug: () => {}, info: note, warn: note, error: note };
  const base = parseConfig({});
  const config = { ...base, plans: plans(base.plans), defaultPlan: plan };
  const pending = new Set<Promise<void>>();
  const background = (work: Promise<void>): Promise<void> => {
    const kept = work.catch(() => note('background work failed')).finally(() => pending.delete(kept));
    pending.add(kept);
    return work;
  };
  // The function `usage-writer`, for a stream of one shard.
  startSums(feed, inner.runs, { runs: tables.runs, counters: tables.counters, clock, log });
  let isSumming = false;
  const sumLater = (): void => {
    if (isSumming) return;
    isSumming = true;
    const summed = clock.sleep(WINDOW_MS).then(() => {
      isSumming = false;
      return feed.settle();
    });
    void background(summed);
  };
  const outbound = new HttpOutbound({ clock, ownHosts: config.outboundHosts });
  const dataKeys = memoryDataKeys();
  const none = () => Promise.reject(new Error('no load uses it'));
  const deps = {
    config,
    ...tables,
    blobs: memoryBlobs(),
    space: endlessSpace,
    uploadForms: { create: none },
    vault: new SecretsManagerVault({
      client: secrets,
      prefix: 'p',
      locks: tables.counters,
      dataKeys: async () => dataKeys,
      clock,
      ids,
    }),
    payments: noPayments,
    operatorKey: noOperatorKey,
    timers: { set: async () => {}, remove: async () => {}, reconcile: async () => ({ set: 0, removed: 0 }) },
    runSignals: new ProcessRunSignals(),
    sandbox: new NoSandbox('no load runs programs here'),
    llm: slowModel(clock, modelMs),
    modelTable: new LayeredModelTable({ clock, log, background, builtIn: builtIn as Record<string, ModelFacts> }),
    outbound,
    exchanges: outbound,
    toolServers: createMcpToolServers({ outbound, clock }),
    mcp: createMcpEndpoint({ log }),
    toolSignIn: createToolSignIn({ outbound }),
    idTokens: new JoseIdTokens({ outbound, clock }),
    ownServices: { find: async () => ({ problem: 'there are no services in this test' }) },
    gatewayUrl: '',
    mail: noMail,
    clock,
    ids,
    log,
    background,
    onRunEnd: sumLater,
    startInstall: none,
  } satisfies AllDeps;
  return {
    clock,
    dynamo,
    random,
    deps,
    quiet: { ...deps, ...inner },
    lines,
    async settled() {
      while (pending.size > 0) await Promise.allSettled(pending);
    },
  };
}

const slowModel = (clock: VirtualClock, modelMs: number): Llm => ({
  async generate({ signal }) {
    await clock.sleep(modelMs, signal);
    return {
      text: 'Hello.',
      toolCalls: [],
      finishReason: 'stop',
      usage: { inputTokens: 20, outputTokens: 10 },
      message: { role: 'assistant', text: 'Hello.' },
    } as never;
  },
});

/** All workspaces share one secret, which never changes. */
const secrets = {
  send: async (command: unknown) =>
    command instanceof GetSecretValueCommand ? { SecretString: '{"ANTHROPIC_API_KEY":"sk-ant-made-up"}' } : {},
} as unknown as SecretsManagerClient;

function memoryBlobs(): Blobs {
  const kept = new Map<string, Uint8Array>();
  return {
    async put(key, body) {
      kept.set(key, body instanceof Uint8Array ? body : Buffer.concat(await Array.fromAsync(body)));
    },
    get: async (key) => kept.get(key),
    async stream(key) {
      const body = kept.get(key);
      return (
        body &&
        (async function* () {
          yield body;
        })()
      );
    },
    size: async (key) => kept.get(key)?.length,
    delete: async (key) => void kept.delete(key),
    async *list(prefix) {
      yield* [...kept.keys()].filter((key) => key.startsWith(prefix)).sort();
    },
  };
}
