import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { install } from '#core/api/install.ts';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { noMail } from '#core/ports/mail.ts';
import { ProcessRunSignals } from '#core/ports/run-signals.ts';
import { createAiSdkLlm } from '#llm/ai-sdk-llm.ts';
import { type ClockTimers, clockTimers } from './clock-timers.ts';
import type { LocalConfig } from './config.ts';
import { openDatabase } from './database.ts';
import { FileVault } from './file-vault.ts';
import { FolderBlobs } from './folder-blobs.ts';
import { createLog } from './log.ts';
import { defaultMaxSandboxes, FairSandbox } from './sandbox/fair-sandbox.ts';
import { createLocalSandbox } from './sandbox/local-sandbox.ts';
import { SqliteTable } from './sqlite-table.ts';
import { LocalUploadForms } from './upload-forms.ts';

/** Often, so that each batch of expired items is small and no request waits for it. */
const PURGE_INTERVAL_MS = 5_000;

/** After the sandboxes have ended, background work only writes its records. */
const CLOSING_MS = 5_000;

export interface LocalDeps extends AllDeps {
  readonly uploadForms: LocalUploadForms;
  /** They fire only after `start`. */
  readonly timers: ClockTimers;
  /** Waits for background work, ends every sandbox and releases the data folder; `force` ends the sandboxes first. */
  close(force?: boolean): Promise<void>;
}

/**
 * All ports on one machine, in `config.dataFolder`. Throws `DATABASE_IN_USE` if another process uses that folder.
 * `listening` is the platform's own address, the one private address that sandboxed agents may reach.
 */
export async function localDeps(config: LocalConfig, listening: { host: string; port: number }): Promise<LocalDeps> {
  const folder = config.dataFolder;
  const clock = new SystemClock();
  const log = createLog(config.logLevel);
  const database = openDatabase(join(folder, 'platform.sqlite'));
  const tables = {
    main: new SqliteTable(database, 'main', clock),
    runs: new SqliteTable(database, 'runs', clock),
    counters: new SqliteTable(database, 'counters', clock),
  };
  const blobs = new FolderBlobs(join(folder, 'blobs'));
  const ids = new SystemIds();
  const uploadForms = new LocalUploadForms(
    { blobs, clock, ids },
    {
      baseUrl: config.baseUrl ?? addressOf(listening),
      maxBytes: Math.max(config.maxCallBodyBytes, config.maxBundleBytes),
    },
  );
  const isolated = await createLocalSandbox({
    cacheFolder: join(folder, 'cache'),
    blobs,
    kind: config.sandboxKind,
    gateway: listening,
    prestart: config.sandboxPrestart,
    registries: { env: registryEnvironment(config), allowHosts: config.installHosts },
    log: (line) => log.warn(line),
  });
  const sandbox = new FairSandbox(isolated, { maxConcurrent: config.maxSandboxes ?? defaultMaxSandboxes(), clock });
  const purge = setInterval(() => {
    for (const table of Object.values(tables)) table.purgeExpired();
  }, PURGE_INTERVAL_MS).unref();

  const background = new Set<Promise<void>>();
  const deps: LocalDeps = {
    config,
    ...tables,
    blobs,
    uploadForms,
    vault: new FileVault(join(folder, 'vault'), config.vaultKeyFile ?? join(folder, 'vault.key')),
    sandbox,
    timers: clockTimers(clock, () => deps),
    runSignals: new ProcessRunSignals(),
    llm: createAiSdkLlm(config),
    outbound: new HttpOutbound({ clock, ownHosts: config.outboundHosts }),
    gatewayUrl: addressOf(listening),
    mail: noMail,
    clock,
    ids,
    log,
    background(work) {
      background.add(work);
      return work.finally(() => background.delete(work));
    },
    startInstall: (job) => deps.background(install(deps, job)),
    async close(force = false) {
      clearInterval(purge);
      if (!force) await Promise.allSettled(background);
      await sandbox.close();
      const ended = new AbortController();
      const tooLong = clock.sleep(CLOSING_MS, ended.signal).catch(() => {});
      await Promise.race([Promise.allSettled(background), tooLong]);
      ended.abort();
      database.close();
    },
  };
  return deps;
}

export const addressOf = ({ host, port }: { host: string; port: number }): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`;

/** Debian's trust store. Installations use it instead of the certificates that pip and npm bundle. */
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';

const registryEnvironment = ({ pipIndexUrl, npmRegistry }: LocalConfig): Record<string, string> => ({
  ...(existsSync(CERTIFICATES) && { PIP_CERT: CERTIFICATES, npm_config_cafile: CERTIFICATES }),
  ...(pipIndexUrl && { PIP_INDEX_URL: pipIndexUrl }),
  ...(npmRegistry && { npm_config_registry: npmRegistry }),
});
