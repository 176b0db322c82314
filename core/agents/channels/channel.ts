import { createHash } from 'node:crypto';
import { versionName } from '#core/manifest/references.ts';
import { STICKS, type Stick } from './kinds.ts';

/**
 * A name for a version (`docs/interface/channels.md`), as a member of `channels` in the HEAD of its agent. Calls read that
 * item anyway. What is shown beside it, its history and the counts of its calls, is stored elsewhere.
 */
export type StoredChannel = {
  /** Revision of the agent when the channel was created, so a deleted channel of the same name has another one. */
  readonly id: number;
  /** Number of the version that calls run. */
  readonly version: number;
  readonly canary?: StoredCanary;
  /** Versions that it named before, the last one at the end; without those that a rollback left. */
  readonly before: readonly number[];
  /** From 1, one more after each change. */
  readonly revision: number;
  readonly created_at: string;
  readonly updated_at: string;
};

/** A version that gets a part of the calls of a channel. */
export type StoredCanary = {
  readonly version: number;
  /** From 0 to 100, with at most two decimals. */
  readonly percent: number;
  /** What a caller sticks by. @default - the first of {@link STICKS} that the call has */
  readonly key?: Stick;
  readonly max_error_rate: number;
  readonly min_calls: number;
  /** @default - its online scores do not matter */
  readonly min_score?: number;
  /** Why the platform took it back. @default - it did not */
  readonly taken_back?: TakenBack;
};

export type TakenBack = {
  readonly at: string;
  readonly calls: number;
  readonly failed: number;
  /** The mean of its online scores, if it was below `min_score`. */
  readonly score?: { readonly mean: number; readonly runs: number; readonly min: number };
  /** Whether the workspace has the message about it. */
  readonly is_told: boolean;
};

export type StoredChannels = { readonly [name: string]: StoredChannel };

/** What a call has that its caller can stick by: the tenant, the session as the call names it, and the id of the key. */
export type Sticking = { readonly [Name in Stick]?: string | undefined };

/** The channel by which a call found its version, for the record of its run. */
export interface CalledChannel {
  readonly name: string;
  readonly id: number;
  readonly revision: number;
  readonly isCanary: boolean;
}

/** Returns a channel of an agent; `undefined` if there is none of this name. */
export const channelIn = (channels: StoredChannels, name: string): StoredChannel | undefined =>
  Object.hasOwn(channels, name) ? channels[name] : undefined;

/** Number of buckets: a percentage has two decimals. */
const BUCKETS = 10_000;

/**
 * Whether a call belongs to the canary. Without a value to stick by, the bucket is random. Otherwise it follows from the agent,
 * the channel, the version of the canary and the value, and from nothing else. A larger percentage adds buckets, so those
 * who are on the canary stay there; another canary has other ones, so it is not always the same callers that try what is new.
 */
export function isOnCanary(
  agent: { readonly workspaceId: string; readonly name: string },
  { id, canary }: Pick<StoredChannel, 'id' | 'canary'>,
  sticking: Sticking,
): boolean {
  if (canary === undefined || canary.percent === 0) return false;
  return (
    bucketOf([agent.workspaceId, agent.name, id, canary.version], stuckTo(canary.key, sticking)) < canary.percent * 100
  );
}

/** Returns a bucket, at random without a value. */
export function bucketOf(salt: readonly (string | number)[], value: string | undefined): number {
  if (value === undefined) return Math.floor(Math.random() * BUCKETS);
  const digest = createHash('sha256')
    .update([...salt, value].join('\n'))
    .digest();
  return digest.readUIntBE(0, 6) % BUCKETS;
}

function stuckTo(key: Stick | undefined, sticking: Sticking): string | undefined {
  const name = key ?? STICKS.find((each) => sticking[each] !== undefined);
  return name === undefined || sticking[name] === undefined ? undefined : `${name}:${sticking[name]}`;
}

/** Names the versions of a channel in words, such as `v3, with 10 % of the calls on v4`. */
export function textOf({ version, canary }: Pick<StoredChannel, 'version' | 'canary'>): string {
  if (canary === undefined) return versionName(version);
  return `${versionName(version)}, with ${canary.percent} % of the calls on ${versionName(canary.version)}`;
}

/** Whether background work has something to do: a canary gets calls, or it was taken back and the workspace was not told yet. */
export const isWatched = ({ canary }: StoredChannel): boolean =>
  canary !== undefined &&
  (canary.taken_back === undefined ? canary.percent > 0 && mayBeTakenBack(canary) : !canary.taken_back.is_told);

const mayBeTakenBack = ({ max_error_rate, min_score }: StoredCanary): boolean =>
  max_error_rate < 1 || min_score !== undefined;

/** Returns how often the calls failed, from 0 to 1. */
export const errorRate = ({ calls, failed }: Pick<TakenBack, 'calls' | 'failed'>): number =>
  calls === 0 ? 0 : failed / calls;

/** What happened on a canary's side of its channel. `meanScore` is null without an online score. */
export interface CanaryCounts {
  readonly calls: number;
  readonly failed: number;
  readonly scored: number;
  readonly meanScore: number | null;
}

/** Returns why a canary is to be taken back; `undefined` if it is not. */
export function verdictOn(
  { max_error_rate, min_calls, min_score }: StoredCanary,
  { calls, failed, scored, meanScore }: CanaryCounts,
): Pick<TakenBack, 'calls' | 'failed' | 'score'> | undefined {
  const counts = { calls, failed };
  if (calls >= min_calls && errorRate(counts) > max_error_rate) return counts;
  if (min_score === undefined || meanScore === null || scored < min_calls || meanScore >= min_score) return undefined;
  return { ...counts, score: { mean: meanScore, runs: scored, min: min_score } };
}

/** Why a canary was taken back. */
export function whyTakenBack({ score, ...counts }: Pick<TakenBack, 'calls' | 'failed' | 'score'>): string {
  if (score === undefined) return `error rate ${errorRate(counts).toFixed(2)} over ${counts.calls} calls`;
  return `mean score ${score.mean.toFixed(2)} over ${score.runs} scored runs, less than ${score.min}`;
}
