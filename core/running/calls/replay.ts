import { devUserOf, findDev } from '#core/agents/dev/slots.ts';
import { DEV, refOf } from '#core/agents/references.ts';
import { findAnyVersion } from '#core/agents/store.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { topOfChain } from '../sub-calls/lineage.ts';
import { finishInBackground, startCall } from './call.ts';
import { actingWorkspace } from './target.ts';

/**
 * Repeats a run: starts the same version with the recorded input, in the background. Returns the id of the former run.
 *
 * Throws NOT_FOUND, UNPROCESSABLE for a run that cannot be repeated (an installation, a run with files or secrets in its
 * input, a deleted version), FORBIDDEN for an agent that is no longer shared, and what `startCall` throws.
 */
export async function replayRun(
  deps: Deps,
  { caller, name, runId, receivedAt }: { caller: Caller; name: string; runId: string; receivedAt: number },
): Promise<string> {
  const runs = new RunStore(deps, caller.workspace.id);
  const run = await runs.findByName(name);
  const cannot = (why: string) => new PlatformError('UNPROCESSABLE', `The run ${run.id} cannot be repeated: ${why}.`);
  if (run.triggerSource === 'install') throw cannot('it was an installation, which uploading the bundle again repeats');
  const [agent, body] = await Promise.all([findRunAgent(deps, caller, run), runs.body(run.id)]);
  if (agent === undefined) throw cannot(`${run.agentOrg}/${run.agentName} ${run.agentVersion} was deleted`);
  const input = body?.input;
  if (typeof input !== 'object' || input === null || Array.isArray(input)) throw cannot('its input is no longer kept');
  if (hasFiles(input)) throw cannot('it was given files, which are not kept');
  if (holdsMasked(input)) throw cannot('its input had the value of a secret in it, which is not kept');
  await actingWorkspace(deps, caller, agent, true);
  const started = await startCall(deps, {
    agent,
    endpoint: run.endpoint,
    input: { document: input, uploads: [], isMultipart: false },
    workspace: caller.workspace,
    runId,
    triggerSource: 'replay',
    receivedAt,
    lineage: topOfChain(agent),
    skillHeaders: {},
    tenantId: run.tenantId ?? undefined,
    replayOf: run.id,
  });
  finishInBackground(deps, started);
  deps.log.info('run replayed', { run_id: runId, replay_of: run.id, agent: refOf(agent) });
  return run.id;
}

/** The version of a run; of a run of `dev` what the caller's own `dev` is now. */
async function findRunAgent(deps: Deps, caller: Caller, run: Run): Promise<AgentVersion | undefined> {
  if (run.agentVersion !== DEV) return findAnyVersion(deps, run.agentId);
  const userId = devUserOf(caller);
  const place = { workspaceId: run.agentWorkspaceId, name: run.agentName };
  return userId === undefined ? undefined : findDev(deps, { ...place, userId });
}

/** Whether the input lists files of its call, as those of programs and loops do, with their paths, and those of prompts. */
const hasFiles = ({ files }: { readonly [member: string]: Json }): boolean =>
  Array.isArray(files) &&
  files.some((file) => {
    const { original_name, content_type, size_bytes } = (file ?? {}) as { [member: string]: Json };
    return typeof original_name === 'string' && typeof content_type === 'string' && Number.isInteger(size_bytes);
  });

/** Whether `SecretMask` replaced a value: the agent would get the mask instead of it. */
const holdsMasked = (input: Json): boolean => /\[secret [A-Z][A-Z0-9_]*\]/.test(JSON.stringify(input));
