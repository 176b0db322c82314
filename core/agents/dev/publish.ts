import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import { needsBundle } from '#core/manifest/engines.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, anyOf, exists, type Item, lessThan, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { type DevBuild, idKey, newVersionItem, readVersion, storeDefinition, versionKey } from '../record.ts';
import { announceBlob, keepAnnounced } from '../retention/blobs.ts';
import { sameBuild } from '../retention/builds.ts';
import { deletedVersion, removeBuild } from '../retention/removal.ts';
import { agentUse, bytesOfVersion, checkRoom, useOperation } from '../retention/storage-usage.ts';
import {
  EXPIRY_INDEX,
  placeOf,
  putSlot,
  readSlot,
  type Slot,
  sameSlot,
  slotCountKey,
  slotFrom,
  slotKey,
} from './slots.ts';

/** Limit for each user and workspace. */
const MAX_SLOTS = 20;
const DAY_MS = 24 * 3600 * 1000;
/** Lifetime of a slot after the last publish into it. */
const SLOT_DAYS = 14;

type DevDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config'>;
type SlotDeps = Pick<Deps, 'main' | 'clock'>;

/** Rounded up to whole days, so that the indexed expiry changes at most once a day. */
const expiryFrom = (now: number): number => (Math.ceil(now / DAY_MS) + SLOT_DAYS) * DAY_MS;

/**
 * Publishes into a user's `dev` of `definition.name`. A complete build is called at once. A program stays staged until
 * its
 * code and dependencies are present, then {@link promote} makes it the called build. A build that was staged before is
 * removed.
 *
 * Throws INVALID_INPUT for a skill, FORBIDDEN if the user has too many agents with `dev`, STORAGE_QUOTA_EXCEEDED,
 * DOCUMENT_TOO_LARGE.
 */
export async function publishDev(
  deps: DevDeps,
  { workspace, userId }: { readonly workspace: Workspace; readonly userId: string },
  definition: AgentDefinition,
): Promise<AgentVersion> {
  const { main, clock, ids } = deps;
  const { name, execution_engine: engine } = definition;
  if (engine === null) {
    throw new PlatformError(
      'INVALID_INPUT',
      `${name} is a skill, and skills have no dev version: agents use published skills.`,
    );
  }
  const id = ids.uuid();
  const plan = planOf(deps, workspace);
  const place = { workspaceId: workspace.id, userId, name };
  // Only its user may ever see it.
  const own: AgentDefinition = { ...definition, is_public: false };
  const announced: string[] = [];
  const stored = await storeDefinition(deps, id, own, (blob) => {
    announced.push(blob);
    return announceBlob(deps, blob);
  });
  const isComplete = !needsBundle(definition);
  const { build, removed } = await retryOnConflict(clock, `dev of ${name}`, async () => {
    const slot = await readSlot(deps, place);
    const gone = await buildsOf(deps, place, [slot.staged, isComplete ? slot.current : undefined]);
    const item = newVersionItem(
      { id, workspace, name, version: 0, firstVersion: 1, devOf: userId },
      { runnable: isComplete, isPublic: false, definition: stored, now: isoTime(clock.now()) },
    );
    const growth = { versions: 0, bytes: bytesOfVersion(item) };
    checkRoom(plan, await agentUse(deps, workspace.id), growth);
    const after = isComplete ? { current: id } : { current: slot.current, staged: id };
    const written = await main.transact([
      putSlot(place, slot, { ...after, expiresAt: expiryFrom(clock.now()) }),
      { op: 'put', item, condition: absent() },
      { op: 'put', item: { ...idKey(id), workspace_id: workspace.id, name, version: 0, dev_of: userId } },
      useOperation(deps, workspace.id, growth, plan),
      ...(slot.revision === 0 ? [countSlot(place, 1)] : []),
      ...announced.map(keepAnnounced),
      ...removalOf(deps, gone),
    ]);
    if (written.ok) return { build: await readVersion(deps, item), removed: gone };
    if (slot.revision === 0 && (await slotsOf(deps, place)) >= MAX_SLOTS) {
      throw new PlatformError(
        'FORBIDDEN',
        `You have ${MAX_SLOTS} agents with a dev version in the workspace "${workspace.slug}", which is the maximum.`,
        {
          hint: `Delete one with DELETE /agents/{id}, or wait: each expires ${SLOT_DAYS} days after its last publish.`,
        },
      );
    }
    return undefined;
  });
  await removeAll(deps, removed);
  return build;
}

