import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLlm } from '#adapters/llm/create-llm.ts';
import { createMcpEndpoint } from '#adapters/mcp/endpoint.ts';
import { createMcpToolServers } from '#adapters/mcp/tool-servers.ts';
import { createToolSignIn } from '#adapters/mcp/tool-sign-in.ts';
import type { OidcDeps } from '#adapters/oidc/openid-provider.ts';
import { install } from '#core/api/install.ts';
import { resumeRun } from '#core/execution/durable/resume.ts';
import { registryEnvironment, registryTargets } from '#core/manifest/bundle/registries.ts';
import { LayeredModelTable } from '#core/models/model-table.ts';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import type { CardKey } from '#core/ports/card-key.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { lazyIdTokens } from '#core/ports/id-tokens.ts';
import { noMail } from '#core/ports/mail.ts';
import { ProcessRunSignals } from '#core/ports/run-signals.ts';
import type { Sandbox } from '#core/ports/sandbox.ts';
import type { Scan } from '#core/ports/scan.ts';
import { lazySignInProvider, type SignInProvider } from '#core/ports/sign-in-provider.ts';
import { endsRun } from '#core/runs/usage/ended-run.ts';
import { applyServices } from '#core/services/apply.ts';
import { bootDocument } from '#core/services/boot.ts';
import { ownServices } from '#core/services/own-services.ts';
import { takeReports } from '#core/services/reports.ts';
import { parseCardKey } from '#core/wires/a2a/card-key.ts';
import type { Gateway } from '#runner/sandbox/egress-proxy.ts';
import { NamespaceSandbox } from '#runner/sandbox/namespace-sandbox.ts';
import { DATABASE } from './backup/format.ts';
import { RESTORING } from './backup/restore.ts';
import { type ClockTimers, clockTimers } from './clock-timers.ts';
import type { LocalConfig } from './config.ts';
import { openDatabase } from './database/database.ts';
import { LocalFeed } from './database/local-feed.ts';
import { SqliteScan } from './database/sqlite-scan.ts';
import { SqliteTable } from './database/sqlite-table.ts';
import { Upkeep } from './database/upkeep.ts';
import { FileVault } from './files/file-vault.ts';
import { FolderBlobs } from './files/folder-blobs.ts';
import { FreeSpace } from './files/free-space.ts';
import { LocalUploadForms } from './files/upload-forms.ts';
import { FreshIds } from './fresh-ids.ts';
import { localModels } from './model-source.ts';
import { LocalState } from './process/host-state.ts';
import { createLog } from './process/log.ts';
import { defaultMaxSandboxes, FairSandbox } from './sandbox/fair-sandbox.ts';
import { createLocalSandbox } from './sandbox/local-sandbox.ts';
import { localPayments } from './scripted-stripe/local-payments.ts';
import type { ScriptedStripeServer } from './scripted-stripe/server.ts';
import { LocalServiceHost } from './services/local-service-host.ts';
import { wayToServices } from './services/own-way.ts';
import { startSums } from './start-sums.ts';
import { operatorTelemetryOf } from './telemetry/operator.ts';

/** Many runs that end within this time add to their sums in one write, before their rows reach the database file. */
const SUM_EVERY_MS = 100;

/** A poll costs two or three database reads. */
const WATCH_POLL_MS = 250;

/** Time in which durable runs finish their turn before the process stops. */
const LEAVE_MS = 5000;
/** Time for background work after the sandboxes have ended, when it only writes its records. */
const CLOSING_MS = 5_000;

export interface LocalDeps extends AllDeps {
  readonly blobs: FolderBlobs;
  readonly sandbox: FairSandbox;
  readonly uploadForms: LocalUploadForms;
  /** They fire only after `start`. */
  readonly timers: ClockTimers;
  readonly serviceHost: LocalServiceHost;
  readonly hostState: LocalState;
  /** For moves of workspaces. */
  readonly scan: Scan;
  /** Present if no Stripe key is configured. */
  readonly scriptedStripe?: ScriptedStripeServer;
  /** Ends streams that only watch and would never end by themselves. */
  endWatching(): void;
  /**
   * Makes durable runs leave this process: before their next turn, and after some seconds, or with `force`, at once. The
   * next start takes them up.
   */
  leaveRuns(force: boolean): void;
  /**
   * Waits for background work, ends every sandbox and releases the data folder. With `force` it ends the sandboxes
   * first.
   */
  close(force?: boolean): Promise<void>;
}

