import { createHash } from 'node:crypto';
import type { Deps } from '../deps.ts';
import { hasCode } from '../errors.ts';
import type { Egress, SandboxSession } from '../ports/sandbox.ts';
import { shortenLog } from '../runs/masking.ts';
import { type NewRun, RunStore } from '../runs/store.ts';
import { followCurrentVersion } from '../schedules/follow.ts';
import { type BundleReport, inspectBundle } from './bundle.ts';
import { shellQuote } from './entrypoint.ts';
import { packagesWithoutSdk, requirementsWithoutSdk, SDK_NAME } from './sdk-requirement.ts';
import { AgentStore, type AgentVersion, bundleKey, findAnyVersion, type Install, versionName } from './store.ts';

/** Installing touches no secret. */
type InstallDeps = Pick<Deps, 'config' | 'main' | 'runs' | 'blobs' | 'sandbox' | 'clock' | 'ids' | 'log'>;

/** The installation of a version's dependencies, as its record announces it; small enough for any queue. */
export interface InstallJob {
  readonly versionId: string;
  readonly runId: string;
}

/** What a bundle needs installed before it can run, and under which name the result is kept. */
export interface InstallPlan {
  /** Blob key of the layer. */
  readonly layer: string;
  /** Written to {@link CHANGED_FOLDER} first: what stands in for files of the bundle. */
  readonly changed: Readonly<Record<string, string>>;
  /** Shell lines, run in turn; what they leave in `/home/user/layer` is the layer. */
  readonly commands: readonly string[];
}

const LAYER_FOLDER = '/home/user/layer';
const CHANGED_FOLDER = '/home/user/changed';
/** A copy of the bundle, for files that name others beside them. */
const SOURCE_FOLDER = '/home/user/source';
const LAYER_ARCHIVE = '/home/user/layer.tar.gz';
const INSTALL_MEMORY_BYTES = 2 * 1024 ** 3;
const INSTALL_DISK_BYTES = 1536 * 1024 ** 2;
/** npm links packages of the bundle itself (`file:`, workspaces); in the layer such links would lead nowhere. */
const COPY_LINKED_PACKAGES = `cd ${LAYER_FOLDER} && find node_modules -type l -not -path '*/.bin/*' | while IFS= read -r link; do folder=$(readlink -f "$link"); rm "$link"; cp -R "$folder" "$link" || exit 1; done`;
/** How often a running installation's output is written to its log. */
const PROGRESS_INTERVAL_MS = 1000;
/** What an upload's answer or a run's error shows of a failed installation. */
const ERROR_TAIL_CHARACTERS = 2000;

/** Files that name other files of the bundle, or code that runs at installation, make the result depend on the whole bundle. */
const REQUIREMENTS_USE_BUNDLE = /^\s*(-e|--editable|-r|--requirement|-c|--constraint|\.|\/|file:)|@\s*(file:|\.)/m;
const PACKAGE_USES_BUNDLE = /"(file|link):|"workspaces"\s*:|"(preinstall|install|postinstall|prepare)"\s*:/;

/** Each word as it stands: a `>=` in a flag is no redirection. */
const words = (flags = ''): string =>
  flags
    .split(/\s+/)
    .filter((word) => word !== '')
    .map(shellQuote)
    .join(' ');

const hasRequirements = (text: string): boolean =>
  text.split(/\r?\n/).some((line) => line.trim() !== '' && !line.trim().startsWith('#'));

function hasPackages(text: string): boolean {
  try {
    const { dependencies, optionalDependencies } = JSON.parse(text);
    return Object.keys({ ...dependencies, ...optionalDependencies }).length > 0;
  } catch {
    // npm says what is wrong with it better than we could.
    return true;
  }
}

/**
 * `undefined` when there is nothing to install. The layer is named by everything that decides what it holds: the
 * requirement files, the interpreters and the platform; and by the workspace, because installing runs code that its
 * authors chose, and no other workspace shall run what it left.
 */
