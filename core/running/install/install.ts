import { inspectBundle } from '#core/agents/bundle/bundle.ts';
import { CHANGED_FOLDER, type InstallPlan, LAYER_ARCHIVE, planInstall } from '#core/agents/bundle/install-plan.ts';
import type { AgentListeners } from '#core/agents/listeners.ts';
import { AgentStore, findAnyVersion } from '#core/agents/store.ts';
import { type AgentVersion, bundleKey, type Install } from '#core/agents/version.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import type { Deps, InstallJob } from '#core/ports/deps.ts';
import type { Egress, SandboxSession } from '#core/ports/sandbox.ts';
import { shortenLog } from '#core/runs/masking.ts';
import { emptyBody, endedWith, newRunOf } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';

/** Installing touches no secret. */
type InstallDeps = Pick<Deps, 'config' | 'main' | 'runs' | 'blobs' | 'sandbox' | 'clock' | 'ids' | 'log'> & {
  readonly listeners: AgentListeners;
};

const INSTALL_MEMORY_BYTES = 2 * 1024 ** 3;
const INSTALL_DISK_BYTES = 1536 * 1024 ** 2;
/** How often a running installation's output is written to its log. */
const PROGRESS_INTERVAL_MS = 1000;
/** What an upload's answer or a run's error shows of a failed installation. */
const ERROR_TAIL_CHARACTERS = 2000;

/**
 * Does what a version's record announces. Nothing when that is done, under way, or no longer wanted, so a job may be
 * delivered twice. Never throws, unless the record cannot be read.
 */
export async function runInstall(deps: InstallDeps, { versionId, runId }: InstallJob): Promise<void> {
  const version = await findAnyVersion(deps, versionId);
  if (version?.bundle === undefined || version.install?.run_id !== runId) return;
  const { status, deadline } = version.install;
  if (status !== 'building' || deadline <= deps.clock.now()) return;
  if (await new RunStore(deps, version.workspaceId).find(runId)) return;
  const report = await inspectBundle((await deps.blobs.get(bundleKey(version.bundle.sha256)))!);
  const plan = await planInstall(deps, version.workspaceId, report, version.definition.environment ?? {});
  await installDependencies(deps, version, plan!, runId);
}

/**
 * Installs a version's dependencies in a sandbox with network, keeps the layer, and makes the version runnable. The run
 * `runId` shows what pip or npm print while they print it. Never throws: how it ended is in the answer and the record.
 */
async function installDependencies(
  deps: InstallDeps,
  version: AgentVersion,
  plan: InstallPlan,
  runId: string,
): Promise<Install> {
  const store = new AgentStore(deps, version.workspaceId);
  const runs = new RunStore(deps, version.workspaceId);
  const startedAt = deps.clock.now();
  const deadline = startedAt + deps.config.installTimeoutMs;
  const base = { layer: plan.layer, run_id: runId, deadline };
  const run = newRunOf({
    id: runId,
    agent: version,
    endpoint: 'install',
    triggerSource: 'install',
    startedAt,
    deadline,
    input: null,
  });
  await runs.start(run);
  const log = new InstallLog(deps, runs, runId, startedAt);
  const failure = await build(deps, version, plan, deadline, log).catch((error: unknown) => {
    deps.log.error('installation failed', { agent_id: version.id, error: String(error) });
    return hasCode(error, 'SANDBOX_UNAVAILABLE') ? (error as Error).message : 'The platform failed; upload again.';
  });
  const result: Install =
    failure === undefined ? { ...base, status: 'ready' } : { ...base, status: 'failed', error: failure };
  await runs.finish(run, {
    ...endedWith(failure === undefined ? undefined : new PlatformError('SANDBOX_ERROR', failure)),
    ...log.body(),
    executionMs: deps.clock.now() - startedAt,
    exitCode: log.exitCode,
    creditsCents: 0,
  });
  await store.setBuild(version, { bundle: version.bundle!, install: result });
  if (result.status === 'ready') {
    await store.activate(version);
    await deps.listeners.currentVersionChanged(version);
  }
  return result;
}

