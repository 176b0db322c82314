import { announceBlob } from '#core/agents/retention/blobs.ts';
import { planOfWorkspace } from '#core/agents/retention/storage-usage.ts';
import { hasCode } from '#core/base/errors.ts';
import { CHANGED_FOLDER, type InstallPlan, type InstallStep, PACK_LAYER } from '#core/manifest/bundle/install-plan.ts';
import { checkedLayer } from '#core/manifest/bundle/layer-archive.ts';
import { LayerError } from '#core/manifest/bundle/layer-reader.ts';
import { type AgentVersion, bundleKey, PACKING_MS } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { DEFAULT_MAX_OUTPUT_BYTES, type ExecExit, type SandboxSession } from '#core/ports/sandbox.ts';
import { installEgress } from '../egress.ts';
import type { InstallLog } from './install-log.ts';

const MB = 1024 ** 2;
/** For the processes themselves; files of a sandbox may take memory, too. */
const PROCESS_MEMORY_BYTES = 512 * MB;
const MAX_PROBLEM_CHARACTERS = 500;

type BuildDeps = Pick<Deps, 'config' | 'main' | 'blobs' | 'sandbox' | 'clock'>;

/** An installation that runs in a sandbox. */
interface Installation {
  readonly session: SandboxSession;
  readonly log: InstallLog;
  /** Epoch milliseconds; packing has {@link PACKING_MS} more. */
  readonly until: number;
  /** Maximum size of the layer on disk, by the workspace's plan. */
  readonly layerBytes: number;
}

/** Besides the layer itself, an installation needs room for downloads and for packages that it builds. */
const diskOf = (layerBytes: number): number => layerBytes * 1.5;

/**
 * Installs dependencies in a sandbox with network access and stores the result as the announced blob that the version's
 * installation names. Returns the blob, or the reason if the installation failed. Throws if the sandbox cannot be
 * opened.
 *
 * @param deadline Epoch milliseconds, with the time for packing.
 */
export async function buildLayer(
  deps: BuildDeps,
  version: AgentVersion,
  plan: InstallPlan,
  { deadline, log }: { readonly deadline: number; readonly log: InstallLog },
): Promise<string | { readonly key: string; readonly bytes: number; readonly sha256: string }> {
  const { layer_bytes: layerBytes } = await planOfWorkspace(deps, version.workspaceId);
  const session = await openInstallSandbox(deps, version, { deadline, layerBytes });
  const installation = { session, log, until: deadline - PACKING_MS, layerBytes };
  try {
    for (const [name, text] of Object.entries(plan.changed)) {
      await session.writeFile(`${CHANGED_FOLDER}/${name}`, Buffer.from(text));
    }
    for (const step of plan.steps) {
      const failure = await runStep(deps, installation, step);
      if (failure !== undefined) return failure;
    }
    const key = version.install!.layer;
    await announceBlob(deps, key);
    return await storeLayer(deps, installation, key);
  } finally {
    await session.close();
  }
}

/** Opens a sandbox without any secrets. */
function openInstallSandbox(
  { sandbox, config }: BuildDeps,
  version: AgentVersion,
  { deadline, layerBytes }: { readonly deadline: number; readonly layerBytes: number },
): Promise<SandboxSession> {
  const diskBytes = diskOf(layerBytes);
  return sandbox.open({
    bundle: bundleKey(version.bundle!),
    owner: version.workspaceId,
    env: {},
    egress: installEgress(config),
    purpose: 'install',
    deadline,
    turn: { owner: version.workspaceId, deadline },
    limits: {
      memoryBytes: diskBytes + PROCESS_MEMORY_BYTES,
      diskBytes,
      fileBytes: diskBytes,
      cpuSeconds: Math.ceil((config.installTimeoutMs + PACKING_MS) / 1000),
      processes: 512,
    },
  });
}

/**
 * Packs the installed files and stores them, checking them while reading: no process of the installation is running any
 * more, and content that a layer may not have is never stored. Returns the blob, or the reason for a failure.
 */
async function storeLayer(
  { blobs }: BuildDeps,
  { session, log, layerBytes }: Installation,
  key: string,
): ReturnType<typeof buildLayer> {
  const archive = packedLayer(session, Math.floor(layerBytes / 2));
  let blob = { key, bytes: 0, sha256: '' };
  const checked = checkedLayer(
    archive,
    ({ entries, bytes, archiveBytes, sha256 }) => {
      log.note(`layer: ${entries} files and folders, ${bytes} bytes, ${archiveBytes} compressed, SHA-256 ${sha256}`);
      blob = { key, bytes: archiveBytes, sha256 };
    },
    layerBytes,
  );
  try {
    await blobs.put(key, checked);
    return blob;
  } catch (error) {
    if (!hasCode(error, 'SANDBOX_LAYER')) throw error;
    return [`The installed dependencies cannot be used: ${(error as Error).message}.`, ...torchHint(log)].join(' ');
  }
}

