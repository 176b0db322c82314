import { RunStore } from '#core/runs/store.ts';
import { benchGrowth } from './growth.ts';
import type { Row } from './harness.ts';
import type { DataStore } from './prepared-data.ts';

const DAYS = 30;
const DAY_MS = 24 * 3600 * 1000;

/** Measures usage queries with 1,000 runs and with 1,000,000. */
export const benchUsage = (): Promise<Row[]> =>
  benchGrowth({
    what: 'runs recorded',
    few: 1_000,
    many: 1_000_000,
    maxRatio: 2,
    makeOne: recordRun,
    queries: [
      '/usage',
      '/usage?tenant_id=tenant-1',
      '/usage/timeseries',
      '/usage/timeseries?granularity=hour',
      '/usage/breakdown',
      '/usage/tenants',
      '/usage/logs',
      '/usage/logs?status=failed&agent_name=agent-3',
      '/usage/logs?agent_name=agent-1',
      '/usage/logs?tenant_id=tenant-2',
      '/usage/compute',
      '/author-usage',
      '/author-usage/logs',
    ],
  });

/** Returns runs of the last 30 days, of five agents and three tenants; a tenth belong to another workspace. */
function recordRun(deps: DataStore, count: number): (n: number) => Promise<void> {
  const { workspaceId, clock } = deps;
  const own = new RunStore(deps, workspaceId);
  const stranger = new RunStore(deps, crypto.randomUUID());
  const now = clock.now();
  const agentIds = Array.from({ length: 5 }, () => crypto.randomUUID());
  return async (n) => {
    const startedAt = now - Math.floor((n / count) * (DAYS - 1) * DAY_MS);
    const run = {
      id: crypto.randomUUID(),
      agentId: agentIds[n % 5]!,
      agentWorkspaceId: workspaceId,
      agentOrg: 'main',
      agentName: `agent-${n % 5}`,
      agentVersion: 'v1',
      engine: n % 5 === 0 ? ('code_runtime' as const) : ('direct_llm' as const),
      endpoint: 'run',
      triggerSource: 'api',
      startedAt,
      deadline: startedAt + 60_000,
      tenantId: n % 2 === 0 ? `tenant-${n % 3}` : undefined,
      input: { name: 'Ada' },
    };
    const isError = n % 100 === 3;
    const runStore = n % 10 === 0 ? stranger : own;
    await runStore.start(run);
    await runStore.finish(run, {
      status: isError ? 'failed' : 'completed',
      input: run.input,
      output: { greeting: 'Hello, Ada!' },
      stdout: '',
      stderr: '',
      trace: [],
      executionMs: 40,
      exitCode: null,
      errorCode: isError ? 'LLM_ERROR' : null,
      errorMessage: isError ? 'The provider failed.' : null,
      inputTokens: 20,
      outputTokens: 10,
      creditsCents: 0,
    });
  };
}
