import { parseConfig } from '#core/base/config.ts';
import type { PlanName } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { type MemoryDeps, memoryDeps } from './memory-deps.ts';

let workspaces = 0;
export const newWorkspace = (plan: PlanName = 'enterprise'): Workspace => {
  const slug = `checks-${++workspaces}`;
  return { id: slug, slug, name: slug, type: 'team', createdAt: '', plan };
};

/** Workspaces of the free plan have 10 ms for checks at once. */
export const withLittleTime = (defaultPlan: PlanName = 'enterprise'): MemoryDeps =>
  memoryDeps({
    defaultPlan,
    plans: parseConfig({ PLATFORM_PLANS: '{"free": {"validation_ms_per_minute": 60}}' }).plans,
  });

/** A schema and a value: the check takes a second, which is where its own limit ends it. */
export const hostilePattern = [{ pattern: '^(a|a)*$' }, `${'a'.repeat(60)}!`] as const;

/**
 * The milliseconds of a processor that this thread took for `work`: unlike time, they are the same on a busy machine. Without
 * those of the garbage collector, which are a matter of the tests before.
 */
export async function onThisThread<T>(work: () => Promise<T>): Promise<{ readonly ms: number; readonly result: T }> {
  const collections = new PerformanceObserver(() => {});
  collections.observe({ entryTypes: ['gc'] });
  const before = process.threadCpuUsage();
  const result = await work();
  const { user, system } = process.threadCpuUsage(before);
  const collected = collections.takeRecords().reduce((sum, { duration }) => sum + duration, 0);
  collections.disconnect();
  return { ms: (user + system) / 1000 - collected, result };
}

export const repeated = <T>(length: number, make: (index: number) => T): T[] =>
  Array.from({ length }, (_, index) => make(index));
