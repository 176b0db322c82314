import { planOf } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Deps } from '#core/ports/deps.ts';
import { addEvent } from '#core/runs/approvals/events.ts';
import type { Lease } from '#core/runs/leases.ts';
import { eventToken } from '../sub-calls/run-context.ts';

/**
 * Returns the address of an event of a run, the same for the same name; `undefined` if the run has too many others.
 *
 * @param leftMs How long the run may still wait.
 */
export async function addressOfEvent(
  deps: Pick<Deps, 'config' | 'runs' | 'clock'>,
  run: Pick<Lease, 'workspaceId' | 'runId'>,
  { name, serviceKey, leftMs }: { readonly name: string; readonly serviceKey: string; readonly leftMs: number },
): Promise<string | undefined> {
  const { callUrl, baseUrl = '', cell } = deps.config;
  const token = cell + eventToken(serviceKey, name);
  if (!(await addEvent(deps, run, { name, token, latest: deps.clock.now() + leftMs }))) return undefined;
  return `${callUrl ?? baseUrl}/webhooks/events/${token}`;
}

/** Returns for how long a run may still wait, in milliseconds. `own` is the maximum of its agent in seconds. */
export const waitLeftMs = (
  deps: Pick<Deps, 'config'>,
  workspace: Workspace,
  { own, idleMs }: { readonly own: number; readonly idleMs: number },
): number => Math.min(own, planOf(deps, workspace).wait_seconds) * 1000 - idleMs;

/** Whether one more run of the workspace may wait. */
export async function mayAsk(
  deps: Pick<Deps, 'config' | 'runs' | 'blobs' | 'clock'>,
  workspace: Workspace,
): Promise<boolean> {
  // Loaded lazily: few runs wait, and smaller functions start faster.
  const { WaitingRuns } = await import('#core/runs/waiting-runs.ts');
  return (await new WaitingRuns(deps, workspace.id).count()) < planOf(deps, workspace).waiting_runs;
}
