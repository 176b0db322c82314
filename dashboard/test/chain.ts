import type { RunResult } from '../../core/runs/run.ts';
import { RunStore } from '../../core/runs/store.ts';
import type { TraceEvent } from '../../core/runs/trace/trace.ts';
import type { ContentByEvent } from '../../core/runs/trace/trace-content.ts';
import type { LocalTarget } from '../../test/helpers/platform.ts';

/** Steps per run; each has two events, and a run keeps 1,000 events. */
const STEPS = 500;
const STEP_MS = 40;

/**
 * Records a completed chain with `steps` steps in runs that call each other in sequence.
 *
 * @returns the id of its first run
 */
export async function recordChain(target: LocalTarget, workspaceId: string, steps: number): Promise<string> {
  const store = new RunStore(target.deps, workspaceId);
  const rootRunId = crypto.randomUUID();
  const begin = Date.now() - 60_000;
  let parentRunId: string | undefined;
  for (let done = 0; done < steps; done += STEPS) {
    const id = parentRunId === undefined ? rootRunId : crypto.randomUUID();
    const startedAt = begin + done * (STEP_MS / 4);
    const run = {
      ...{ id, startedAt, rootRunId, ...(parentRunId !== undefined && { parentRunId }) },
      ...{
        agentId: crypto.randomUUID(),
        agentWorkspaceId: workspaceId,
        agentOrg: 'acme',
        agentName: `step-${done / STEPS}`,
      },
      ...({ agentVersion: 'v1', engine: 'managed_loop', endpoint: 'run', triggerSource: 'api', input: {} } as const),
      deadline: startedAt + 120_000,
    };
    await store.start(run);
    await store.finish(run, resultOf(stepsFrom(startedAt, Math.min(STEPS, steps - done))));
    parentRunId = id;
  }
  return rootRunId;
}

function stepsFrom(startedAt: number, count: number): TraceEvent[] {
  return Array.from({ length: count }, (_, index) => {
    const at = startedAt + index * (STEP_MS / 4);
    const event = { span: index + 1, payload: { tool_name: `tool_${index}` } };
    const end = index % 50 === 49 ? 'tool_call_failed' : 'tool_call_succeeded';
    return [
      { ...event, at, event_type: 'tool_call_started' },
      { ...event, at: at + STEP_MS, event_type: end, duration_ms: STEP_MS },
    ] as const;
  }).flat();
}

const resultOf = (trace: readonly TraceEvent[]): RunResult => ({
  ...{ status: 'completed', input: {}, output: null, stdout: '', stderr: '', trace },
  ...{ executionMs: null, exitCode: null, errorCode: null, errorMessage: null, creditsCents: 0 },
});

/** Records a run with this outcome and returns its id. */
export async function recordRun(
  target: LocalTarget,
  workspaceId: string,
  {
    result,
    contents,
    tenantId,
  }: { readonly result: Partial<RunResult>; readonly contents?: ContentByEvent; readonly tenantId?: string },
): Promise<string> {
  const id = crypto.randomUUID();
  const startedAt = Date.now() - 5_000;
  const run = {
    ...{ id, startedAt, deadline: startedAt + 60_000, input: {}, triggerSource: 'api', endpoint: 'run' },
    ...{ agentId: crypto.randomUUID(), agentWorkspaceId: workspaceId, agentOrg: 'acme', agentName: 'answers' },
    ...({ agentVersion: 'v1', engine: 'direct_llm' } as const),
    ...(tenantId !== undefined && { tenantId }),
  };
  const store = new RunStore(target.deps, workspaceId);
  await store.start(run);
  if (contents) await store.putContent(id, JSON.stringify(contents));
  await store.finish(run, { ...resultOf([]), ...result, ...(contents && { hasContent: true as const }) });
  return id;
}
