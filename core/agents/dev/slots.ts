import type { Caller } from '#core/base/caller.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, equals, type Item, type TransactOperation } from '#core/ports/table.ts';
import { type DevBuild, devPartition, readVersion, versionKey } from '../record.ts';

/**
 * The version `dev` of each agent and user (`docs/interface/versions.md#dev`). Main table, all below
 * `WS#<workspace id>#DEV#<user id>`:
 *
 * - `SLOT#<agent>`: the id of the build that is called, the id of one that is not complete yet, and until when the slot
 *   lasts (gsi2 `DEV` by that time);
 * - `BUILD#<agent>#<version id>`: a build, which has the members of a version and never changes its content. A change of
 *   `dev` is a new build, so whatever is kept by a version's id, or by the hash of its code, is never older than the call;
 * - `SLOTS`: the number of slots.
 */
interface Place {
  readonly workspaceId: string;
  readonly userId: string;
  readonly name: string;
}

export interface Slot {
  readonly current?: string;
  /** Waits for its code or its dependencies. */
  readonly staged?: string;
  /** 0: there is none yet. */
  readonly revision: number;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

export const EXPIRY_INDEX = 'DEV';
export const slotKey = ({ workspaceId, userId, name }: Place) => ({
  pk: devPartition(workspaceId, userId),
  sk: `SLOT#${name}`,
});
export const slotCountKey = ({ workspaceId, userId }: Omit<Place, 'name'>) => ({
  pk: devPartition(workspaceId, userId),
  sk: 'SLOTS',
});

export const placeOf = ({ workspaceId, name, devOf }: DevBuild): Place => ({ workspaceId, name, userId: devOf });

export const slotFrom = (item: Item | undefined): Slot => ({
  current: item?.current as string | undefined,
  staged: item?.staged as string | undefined,
  revision: (item?.revision as number | undefined) ?? 0,
  expiresAt: (item?.expires_at as number | undefined) ?? 0,
});

/** The slot as it is stored, also after its time. */
export const readSlot = async ({ main }: Pick<Deps, 'main'>, place: Place): Promise<Slot> =>
  slotFrom(await main.get(slotKey(place)));

/** Holds while a slot is as it was read. */
export const sameSlot = ({ revision }: Slot) => (revision === 0 ? absent('revision') : equals('revision', revision));

/** The write of a slot in place of what was read. */
export const putSlot = (place: Place, before: Slot, after: Omit<Slot, 'revision'>): TransactOperation => ({
  op: 'put',
  item: {
    ...slotKey(place),
    workspace_id: place.workspaceId,
    user_id: place.userId,
    name: place.name,
    current: after.current,
    staged: after.staged,
    revision: before.revision + 1,
    expires_at: after.expiresAt,
    gsi2pk: EXPIRY_INDEX,
    gsi2sk: `${new Date(after.expiresAt).toISOString()}#${place.userId}#${place.name}`,
  },
  condition: sameSlot(before),
});

/** A build of a slot, complete or not; `undefined` once another one has taken its place. */
export async function findBuild(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock'>,
  { workspaceId, userId, name }: Place,
  id: string,
): Promise<AgentVersion | undefined> {
  const item = await deps.main.get(versionKey({ workspaceId, name, version: 0, devOf: userId, id }));
  return item && readVersion(deps, item);
}

/** What a user's calls of `dev` run. `undefined` without one, and while its first build is not complete. */
export async function findDev(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock'>,
  place: Place,
): Promise<AgentVersion | undefined> {
  // A build is removed once another one takes its place: whoever read the slot before then reads it again.
  for (let before: string | undefined; ; ) {
    const { current, expiresAt } = await readSlot(deps, place);
    if (current === undefined || current === before || expiresAt <= deps.clock.now()) return undefined;
    const build = await findBuild(deps, place, current);
    if (build !== undefined) return build;
    before = current;
  }
}

/** Whose `dev` a caller reaches. Agents reach nobody's: their keys are read by strangers' code. */
export const devUserOf = ({ agent, userId }: Caller): string | undefined => (agent === undefined ? userId : undefined);
