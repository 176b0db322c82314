import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { TransactOperation } from '#core/ports/table.ts';
import type { NewRun, Run } from '../run.ts';
import type { RunUsage } from './ended-run.ts';
import type { SumChange } from './sum-change.ts';

/** Sides of a channel in sort keys. */
const SIDES = { version: 'v', canary: 'c' } as const;

const channelPartition = (workspaceId: string, agent: string, id: number): string =>
  `WS#${workspaceId}#CHANNEL#${agent}#${id}`;
const revisionPrefix = (revision: number): string => `${String(revision).padStart(9, '0')}#`;

/** Scores are summed in millionths: decimals of any length would not add up exactly. */
const MICRO = 1_000_000;

/** Longer than a canary usually lasts: what is older says nothing about a change of today. */
const CHANNEL_KEPT_SECONDS = 90 * 24 * 3600;

/** Counts the call of a channel. A cancelled one says nothing about its version. */
export function channelSum(run: NewRun, { status }: RunUsage, shard: string): SumChange | undefined {
  const { channel, agentWorkspaceId, agentName, startedAt } = run;
  if (channel === undefined || status === 'cancelled') return undefined;
  const side = SIDES[channel.isCanary ? 'canary' : 'version'];
  return {
    key: {
      pk: channelPartition(agentWorkspaceId, agentName, channel.id),
      sk: `${revisionPrefix(channel.revision)}${side}#${shard}`,
    },
    set: { ttl: epochSeconds(startedAt) + CHANNEL_KEPT_SECONDS },
    add: { calls: 1, ...(status !== 'completed' && { failed: 1 }) },
  };
}

/** Counts the online score of a call of a channel, beside its end. */
export function channelScore(
  { channel, workspaceId, agentName, startedAt }: Run,
  value: number,
): TransactOperation | undefined {
  if (channel === undefined) return undefined;
  const side = SIDES[channel.isCanary ? 'canary' : 'version'];
  return {
    op: 'update',
    key: {
      pk: channelPartition(workspaceId, agentName, channel.id),
      sk: `${revisionPrefix(channel.revision)}${side}#scores`,
    },
    changes: {
      set: { ttl: epochSeconds(Date.parse(startedAt)) + CHANNEL_KEPT_SECONDS },
      add: { scored: 1, score_micro: Math.round(value * MICRO) },
    },
  };
}

/** Ended calls of one side of a channel. */
export interface SideCalls {
  readonly calls: number;
  readonly failed: number;
  /** Number of runs with an online score. */
  readonly scored: number;
  /** Mean of these scores; null without any. */
  readonly meanScore: number | null;
}

/** Ended calls of a channel since its last change, by side. */
export type ChannelCalls = { readonly [Side in keyof typeof SIDES]: SideCalls };

/** Returns the calls of a channel that have ended since it has this revision. */
export async function channelCallsOf(
  { runs, endedRuns }: Pick<Deps, 'runs' | 'endedRuns'>,
  { workspaceId, name }: { readonly workspaceId: string; readonly name: string },
  { id, revision }: { readonly id: number; readonly revision: number },
): Promise<ChannelCalls> {
  await endedRuns?.settle();
  const pk = channelPartition(workspaceId, name, id);
  const { items } = await runs.query({ pk, sk: { beginsWith: revisionPrefix(revision) } });
  const sumOfSide = (side: string): SideCalls => {
    const own = items.filter(({ sk }) => sk.split('#')[1] === side);
    const total = (name: string) => own.reduce((sum, item) => sum + ((item[name] as number) ?? 0), 0);
    const scored = total('scored');
    const meanScore = scored === 0 ? null : Math.round(total('score_micro') / scored) / MICRO;
    return { calls: total('calls'), failed: total('failed'), scored, meanScore };
  };
  return { version: sumOfSide(SIDES.version), canary: sumOfSide(SIDES.canary) };
}
