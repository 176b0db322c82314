import { endInstallation } from '#core/accounts/limits/installations.ts';
import type { AgentListeners } from '#core/agents/listeners.ts';
import { makeCurrent } from '#core/agents/publish.ts';
import { attachLayer, failInstall } from '#core/agents/retention/builds.ts';
import { ANYONE, findAnyVersion } from '#core/agents/store.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import type { InstallPlan } from '#core/manifest/bundle/install-plan.ts';
import { type AgentVersion, bundleKey } from '#core/manifest/version.ts';
import { planInThread } from '#core/manifest/worker-pool/checks.ts';
import type { Deps, InstallJob } from '#core/ports/deps.ts';
import { endedWith, newRunOf } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { buildLayer } from './build-layer.ts';
import { InstallLog } from './install-log.ts';

type InstallDeps = Pick<
  Deps,
  'config' | 'main' | 'runs' | 'counters' | 'blobs' | 'sandbox' | 'clock' | 'ids' | 'log'
> & {
  readonly listeners: AgentListeners;
};

/**
 * Installs the dependencies of the version that a job names, then releases the workspace's installation slot. A no-op
 * if the
 * version's record no longer waits for this job, or if the job's run already exists, since a job may be delivered
 * twice.
 * Throws if a record cannot be read or written.
 */
export async function runInstall(deps: InstallDeps, { versionId, runId }: InstallJob): Promise<void> {
  const version = await findAnyVersion(deps, versionId, ANYONE);
  if (version?.bundle === undefined || version.install?.runId !== runId) return;
  if (version.install.status !== 'building') return;
  if (await new RunStore(deps, version.workspaceId).find(runId)) return;
  try {
    await installVersion(deps, version, runId);
  } finally {
    await endInstallation(deps, version.workspaceId, runId);
  }
}

async function installVersion(deps: InstallDeps, version: AgentVersion, runId: string): Promise<void> {
  const zip = (await deps.blobs.get(bundleKey(version.bundle!)))!;
  const { interpreters } = await deps.sandbox.status();
  const plan = await planInThread(zip, { version, interpreters }, version.bundle!.entrypoint);
  const failure = await recordInstall(deps, version, plan!, runId);
  if (failure === undefined) await makeCurrent(deps, version);
}

/** Installs, and records the result in the run `runId` and in the version. Returns the reason for a failure. */
async function recordInstall(
  deps: InstallDeps,
  version: AgentVersion,
  plan: InstallPlan,
  runId: string,
): Promise<string | undefined> {
  const runs = new RunStore(deps, version.workspaceId);
  const startedAt = deps.clock.now();
  const { deadline } = version.install!;
  const run = newRunOf(version, {
    id: runId,
    endpoint: 'install',
    triggerSource: 'install',
    startedAt,
    deadline,
    input: null,
  });
  await runs.start(run);
  const log = new InstallLog(deps.clock, runs, run);
  const failure = await buildAndAttach(deps, version, plan, { deadline, log }).catch((error: unknown) => {
    if (hasCode(error, 'STORAGE_QUOTA_EXCEEDED') || hasCode(error, 'DOCUMENT_TOO_LARGE')) return reasonOf(error);
    deps.log.error('installation failed', { agent_id: version.id, error: String(error) });
    if (hasCode(error, 'RATE_LIMITED')) {
      return 'No sandbox was free for the installation in time. Nothing was installed: upload again in a few minutes.';
    }
    return hasCode(error, 'SANDBOX_UNAVAILABLE') ? (error as Error).message : 'The platform failed; upload again.';
  });
  await runs.finish(run, {
    ...endedWith(failure === undefined ? undefined : new PlatformError('SANDBOX_ERROR', failure)),
    ...log.body(),
    executionMs: deps.clock.now() - startedAt,
    exitCode: log.exitCode,
    creditsCents: 0,
  });
  if (failure !== undefined) await failInstall(deps, version, failure);
  return failure;
}

/** Builds the layer and attaches it to the version. Returns the reason for a failure. */
async function buildAndAttach(
  deps: InstallDeps,
  version: AgentVersion,
  plan: InstallPlan,
  settings: Parameters<typeof buildLayer>[3],
): Promise<string | undefined> {
  const built = await buildLayer(deps, version, plan, settings);
  if (typeof built === 'string') return built;
  const attached = await attachLayer(deps, version, plan.layerHash, built);
  return attached === undefined ? 'Another upload has replaced this one, or the version was deleted.' : undefined;
}

const reasonOf = (error: unknown): string => {
  const { message, extra } = error as PlatformError;
  return [message, extra.hint].filter(Boolean).join(' ');
};
