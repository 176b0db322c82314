import { workspaceKey } from '#core/accounts/workspaces/store.ts';
import { scheduleFrom } from '#core/automation/schedules/items.ts';
import { adjustTimers } from '#core/automation/schedules/timing/timers.ts';
import type { Workspace, WorkspaceMove } from '#core/base/workspace.ts';
import { findNamed } from '#core/billing/operator/operate.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { absent, allOf, exists, type Item, queryAll } from '#core/ports/table.ts';
import { findLease, type Lease } from '#core/runs/leases.ts';
import { openRunsOf } from '#core/runs/lookup.ts';
import { isDue, paused, resumed } from '#core/services/state.ts';
import { ServiceStore } from '#core/services/store.ts';
import { markMove } from './mark.ts';
import type { TableDeps } from './own-items.ts';
import { park, parkAll, unparkAll } from './parking.ts';

export type MoveDeps = TableDeps &
  Pick<AllDeps, 'blobs' | 'vault' | 'clock' | 'ids' | 'config' | 'timers' | 'wakeServices' | 'endedRuns' | 'log'> & {
    /** Shows a line to the operator. */
    readonly say: (line: string) => void;
    /**
     * Time after which no process acts on what it read before a mark, in milliseconds: requests and background work have then
     * ended, and the usage of runs is summed.
     */
    readonly settleMs: number;
  };

interface FreezeOptions {
  /** Letter of the other cell. */
  readonly to: string;
  /** Address of the other cell's API, for the error of the old one. */
  readonly address?: string | undefined;
  /** How long runs may go on. */
  readonly waitMs: number;
  /** Whether runs that have not ended by then are lost. Otherwise the freeze ends with an error. */
  readonly loseRuns: boolean;
}

const POLL_MS = 2_000;

/** Waits until no process acts on what it read before. */
export const settled = async ({ clock, settleMs }: MoveDeps): Promise<void> => {
  if (settleMs > 0) await clock.sleep(settleMs);
};

/**
 * Stops a workspace for a move: nothing begins any more, runs get some time to end, and then nothing changes. Its data can be
 * read all the time. Safe to repeat. {@link unfreeze} undoes it.
 */
export async function freeze(deps: MoveDeps, name: string, options: FreezeOptions): Promise<Workspace> {
  const workspace = await findNamed(deps, name);
  const { id } = workspace;
  const begun = moveFrom(deps, workspace, options);
  if (begun.state === 'draining') await drain(deps, workspace, begun, options);
  const frozen = (await markMove(deps, id, { ...begun, state: 'frozen' }))!;
  for (;;) {
    await settled(deps);
    const { parked, changed } = await parkAll(deps, id);
    if (parked === 0 && changed === 0) break;
  }
  await deps.endedRuns?.settle();
  deps.say(`The workspace "${workspace.slug}" is frozen.`);
  return frozen;
}

/** Lets nothing begin any more, and waits until what has begun is over. */
async function drain(
  deps: MoveDeps,
  { id, slug }: Workspace,
  begun: WorkspaceMove,
  options: FreezeOptions,
): Promise<void> {
  deps.say(`Freezing the workspace "${slug}": nothing begins there from now on.`);
  await markMove(deps, id, begun);
  await noteRunningServices(deps, id);
  await stopSchedules(deps, id);
  await stopServices(deps, id);
  // A key or a member may have been added while the workspace was marked.
  await settled(deps);
  await markMove(deps, id, begun);
  await untilIdle(deps, id, options);
}

function moveFrom({ ids, config }: MoveDeps, { slug, move }: Workspace, { to, address }: FreezeOptions): WorkspaceMove {
  if (!/^[a-z]$/.test(to) || to === config.cell) throw new Error(`"${to}" is not the letter of another cell.`);
  if (move === undefined)
    return { state: 'draining', cell: to, id: ids.uuid(), ...(address !== undefined && { address }) };
  if (move.cell === to && (move.state === 'draining' || move.state === 'frozen')) return move;
  throw new Error(`The workspace "${slug}" is ${move.state} already, with cell ${move.cell}.`);
}

/** Lets a workspace work again that has not moved, or that has arrived. Safe to repeat. */
export async function unfreeze(deps: MoveDeps, workspaceId: string): Promise<Workspace> {
  const workspace = await markMove(deps, workspaceId, undefined);
  if (workspace === undefined) throw new Error(`There is no workspace ${workspaceId}.`);
  await unparkAll(deps, workspaceId);
  for await (const item of schedulesOf(deps, workspaceId)) await adjustTimers(deps, undefined, scheduleFrom(item));
  await startServices(deps, workspaceId);
  return workspace;
}

