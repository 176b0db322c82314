import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { createLlm } from '#adapters/llm/create-llm.ts';
import { createMcpEndpoint } from '#adapters/mcp/endpoint.ts';
import { createMcpToolServers } from '#adapters/mcp/tool-servers.ts';
import { createToolSignIn } from '#adapters/mcp/tool-sign-in.ts';
import { JoseIdTokens } from '#adapters/oidc/id-tokens.ts';
import { agentListeners } from '#core/api/agent-listeners.ts';
import { type Config, parseConfig } from '#core/base/config.ts';
import { questionListener } from '#core/collaboration/questions.ts';
import { runInstall } from '#core/execution/install/install.ts';
import { LayeredModelTable } from '#core/models/model-table.ts';
import builtIn from '#core/models/models.json' with { type: 'json' };
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { noMail } from '#core/ports/mail.ts';
import type { ModelFacts } from '#core/ports/model-table.ts';
import { NoSandbox } from '#core/ports/no-sandbox.ts';
import { noOperatorKey } from '#core/ports/operator-key.ts';
import { noPayments } from '#core/ports/payments.ts';
import { ProcessRunSignals } from '#core/ports/run-signals.ts';
import { endlessSpace } from '#core/ports/space.ts';
import { taskPusher } from '#core/wires/a2a/pushes.ts';
import { type ClockTimers, clockTimers } from '#local/clock-timers.ts';
import { openDatabase } from '#local/database/database.ts';
import { SqliteScan } from '#local/database/sqlite-scan.ts';
import { FileVault } from '#local/files/file-vault.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { ManualClock } from './manual-clock.ts';
import { memoryTables } from './memory-tables.ts';

/** All logged lines. */
export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Record<string, unknown>;
}

export interface MemoryDeps extends AllDeps {
  readonly clock: ManualClock;
  readonly timers: ClockTimers;
  readonly lines: LogLine[];
  /** For moves of workspaces. */
  readonly scan: SqliteScan;
}

/** Creates the local adapters with a manual clock, without server and sandbox; they are removed after the test. */
export function memoryDeps(settings: Partial<Config> = {}, clock = new ManualClock()): MemoryDeps {
  const folder = mkdtempSync(join(tmpdir(), 'platform-test-'));
  const database = openDatabase(':memory:');
  onTestFinished(() => {
    database.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const lines: LogLine[] = [];
  const at =
    (level: string) =>
    (message: string, fields: Record<string, unknown> = {}) => {
      lines.push({ level, message, fields });
    };
  const log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  const background = (work: Promise<void>): Promise<void> => work;
  const config = { ...parseConfig({}), ...settings };
  const outbound = new HttpOutbound({ clock, ownHosts: config.outboundHosts });
  const deps: MemoryDeps = {
    config,
    ...memoryTables(clock, { database, log }),
    scan: new SqliteScan(database, clock),
    blobs: new FolderBlobs(join(folder, 'blobs')),
    space: endlessSpace,
    uploadForms: { create: () => Promise.reject(new Error('there are no upload forms in this test')) },
    vault: new FileVault(join(folder, 'vault'), join(folder, 'vault.key')),
    timers: clockTimers(
      clock,
      () => deps,
      () => database.changes('main'),
    ),
    payments: noPayments,
    operatorKey: noOperatorKey,
    runSignals: new ProcessRunSignals(),
    sandbox: new NoSandbox('there is no sandbox in this test'),
    llm: createLlm(config, log),
    modelTable: new LayeredModelTable({ clock, log, background, builtIn: builtIn as Record<string, ModelFacts> }),
    outbound,
    exchanges: outbound,
    toolServers: createMcpToolServers({ outbound, clock }),
    mcp: createMcpEndpoint({ log }),
    toolSignIn: createToolSignIn({ outbound }),
    idTokens: new JoseIdTokens({ outbound, clock }),
    ownServices: { find: async () => ({ problem: 'there are no services in this test' }) },
    gatewayUrl: 'http://127.0.0.1:4280',
    mail: noMail,
    clock,
    ids: new SystemIds(),
    log,
    lines,
    background,
    showQuestion: (question) => questionListener(deps)(question),
    pushTask: (news) => taskPusher(deps)(news),
    startInstall: (job) => runInstall({ ...deps, listeners: agentListeners(deps) }, job),
  };
  return deps;
}
