import { CHANGED_FOLDER, type InstallPlan, LAYER_ARCHIVE } from '#core/agents/bundle/install-plan.ts';
import { type AgentVersion, bundleKey } from '#core/agents/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import { installEgress } from '../egress.ts';
import type { InstallLog } from './install-log.ts';

const INSTALL_MEMORY_BYTES = 2 * 1024 ** 3;
const INSTALL_DISK_BYTES = 1536 * 1024 ** 2;

type BuildDeps = Pick<Deps, 'config' | 'blobs' | 'sandbox' | 'clock'>;

/**
 * Installs dependencies in a sandbox with network and stores the result as the plan's layer. Returns the reason if the
 * installation failed, `undefined` if it succeeded. Throws if the sandbox cannot be opened.
 *
 * @param deadline Epoch milliseconds.
 */
export async function buildLayer(
  deps: BuildDeps,
  version: AgentVersion,
  plan: InstallPlan,
  { deadline, log }: { readonly deadline: number; readonly log: InstallLog },
): Promise<string | undefined> {
  const session = await openInstallSandbox(deps, version, deadline);
  try {
    for (const [name, text] of Object.entries(plan.changed)) {
      await session.writeFile(`${CHANGED_FOLDER}/${name}`, Buffer.from(text));
    }
    for (const command of plan.commands) {
      const failure = await runCommand(deps, session, command, { deadline, log });
      if (failure !== undefined) return failure;
    }
    await deps.blobs.put(plan.layer, await session.readFile(LAYER_ARCHIVE));
    return undefined;
  } finally {
    await session.close();
  }
}

/** No secret enters this sandbox. */
function openInstallSandbox(
  { sandbox, config }: BuildDeps,
  version: AgentVersion,
  deadline: number,
): Promise<SandboxSession> {
  return sandbox.open({
    bundle: bundleKey(version.bundle!.sha256),
    env: {},
    egress: installEgress(config),
    purpose: 'install',
    deadline,
    limits: {
      memoryBytes: INSTALL_MEMORY_BYTES,
      diskBytes: INSTALL_DISK_BYTES,
      fileBytes: INSTALL_DISK_BYTES,
      cpuSeconds: Math.ceil(config.installTimeoutMs / 1000),
      processes: 512,
    },
  });
}

/** Returns the reason if the command failed. */
async function runCommand(
  { clock, config }: BuildDeps,
  session: SandboxSession,
  command: string,
  { deadline, log }: { readonly deadline: number; readonly log: InstallLog },
): Promise<string | undefined> {
  const timeoutMs = Math.max(deadline - clock.now(), 1);
  for await (const event of session.exec({ command, timeoutMs })) {
    if (event.type !== 'exit') {
      await log.add(event.type, event.data);
      continue;
    }
    const { exitCode, reason } = event.exit;
    log.exitCode = exitCode;
    if (reason === 'timeout') return `not finished within ${config.installTimeoutMs / 1000} s`;
    if (reason !== 'exited') return `${reason.replace('_', ' ')}\n${log.tail()}`.trim();
    if (exitCode !== 0) return log.tail() || `"${command}" ended with status ${exitCode}`;
  }
  return undefined;
}
