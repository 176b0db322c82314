import { PlatformError } from '#core/base/errors.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import { HELD_CALL_MS } from '#core/base/time-limits.ts';
import type { Deps } from '#core/ports/deps.ts';
import { liveEventsOf } from '#core/runs/live-events.ts';
import { type Run, usageOf } from '#core/runs/run.ts';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import { RunStore } from '#core/runs/store.ts';
import type { StartedCall } from '../calls/call.ts';
import type { CallAnswer } from '../calls/finish.ts';
import type { Call } from '../calls/prepare.ts';
import type { ProgressEvent } from '../engines/progress.ts';

/** Pause between two looks at the record of the run, doubled for each further one. */
const LOOK_MS = { first: 100, max: 1000 };

/** Returns a call that is answered with the end of its run, which another call began. */
export function followRun(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>,
  { workspace, runId, receivedAt }: Pick<Call, 'workspace' | 'runId' | 'receivedAt'>,
): StartedCall {
  const workspaceId = workspace.id;
  const runs = new RunStore(deps, workspaceId);
  let last = 0;
  const tell = async (emit: (event: ProgressEvent) => void): Promise<void> => {
    for await (const { number, type, data } of liveEventsOf(deps, { workspaceId, runId }, last)) {
      last = number;
      if (type === 'progress') emit(data as unknown as ProgressEvent);
    }
  };
  return {
    heldUntil: receivedAt + HELD_CALL_MS,
    position: async () => last,
    async finish(emit) {
      for (let pause = LOOK_MS.first; ; pause = Math.min(2 * pause, LOOK_MS.max)) {
        const run = await runs.find(runId);
        if (emit !== undefined) await tell(emit);
        if (run === undefined) throw new PlatformError('NOT_FOUND', `The run ${runId} was erased with its session.`);
        if (hasEnded(run.status)) return answerOf(runs, run);
        if (deps.clock.now() > receivedAt + HELD_CALL_MS) throw new RunContinuesError(runId, 'handover');
        await deps.clock.sleep(pause);
      }
    },
  };
}

async function answerOf(runs: RunStore, run: Run): Promise<CallAnswer> {
  if (run.errorCode !== null) throw new PlatformError(run.errorCode, run.errorMessage ?? 'The run failed.');
  const body = await runs.body(run.id);
  return {
    data: body?.output ?? null,
    warnings: [],
    executionMs: run.executionMs ?? 0,
    stdout: body?.stdout ?? '',
    stderr: body?.stderr ?? '',
    ...usageOf(run),
  };
}