/**
 * Creates all ports on one machine, in `config.dataFolder`. Throws `DATABASE_IN_USE` if another process uses that
 * folder. `listening` is the platform's own address, the only private address that sandboxed agents may reach.
 */
export async function localDeps(config: LocalConfig, listening: Gateway): Promise<LocalDeps> {
  const folder = config.dataFolder;
  if (existsSync(join(folder, RESTORING)) && !existsSync(join(folder, DATABASE))) {
    throw new Error(`a restore into ${folder} was interrupted: run it again (platform restore FILE --data ${folder})`);
  }
  const clock = new SystemClock();
  const log = createLog(config.logLevel);
  const database = openDatabase(join(folder, DATABASE), (message) => log.warn(message));
  const ids = new FreshIds(config.cell);
  const feed = new LocalFeed(database, endsRun, SUM_EVERY_MS);
  const tables = {
    main: new SqliteTable(database, 'main', clock),
    runs: new SqliteTable(database, 'runs', clock, { ids, feed }),
    counters: new SqliteTable(database, 'counters', clock),
  };
  const blobs = new FolderBlobs(join(folder, 'blobs'));
  const space = new FreeSpace({ folder, minFreeBytes: config.minFreeBytes, clock, log });
  const uploadForms = new LocalUploadForms(
    { blobs, space, clock, ids },
    {
      baseUrl: config.baseUrl ?? addressOf(listening),
      maxBytes: Math.max(config.maxCallBodyBytes, config.maxBundleBytes),
    },
  );
  const isolated = await createLocalSandbox({
    cacheFolder: join(folder, 'cache'),
    blobs,
    space,
    kind: config.sandboxKind,
    gateway: listening,
    prestart: config.sandboxPrestart,
    registries: {
      env: registryEnvironment(config, existsSync(CERTIFICATES) ? CERTIFICATES : undefined),
      allowHosts: registryTargets(config),
    },
    log: (line) => log.warn(line),
  });
  const sandbox = new FairSandbox(isolated, { maxConcurrent: config.maxSandboxes ?? defaultMaxSandboxes(), clock });
  const hostState = new LocalState({ sandbox, folder });
  const serviceHost = new LocalServiceHost({
    sandbox: isolated instanceof NamespaceSandbox ? isolated : { problem: await noServices(isolated) },
    folder: join(folder, 'services'),
    ...{ clock, ids, log },
    platformUrl: addressOf(listening),
    addressOf: (label) => serviceAddress(config, listening, label),
    boot: (serviceId, token) => bootDocument(deps, serviceId, token),
    take: (reports) => takeReports(deps, reports),
  });
  const upkeep = new Upkeep({ clock, log, database, tables: Object.values(tables) });
  upkeep.start();

  const { payments, scripted: scriptedStripe } = await localPayments(config, clock);
  const outbound = new HttpOutbound({ clock, ownHosts: config.outboundHosts });
  const closing = new AbortController();
  const stopping = new AbortController();
  const stopped = new AbortController();
  const pending = new Set<Promise<void>>();
  const background = (work: Promise<void>): Promise<void> => {
    pending.add(work);
    return work.finally(() => pending.delete(work));
  };
  const deps: LocalDeps = {
    config,
    ...tables,
    blobs,
    space,
    uploadForms,
    vault: new FileVault(join(folder, 'vault'), config.vaultKeyFile ?? join(folder, 'vault.key')),
    sandbox,
    timers: clockTimers(
      clock,
      () => deps,
      () => database.changes('main'),
    ),
    serviceHost,
    hostState,
    scan: new SqliteScan(database, clock),
    endedRuns: feed,
    operatorTelemetry: operatorTelemetryOf(config),
    onRunEnd: (run) => hostState.countRun(run),
    onRunsOverdue: (count) => hostState.noteOverdueRuns(count),
    serviceLogs: serviceHost,
    async wakeServices(serviceIds) {
      void background(applyServices(deps, serviceIds));
    },
    payments,
    operatorKey: async () => config.operatorKeyHash,
    cardKey: cardKeyOf(config),
    signInProvider: signInProvider(config, { outbound, clock }),
    idTokens: lazyIdTokens(async () => {
      const { JoseIdTokens } = await import('#adapters/oidc/id-tokens.ts');
      return new JoseIdTokens({ outbound, clock });
    }),
    scriptedStripe,
    runSignals: new ProcessRunSignals(),
    llm: createLlm(config, log),
    modelTable: new LayeredModelTable({
      clock,
      log,
      background,
      source: config.models === undefined ? undefined : localModels(outbound, config.models),
    }),
    outbound,
    exchanges: outbound,
    toolServers: createMcpToolServers({ outbound, clock }),
    mcp: createMcpEndpoint({ log }),
    toolSignIn: createToolSignIn({ outbound }),
    ownServices: ownServices({ ...tables, clock, ids, config }, wayToServices(clock, listening, config.servicesDomain)),
    gatewayUrl: addressOf(listening),
    mail: noMail,
    clock,
    ids,
    log,
    background,
    startInstall: (job) => background(install(deps, job)),
    handOver: { stopping: stopping.signal, stopped: stopped.signal },
    async wakeRun(job) {
      if (stopping.signal.aborted) return;
      const resumed = resumeRun(deps, job).catch((error: unknown) => {
        log.error('run not continued', { run_id: job.runId, error: String(error) });
      });
      void background(resumed);
    },
    async showQuestion(question) {
      const { questionListener } = await import('#core/collaboration/questions.ts');
      await questionListener(deps)(question);
    },
    async pushTask(news) {
      const { taskPusher } = await import('#core/wires/a2a/pushes.ts');
      return taskPusher(deps)(news);
    },
    leaveRuns(force) {
      stopping.abort();
      if (force) stopped.abort();
      else clock.after(LEAVE_MS, () => stopped.abort());
    },
    watching: { pollMs: WATCH_POLL_MS, closing: closing.signal },
    endWatching: () => closing.abort(),
    async close(force = false) {
      hostState.close();
      await scriptedStripe?.close();
      await serviceHost.close();
      if (!force) await Promise.allSettled(pending);
      await sandbox.close();
      const ended = new AbortController();
      const tooLong = clock.sleep(CLOSING_MS, ended.signal).catch(() => {});
      await Promise.race([Promise.allSettled(pending), tooLong]);
      ended.abort();
      await feed.close();
      await upkeep.close();
      await database.close();
    },
  };
  startSums(feed, tables.runs, deps);
  void deps.modelTable.refresh();
  return deps;
}

