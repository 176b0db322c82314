import { expect, test } from 'vitest';
import type { Budget } from '#core/base/caller.ts';
import { newContext } from '#core/execution/sub-calls/run-context.ts';
import { checkSubCall } from '#core/execution/sub-calls/sub-call.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { newTables } from '#test/helpers/aws.ts';

const WORKSPACE = {
  id: '11111111-1111-4111-8111-111111111111',
  slug: 'ann',
  name: 'Ann',
  type: 'personal',
  createdAt: '',
} as const;

const agent = (name: string, calls: readonly string[]): AgentVersion => {
  const dependencies = calls.map((called) => ({ id: `ann/${called}`, version: 'v1' }));
  const definition = { callable: true, is_public: false, manifest: { dependencies, max_hops: 5 } };
  return { workspaceId: WORKSPACE.id, orgSlug: 'ann', name, version: 1, definition } as unknown as AgentVersion;
};

test('nested budgets are exact on DynamoDB when two runs of one chain call at once', async () => {
  const clock = new SystemClock();
  const ids = new SystemIds();
  const { counters } = await newTables(clock);
  const deps = { counters, clock, ids, main: counters, blobs: undefined as never };
  const outer: Budget = { id: ids.uuid(), ref: 'ann/mid@v1', cap: 17, spendCap: 1_000_000 };
  const inner: Budget = { id: ids.uuid(), ref: 'ann/low@v1', cap: 9 };

  const callsOf = async (name: string, budgets: readonly Budget[]): Promise<string[]> => {
    const lineage = { chain: [], maxHops: 3, budgets, isStrict: false, foreign: [] };
    const runId = ids.uuid();
    const { context } = newContext(deps, { agent: agent(name, ['leaf']), runId, workspace: WORKSPACE, lineage });
    const deadline = clock.now() + 60_000;
    const caller = { kind: 'run', runId, deadline, context, workspace: WORKSPACE, name: `ann/${name}@v1` } as const;
    const target = { version: 'v1', agent: agent('leaf', []) };
    const call = () =>
      checkSubCall(deps, caller, new Headers(), target).then(
        () => 'ok',
        (error) => error.code as string,
      );
    return Promise.all(Array.from({ length: 20 }, call));
  };

  const [mid, low] = await Promise.all([callsOf('mid', [outer]), callsOf('low', [outer, inner])]);
  const allowed = (codes: string[]) => codes.filter((code) => code === 'ok').length;
  expect(allowed(mid) + allowed(low)).toBe(17);
  expect(allowed(low)).toBeLessThanOrEqual(9);
  expect([...mid, ...low].filter((code) => code !== 'ok')).toEqual(Array(23).fill('BUDGET_EXCEEDED'));
});