/** Throws LayerError if packing fails. */
async function* packedLayer(session: SandboxSession, maxBytes: number): AsyncGenerator<Uint8Array> {
  let problem = '';
  const request = { command: PACK_LAYER, timeoutMs: PACKING_MS, endsAll: true, maxOutputBytes: maxBytes };
  for await (const event of session.exec(request)) {
    if (event.type !== 'exit') {
      if (event.type === 'stdout') yield event.data;
      else problem = (problem + Buffer.from(event.data)).slice(0, MAX_PROBLEM_CHARACTERS);
    } else if (event.exit.reason === 'output_limit') {
      throw new LayerError(`they take more than ${Math.round(maxBytes / MB)} MB, compressed`);
    } else if (event.exit.reason === 'timeout') {
      throw new LayerError(`they could not be packed within ${PACKING_MS / 1000} s`);
    } else if (event.exit.exitCode !== 0) {
      throw new LayerError(`they cannot be packed (${problem.trim() || event.exit.reason.replace('_', ' ')})`);
    }
  }
}

/** Runs a step. Returns the reason if it failed. */
async function runStep(deps: BuildDeps, installation: Installation, step: InstallStep): Promise<string | undefined> {
  const { session, log, until } = installation;
  const timeoutMs = Math.max(until - deps.clock.now(), 1);
  if (step.isBuild) log.note(`$ ${step.title}`);
  log.startStep();
  for await (const event of session.exec({ command: step.command, timeoutMs, endsAll: true })) {
    if (event.type !== 'exit') {
      await log.add(event.type, event.data);
      continue;
    }
    log.exitCode = event.exit.exitCode;
    if (event.exit.reason !== 'exited') return stopped(deps, installation, step, event.exit);
    if (event.exit.exitCode !== 0) return failed(installation, step, event.exit);
  }
  return undefined;
}

/** Describes a step that the platform ended: why, after how long, what to do, and its last lines. */
function stopped(
  { config }: BuildDeps,
  { log, layerBytes }: Installation,
  { title }: InstallStep,
  { reason, durationMs }: ExecExit,
): string {
  const after = `the step "${title}" was stopped after ${Math.round(durationMs / 1000)} s`;
  const limit = Math.round((diskOf(layerBytes) + PROCESS_MEMORY_BYTES) / MB);
  const reasons: Readonly<Record<Exclude<ExecExit['reason'], 'exited'>, string>> = {
    timeout: `Not finished within ${config.installTimeoutMs / 1000} s: ${after}. Pin exact versions, prefer packages with prebuilt binaries, and leave out what the agent does not need. Operators raise PLATFORM_INSTALL_TIMEOUT_SECONDS, on AWS to at most 700.`,
    memory_limit: `Out of memory: ${after}, because its processes and files took more than ${limit} MB or the share of this machine.`,
    output_limit: `Too much output: ${after}, because it printed more than ${DEFAULT_MAX_OUTPUT_BYTES / MB} MB.`,
    aborted: `Canceled: ${after}.`,
    sandbox_lost: `The sandbox was lost: ${after}. Upload the bundle again.`,
  };
  const { [reason as keyof typeof reasons]: text } = reasons;
  return withOutput([text, ...torchHint(log)].join(' '), log.lastLines());
}

/** Describes a step that ended with another status than 0. */
function failed(
  { log, layerBytes }: Installation,
  { title, command, isBuild }: InstallStep,
  { exitCode }: ExecExit,
): string {
  if (!log.has(NO_SPACE)) {
    if (!isBuild) return log.problem() || `"${command}" ended with status ${exitCode}`;
    const reason = log.failureOfBuild();
    return withOutput(
      `The build failed: the step "${title}" ended with status ${exitCode}${reason && `: ${reason}`}`,
      log.lastLines(),
    );
  }
  const limit = Math.round(diskOf(layerBytes) / MB);
  const text = `No space left: the files of the step "${title}" took more than the ${limit} MB that an installation may write, for dependencies of ${Math.round(layerBytes / MB)} MB (layer_bytes of the plan). Leave out what the agent does not need.`;
  return withOutput([text, ...torchHint(log)].join(' '), log.lastLines());
}

const NO_SPACE = /No space left on device|ENOSPC|Disk quota exceeded/;
/** Packages for GPUs, which sandboxes do not have: `nvidia-cublas-cu12`, `triton`. */
const CUDA_PACKAGES = /\bnvidia[-_](?:cu|nccl|nv)|\btriton\b/;

const torchHint = (log: InstallLog): string[] =>
  log.has(CUDA_PACKAGES)
    ? [
        'pip installed packages for graphics cards, which sandboxes do not have: for the small build of PyTorch, add the line "--extra-index-url https://download.pytorch.org/whl/cpu" to requirements.txt.',
      ]
    : [];

const withOutput = (text: string, output: string): string => (output === '' ? text : `${text}\n\n${output}`);
