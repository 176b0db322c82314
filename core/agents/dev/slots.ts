import type { Caller } from '#core/base/caller.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, equals, type Item, type TransactOperation } from '#core/ports/table.ts';
import { type DevBuild, devPartition, readVersion, versionKey } from '../record.ts';

/**
 * The version `dev` of each agent and user (`docs/interface/versions.md#dev`). Main table, all below
 * `WS#<workspace id>#DEV#<user id>`:
 *
 * - `SLOT#<agent>`: the id of the called build, the id of the staged (incomplete) build, and the expiry of the slot
 *   (gsi2 `DEV` by that time);
 * - `BUILD#<agent>#<version id>`: a build. It has the members of a version and its content never changes. A change of
 *   `dev` is a new build, so a cache by version id or by the hash of the code is never stale;
 * - `SLOTS`: the number of slots.
 */
interface Place {
  readonly workspaceId: string;
  readonly userId: string;
  readonly name: string;
}

export interface Slot {
  readonly current?: string;
  /** Id of the build whose code or dependencies are still missing. */
  readonly staged?: string;
  /** 0 if the slot does not exist. */
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

/** Reads the stored slot, even if it has expired. */
export const readSlot = async ({ main }: Pick<Deps, 'main'>, place: Place): Promise<Slot> =>
  slotFrom(await main.get(slotKey(place)));

/** Condition that a slot has not changed since it was read. */
export const sameSlot = ({ revision }: Slot) => (revision === 0 ? absent('revision') : equals('revision', revision));

/** Operation that replaces the slot as it was read. */
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

/** Finds a build of a slot, complete or not; `undefined` once another build has replaced it. */
export async function findBuild(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock'>,
  { workspaceId, userId, name }: Place,
  id: string,
): Promise<AgentVersion | undefined> {
  const item = await deps.main.get(versionKey({ workspaceId, name, version: 0, devOf: userId, id }));
  return item && readVersion(deps, item);
}

/**
 * Finds the build that a user's calls of `dev` run; `undefined` without `dev`, or while its first build is incomplete.
 */
export async function findDev(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock'>,
  place: Place,
): Promise<AgentVersion | undefined> {
  // A replaced build is removed: if the slot was read before that, it is read again.
  for (let before: string | undefined; ; ) {
    const { current, expiresAt } = await readSlot(deps, place);
    if (current === undefined || current === before || expiresAt <= deps.clock.now()) return undefined;
    const build = await findBuild(deps, place, current);
    if (build !== undefined) return build;
    before = current;
  }
}

/** User whose `dev` the caller may call. Agents may call none: code of other authors can read their keys. */
export const devUserOf = ({ agent, userId }: Caller): string | undefined => (agent === undefined ? userId : undefined);
