import { findUser } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import type { Handlers } from '#core/http/route.ts';
import { fullNameOf, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { findOwn } from '../access.ts';
import type { AgentListeners } from '../listeners.ts';
import { deleteChannel, promoteCanary, putChannel, rollBackChannel } from './changes.ts';
import { type CanaryCounts, errorRate, type StoredChannel, whyTakenBack } from './channel.ts';
import type { channelRoutes } from './routes.ts';
import { ChannelStore, type NamedChannel } from './store.ts';

/** Returns the ended calls of a channel since its last change, by side. */
export type ChannelCallsOf = (
  agent: Pick<AgentVersion, 'workspaceId' | 'name'>,
  channel: Pick<StoredChannel, 'id' | 'revision'>,
) => Promise<{ readonly version: CanaryCounts; readonly canary: CanaryCounts }>;

type ChannelDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'> & {
  readonly listeners: AgentListeners;
  readonly channelCallsOf: ChannelCallsOf;
};

const SHOWN_CHANGES = 50;

export const channelHandlers = (deps: ChannelDeps): Handlers<typeof channelRoutes> => {
  const changing = async (caller: Caller, { id, channel }: { readonly id: string; readonly channel: string }) => ({
    caller,
    agent: await findOwn(deps, caller, id),
    channel,
  });
  return {
    async listChannels({ caller, params }) {
      const agent = await findOwn(deps, caller, params.id);
      const channels = await new ChannelStore(deps, agent).list();
      return { status: 200, body: { channels: channels.map((channel) => viewOf(agent, channel)) } };
    },

    async getChannel({ caller, params }) {
      const agent = await findOwn(deps, caller, params.id);
      const store = new ChannelStore(deps, agent);
      const channel = await store.find(params.channel);
      const [calls, history] = await Promise.all([
        deps.channelCallsOf(agent, channel),
        store.history(channel, SHOWN_CHANGES),
      ]);
      const names = await namesOf(
        deps,
        history.map(({ by }) => by),
      );
      return {
        status: 200,
        body: {
          ...viewOf(agent, channel),
          calls: { version: callsView(calls.version), canary: callsView(calls.canary) },
          history: history.map((change) => ({ ...change, by_name: names.get(change.by ?? '') ?? null })),
        },
      };
    },

    async putChannel({ caller, params, body }) {
      const target = await changing(caller, params);
      const channel = await putChannel(deps, target, body);
      return { status: 200, body: viewOf(target.agent, channel) };
    },

    async promoteCanary({ caller, params, body }) {
      const target = await changing(caller, params);
      const channel = await promoteCanary(deps, target, body);
      return { status: 200, body: viewOf(target.agent, channel) };
    },

    async rollBackChannel({ caller, params, body }) {
      const target = await changing(caller, params);
      const channel = await rollBackChannel(deps, target, body);
      return { status: 200, body: viewOf(target.agent, channel) };
    },

    async deleteChannel({ caller, params, query }) {
      const target = await changing(caller, params);
      await deleteChannel(deps, target, query);
      return { status: 200, body: { deleted: true, name: params.channel } };
    },
  };
};

/** Returns how the people of a workspace know its members, by their ids. */
async function namesOf(
  deps: Pick<Deps, 'main'>,
  userIds: readonly (string | null)[],
): Promise<ReadonlyMap<string, string | null>> {
  const ids = [...new Set(userIds)].filter((id) => id !== null);
  const users = await Promise.all(ids.map((id) => findUser(deps, id)));
  return new Map(ids.map((id, index) => [id, users[index]?.displayName ?? users[index]?.email ?? null]));
}

function viewOf(agent: AgentVersion, { name, version, canary, revision, created_at, updated_at }: NamedChannel) {
  return {
    name,
    reference: `${fullNameOf(agent)}@${name}`,
    version: versionName(version),
    canary: canary === undefined ? null : canaryView(canary),
    revision,
    created_at,
    updated_at,
  };
}

function canaryView({ version, taken_back: end, key, min_score, ...canary }: NonNullable<StoredChannel['canary']>) {
  const taken_back = end
    ? { at: end.at, why: whyTakenBack(end), calls: end.calls, failed: end.failed, mean_score: end.score?.mean ?? null }
    : null;
  return { ...canary, version: versionName(version), key: key ?? null, min_score: min_score ?? null, taken_back };
}

const callsView = ({ calls, failed, scored, meanScore }: CanaryCounts) => ({
  ...{ calls, failed, scored, mean_score: meanScore },
  error_rate: calls === 0 ? null : errorRate({ calls, failed }),
});
