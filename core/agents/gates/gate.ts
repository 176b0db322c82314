import { derivedUuid } from '#core/base/derived-uuid.ts';
import { PlatformError } from '#core/base/errors.ts';
import { fullNameOf, refOf } from '#core/manifest/references.ts';
import type { AgentVersion, Gate } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { exists, type Item, type Key, queryAll, type Table, type TransactOperation } from '#core/ports/table.ts';
import { partitionOf } from '../record.ts';
import type { GateItem } from './gate-item.ts';
import { isHeld, type Standing } from './standing.ts';

/*
 * The gate of a version (`docs/interface/gates.md`) is the member `gate` of its item. Main table, beside the version:
 *
 * - `GATE#<number>#<id of an evaluation>`: an evaluation that opens the gate if it passes. Exists until that was done (gsi2 `GATES` by the
 *   time of the next look).
 */

/** How long the evaluation that a publish starts may take. */
export const GATE_MS = 3600_000;
const GATES = 'GATES';
/** Evaluations end by themselves; this finds those whose process died in between, and those that were aborted. */
const LOOK_AGAIN_MS = 10_000;

type Place = Pick<AgentVersion, 'workspaceId' | 'name' | 'version'>;

/** What `mayBeCurrent` looks at, of the item of a version. */
export const standingOf = ({ runnable, gate, preview }: Item): Standing => ({
  runnable: runnable === true,
  gate: gate as unknown as GateItem | undefined,
  preview,
});

/** Returns why a version that can run is not named by anything that moves, as a sentence without its name; `undefined` if it may be. */
export function whyNotNamed({ gate, preview }: Pick<AgentVersion, 'gate' | 'preview'>): string | undefined {
  if (preview !== undefined) return `is the preview ${preview.name}, which ends by itself at ${preview.endsAt}`;
  if (!isHeld({ gate })) return undefined;
  return gate!.status === 'pending' ? 'waits for its evaluation' : `is held by its gate: ${gate!.reason}`;
}

/** Throws CONFLICT for a version that channels, schedules and services may not be pointed at. */
export function checkMayBeNamed(version: AgentVersion, member: string): void {
  const why = whyNotNamed(version);
  if (why === undefined) return;
  throw new PlatformError('CONFLICT', `${member}: ${refOf(version)} ${why.replace(/\.$/, '')}.`, {
    hint: hintFor(version),
  });
}

/** The error of a call or a change of `latest` while an agent has only versions that may not be current. */
export const noLatest = (version: AgentVersion): PlatformError =>
  new PlatformError(
    'NOT_FOUND',
    `${fullNameOf(version)} has no latest version yet: ${refOf(version)} ${(whyNotNamed(version) ?? 'cannot run').replace(/\.$/, '')}.`,
    { hint: hintFor(version) },
  );

const hintFor = ({ id, preview }: AgentVersion): string =>
  preview === undefined
    ? `Wait for its evaluation (GET /agents/${id}), evaluate its suites again (POST /agents/${id}/evals), or let an owner override the gate (POST /agents/${id}/gate/override).`
    : 'Publish it without "preview" to get a version that stays.';

/** Derives the id of the evaluation that a publish starts, so that it is made once. */
export const gateEvalId = (versionId: string): string => derivedUuid(versionId, 'gate');

/** The gate of a new version. It waits from the time at which the version can run. */
export const newGate = (versionId: string, publisher: Gate['publisher'], since: string | null): Gate => ({
  ...{ status: 'pending', evalId: gateEvalId(versionId), verdict: null, reason: null, publisher, since },
  ...{ decidedAt: null, decidedBy: null },
});

/** An evaluation that opens the gate of a version if it passes. */
export interface GateOrder extends Place {
  readonly versionId: string;
  readonly evalId: string;
}

const orderKey = ({ workspaceId, name, version, evalId }: Omit<GateOrder, 'versionId'>): Key => ({
  pk: partitionOf(workspaceId, name),
  sk: `GATE#${String(version).padStart(5, '0')}#${evalId}`,
});
const lookAt = (at: number, evalId: string) => ({ gsi2pk: GATES, gsi2sk: `${isoTime(at)}#${evalId}` });

/** Item that lets background work start an evaluation, or find out how it ended. */
function gateOrderItem(order: GateOrder, now: number): Item {
  const { workspaceId, name, version, versionId, evalId } = order;
  return {
    ...orderKey(order),
    ...{ workspace_id: workspaceId, name, version, version_id: versionId, eval_id: evalId },
    ...lookAt(now, evalId),
  };
}

/** Operation that begins the wait of a version for its gate. */
export const awaitGate = ({ id, ...place }: Place & { readonly id: string }, now: number): TransactOperation => ({
  op: 'put',
  item: gateOrderItem({ ...place, versionId: id, evalId: gateEvalId(id) }, now),
});

/** Lets an evaluation of a version that its gate holds open the gate if it passes. */
export async function orderGate(
  { main, clock }: Pick<Deps, 'main' | 'clock'>,
  { id, workspaceId, name, version }: AgentVersion,
  evalId: string,
): Promise<void> {
  await main.put(gateOrderItem({ workspaceId, name, version, versionId: id, evalId }, clock.now()));
}

/** Lists the evaluations, of all workspaces, of which it is time to look how they are. */
export async function* listDueGates({ main, clock }: Pick<Deps, 'main' | 'clock'>): AsyncGenerator<GateOrder> {
  // In the sort key, `#` and the id follow the time; `$` sorts after `#`.
  const due = { index: 'gsi2', pk: GATES, sk: { lessThan: `${isoTime(clock.now())}$` } } as const;
  for await (const item of queryAll(main, due)) {
    yield {
      workspaceId: item.workspace_id as string,
      name: item.name as string,
      version: item.version as number,
      versionId: item.version_id as string,
      evalId: item.eval_id as string,
    };
  }
}

/** Lets the next look at an evaluation be some seconds later. */
export async function lookAgain({ main, clock }: Pick<Deps, 'main' | 'clock'>, order: GateOrder): Promise<void> {
  const set = lookAt(clock.now() + LOOK_AGAIN_MS, order.evalId);
  await main.update(orderKey(order), { set }, exists());
}

export const endOrder = (main: Table, order: GateOrder): Promise<unknown> => main.delete(orderKey(order));
