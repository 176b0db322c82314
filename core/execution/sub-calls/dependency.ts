import { isOpenTo } from '#core/agents/access.ts';
import type { CallingAgent } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { fullNameOf, refOf, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';

/** The agent that a sub-call names. */
export interface Callee {
  /** Version as written in the path. */
  readonly version: string;
  /** Agent version found at the path. */
  readonly agent: AgentVersion;
}

/**
 * Checks that the caller's manifest allows this call. Throws DEPENDENCY_NOT_ALLOWED, FORBIDDEN for another workspace's
 * private agent, AGENT_NOT_CALLABLE, DEPENDENCY_CYCLE.
 */
export function checkDependency(caller: CallingAgent, { version, agent }: Callee): void {
  const ref = refOf(agent);
  const own = caller.chain.at(-1)!;
  if (version !== versionName(agent.version)) {
    throw new PlatformError(
      'DEPENDENCY_NOT_ALLOWED',
      `${own} asked for version "${version}" of ${fullNameOf(agent)}: agents call exact versions, such as ${ref}.`,
    );
  }
  if (!caller.dependencies.includes(ref)) {
    throw new PlatformError(
      'DEPENDENCY_NOT_ALLOWED',
      `${own} may not call ${ref}: ${
        caller.dependencies.length === 0
          ? 'its manifest has no dependencies'
          : `its manifest.dependencies are ${caller.dependencies.join(', ')}`
      }.`,
    );
  }
  // Checked for the agent's own workspace, not the paying one, whose private agents a foreign agent must not reach.
  if (!isOpenTo(agent, caller.agentWorkspaceId))
    throw new PlatformError('FORBIDDEN', `${own} may not call ${ref}: it is private to its workspace.`);
  if (!agent.definition.callable) {
    throw new PlatformError('AGENT_NOT_CALLABLE', `${ref} may not be called by agents: its "callable" is false.`);
  }
  // Another version of an agent above is a cycle as well, as in dependency-graph.ts.
  if (caller.chain.some((above) => above.startsWith(`${fullNameOf(agent)}@`))) {
    throw new PlatformError(
      'DEPENDENCY_CYCLE',
      `${fullNameOf(agent)} is in this chain of calls already: ${[...caller.chain, ref].join(' -> ')}.`,
    );
  }
}
