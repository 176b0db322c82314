import { hasEnded, isInstallation } from '#core/base/run-kinds.ts';
import { parseVersion } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import type { Evaluation, StoredCase } from './eval.ts';
import type { EndedRun } from './run-once.ts';

/**
 * Reads the recorded run that a case was taken from, or says why it cannot be graded. A run of another workspace reads like one that never was.
 */
export async function observedRun(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>,
  { workspaceId, agentName, firstVersion }: Pick<Evaluation, 'workspaceId' | 'agentName' | 'firstVersion'>,
  { run: runId, asserts }: Pick<StoredCase, 'run' | 'asserts'>,
): Promise<EndedRun | { readonly problem: string }> {
  const runs = new RunStore(deps, workspaceId);
  const found = await runs.withBody(runId!);
  const refused = (why: string) => ({ problem: `the recorded run ${runId} ${why}` });
  if (found === undefined) return refused('is not in this workspace: it was never, or it is older than the retention');
  const { run, body } = found;
  const version = parseVersion(run.agentVersion);
  const isOwn = run.agentWorkspaceId === workspaceId && run.agentName === agentName && Number(version) >= firstVersion;
  if (!isOwn || isInstallation(run)) return refused(`is not one of the agent ${agentName}`);
  if (run.isErased) return refused('was erased');
  if (!hasEnded(run.status)) return refused('has not ended');
  const calls = body.trace.filter(({ event_type }) => event_type === 'tool_call_started').length;
  if (calls > 0 && asserts.some(({ type }) => type === 'tool-args') && body.hasContent !== true) {
    return refused('has no arguments of tools, which tool-args reads: the workspace did not record them');
  }
  return found;
}
