import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, exists, type Item } from '#core/ports/table.ts';

/**
 * Counters table: `WS#<workspace id>#LIMITS / INSTALLS` has a lease for each installation of a workspace in progress:
 * `run_<first 12 digits of the run id>`, with its expiry in epoch seconds. `revision` increases with each new one, so
 * that two concurrent installations do not both take the last slot.
 */
const installsKey = (workspaceId: string) => ({ pk: `WS#${workspaceId}#LIMITS`, sk: 'INSTALLS' });
const leaseOf = (runId: string): string => `run_${runId.replaceAll('-', '').slice(0, 12)}`;

/** Installations more often take a minute than an hour. */
const WAIT_SECONDS = 30;

type InstallationDeps = Pick<Deps, 'counters' | 'clock' | 'config'>;

/**
 * Takes a slot of the workspace's plan (`concurrent_installs`) for the installation run `runId`. The slot is free
 * again after {@link endInstallation}, or at `deadline` (epoch milliseconds) if the host dies. Throws RATE_LIMITED, and
 * changes nothing, if all slots are taken.
 */
export async function beginInstallation(
  deps: InstallationDeps,
  workspace: Workspace,
  { runId, deadline }: { readonly runId: string; readonly deadline: number },
): Promise<void> {
  const { counters, clock } = deps;
  const plan = planOf(deps, workspace);
  const key = installsKey(workspace.id);
  await retryOnConflict(clock, `the installations of ${workspace.id}`, async () => {
    const item = await counters.get(key);
    const { running, expired } = leasesOf(item, epochSeconds(clock.now()));
    if (running.length >= plan.concurrent_installs) {
      throw new PlatformError(
        'RATE_LIMITED',
        `The workspace "${workspace.slug}" has ${running.length} installations of dependencies in progress, the maximum of its plan "${plan.name}" (concurrent_installs). Nothing was stored: upload again when one has ended.`,
        { suggested_wait_time: WAIT_SECONDS },
      );
    }
    const revision = item?.revision as number | undefined;
    const { ok } = await counters.update(
      key,
      {
        add: { revision: 1 },
        set: { [leaseOf(runId)]: epochSeconds(deadline) },
        remove: expired,
      },
      revision === undefined ? absent('revision') : equals('revision', revision),
    );
    return ok || undefined;
  });
}

/** Frees the slot; idempotent. */
export async function endInstallation(
  { counters }: Pick<InstallationDeps, 'counters'>,
  workspaceId: string,
  runId: string,
): Promise<void> {
  await counters.update(installsKey(workspaceId), { remove: [leaseOf(runId)] }, exists(leaseOf(runId)));
}

/** Returns the number of installations of a workspace in progress. */
export async function installationsInUse(
  { counters, clock }: Pick<InstallationDeps, 'counters' | 'clock'>,
  workspaceId: string,
): Promise<number> {
  return leasesOf(await counters.get(installsKey(workspaceId)), epochSeconds(clock.now())).running.length;
}

function leasesOf(item: Item | undefined, now: number): { running: string[]; expired: string[] } {
  const leases = Object.keys(item ?? {}).filter((name) => name.startsWith('run_'));
  const isRunning = (name: string) => (item![name] as number) > now;
  return { running: leases.filter(isRunning), expired: leases.filter((name) => !isRunning(name)) };
}
