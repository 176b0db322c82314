import { AgentStore } from '#core/agents/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { EngineRun } from './engine.ts';

const INSTALL_POLL_MS = 250;

/**
 * Waits until the dependencies of a program are installed, and returns the updated version. Throws UNPROCESSABLE
 * without a
 * bundle, SANDBOX_ERROR if the installation failed, TIMEOUT if it does not end before the deadline, NOT_FOUND if the
 * version was deleted in the meantime, and the reason of `signal`.
 */
export async function readyToRun(
  deps: Deps,
  version: AgentVersion,
  { deadline, signal, trace }: Pick<EngineRun, 'deadline' | 'signal' | 'trace'>,
): Promise<AgentVersion> {
  let agent = version;
  // A failed wait ends the run, which also closes the step.
  const step = agent.install?.status === 'building' ? trace.open('setup_step', { payload: { name: 'install' } }) : 0;
  while (agent.install?.status === 'building') {
    if (deps.clock.now() + INSTALL_POLL_MS >= deadline) {
      throw new PlatformError('TIMEOUT', `The dependencies of ${refOf(agent)} are still being installed.`);
    }
    await deps.clock.sleep(INSTALL_POLL_MS, signal);
    const current = await new AgentStore(deps, agent.workspaceId).findVersion(agent.name, agent.version);
    if (current === undefined) throw new PlatformError('NOT_FOUND', `${refOf(agent)} was deleted.`);
    agent = current;
  }
  trace.close(step);
  if (agent.bundle === undefined) {
    throw new PlatformError('UNPROCESSABLE', `${refOf(agent)} has no code bundle yet.`, {
      hint: `Upload one with POST /agents/${agent.id}/upload.`,
    });
  }
  if (!agent.runnable) {
    const error = agent.install?.error ?? 'there is no record of an installation';
    const [reason] = error.split('\n', 1);
    throw new PlatformError('SANDBOX_ERROR', `The dependencies of ${refOf(agent)} could not be installed: ${reason}`, {
      category: 'setup_error',
      details: { stderr: error, log: `/agents/${agent.id}/logs` },
      hint: 'Correct requirements.txt or package.json and publish a new version, or upload the bundle again.',
    });
  }
  return agent;
}
