import { expect, test } from 'vitest';
import type { Run } from '../run.ts';
import { buildDag, type RunNode } from './dag.ts';
import type { TraceEvent } from './trace.ts';

/** A run of the agent `name` that began `second` seconds into the day. */
const run = (id: string, parentRunId: string | null, second: number, more: Partial<Run> = {}): Run => ({
  id,
  workspaceId: 'w',
  agentId: 'a',
  agentWorkspaceId: 'w',
  agentOrg: 'acme',
  agentName: id,
  agentVersion: 'v1',
  engine: 'code_runtime',
  endpoint: 'run',
  status: 'completed',
  triggerSource: 'api',
  startedAt: new Date(second * 1000).toISOString(),
  createdAt: new Date(second * 1000).toISOString(),
  runAt: null,
  deadline: 0,
  parentRunId,
  rootRunId: 'top',
  replayOf: null,
  branch: null,
  isDurable: false,
  tenantId: null,
  sessionId: null,
  scheduleId: null,
  scheduled: null,
  completedAt: null,
  durationMs: 10,
  executionMs: null,
  exitCode: null,
  errorCode: null,
  errorMessage: null,
  inputTokens: null,
  outputTokens: null,
  cacheReadTokens: null,
  cacheWriteTokens: null,
  llmProvider: null,
  llmModel: null,
  costUsd: null,
  retries: null,
  nextTryAt: null,
  heldBy: null,
  hasBegun: true,
  isExhausted: false,
  creditsCents: 0,
  ...more,
});

const shape = ({ run_id, children }: RunNode): unknown =>
  children.length === 0 ? run_id : [run_id, ...children.map(shape)];

const dagOf = (runs: readonly Run[], traceOf: (id: string) => readonly TraceEvent[] = () => []) =>
  buildDag(runs.map((each) => ({ run: each, trace: traceOf(each.id) })));

test('costs and counts add up towards the root', () => {
  const dag = dagOf(
    [
      run('top', null, 0, { status: 'running', durationMs: null, costUsd: 0.1 }),
      run('left', 'top', 1, { costUsd: 0.2 }),
      run('right', 'top', 2, { status: 'timeout' }),
      run('leaf', 'left', 3, { costUsd: 0.1, inputTokens: 5, outputTokens: 2, status: 'failed' }),
    ],
    (id) =>
      id === 'leaf'
        ? [
            { event_type: 'llm_call_started', at: 1 },
            { event_type: 'llm_call_failed', at: 2 },
            { event_type: 'tool_call_started', at: 3 },
            { event_type: 'error', at: 4 },
          ]
        : [],
  );
  expect(dag).toMatchObject({
    root_run_id: 'top',
    is_live: true,
    node_count: 4,
    active_count: 1,
    completed_count: 1,
    failed_count: 2,
    most_expensive_agent: 'left',
  });
  expect(dag.total_cost_usd).toBeCloseTo(0.4, 12);
  expect(shape(dag.tree)).toEqual(['top', ['left', 'leaf'], 'right']);
  const [left, right] = dag.tree.children;
  expect(left).toMatchObject({ self_cost_usd: 0.2, cost_pct: 75 });
  expect(left!.subtree_cost_usd).toBeCloseTo(0.3, 12);
  expect(right).toMatchObject({ subtree_cost_usd: 0, cost_pct: 0 });
  expect(left!.children[0]).toMatchObject({
    cost_pct: 25,
    trace_summary: { llm_calls: 1, tool_calls: 1, errors: 2, total_tokens: 7, total_cost_usd: 0.1 },
  });
});

test('a chain that cost nothing has no most expensive agent', () => {
  const dag = dagOf([run('top', null, 0), run('a', 'top', 1)]);
  expect(dag).toMatchObject({ is_live: false, total_cost_usd: 0, most_expensive_agent: null });
  expect(dag.tree.cost_pct).toBe(0);
});

test('the tree stays the same if the clocks of two hosts disagree', () => {
  const dag = dagOf([run('leaf', 'mid', 1, { costUsd: 1 }), run('mid', 'top', 2, { costUsd: 1 }), run('top', null, 3)]);
  expect(dag.root_run_id).toBe('top');
  expect(shape(dag.tree)).toEqual(['top', ['mid', 'leaf']]);
  expect(dag.tree.subtree_cost_usd).toBe(2);
});
