import { hasEnded } from '#core/base/run-kinds.ts';
import type { Run } from '../run.ts';
import type { TraceEvent } from './trace.ts';

/** A run in its chain with its sub-calls (`docs/interface/runs.md#call-tree`). */
export interface RunNode {
  run_id: string;
  agent_name: string;
  agent_version: string;
  status: Run['status'];
  duration_ms: number | null;
  started_at: string;
  /** US dollars; models of unknown price count as 0. */
  self_cost_usd: number;
  subtree_cost_usd: number;
  /** Percentage of the chain's total cost. */
  cost_pct: number;
  input_tokens: number;
  output_tokens: number;
  llm_model: string | null;
  llm_provider: string | null;
  trace_summary: {
    llm_calls: number;
    tool_calls: number;
    errors: number;
    total_tokens: number;
    total_cost_usd: number;
  };
  children: RunNode[];
}

/**
 * Builds a tree of the runs of a chain, given oldest first. Only ids determine the caller of a run: host clocks differ,
 * so
 * a run may seem older than its caller. A run whose caller's record has expired is attached to the root.
 */
export function buildDag(chain: readonly { readonly run: Run; readonly trace: readonly TraceEvent[] }[]) {
  const runs = chain.map(({ run }) => run);
  const root = runs.find(({ parentRunId }) => parentRunId === null) ?? runs[0];
  if (root === undefined) throw new Error('a chain has at least its root');
  const nodes = new Map(chain.map(({ run, trace }) => [run.id, nodeOf(run, trace)]));
  const tree = nodes.get(root.id)!;
  for (const { id, parentRunId } of runs) {
    if (id !== root.id) (nodes.get(parentRunId ?? '') ?? tree).children.push(nodes.get(id)!);
  }
  addCosts(tree);
  const total = tree.subtree_cost_usd;
  for (const node of nodes.values()) {
    node.cost_pct = total === 0 ? 0 : Math.round((node.subtree_cost_usd / total) * 1000) / 10;
  }
  const costs = new Map<string, number>();
  for (const { agent_name: name, self_cost_usd: cost } of nodes.values()) {
    costs.set(name, (costs.get(name) ?? 0) + cost);
  }
  const [mostExpensive] = [...costs].sort(([, a], [, b]) => b - a);
  const count = (...statuses: Run['status'][]) => runs.filter(({ status }) => statuses.includes(status)).length;
  const active = runs.filter(({ status }) => !hasEnded(status)).length;
  const completed = count('completed');
  return {
    root_run_id: root.id,
    is_live: active > 0,
    total_cost_usd: total,
    total_duration_ms: root.durationMs ?? 0,
    node_count: runs.length,
    active_count: active,
    completed_count: completed,
    failed_count: runs.length - active - completed,
    most_expensive_agent: mostExpensive !== undefined && mostExpensive[1] > 0 ? mostExpensive[0] : null,
    tree,
  };
}

/** Depth is bounded by `MAX_HOPS`. */
function addCosts(node: RunNode): number {
  for (const child of node.children) node.subtree_cost_usd += addCosts(child);
  return node.subtree_cost_usd;
}

function nodeOf(run: Run, trace: readonly TraceEvent[]): RunNode {
  const countStarted = (kind: string) => trace.filter(({ event_type }) => event_type === `${kind}_started`).length;
  const cost = run.costUsd ?? 0;
  const [input, output] = [run.inputTokens ?? 0, run.outputTokens ?? 0];
  return {
    run_id: run.id,
    agent_name: run.agentName,
    agent_version: run.agentVersion,
    status: run.status,
    duration_ms: run.durationMs,
    started_at: run.startedAt,
    self_cost_usd: cost,
    subtree_cost_usd: cost,
    cost_pct: 0,
    input_tokens: input,
    output_tokens: output,
    llm_model: run.llmModel,
    llm_provider: run.llmProvider,
    trace_summary: {
      llm_calls: countStarted('llm_call'),
      tool_calls: countStarted('tool_call'),
      errors: trace.filter(({ event_type }) => /^(error|(llm|tool)_call_failed)$/.test(event_type)).length,
      total_tokens: input + output,
      total_cost_usd: cost,
    },
    children: [],
  };
}