/** Attribute of the record of a workspace: the services that run again after the move. */
const SERVICES = 'moved_services';

async function noteRunningServices(deps: MoveDeps, workspaceId: string): Promise<void> {
  const running = (await new ServiceStore(deps, workspaceId).list()).filter(({ desired }) => desired === 'running');
  const set = { [SERVICES]: running.map(({ id }) => id) };
  await deps.main.update(workspaceKey(workspaceId), { set }, allOf(exists(), absent(SERVICES)));
}

async function stopServices(deps: MoveDeps, workspaceId: string): Promise<void> {
  const store = new ServiceStore(deps, workspaceId);
  const message = 'The workspace moves to another cell, where the service starts again.';
  const running = (await store.list()).filter(({ desired }) => desired === 'running');
  for (const { id } of running) {
    await store.change(id, (service) => {
      if (service.desired !== 'running') return undefined;
      const updatedAt = deps.clock.now();
      return { service: { ...paused(service), updatedAt }, events: [{ type: 'paused', message }] };
    });
  }
  if (running.length > 0) await deps.wakeServices?.(running.map(({ id }) => id));
}

async function startServices(deps: MoveDeps, workspaceId: string): Promise<void> {
  const key = workspaceKey(workspaceId);
  const ids = ((await deps.main.get(key))?.[SERVICES] ?? []) as string[];
  const store = new ServiceStore(deps, workspaceId);
  for (const id of ids) {
    await store.change(id, (service) => {
      if (service.desired !== 'stopped') return undefined;
      return {
        service: { ...resumed(service), updatedAt: deps.clock.now() },
        events: [{ type: 'resumed', message: 'Started again after the move.' }],
      };
    });
  }
  await deps.main.update(key, { remove: [SERVICES] }, exists());
  if (ids.length > 0) await deps.wakeServices?.(ids);
}

/** Parks the schedules, so that no minute is claimed that could not run. */
async function stopSchedules(deps: MoveDeps, workspaceId: string): Promise<void> {
  for await (const item of schedulesOf(deps, workspaceId)) {
    if (item.moving !== true) await park(deps, { table: 'main', item });
    await adjustTimers(deps, scheduleFrom(item), undefined);
  }
}

async function* schedulesOf({ main }: MoveDeps, workspaceId: string): AsyncGenerator<Item> {
  const items = queryAll(main, { pk: `WS#${workspaceId}#SCHEDULES`, limit: 1000 });
  for await (const item of items) if (item.sk !== 'COUNT') yield item;
}

async function untilIdle(deps: MoveDeps, workspaceId: string, { waitMs, loseRuns }: FreezeOptions): Promise<void> {
  const until = deps.clock.now() + waitMs;
  let shown = -1;
  for (;;) {
    const count = await countAtWork(deps, workspaceId);
    if (count === 0) return;
    if (deps.clock.now() >= until) {
      if (loseRuns) {
        deps.say(`${count} runs or services have not ended. The runs are lost.`);
        return;
      }
      throw new Error(
        `${count} runs or services have not ended. Repeat the command to wait for longer, cancel the runs, or give them up with --lose-runs. Nothing begins meanwhile; the action cancel lets the workspace work again.`,
      );
    }
    if (count !== shown) deps.say(`Waiting for ${count} runs and services to end.`);
    shown = count;
    await deps.clock.sleep(POLL_MS);
  }
}

/** Whether a process has the run, or its program works by itself. */
const isAtWork = ({ clock }: MoveDeps, lease: Lease | undefined): boolean =>
  lease?.reason === 'look' || (lease?.reason === 'host_lost' && lease.until > clock.now());

/**
 * Counts the runs that a process works on, and the services that the host has yet to stop. Durable runs that no process has
 * move as they are.
 */
async function countAtWork(deps: MoveDeps, workspaceId: string): Promise<number> {
  const { runs, isAll } = await openRunsOf(deps, workspaceId);
  let count = isAll ? 0 : 1;
  for (const run of runs) {
    if (!run.isDurable || isAtWork(deps, await findLease(deps, run.id))) count += 1;
  }
  const services = await new ServiceStore(deps, workspaceId).list();
  return count + services.filter((service) => service.desired === 'stopped' && isDue(service)).length;
}
