import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import { devUserOf, findDev } from '#core/agents/dev/slots.ts';
import { AgentStore, findAnyVersion, type Resolved } from '#core/agents/store.ts';
import { type Caller, callingUser } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { lazy } from '#core/base/lazy.ts';
import { isInstallation } from '#core/base/run-kinds.ts';
import { isChannelName } from '#core/manifest/channel-name.ts';
import { DEV, refOf } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import type { BranchRequest, prepareBranch } from '../durable/branch.ts';
import type { BeginJournal } from '../durable/durable-run.ts';
import { topOfChain } from '../sub-calls/lineage.ts';
import { type StartedCall, startCall } from './call.ts';
import type { Call } from './prepare.ts';
import { actingWorkspace } from './target.ts';

/** Loaded lazily: few replays begin from a turn, and smaller functions start faster. */
const branches = lazy(() => import('../durable/branch.ts'));

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
  /** Replaces the original run's version: `v3`, `latest` or a channel. */
  readonly agentVersion?: string | undefined;
  /** Begins again from a turn. @default - from the beginning */
  readonly branch?: BranchRequest | undefined;
}

/**
 * Starts a run again with its original input and version, or with another version or input, or from one of its turns. The
 * caller must call `finish` on the result. No run is started twice with the same `runId`.
 *
 * Throws NOT_FOUND, UNPROCESSABLE for a run that cannot be replayed (an installation, a run with files or secrets in its
 * input, a deleted version), FORBIDDEN for an agent that is no longer shared, and what `prepareBranch` and `startCall` throw.
 */
export async function startReplay(deps: Deps, replay: Replay): Promise<{ original: string; started: StartedCall }> {
  const { caller, name, runId, receivedAt } = replay;
  const runs = new RunStore(deps, caller.workspace.id);
  const run = await runs.findByName(name);
  if (isInstallation(run)) throw cannotRepeat(run, 'it was an installation; upload the bundle again instead');
  const hasOwnInput = replay.input !== undefined || replay.branch !== undefined;
  const [{ agent, channel } = {}, body] = await Promise.all([
    versionOf(deps, caller, run, replay.agentVersion),
    hasOwnInput ? undefined : runs.body(run.id),
  ]);
  if (agent === undefined) {
    const wanted = replay.agentVersion;
    const lacks =
      wanted === undefined
        ? `${run.agentVersion} was deleted`
        : `has no ${isChannelName(wanted) ? 'channel' : 'version'} ${wanted} that can run`;
    throw cannotRepeat(run, `${run.agentOrg}/${run.agentName} ${lacks}`);
  }
  const { beginJournal, ...begins } =
    replay.branch === undefined
      ? withInput(run, replay.input, body?.input)
      : await fromTurn(deps, caller, { run, agent, request: replay.branch });
  await actingWorkspace(deps, caller, agent, true);
  const call: Call = {
    agent,
    channel,
    endpoint: run.endpoint,
    ...begins,
    workspace: caller.workspace,
    runId,
    triggerSource: 'replay',
    ...callingUser(caller),
    isUnattended: true,
    receivedAt,
    lineage: topOfChain(agent),
    tenantId: run.tenantId ?? undefined,
    replayOf: run.id,
    ...(run.scheduled && { scheduled: run.scheduled }),
  };
  const started = await startCall(deps, call, beginJournal);
  if (run.isExhausted) await runs.noteReplay(run.id);
  deps.log.info('run replayed', { run_id: runId, replay_of: run.id, agent: refOf(agent) });
  return { original: run.id, started };
}

type Beginning = Pick<Call, 'input' | 'skillHeaders' | 'branch'> & { readonly beginJournal?: BeginJournal };

/** Checks the input of a run that begins at its beginning: the sent one, or the recorded one. */
function withInput(run: Run, sent: Json | undefined, recorded: Json | null | undefined): Beginning {
  const input = sent ?? recorded;
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw cannotRepeat(run, 'its input is no longer stored');
  if (hasFiles(input)) throw cannotRepeat(run, 'its input had files, which are not stored');
  if (holdsMasked(input)) {
    throw cannotRepeat(
      run,
      sent === undefined
        ? 'its input contained the value of a secret, which is not stored'
        : 'body.input contains a masked secret, which the agent would receive as is',
    );
  }
  return { input: { document: input, uploads: [], isMultipart: false }, skillHeaders: {} };
}

/** Reads what the original run did, which takes time also if the request is refused. */
const fromTurn = (deps: Deps, { workspace }: Caller, wanted: Parameters<typeof prepareBranch>[1]): Promise<Beginning> =>
  chargeIfRejected(deps, workspace, async () => (await branches()).prepareBranch(deps, wanted));

const cannotRepeat = ({ id }: Run, why: string): PlatformError =>
  new PlatformError('UNPROCESSABLE', `The run ${id} cannot be repeated: ${why}.`);

/**
 * Finds the version to replay: the requested one of the same agent, or the run's own; for a run of `dev`, the caller's
 * current `dev`.
 */
async function versionOf(
  deps: Deps,
  caller: Caller,
  run: Run,
  wanted: string | undefined,
): Promise<Partial<Resolved> | undefined> {
  const place = { workspaceId: run.agentWorkspaceId, name: run.agentName };
  if (wanted !== undefined) {
    const sticking = { tenant: run.tenantId ?? undefined, session: run.sessionId ?? undefined, key: caller.keyId };
    return new AgentStore(deps, place.workspaceId).resolve(place.name, wanted, sticking);
  }
  if (run.agentVersion !== DEV) return { agent: await findAnyVersion(deps, run.agentId) };
  const userId = devUserOf(caller);
  return { agent: userId === undefined ? undefined : await findDev(deps, { ...place, userId }) };
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
