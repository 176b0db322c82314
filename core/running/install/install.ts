import { inspectBundle } from '#core/agents/bundle/bundle.ts';
import { type InstallPlan, planInstall } from '#core/agents/bundle/install-plan.ts';
import type { AgentListeners } from '#core/agents/listeners.ts';
import { makeCurrent } from '#core/agents/publish.ts';
import { AgentStore, findAnyVersion } from '#core/agents/store.ts';
import { type AgentVersion, bundleKey } from '#core/agents/version.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import type { Deps, InstallJob } from '#core/ports/deps.ts';
import { endedWith, newRunOf } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { buildLayer } from './build-layer.ts';
import { InstallLog } from './install-log.ts';

type InstallDeps = Pick<Deps, 'config' | 'main' | 'runs' | 'blobs' | 'sandbox' | 'clock' | 'ids' | 'log'> & {
  readonly listeners: AgentListeners;
};

/**
 * Installs the dependencies of the version that a job names. Does nothing if the version's record no longer waits for
 * this job, or if the job's run exists already: a job may be delivered twice. Throws if a record cannot be read or
 * written.
 */
export async function runInstall(deps: InstallDeps, { versionId, runId }: InstallJob): Promise<void> {
  const version = await findAnyVersion(deps, versionId);
  if (version?.bundle === undefined || version.install?.runId !== runId) return;
  const { status, deadline } = version.install;
  if (status !== 'building' || deadline <= deps.clock.now()) return;
  if (await new RunStore(deps, version.workspaceId).find(runId)) return;
  const report = await inspectBundle((await deps.blobs.get(bundleKey(version.bundle.sha256)))!);
  const plan = await planInstall(deps, version, report);
  const failure = await recordInstall(deps, version, plan!, runId);
  if (failure === undefined) await makeCurrent(deps, version);
}

/** Installs, recorded as the run `runId` and in the version. Returns the reason for a failure. */
async function recordInstall(
  deps: InstallDeps,
  version: AgentVersion,
  plan: InstallPlan,
  runId: string,
): Promise<string | undefined> {
  const runs = new RunStore(deps, version.workspaceId);
  const startedAt = deps.clock.now();
  const deadline = startedAt + deps.config.installTimeoutMs;
  const run = newRunOf({
    id: runId,
    agent: version,
    endpoint: 'install',
    triggerSource: 'install',
    startedAt,
    deadline,
    input: null,
  });
  await runs.start(run);
  const log = new InstallLog(deps.clock, runs, run);
  const failure = await buildLayer(deps, version, plan, { deadline, log }).catch((error: unknown) => {
    deps.log.error('installation failed', { agent_id: version.id, error: String(error) });
    return hasCode(error, 'SANDBOX_UNAVAILABLE') ? (error as Error).message : 'The platform failed; upload again.';
  });
  await runs.finish(run, {
    ...endedWith(failure === undefined ? undefined : new PlatformError('SANDBOX_ERROR', failure)),
    ...log.body(),
    executionMs: deps.clock.now() - startedAt,
    exitCode: log.exitCode,
    creditsCents: 0,
  });
  const base = { layer: plan.layer, runId, deadline };
  await new AgentStore(deps, version.workspaceId).setBuild(version, {
    bundle: version.bundle!,
    install: failure === undefined ? { ...base, status: 'ready' } : { ...base, status: 'failed', error: failure },
  });
  return failure;
}