export const addressOf = ({ host, port }: { host: string; port: number }): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`;

/** Returns the OpenID provider from the settings. Throws if only some of them are set. */
function signInProvider(
  { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret }: LocalConfig,
  deps: OidcDeps,
): SignInProvider | undefined {
  const given = [issuer, clientId, clientSecret];
  if (given.every((value) => value === undefined)) return undefined;
  if (issuer === undefined || clientId === undefined || clientSecret === undefined) {
    throw new Error(
      'PLATFORM_OIDC_ISSUER, PLATFORM_OIDC_CLIENT_ID and PLATFORM_OIDC_CLIENT_SECRET belong together: set all three.',
    );
  }
  let provider: Promise<SignInProvider> | undefined;
  return lazySignInProvider(() => {
    provider ??= import('#adapters/oidc/openid-provider.ts').then(
      ({ OpenIdProvider }) => new OpenIdProvider({ issuer, clientId, clientSecret }, deps),
    );
    return provider;
  });
}

/** Reads the key that signs cards. Throws an error that names the setting if it cannot be used. */
function cardKeyOf({ cardKeyFile }: LocalConfig): CardKey | undefined {
  if (cardKeyFile === undefined) return undefined;
  const source = 'PLATFORM_A2A_KEY_FILE';
  let pem: string;
  try {
    pem = readFileSync(cardKeyFile, 'utf8');
  } catch (error) {
    throw new Error(`${source}: the file cannot be read: ${(error as Error).message}`);
  }
  const key = parseCardKey(source, pem);
  return async () => key;
}

/** Returns the public address of a service. */
function serviceAddress(config: LocalConfig, listening: Gateway, label: string): string {
  const isHere = config.servicesDomain === 'localhost';
  const url = new URL((isHere ? undefined : config.baseUrl) ?? addressOf(listening));
  url.hostname = `${label}.${config.servicesDomain}`;
  return url.origin;
}

/** Explains to the user who deploys a service why this machine cannot run it. */
async function noServices(sandbox: Sandbox): Promise<string> {
  const { kind, problem } = await sandbox.status();
  if (kind !== 'unsandboxed') return problem ?? 'No sandbox works on this machine.';
  return 'Services need a sandbox, and PLATFORM_SANDBOX is "unsandboxed". Start the platform without that setting.';
}

/** Debian's trust store, which installations use instead of the certificates bundled with pip and npm. */
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';
