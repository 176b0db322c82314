import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import { watchForCancel } from '#core/runs/cancellation.ts';
import type { Trace } from '#core/runs/trace.ts';
import type { EngineResult, EngineRun } from '../engines/engine.ts';
import type { ProgressEvent } from '../engines/progress.ts';
import { runEngine } from '../engines/run-engine.ts';
import { skillEnvironment, skillFiles } from '../skills/skill-files.ts';
import { contextEnvironment } from '../sub-calls/run-context.ts';
import { isPrompt, type PreparedCall } from './prepare.ts';
import { credentialEnvironment } from './secrets.ts';

/** Runs the agent of an admitted call, until it ends or is cancelled. Never throws. */
export async function runAgent(
  deps: Deps,
  call: PreparedCall,
  { trace, emit }: { readonly trace: Trace; readonly emit?: (event: ProgressEvent) => void },
): Promise<EngineResult> {
  const { runId, workspace, lineage, agent, mask, skills, issued } = call;
  const cancellation = watchForCancel(deps, workspace.id, { id: runId, parentRunId: lineage.parentRunId });
  const run: EngineRun = {
    runId,
    workspaceId: workspace.id,
    agent,
    input: call.input,
    skills,
    models: call.models,
    isStrict: issued?.context.isStrict ?? false,
    files: isPrompt(agent) ? [] : skillFiles(skills),
    env: sandboxEnvironment(deps, call),
    mask,
    deadline: call.deadline,
    signal: cancellation.signal,
    isSubCall: lineage.parentRunId !== undefined,
    isWatched: emit !== undefined,
    emit: (event) => emit?.(mask.json(event as Json) as unknown as ProgressEvent),
    trace,
  };
  return runEngine(deps, run).finally(() => cancellation.stop());
}

const sandboxEnvironment = (
  { gatewayUrl }: Pick<Deps, 'gatewayUrl'>,
  { secrets, input, skills, issued, deadline }: PreparedCall,
): Record<string, string> => ({
  ...secrets,
  ...credentialEnvironment(input.llmCredentials),
  ...skillEnvironment(skills),
  ...(issued && contextEnvironment(issued, { gatewayUrl, deadline })),
});
