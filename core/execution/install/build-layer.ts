import { announceBlob } from '#core/agents/retention/blobs.ts';
import { hasCode } from '#core/base/errors.ts';
import { CHANGED_FOLDER, type InstallPlan, PACK_LAYER } from '#core/manifest/bundle/install-plan.ts';
import { checkedLayer } from '#core/manifest/bundle/layer-archive.ts';
import { LayerError } from '#core/manifest/bundle/layer-reader.ts';
import { type AgentVersion, bundleKey } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import { installEgress } from '../egress.ts';
import type { InstallLog } from './install-log.ts';

const INSTALL_MEMORY_BYTES = 2 * 1024 ** 3;
const INSTALL_DISK_BYTES = 1536 * 1024 ** 2;
/** Maximum size of a packed layer. */
const MAX_ARCHIVE_BYTES = 512 * 1024 ** 2;
const MAX_PROBLEM_CHARACTERS = 500;

type BuildDeps = Pick<Deps, 'config' | 'main' | 'blobs' | 'sandbox' | 'clock'>;

/**
 * Installs dependencies in a sandbox with network access and stores the result as the announced blob that the version's
 * installation names. Returns the blob, or the reason if the installation failed. Throws if the sandbox cannot be
 * opened.
 *
 * @param deadline Epoch milliseconds.
 */
export async function buildLayer(
  deps: BuildDeps,
  version: AgentVersion,
  plan: InstallPlan,
  { deadline, log }: { readonly deadline: number; readonly log: InstallLog },
): Promise<string | { readonly key: string; readonly bytes: number; readonly sha256: string }> {
  const session = await openInstallSandbox(deps, version, deadline);
  try {
    for (const [name, text] of Object.entries(plan.changed)) {
      await session.writeFile(`${CHANGED_FOLDER}/${name}`, Buffer.from(text));
    }
    for (const command of plan.commands) {
      const failure = await runCommand(deps, session, command, { deadline, log });
      if (failure !== undefined) return failure;
    }
    const key = version.install!.layer;
    await announceBlob(deps, key);
    return await storeLayer(deps, session, key, { deadline, log });
  } finally {
    await session.close();
  }
}

/** Opens a sandbox without any secrets. */
function openInstallSandbox(
  { sandbox, config }: BuildDeps,
  version: AgentVersion,
  deadline: number,
): Promise<SandboxSession> {
  return sandbox.open({
    bundle: bundleKey(version.bundle!),
    owner: version.workspaceId,
    env: {},
    egress: installEgress(config),
    purpose: 'install',
    deadline,
    turn: { owner: version.workspaceId, deadline },
    limits: {
      memoryBytes: INSTALL_MEMORY_BYTES,
      diskBytes: INSTALL_DISK_BYTES,
      fileBytes: INSTALL_DISK_BYTES,
      cpuSeconds: Math.ceil(config.installTimeoutMs / 1000),
      processes: 512,
    },
  });
}

/**
 * Packs the installed files and stores them, checking them while reading: no process of the installation is running any
 * more, and content that a layer may not have is never stored. Returns the blob, or the reason for a failure.
 */
async function storeLayer(
  { blobs, clock }: BuildDeps,
  session: SandboxSession,
  key: string,
  { deadline, log }: { readonly deadline: number; readonly log: InstallLog },
): ReturnType<typeof buildLayer> {
  const archive = packedLayer(session, Math.max(deadline - clock.now(), 1));
  let blob = { key, bytes: 0, sha256: '' };
  const checked = checkedLayer(archive, ({ entries, bytes, archiveBytes, sha256 }) => {
    log.note(`layer: ${entries} files and folders, ${bytes} bytes, ${archiveBytes} compressed, SHA-256 ${sha256}`);
    blob = { key, bytes: archiveBytes, sha256 };
  });
  try {
    await blobs.put(key, checked);
    return blob;
  } catch (error) {
    if (!hasCode(error, 'SANDBOX_LAYER')) throw error;
    return `The installed dependencies cannot be used: ${(error as Error).message}.`;
  }
}

/** Throws LayerError if packing fails. */
async function* packedLayer(session: SandboxSession, timeoutMs: number): AsyncGenerator<Uint8Array> {
  let problem = '';
  const request = { command: PACK_LAYER, timeoutMs, endsAll: true, maxOutputBytes: MAX_ARCHIVE_BYTES };
  for await (const event of session.exec(request)) {
    if (event.type !== 'exit') {
      if (event.type === 'stdout') yield event.data;
      else problem = (problem + Buffer.from(event.data)).slice(0, MAX_PROBLEM_CHARACTERS);
    } else if (event.exit.reason === 'output_limit') {
      throw new LayerError(`they take more than ${MAX_ARCHIVE_BYTES / 1024 ** 2} MB, compressed`);
    } else if (event.exit.exitCode !== 0) {
      throw new LayerError(`they cannot be packed (${problem.trim() || event.exit.reason.replace('_', ' ')})`);
    }
  }
}

/** Runs a command. Returns the reason if it failed. */
async function runCommand(
  { clock, config }: BuildDeps,
  session: SandboxSession,
  command: string,
  { deadline, log }: { readonly deadline: number; readonly log: InstallLog },
): Promise<string | undefined> {
  const timeoutMs = Math.max(deadline - clock.now(), 1);
  for await (const event of session.exec({ command, timeoutMs, endsAll: true })) {
    if (event.type !== 'exit') {
      await log.add(event.type, event.data);
      continue;
    }
    const { exitCode, reason } = event.exit;
    log.exitCode = exitCode;
    if (reason === 'timeout') return `not finished within ${config.installTimeoutMs / 1000} s`;
    if (reason !== 'exited') return `${reason.replace('_', ' ')}\n${log.problem()}`.trim();
    if (exitCode !== 0) return log.problem() || `"${command}" ended with status ${exitCode}`;
  }
  return undefined;
}
