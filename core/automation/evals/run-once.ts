import type { Json } from '#core/base/json.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { startCall } from '#core/execution/calls/call.ts';
import type { Call } from '#core/execution/calls/prepare.ts';
import { topOfChain } from '#core/execution/sub-calls/lineage.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run, RunBody } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';

/** For whom runs are made: a workspace, and the user who may use own connections, if one asked. */
export interface Asker {
  readonly workspace: Workspace;
  readonly userId?: string;
}

/** A run that has ended. */
export interface EndedRun {
  readonly run: Run;
  readonly body: RunBody;
}

/**
 * Makes a run with an id that every process derives the same, unless another process has begun it, and returns it once it has ended; undefined
 * while it has not: it waits, or its process died and the sweep will end it. Throws what `startCall` throws if there is no run.
 */
export async function runOnce(
  deps: Deps,
  order: {
    readonly agent: AgentVersion;
    readonly endpoint: string;
    readonly document: { readonly [name: string]: Json };
    readonly asker: Asker;
    readonly runId: string;
  },
): Promise<EndedRun | undefined> {
  const runs = new RunStore(deps, order.asker.workspace.id);
  const known = await runs.withBody(order.runId);
  if (known === undefined) {
    const started = await startCall(deps, callOf(deps, order)).catch(async (error: unknown) => {
      // Another process was faster, or the record was written despite the error.
      if ((await runs.find(order.runId)) !== undefined) return undefined;
      throw error;
    });
    // The run's record has its end.
    await started?.finish().catch(ignore);
  }
  const found = known ?? (await runs.withBody(order.runId));
  return found !== undefined && hasEnded(found.run.status) ? found : undefined;
}

/**
 * Its caller waits, so a failed run is not tried again: the failure is what the evaluation is about. The rule `debounce` does not apply, which
 * would make one run of several cases.
 */
const callOf = (
  { clock }: Pick<Deps, 'clock'>,
  { agent, endpoint, document, asker, runId }: Parameters<typeof runOnce>[1],
): Call => ({
  agent,
  endpoint,
  input: { document, uploads: [], isMultipart: false },
  ...asker,
  runId,
  triggerSource: 'eval',
  receivedAt: clock.now(),
  lineage: topOfChain(agent),
  skillHeaders: {},
  rules: { debounce: undefined },
});

const ignore = (): void => {};
