import { dayOf } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { daysBetween } from '../usage/period.ts';
import { listServiceDays } from '../usage/service-minutes.ts';
import { UsageStore } from '../usage/store.ts';
import { MICRO_PER_CENT } from './policy.ts';
import { RecentReads } from './recent-reads.ts';

/** Spend in millionths of a US dollar. */
export interface Spend {
  readonly models: number;
  readonly credits: number;
  readonly compute: number;
  /** Number of runs that used a model without a known price; its cost is missing from the sums. */
  readonly unpricedRuns: number;
}

/** A workspace's spend on one agent, `org/agent`, on one UTC day. */
interface DayOfAgent extends Spend {
  readonly day: string;
  readonly agent: string;
  /** Number of ended runs. */
  readonly runs: number;
}

type SpendDeps = Pick<Deps, 'runs' | 'clock' | 'config' | 'endedRuns'>;

/** Sums at a point in time. */
export interface SpentDays {
  readonly days: readonly DayOfAgent[];
  /** Epoch milliseconds; the sums include everything recorded before. */
  readonly at: number;
}

/** This long after a day's end, every run that began on it has ended or was given up. */
const SETTLED_AFTER_MS = 3_600_000;
const SETTLED_KEPT_MS = 600_000;

/** Past days no longer change, except for a rare late report of a service. */
const settledReads = new RecentReads<readonly DayOfAgent[]>();
const openReads = new RecentReads<SpentDays>();

/** Returns the cost of a sandbox that ran for `ms`, in millionths of a US dollar. */
export const computeMicro = ({ config }: Pick<Deps, 'config'>, ms: number): number =>
  ms * config.computeUsdPerSecond * 1000;

/**
 * Reads the spend of a workspace by agent and day, starting with the day of `since` (epoch milliseconds). Runs count
 * once
 * they have ended, on the day on which they began. Sums of today are at most `maxAgeMs` old.
 */
export async function readSpend(
  deps: SpendDeps,
  workspaceId: string,
  since: number,
  maxAgeMs: number,
): Promise<SpentDays> {
  const { runs: table, clock } = deps;
  const now = clock.now();
  const lastSettled = now - SETTLED_AFTER_MS - DAY_MS;
  const firstOpen = Math.max(since, lastSettled + DAY_MS);
  const read = (from: number, until: number) => () => readDays(deps, workspaceId, from, until);
  const open = openReads.get({ table, clock }, `${workspaceId} ${dayOf(firstOpen)}`, maxAgeMs, async () => {
    // Otherwise the read itself would sum runs that it may lack.
    await deps.endedRuns?.settle();
    const at = clock.now();
    return { at, days: await read(firstOpen, now)() };
  });
  if (dayOf(since) > dayOf(lastSettled)) return open;
  const key = `${workspaceId} ${dayOf(since)} ${dayOf(lastSettled)}`;
  const settled = settledReads.get({ table, clock }, key, SETTLED_KEPT_MS, read(since, lastSettled));
  const [before, { days, at }] = await Promise.all([settled, open]);
  return { days: [...before, ...days], at };
}

const DAY_MS = 24 * 3_600_000;

async function readDays(
  deps: SpendDeps,
  workspaceId: string,
  from: number,
  until: number,
): Promise<readonly DayOfAgent[]> {
  const days = daysBetween(from, until);
  const [rollups, services] = await Promise.all([
    new UsageStore(deps, workspaceId).rollups(days),
    Array.fromAsync(listServiceDays(deps, workspaceId, days)),
  ]);
  return [
    ...rollups.map(({ day, agentOrg, agentName, totals }) => ({
      day,
      agent: `${agentOrg}/${agentName}`,
      models: totals.model_microusd ?? 0,
      credits: (totals.credits_cents ?? 0) * MICRO_PER_CENT,
      compute: computeMicro(deps, totals.compute_ms ?? 0),
      unpricedRuns: totals.unpriced_runs ?? 0,
      runs: totals.runs ?? 0,
    })),
    ...services.map(({ day, agentOrg, agentName, ms }) => ({
      day,
      agent: `${agentOrg ?? ''}/${agentName}`,
      models: 0,
      credits: 0,
      compute: computeMicro(deps, ms),
      unpricedRuns: 0,
      runs: 0,
    })),
  ];
}

/** Sums the days from `since` (epoch milliseconds) on, of one agent if given. */
export function sumSpend(days: readonly DayOfAgent[], since: number, agent: string | null): Spend {
  const first = dayOf(since);
  const counted = days.filter((each) => each.day >= first && (agent === null || each.agent === agent));
  const sum = (of: keyof Spend) => counted.reduce((all, each) => all + each[of], 0);
  return { models: sum('models'), credits: sum('credits'), compute: sum('compute'), unpricedRuns: sum('unpricedRuns') };
}

/**
 * Returns the expected cost of a run in addition to its price: the mean of the agent's runs on these days, 0 if it has
 * not
 * run on them.
 */
export function meanCost(days: readonly DayOfAgent[], agent: string): number {
  const own = days.filter((each) => each.agent === agent && each.runs > 0);
  const runs = own.reduce((sum, each) => sum + each.runs, 0);
  return runs === 0 ? 0 : own.reduce((sum, { models, compute }) => sum + models + compute, 0) / runs;
}

export const totalOf = ({ models, credits, compute }: Spend): number => models + credits + compute;