/** The reason why it failed, or `undefined`. */
async function build(
  deps: InstallDeps,
  version: AgentVersion,
  plan: InstallPlan,
  deadline: number,
  log: InstallLog,
): Promise<string | undefined> {
  const session = await deps.sandbox.open({
    bundle: bundleKey(version.bundle!.sha256),
    env: {},
    // Where runs reach nothing, installations still reach the registries: the adapter lets them.
    egress: toEgress(deps.config.sandboxEgress, true),
    purpose: 'install',
    deadline,
    limits: {
      memoryBytes: INSTALL_MEMORY_BYTES,
      diskBytes: INSTALL_DISK_BYTES,
      fileBytes: INSTALL_DISK_BYTES,
      cpuSeconds: Math.ceil(deps.config.installTimeoutMs / 1000),
      processes: 512,
    },
  });
  try {
    for (const [name, text] of Object.entries(plan.changed)) {
      await session.writeFile(`${CHANGED_FOLDER}/${name}`, Buffer.from(text));
    }
    for (const command of plan.commands) {
      const failure = await runCommand(deps, session, command, deadline, log);
      if (failure !== undefined) return failure;
    }
    await deps.blobs.put(plan.layer, await session.readFile(LAYER_ARCHIVE));
    return undefined;
  } finally {
    await session.close();
  }
}

async function runCommand(
  deps: InstallDeps,
  session: SandboxSession,
  command: string,
  deadline: number,
  log: InstallLog,
): Promise<string | undefined> {
  const timeoutMs = Math.max(deadline - deps.clock.now(), 1);
  for await (const event of session.exec({ command, timeoutMs })) {
    if (event.type !== 'exit') {
      await log.add(event.type, event.data);
      continue;
    }
    log.exitCode = event.exit.exitCode;
    if (event.exit.reason === 'timeout') return `not finished within ${deps.config.installTimeoutMs / 1000} s`;
    if (event.exit.reason !== 'exited') return `${event.exit.reason.replace('_', ' ')}\n${log.tail()}`.trim();
    if (event.exit.exitCode !== 0) return log.tail() || `"${command}" ended with status ${event.exit.exitCode}`;
  }
  return undefined;
}

/** Keeps what an installation prints, and writes it to the run's record now and then. */
class InstallLog {
  readonly #deps: Pick<Deps, 'clock'>;
  readonly #runs: RunStore;
  readonly #runId: string;
  readonly #startedAt: number;
  readonly #text = { stdout: '', stderr: '' };
  #savedAt = 0;
  exitCode: number | null = null;

  constructor(deps: Pick<Deps, 'clock'>, runs: RunStore, runId: string, startedAt: number) {
    this.#deps = deps;
    this.#runs = runs;
    this.#runId = runId;
    this.#startedAt = startedAt;
  }

  async add(stream: 'stdout' | 'stderr', data: Uint8Array): Promise<void> {
    this.#text[stream] += Buffer.from(data).toString();
    const now = this.#deps.clock.now();
    if (now - this.#savedAt < PROGRESS_INTERVAL_MS) return;
    this.#savedAt = now;
    await this.#runs.saveProgress(this.#runId, this.#startedAt, this.body());
  }

  body() {
    const { stdout, stderr } = this.#text;
    return { ...emptyBody(null), stdout: shortenLog(stdout), stderr: shortenLog(stderr) };
  }

  /** The last lines: of stderr, where pip and npm write errors, else of stdout. */
  tail(): string {
    return (this.#text.stderr.trim() || this.#text.stdout.trim()).slice(-ERROR_TAIL_CHARACTERS);
  }
}

/** What the runs of an agent may connect to. One that calls others reaches the platform even where runs reach nothing. */
export const runEgress = ({ sandboxEgress }: Deps['config'], { definition }: AgentVersion): Egress =>
  toEgress(sandboxEgress, (definition.manifest?.dependencies.length ?? 0) > 0);

/** The setting as the sandbox port takes it. */
function toEgress(setting: 'open' | 'none' | readonly string[], needsPlatform: boolean): Egress {
  if (setting === 'none' && needsPlatform) return { allow: [] };
  return typeof setting === 'string' ? setting : { allow: setting };
}
