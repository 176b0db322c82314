import { Worker } from 'node:worker_threads';
import { vi } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import type { PlanName } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { type MemoryDeps, memoryDeps } from './memory-deps.ts';

let workspaces = 0;
export const newWorkspace = (plan: PlanName = 'enterprise'): Workspace => {
  const slug = `checks-${++workspaces}`;
  return { id: slug, slug, name: slug, type: 'team', createdAt: '', plan };
};

/** Creates dependencies whose free plan allows a sixth of `msPerMinute` of checks at once. */
export const withLittleTime = (defaultPlan: PlanName = 'enterprise', msPerMinute = 60): MemoryDeps =>
  memoryDeps({
    defaultPlan,
    plans: parseConfig({ PLATFORM_PLANS: JSON.stringify({ free: { validation_ms_per_minute: msPerMinute } }) }).plans,
  });

/** A schema and a value whose check runs into its time limit of one second. */
export const hostilePattern = [{ pattern: '^(a|a)*$' }, `${'a'.repeat(60)}!`] as const;

/** Returns the result of `work` and the tasks that threads received meanwhile. */
export async function withThreads<T>(
  work: () => Promise<T>,
): Promise<{ readonly tasks: readonly string[]; readonly result: T }> {
  const sent = vi.spyOn(Worker.prototype, 'postMessage');
  try {
    const result = await work();
    return { tasks: sent.mock.calls.map(([request]) => (request as { task: string }).task), result };
  } finally {
    sent.mockRestore();
  }
}

export const repeated = <T>(length: number, make: (index: number) => T): T[] =>
  Array.from({ length }, (_, index) => make(index));