export async function planInstall(
  deps: Pick<Deps, 'sandbox'>,
  workspaceId: string,
  bundle: BundleReport,
  flags: { pip_flags?: string; npm_flags?: string },
): Promise<InstallPlan | undefined> {
  const wanted = {
    'requirements.txt': bundle.textOf('requirements.txt'),
    'package.json': bundle.textOf('package.json'),
    'package-lock.json': bundle.textOf('package-lock.json'),
  };
  const requirements = wanted['requirements.txt'] && requirementsWithoutSdk(wanted['requirements.txt']);
  const { packageJson, lock } =
    wanted['package.json'] === undefined ? {} : packagesWithoutSdk(wanted['package.json'], wanted['package-lock.json']);
  const python = requirements !== undefined && hasRequirements(requirements);
  const node = packageJson !== undefined && hasPackages(packageJson);
  if (!python && !node) return undefined;

  const { interpreters } = await deps.sandbox.status();
  const usesBundle =
    (python && REQUIREMENTS_USE_BUNDLE.test(requirements)) || (node && PACKAGE_USES_BUNDLE.test(packageJson));
  const identity = {
    workspaceId,
    platform: `${process.platform}-${process.arch}`,
    ...(python && { requirements, python: interpreters.python, pipFlags: flags.pip_flags }),
    ...(node && { packageJson, lock, node: interpreters.node, npmFlags: flags.npm_flags }),
    ...(usesBundle && { bundle: bundle.sha256 }),
  };
  const hash = createHash('sha256').update(JSON.stringify(identity)).digest('hex');
  const agent = '/home/user/agent';
  const changesPython = python && requirements !== wanted['requirements.txt'];
  const changesNode = node && packageJson !== wanted['package.json'];
  return {
    layer: `layers/${hash}.tar.gz`,
    changed: {
      ...(changesPython && { 'requirements.txt': requirements }),
      ...(changesNode && { 'package.json': packageJson, ...(lock !== undefined && { 'package-lock.json': lock }) }),
    },
    commands: [
      ...(changesPython || changesNode ? [`echo '${SDK_NAME} is part of every sandbox: it is not installed.'`] : []),
      ...(changesPython
        ? [`cp -R ${agent} ${SOURCE_FOLDER} && cp ${CHANGED_FOLDER}/requirements.txt ${SOURCE_FOLDER}/`]
        : []),
      ...(python
        ? [
            `${changesPython ? `cd ${SOURCE_FOLDER} && ` : ''}python3 -m pip install --no-input --disable-pip-version-check --no-warn-script-location --progress-bar off ${words(flags.pip_flags)} --target ${LAYER_FOLDER}/python -r requirements.txt`,
          ]
        : []),
      ...(node
        ? [
            usesBundle
              ? `mkdir -p ${LAYER_FOLDER} && cp -R ${agent}/. ${LAYER_FOLDER}/`
              : `mkdir -p ${LAYER_FOLDER} && cp ${agent}/package.json ${lock ? `${agent}/package-lock.json ` : ''}${LAYER_FOLDER}/`,
            ...(changesNode ? [`cp ${CHANGED_FOLDER}/package*.json ${LAYER_FOLDER}/`] : []),
            `cd ${LAYER_FOLDER} && npm ${lock ? 'ci' : 'install'} --omit=dev --no-audit --no-fund --no-update-notifier ${words(flags.npm_flags)}`,
            ...(usesBundle ? [COPY_LINKED_PACKAGES] : []),
          ]
        : []),
      `cd ${LAYER_FOLDER} && tar -czf ${LAYER_ARCHIVE} $(ls -d python node_modules 2>/dev/null)`,
    ],
  };
}

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
  const run: NewRun = {
    id: runId,
    agentId: version.id,
    agentWorkspaceId: version.workspaceId,
    agentOrg: version.orgSlug,
    agentName: version.name,
    agentVersion: versionName(version.version),
    engine: version.definition.execution_engine,
    endpoint: 'install',
    triggerSource: 'install',
    startedAt,
    deadline,
    input: null,
  };
  await runs.start(run);
  const log = new InstallLog(deps, runs, runId, startedAt);
  const failure = await build(deps, version, plan, deadline, log).catch((error: unknown) => {
    deps.log.error('installation failed', { agent_id: version.id, error: String(error) });
    return hasCode(error, 'SANDBOX_UNAVAILABLE') ? (error as Error).message : 'The platform failed; upload again.';
  });
  const result: Install =
    failure === undefined ? { ...base, status: 'ready' } : { ...base, status: 'failed', error: failure };
  await runs.finish(run, {
    status: failure === undefined ? 'completed' : 'failed',
    ...log.body(),
    executionMs: deps.clock.now() - startedAt,
    exitCode: log.exitCode,
    errorCode: failure === undefined ? null : 'SANDBOX_ERROR',
    errorMessage: failure ?? null,
    creditsCents: 0,
  });
  await store.setBuild(version, { bundle: version.bundle!, install: result });
  if (result.status === 'ready') {
    await store.activate(version);
    await followCurrentVersion(deps, version);
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
    return {
      input: null,
      output: null,
      stdout: shortenLog(this.#text.stdout),
      stderr: shortenLog(this.#text.stderr),
      trace: [],
    };
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