/** Makes a staged build the called one once its code and dependencies are present. Safe to repeat. */
export async function promote(deps: SlotDeps, version: DevBuild): Promise<void> {
  const { main, clock } = deps;
  const place = placeOf(version);
  const key = versionKey({ ...version, version: 0 });
  const { removed } = await retryOnConflict(clock, `dev of ${version.name}`, async () => {
    const slot = await readSlot(deps, place);
    if (slot.staged !== version.id || (await main.get(key)) === undefined) return { removed: [] };
    const gone = await buildsOf(deps, place, [slot.current]);
    const { ok } = await main.transact([
      putSlot(place, slot, { current: version.id, expiresAt: expiryFrom(clock.now()) }),
      {
        op: 'update',
        key,
        changes: { set: { runnable: true, updated_at: isoTime(clock.now()) } },
        condition: exists(),
      },
      ...removalOf(deps, gone),
    ]);
    return ok ? { removed: gone } : undefined;
  });
  await removeAll(deps, removed);
}

/** Extends the slot's lifetime after a publish without a change, as a publish with a change would. */
export async function keepDev(deps: SlotDeps, version: DevBuild): Promise<void> {
  const place = placeOf(version);
  const slot = await readSlot(deps, place);
  const expiresAt = expiryFrom(deps.clock.now());
  // If the write conflicts, the concurrent change has extended the lifetime as well.
  if (slot.revision > 0 && slot.expiresAt < expiresAt)
    await deps.main.transact([putSlot(place, slot, { ...slot, expiresAt })]);
}

/** Removes a user's `dev` of an agent. */
export const removeDev = (deps: SlotDeps, version: DevBuild): Promise<void> => removeSlot(deps, placeOf(version));

/** Removes the slots without a publish for 14 days. Safe to repeat, and to run several times at once. */
export async function expireDevVersions(deps: SlotDeps): Promise<void> {
  const due = { index: 'gsi2', pk: EXPIRY_INDEX, sk: { lessThan: isoTime(deps.clock.now()) } } as const;
  for await (const item of queryAll(deps.main, due)) {
    const place = {
      workspaceId: item.workspace_id as string,
      userId: item.user_id as string,
      name: item.name as string,
    };
    await removeSlot(deps, place, ({ expiresAt }) => expiresAt <= deps.clock.now());
  }
}

type Place = ReturnType<typeof placeOf>;

async function removeSlot(deps: SlotDeps, place: Place, isDue: (slot: Slot) => boolean = () => true): Promise<void> {
  const { removed } = await retryOnConflict(deps.clock, `dev of ${place.name}`, async () => {
    const slot = slotFrom(await deps.main.get(slotKey(place)));
    if (slot.revision === 0 || !isDue(slot)) return { removed: [] };
    const gone = await buildsOf(deps, place, [slot.current, slot.staged]);
    const { ok } = await deps.main.transact([
      { op: 'delete', key: slotKey(place), condition: sameSlot(slot) },
      countSlot(place, -1),
      ...removalOf(deps, gone),
    ]);
    return ok ? { removed: gone } : undefined;
  });
  await removeAll(deps, removed);
}

const countSlot = (place: Place, by: 1 | -1): TransactOperation => ({
  op: 'update',
  key: slotCountKey(place),
  changes: { add: { slots: by } },
  ...(by === 1 && { condition: anyOf(absent('slots'), lessThan('slots', MAX_SLOTS)) }),
});

const slotsOf = async ({ main }: Pick<Deps, 'main'>, place: Place): Promise<number> =>
  Number((await main.get(slotCountKey(place)))?.slots ?? 0);

/** Reads the items of those builds that exist. */
async function buildsOf({ main }: Pick<Deps, 'main'>, place: Place, ids: (string | undefined)[]): Promise<Item[]> {
  const { workspaceId, name, userId } = place;
  const keys = ids.flatMap((id) => (id ? [versionKey({ workspaceId, name, version: 0, devOf: userId, id })] : []));
  return (await Promise.all(keys.map((key) => main.get(key)))).filter((item) => item !== undefined);
}

/**
 * Operations that delete builds and queue them for {@link removeBuild}. They fail if a build was changed concurrently.
 */
const removalOf = ({ clock }: Pick<Deps, 'clock'>, builds: readonly Item[]): TransactOperation[] =>
  builds.flatMap((item) => [
    { op: 'delete', key: { pk: item.pk, sk: item.sk }, condition: sameBuild(item) },
    deletedVersion(item, clock.now()),
  ]);

async function removeAll(deps: SlotDeps, builds: readonly Item[]): Promise<void> {
  // The collector retries builds that could not be removed, and logs its errors.
  await Promise.allSettled(builds.map((build) => removeBuild(deps, build)));
}
