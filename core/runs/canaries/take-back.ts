import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { takeBack } from '#core/agents/channels/changes.ts';
import { isWatched, verdictOn, whyTakenBack } from '#core/agents/channels/channel.ts';
import { CANARIES, ChannelStore, type NamedChannel } from '#core/agents/channels/store.ts';
import { derivedUuid } from '#core/base/derived-uuid.ts';
import { versionName } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import { queryAll } from '#core/ports/table.ts';
import type { TellWorkspace, WorkspaceNotice } from '../notice.ts';
import { channelCallsOf } from '../usage/channel-calls.ts';

type TakeBackDeps = Pick<Deps, 'main' | 'runs' | 'clock' | 'log' | 'endedRuns'>;

interface Agent {
  readonly workspaceId: string;
  readonly name: string;
  readonly orgSlug: string;
}

/**
 * Takes back the canaries whose calls fail more often, or score less, than they may (`docs/interface/channels.md#way-back`). The switch is one
 * write, on the condition that nobody changed the agent since its calls were counted; the message follows, and the record
 * says whether it was sent. So the work may be repeated, and may end anywhere.
 */
export async function takeBackCanaries(deps: TakeBackDeps, tell: TellWorkspace): Promise<void> {
  for await (const item of queryAll(deps.main, { index: 'gsi2', pk: CANARIES })) {
    const [workspaceId, name] = item.gsi2sk!.split('#') as [string, string];
    await watchAgent(deps, { workspaceId, name }, tell).catch((error: unknown) =>
      deps.log.error('canaries of an agent not watched', { agent: name, error: String(error) }),
    );
  }
}

async function watchAgent(deps: TakeBackDeps, place: Omit<Agent, 'orgSlug'>, tell: TellWorkspace): Promise<void> {
  const workspace = await findWorkspace(deps, place.workspaceId);
  // While a workspace moves, its channels stay as they are.
  if (workspace === undefined || workspace.move !== undefined) return;
  const agent: Agent = { ...place, orgSlug: workspace.slug };
  const store = new ChannelStore(deps, agent);
  for (const channel of await store.list()) {
    if (!isWatched(channel)) continue;
    const ended = channel.canary!.taken_back === undefined ? await judged(deps, agent, channel) : channel;
    if (ended === undefined) continue;
    await tell(place.workspaceId, noticeOf(agent, ended));
    await store.noteTold(ended.name, ended.revision);
  }
}

/** Takes the canary of a channel back if its calls fail too often, or its scores are too low. Returns the channel then. */
async function judged(deps: TakeBackDeps, agent: Agent, channel: NamedChannel): Promise<NamedChannel | undefined> {
  const { canary: counts } = await channelCallsOf(deps, agent, channel);
  const verdict = verdictOn(channel.canary!, counts);
  const ended = verdict && (await takeBack(deps, agent, channel, verdict));
  if (ended !== undefined) deps.log.warn('canary taken back', { agent: agent.name, channel: channel.name, ...counts });
  return ended;
}

function noticeOf({ workspaceId, name, orgSlug }: Agent, channel: NamedChannel): WorkspaceNotice {
  const { canary, version } = channel;
  const canaryVersion = versionName(canary!.version);
  const why = whyTakenBack(canary!.taken_back!);
  return {
    id: derivedUuid('canary', workspaceId, name, String(channel.id), canary!.taken_back!.at),
    agentName: name,
    title: `Canary ${canaryVersion} of ${name}@${channel.name} was taken back`,
    body: `The platform took back the canary ${canaryVersion} of the channel ${orgSlug}/${name}@${channel.name}: ${why}. All calls of the channel run ${versionName(version)} now.`,
  };
}
