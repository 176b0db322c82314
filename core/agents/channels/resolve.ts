import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { previewIn } from '../previews/preview.ts';
import { readHead } from '../record.ts';
import { type CalledChannel, channelIn, isOnCanary, type Sticking } from './channel.ts';

interface Agents {
  findVersion(name: string, version: number): Promise<AgentVersion | undefined>;
}

/**
 * Finds the version of a channel or a preview of an agent; `undefined` if there is neither. Only calls have `sticking`, and may
 * get the canary of a channel.
 */
export async function resolveChannel(
  deps: Pick<Deps, 'main' | 'clock'>,
  agents: Agents,
  agent: { readonly workspaceId: string; readonly name: string },
  channelName: string,
  sticking: Sticking | undefined,
): Promise<{ readonly agent: AgentVersion; readonly channel?: CalledChannel } | undefined> {
  const { channels, previews, current } = await readHead(deps, agent.workspaceId, agent.name);
  const channel = channelIn(channels, channelName);
  if (channel === undefined) {
    const preview = previewIn(previews, channelName, deps.clock.now());
    // Makes as many reads as for a name that exists, so that timing reveals nothing of private agents.
    const version = await agents.findVersion(agent.name, preview?.version ?? Math.max(current, 1));
    return preview && version && { agent: version };
  }
  const isCanary = sticking !== undefined && isOnCanary(agent, channel, sticking);
  const found = await agents.findVersion(agent.name, isCanary ? channel.canary!.version : channel.version);
  const { id, revision } = channel;
  return found && { agent: found, channel: { name: channelName, id, revision, isCanary } };
}
