import { timelineIndex } from '#core/accounts/workspaces/timeline.ts';
import { PlatformError } from '#core/base/errors.ts';
import { CHANNEL_NAME_RULE, isChannelName } from '#core/manifest/channel-name.ts';
import { versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { type Changes, type Item, type Key, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { changeHead, type Head, partitionOf, readHead } from '../record.ts';
import { channelIn, isWatched, type StoredChannel, type StoredChannels, textOf } from './channel.ts';
import type { ChannelAction as Action } from './kinds.ts';

/** The agent and the versions of it that a channel may name are read together in each call. */
const MAX_CHANNELS = 20;
const MAX_BEFORE = 20;
/** Changes that the history of a channel keeps. */
export const MAX_CHANGES = 200;

/** Versions that a channel names. */
export interface Named {
  readonly version: string;
  readonly canary: { readonly version: string; readonly percent: number } | null;
}

/** An entry of the history of a channel. */
export interface ChannelChange {
  readonly revision: number;
  readonly action: Action;
  /** Null for its creation. */
  readonly from: Named | null;
  /** Null for its deletion. */
  readonly to: Named | null;
  /** Id of the user; null for the platform. */
  readonly by: string | null;
  readonly why: string | null;
  readonly at: string;
}

/** What a change makes of a channel. `undefined`: it is deleted. */
export interface Decided {
  readonly action: Action;
  readonly channel: Pick<StoredChannel, 'version' | 'canary' | 'before'> | undefined;
}

/** Days for which those who follow the events of a workspace can learn of a deletion. */
const DELETION_KEPT_SECONDS = 30 * 24 * 3600;

export interface ChangeRequest {
  /** Id of the user; null for the platform. */
  readonly by: string | null;
  readonly why?: string | undefined;
  /** Revision that the channel must have; 0 for a channel that must not exist. @default - any */
  readonly revision?: number | undefined;
}

/** A channel with its name. */
export type NamedChannel = StoredChannel & { readonly name: string };

type Agent = Pick<AgentVersion, 'workspaceId' | 'name' | 'orgSlug'>;
type ChannelDeps = Pick<Deps, 'main' | 'clock'>;

/** Index of the agents with a watched canary; see {@link isWatched}. */
export const CANARIES = 'CANARIES';

/**
 * The channels of one agent. They are in its HEAD (`../record.ts`), and each change in its history is an item beside it:
 * `CHANNEL#<id of the channel>#<revision>` (gsi1: timeline of the workspace).
 */
export class ChannelStore {
  readonly #deps: ChannelDeps;
  readonly #agent: Agent;

  constructor(deps: ChannelDeps, agent: Agent) {
    this.#deps = deps;
    this.#agent = agent;
  }

  /** Lists the channels by name. */
  async list(): Promise<NamedChannel[]> {
    const { channels } = await this.#head();
    return Object.keys(channels)
      .sort()
      .map((name) => ({ ...channels[name]!, name }));
  }

  /** Throws NOT_FOUND. */
  async find(name: string): Promise<NamedChannel> {
    return this.#channelOf(await this.#head(), name);
  }

  /** Returns the last changes, the newest first. */
  async history({ id }: Pick<StoredChannel, 'id'>, limit: number): Promise<ChannelChange[]> {
    const sk = { beginsWith: `${historyPrefix(id)}` };
    const { items } = await this.#deps.main.query({ pk: this.#partition, sk, reverse: true, limit });
    return items.map(changeFrom);
  }

  /**
   * Changes a channel as `decide` says, or creates it. Throws what `decide` throws, and CONFLICT if the channel has another
   * revision than `revision`. `decide` may be called again if the agent changed in the meantime.
   * Returns `undefined` for a deleted channel.
   */
  async change(
    name: string,
    request: ChangeRequest,
    decide: (channel: NamedChannel | undefined) => Promise<Decided | 'unchanged'> | Decided | 'unchanged',
  ): Promise<NamedChannel | undefined> {
    const { clock } = this.#deps;
    const { changed } = await retryOnConflict(clock, `the channels of ${this.#agent.name}`, async () => {
      const head = await this.#head();
      const stored = channelIn(head.channels, name);
      const before = stored && { ...stored, name };
      this.#checkRevision(name, before, request.revision);
      const decided = await decide(before);
      if (decided === 'unchanged') return { changed: before };
      const { action, channel } = decided;
      if (before === undefined) this.#checkNew(name, head);
      const now = isoTime(clock.now());
      const revision = (before?.revision ?? 0) + 1;
      const after: StoredChannel | undefined = channel && {
        ...channel,
        before: channel.before.slice(-MAX_BEFORE),
        id: before?.id ?? head.revision + 1,
        revision,
        created_at: before?.created_at ?? now,
        updated_at: now,
      };
      const { [name]: _, ...others } = head.channels;
      const channels = after === undefined ? others : { ...others, [name]: after };
      const change: ChannelChange = {
        ...{ revision, action, at: now, by: request.by, why: request.why ?? null },
        from: namedIn(before),
        to: namedIn(after),
      };
      const { ok } = await this.#deps.main.transact([
        changeHead(this.#agent, head, { channels }, watchedIndex(this.#agent, channels)),
        ...this.#historyOperations(name, after?.id ?? before!.id, change),
      ]);
      return ok ? { changed: after && { ...after, name } } : undefined;
    });
    if (changed === undefined) await this.#forget(name);
    return changed;
  }

  /** Notes that the workspace was told of the end of a canary, unless the channel changed since. */
  async noteTold(name: string, revision: number): Promise<void> {
    await retryOnConflict(this.#deps.clock, `the channels of ${this.#agent.name}`, async () => {
      const head = await this.#head();
      const channel = channelIn(head.channels, name);
      if (channel?.canary?.taken_back === undefined || channel.revision !== revision) return true;
      const { canary } = channel;
      const told = { ...channel, canary: { ...canary, taken_back: { ...canary.taken_back!, is_told: true } } };
      const channels = { ...head.channels, [name]: told };
      const change = changeHead(this.#agent, head, { channels }, watchedIndex(this.#agent, channels));
      return (await this.#deps.main.transact([change])).ok || undefined;
    });
  }

  /** Removes the histories of all channels of a deleted agent. Safe to repeat. */
  async removeHistories(): Promise<void> {
    await this.#removeHistory('CHANNEL#', () => true);
  }

  /** Removes the history of a deleted channel. A crash may leave some of it. Nothing reads that, because ids are never used again. */
  async #forget(name: string): Promise<void> {
    const { channels } = await this.#head();
    const kept = channelIn(channels, name)?.id;
    await this.#removeHistory('CHANNEL#', (item) => item.channel === name && item.channel_id !== kept);
  }

  async #removeHistory(prefix: string, isGone: (item: Item) => boolean): Promise<void> {
    for await (const item of queryAll(this.#deps.main, { pk: this.#partition, sk: { beginsWith: prefix } })) {
      // The timeline shows the deletion to those who watch it.
      if (isGone(item) && item.action !== 'deleted') await this.#deps.main.delete({ pk: item.pk, sk: item.sk });
    }
  }

  #head(): Promise<Head> {
    return readHead(this.#deps, this.#agent.workspaceId, this.#agent.name);
  }

  get #partition(): string {
    return partitionOf(this.#agent.workspaceId, this.#agent.name);
  }

  #channelOf({ channels }: Head, name: string): NamedChannel {
    const channel = channelIn(channels, name);
    if (channel !== undefined) return { ...channel, name };
    throw this.notFound(name);
  }

  notFound(name: string): PlatformError {
    const { orgSlug, name: agent } = this.#agent;
    return new PlatformError('NOT_FOUND', `The agent ${orgSlug}/${agent} has no channel "${name.slice(0, 64)}".`, {
      hint: 'GET /agents/{id}/channels lists them; PUT /agents/{id}/channels/{channel} makes one.',
    });
  }

  #checkRevision(name: string, channel: NamedChannel | undefined, wanted: number | undefined): void {
    if (wanted === undefined || wanted === (channel?.revision ?? 0)) return;
    const state =
      channel === undefined
        ? 'does not exist'
        : `has the revision ${channel.revision} now and names ${textOf(channel)}`;
    throw new PlatformError('CONFLICT', `revision: is ${wanted}, but the channel ${name} ${state}.`, {
      hint: 'Read the channel again, and repeat the change with its revision if it is still wanted.',
    });
  }

  #checkNew(name: string, { channels, previews }: Head): void {
    if (!isChannelName(name)) {
      throw new PlatformError('INVALID_INPUT', `path.channel: "${name.slice(0, 64)}" ${CHANNEL_NAME_RULE}.`);
    }
    if (Object.hasOwn(previews, name)) {
      const { orgSlug, name: agent } = this.#agent;
      throw new PlatformError('CONFLICT', `path.channel: ${orgSlug}/${agent} has a preview called ${name}.`, {
        hint: 'Give the channel another name, or delete the version of the preview.',
      });
    }
    if (Object.keys(channels).length < MAX_CHANNELS) return;
    throw new PlatformError(
      'CONFLICT',
      `The agent ${this.#agent.orgSlug}/${this.#agent.name} has ${MAX_CHANNELS} channels, the maximum.`,
      { hint: 'Delete one of them with DELETE /agents/{id}/channels/{channel}.' },
    );
  }

  /** Builds the operations that add a change to the history, and remove the one that is too old. */
  #historyOperations(name: string, id: number, change: ChannelChange): TransactOperation[] {
    const { workspaceId, name: agent } = this.#agent;
    const key = (revision: number): Key => ({ pk: this.#partition, sk: historyKey(id, revision) });
    const item: Item = {
      ...key(change.revision),
      id: `${agent}.${id}.${change.revision}`,
      agent_name: agent,
      channel: name,
      channel_id: id,
      event_type: 'channel_changed',
      message: messageOf(name, change),
      ...change,
      from: change.from && { ...change.from },
      to: change.to && { ...change.to },
      ...(change.to === null && { ttl: epochSeconds(Date.parse(change.at)) + DELETION_KEPT_SECONDS }),
      ...timelineIndex(workspaceId, Date.parse(change.at), `${agent}.${id}.${change.revision}`),
    };
    const tooOld = change.revision - MAX_CHANGES;
    return [{ op: 'put', item }, ...(tooOld > 0 ? [{ op: 'delete', key: key(tooOld) } as const] : [])];
  }
}

