import { hasCode, PlatformError } from '#core/base/errors.ts';
import { refOf } from '#core/manifest/references.ts';
import { bundleKey } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Sandbox, SandboxFileError, SandboxSession, SandboxSpec } from '#core/ports/sandbox.ts';
import { egressTargets, runEgress } from '../egress.ts';
import type { EngineRun } from './engine.ts';
import { interruptedError } from './interruption.ts';

const UNLIMITED_SECONDS = 2 ** 31;

/** Returns the error of the run for an error of {@link Sandbox.open}. */
export function openingError(error: unknown, agent: EngineRun['agent']): unknown {
  const { message } = error as Error;
  if (hasCode(error, 'SANDBOX_UNAVAILABLE')) {
    return new PlatformError('SANDBOX_ERROR', message, { category: 'setup_error' });
  }
  if (hasCode(error, 'SANDBOX_LOST')) return interruptedError();
  if (!hasCode(error, 'SANDBOX_LAYER')) return error;
  return new PlatformError(
    'SANDBOX_ERROR',
    `The installed dependencies of ${refOf(agent)} cannot be used: ${message}.`,
    {
      category: 'setup_error',
      hint: 'Publish a new version with other dependencies: the same dependencies would use the same layer.',
    },
  );
}

/**
 * Opens the sandbox of a run and writes the run's uploads and other files into it. The caller closes it. Throws
 * SANDBOX_ERROR if this host has no sandbox or the agent's layer is broken.
 *
 * @param options.isOneCommand See {@link SandboxSpec.isOneCommand}; errors of the command go through {@link openingError}.
 * @param options.prepare Writes the files of a session, before those of the call.
 */
export async function openRunSandbox(
  { sandbox, config, clock }: Pick<Deps, 'sandbox' | 'config' | 'clock'>,
  run: EngineRun,
  env: Readonly<Record<string, string>>,
  {
    isOneCommand = false,
    reuse,
    prepare,
  }: Pick<SandboxSpec, 'isOneCommand' | 'reuse'> & {
    readonly prepare?: (session: SandboxSession) => Promise<void>;
  } = {},
): Promise<SandboxSession> {
  const { agent, input, trace } = run;
  run.emit({ type: 'sandbox_start' });
  // The span ends with the run, which uses the sandbox until then.
  const parent = trace.open('sandbox');
  let step = trace.open('setup_step', { parent, payload: { name: 'start' } });
  let queued: number | undefined;
  const onState = (state: 'waiting' | 'taken'): void => {
    if (state === 'waiting') queued = trace.open('queue', { parent: step });
    else if (queued !== undefined) trace.close(queued);
  };
  const session = await sandbox
    .open({
      bundle: agent.bundle && bundleKey(agent.bundle),
      layer: agent.install?.layer,
      layerSha256: agent.install?.layerSha256,
      owner: run.workspaceId,
      env,
      egress: runEgress(config, agent),
      egressTargets: egressTargets(config, agent),
      purpose: 'run',
      isInterruptible: run.isInterruptible,
      isOneCommand,
      reuse,
      kind: run.kind && (async () => [refOf(agent), await run.kind?.()]),
      deadline: run.deadline,
      turn: run.isSubCall ? undefined : { owner: run.workspaceId, deadline: run.deadline, onState },
      signal: run.signal,
      limits: {
        memoryBytes: config.sandboxMemoryBytes,
        diskBytes: config.sandboxDiskBytes,
        fileBytes: config.sandboxDiskBytes,
        processes: config.sandboxProcesses,
        // The deadline of each input bounds a program that takes several.
        cpuSeconds: reuse ? UNLIMITED_SECONDS : Math.ceil((run.deadline - clock.now()) / 1000) + 1,
      },
    })
    .catch((error: unknown) => {
      for (const span of [queued, step, parent]) if (span !== undefined) trace.close(span, { isFailed: true });
      throw openingError(error, agent);
    });
  trace.close(step, {
    payload: session.place && { name: 'start', sandbox: session.place.kind, reason: session.place.why },
  });
  const files = [...run.files, ...input.uploads];
  if (files.length === 0 && prepare === undefined) return session;
  step = trace.open('setup_step', { parent, payload: { name: 'files', count: files.length } });
  try {
    await prepare?.(session);
    for (const { path, content } of files) await session.writeFile(path, content);
    trace.close(step);
    return session;
  } catch (error) {
    for (const span of [step, parent]) trace.close(span, { isFailed: true });
    await session.close();
    throw hasCode(error, 'SANDBOX_FILE') && (error as SandboxFileError).isLost ? interruptedError() : error;
  }
}
