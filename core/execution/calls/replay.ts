import { devUserOf, findDev } from '#core/agents/dev/slots.ts';
import { AgentStore, findAnyVersion } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { isInstallation } from '#core/base/run-kinds.ts';
import { DEV, parseVersion, refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { topOfChain } from '../sub-calls/lineage.ts';
import { type StartedCall, startCall } from './call.ts';
import { actingWorkspace } from './target.ts';

interface Replay {
  readonly caller: Caller;
  /** Id of the original run, or the first digits of it. */
  readonly name: string;
  /** Id of the new run. */
  readonly runId: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** Replaces the recorded input. */
  readonly input?: { readonly [member: string]: Json } | undefined;
  /** Replaces the original run's version: `v3` or `latest`. */
  readonly agentVersion?: string | undefined;
}

/**
 * Starts a run again with its original input and version, or with another version or input. The caller must call
 * `finish`
 * on the result. No run is started twice with the same `runId`.
 *
 * Throws NOT_FOUND, UNPROCESSABLE for a run that cannot be replayed (an installation, a run with files or secrets in
 * its
 * input, a deleted version), FORBIDDEN for an agent that is no longer shared, and what `startCall` throws.
 */
export async function startReplay(deps: Deps, replay: Replay): Promise<{ original: string; started: StartedCall }> {
  const { caller, name, runId, receivedAt } = replay;
  const runs = new RunStore(deps, caller.workspace.id);
  const run = await runs.findByName(name);
  const cannot = (why: string) => new PlatformError('UNPROCESSABLE', `The run ${run.id} cannot be repeated: ${why}.`);
  if (isInstallation(run)) throw cannot('it was an installation; upload the bundle again instead');
  const [agent, body] = await Promise.all([
    versionOf(deps, caller, run, replay.agentVersion),
    replay.input === undefined ? runs.body(run.id) : undefined,
  ]);
  if (agent === undefined) {
    const wanted = replay.agentVersion;
    const lacks = wanted === undefined ? `${run.agentVersion} was deleted` : `has no version ${wanted} that can run`;
    throw cannot(`${run.agentOrg}/${run.agentName} ${lacks}`);
  }
  const input = replay.input ?? body?.input;
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw cannot('its input is no longer stored');
  if (hasFiles(input)) throw cannot('its input had files, which are not stored');
  if (holdsMasked(input)) {
    throw cannot(
      replay.input === undefined
        ? 'its input contained the value of a secret, which is not stored'
        : 'body.input contains a masked secret, which the agent would receive as is',
    );
  }
  await actingWorkspace(deps, caller, agent, true);
  const started = await startCall(deps, {
    agent,
    endpoint: run.endpoint,
    input: { document: input, uploads: [], isMultipart: false },
    workspace: caller.workspace,
    runId,
    triggerSource: 'replay',
    isUnattended: true,
    receivedAt,
    lineage: topOfChain(agent),
    skillHeaders: {},
    tenantId: run.tenantId ?? undefined,
    replayOf: run.id,
    ...(run.scheduled && { scheduled: run.scheduled }),
  });
  if (run.isExhausted) await runs.noteReplay(run.id);
  deps.log.info('run replayed', { run_id: runId, replay_of: run.id, agent: refOf(agent) });
  return { original: run.id, started };
}

/**
 * Finds the version to replay: the requested one of the same agent, or the run's own; for a run of `dev`, the caller's
 * current `dev`.
 */
async function versionOf(
  deps: Deps,
  caller: Caller,
  run: Run,
  wanted: string | undefined,
): Promise<AgentVersion | undefined> {
  const place = { workspaceId: run.agentWorkspaceId, name: run.agentName };
  if (wanted !== undefined) {
    const number = parseVersion(wanted);
    return number === undefined ? undefined : new AgentStore(deps, place.workspaceId).findVersion(place.name, number);
  }
  if (run.agentVersion !== DEV) return findAnyVersion(deps, run.agentId);
  const userId = devUserOf(caller);
  return userId === undefined ? undefined : findDev(deps, { ...place, userId });
}

/** Whether the input lists uploaded files, either with paths as for programs and loops, or as for prompts. */
const hasFiles = ({ files }: { readonly [member: string]: Json }): boolean =>
  Array.isArray(files) &&
  files.some((file) => {
    const { original_name, content_type, size_bytes } = (file ?? {}) as { [member: string]: Json };
    return typeof original_name === 'string' && typeof content_type === 'string' && Number.isInteger(size_bytes);
  });

/** Whether `SecretMask` replaced a value, in which case the agent would receive the mask. */
const holdsMasked = (input: Json): boolean => /\[secret [A-Z][A-Z0-9_]*\]/.test(JSON.stringify(input));