const padded = (number: number): string => String(number).padStart(9, '0');
const historyPrefix = (id: number): string => `CHANNEL#${padded(id)}#`;
const historyKey = (id: number, revision: number): string => `${historyPrefix(id)}${padded(revision)}`;

/** Returns the attributes by which background work finds an agent, or their removal. */
export const watchedIndex = ({ workspaceId, name }: Omit<Agent, 'orgSlug'>, channels: StoredChannels): Changes =>
  Object.values(channels).some(isWatched)
    ? { set: { gsi2pk: CANARIES, gsi2sk: `${workspaceId}#${name}` } }
    : { remove: ['gsi2pk', 'gsi2sk'] };

const namedIn = (channel: Pick<StoredChannel, 'version' | 'canary'> | undefined): Named | null =>
  channel === undefined
    ? null
    : {
        version: versionName(channel.version),
        canary: channel.canary
          ? { version: versionName(channel.canary.version), percent: channel.canary.percent }
          : null,
      };

const namedText = ({ version, canary }: Named): string =>
  canary === null ? version : `${version}, with ${canary.percent} % of the calls on ${canary.version}`;

/** Describes a change in a sentence. */
function messageOf(name: string, { from, to, why }: ChannelChange): string {
  const reason = why === null ? '' : ` (${why})`;
  if (to === null) return `The channel ${name} was deleted${reason}.`;
  if (from === null) return `The channel ${name} was created and names ${namedText(to)}${reason}.`;
  return `The channel ${name} names ${namedText(to)} instead of ${namedText(from)}${reason}.`;
}

const changeFrom = (item: Item): ChannelChange => ({
  revision: item.revision as number,
  action: item.action as Action,
  from: item.from as unknown as Named | null,
  to: item.to as unknown as Named | null,
  by: item.by as string | null,
  why: item.why as string | null,
  at: item.at as string,
});

/** Returns the names of the channels that name a version. */
export const channelsOf = (channels: StoredChannels, version: number): string[] =>
  Object.entries(channels).flatMap(([name, channel]) =>
    channel.version === version || channel.canary?.version === version ? [name] : [],
  );
