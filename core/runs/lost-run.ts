import type { Deps } from '#core/ports/deps.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import { type LiveEvent, liveEventsOf } from './live-events.ts';
import { shortenLog } from './masking/masking.ts';
import type { ModelCost, RunResult, SearchProvider } from './run.ts';
import { type LiveTraceEvent, recordedEvents, type TraceEvent } from './trace/trace.ts';
import { addSpending, type Spending, spentMembers, withCosts } from './usage/spending.ts';

/**
 * Reads what a run had done and spent when its host died from its written events (`live-events.ts`), which may lack the
 * last second. The contents of its trace are lost.
 *
 * @param since Epoch milliseconds: what was spent before is known (the tries of `retries.ts`).
 */
export async function knownOf(
  deps: Pick<Deps, 'runs'>,
  run: { readonly workspaceId: string; readonly runId: string },
  since = 0,
): Promise<Partial<RunResult>> {
  const told: TraceEvent[] = [];
  const printed = { stdout: '', stderr: '' };
  for await (const { type, data, at } of liveEventsOf(deps, run, 0)) {
    if (type === 'trace') told.push(withoutContent(data));
    else if (at < since) continue;
    else if (data.type === 'stdout' || data.type === 'stderr') printed[data.type] += data.text as string;
    // The program was restarted, so its earlier output no longer counts.
    else if (data.type === 'interrupted') Object.assign(printed, { stdout: '', stderr: '' });
  }
  const counted = told.filter(({ at }) => at >= since);
  const spent = counted.flatMap(spendingIn);
  return {
    stdout: shortenLog(printed.stdout),
    stderr: shortenLog(printed.stderr),
    trace: recordedEvents(told),
    ...(spent.length > 0 && spentMembers(withCosts(spent.reduce(addSpending), counted.flatMap(toolCostIn)))),
  };
}

/** What other processes told about a durable run. */
export interface Told {
  /** Number of events that they wrote. */
  readonly count: number;
  readonly events: readonly LiveTraceEvent[];
}

/** Reads what other processes told about a run that continues. */
export async function toldOf(
  deps: Pick<Deps, 'runs'>,
  run: { readonly workspaceId: string; readonly runId: string },
): Promise<Told> {
  let count = 0;
  const events: LiveTraceEvent[] = [];
  for await (const { type, data, number } of liveEventsOf(deps, run, 0)) {
    count = number;
    if (type === 'trace') events.push(data as unknown as LiveTraceEvent);
  }
  return { count, events: recordedEvents(events) };
}

function withoutContent(data: LiveEvent['data']): TraceEvent {
  const { content: _, ...event } = data as unknown as LiveTraceEvent;
  return event;
}

function spendingIn({ provider, model, token_input, cost_usd: costUsd, ...event }: TraceEvent): Spending[] {
  if (token_input === undefined) return [];
  const choice = { provider: provider as LlmProvider, model: model! };
  const { token_output = 0, cache_read_tokens, cache_write_tokens } = event;
  return [
    {
      usage: { input_tokens: token_input, output_tokens: token_output, cache_read_tokens, cache_write_tokens },
      model: choice,
      costs: [{ ...choice, costUsd }],
      costUsd,
    },
  ];
}

/** Cost of a call of a tool, such as a search. */
const toolCostIn = ({ event_type, provider, payload, cost_usd: costUsd }: TraceEvent): ModelCost[] =>
  event_type === 'tool_call_succeeded' && costUsd !== undefined
    ? [{ provider: provider as SearchProvider, model: String(payload?.tool_name), costUsd }]
    : [];
