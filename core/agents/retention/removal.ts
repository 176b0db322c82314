import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { exists, type Item, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { evalFilesKey } from '../eval-files.ts';
import { type BundleItem, definitionKey, type InstallItem, idKey } from '../record.ts';
import { skillFilesKey } from '../skills/skill-contents.ts';
import { deleteGarbage, discard, GARBAGE_INDEX, garbageIndex, releaseHolder } from './blobs.ts';
import { releaseLayer } from './layers.ts';
import { bytesOfVersion, deletedPartition, recountDue, useOperation } from './storage-usage.ts';

/**
 * Deleted versions that still use storage. Main table: `WS#<workspace id>#DELETED / <version id>`, written by the
 * transaction that deletes the version and removed by the one that purges it (gsi2 `GARBAGE` by the time of the purge).
 * Builds of `dev`, which have `dev_of`, are purged at once; their blobs stay for an hour for runs in flight.
 */
const deletedKey = (workspaceId: string, versionId: string) => ({ pk: deletedPartition(workspaceId), sk: versionId });

/** Longer than any run, which may read its code and layer until it ends. */
const BUILD_BLOBS_MS = 60 * 60_000;

/** Operation that schedules the purge of a version, given its item, at `at` (epoch milliseconds). */
export function deletedVersion(item: Item, at: number): TransactOperation {
  const [workspaceId, id] = [item.workspace_id as string, item.id as string];
  return {
    op: 'put',
    item: {
      ...deletedKey(workspaceId, id),
      workspace_id: workspaceId,
      version_id: id,
      bytes: bytesOfVersion(item),
      bundle: (item.bundle as BundleItem | undefined)?.key,
      held_layer: (item.install as InstallItem | undefined)?.held_layer,
      ...(item.contents_bytes !== undefined && { contents: skillFilesKey(id) }),
      ...(item.evals_bytes !== undefined && { evals: evalFilesKey(id) }),
      ...(item.dev_of !== undefined && { dev_of: item.dev_of, blobs_until: at + BUILD_BLOBS_MS }),
      ...garbageIndex(at, id),
    },
  };
}

type RemovalDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'log'>;

/** The collector starts no new work after this time; its next run continues. */
const MAX_COLLECT_MS = 5 * 60_000;

/**
 * Purges deleted versions that can no longer be restored, deletes blobs without holders, and recounts the storage of
 * workspaces. Safe to repeat, and to run several times at once.
 */
export async function collectGarbage(deps: RemovalDeps): Promise<void> {
  const { main, clock, log } = deps;
  const start = clock.now();
  const due = { index: 'gsi2', pk: GARBAGE_INDEX, sk: { lessThan: isoTime(start) } } as const;
  for await (const item of queryAll(main, due)) {
    if (clock.now() - start > MAX_COLLECT_MS) return;
    const work = item.blob === undefined ? removeForGood(deps, item) : deleteGarbage(deps, item.blob as string);
    await work.catch((error: unknown) => log.error('garbage not removed', { key: item.pk, error: String(error) }));
  }
  await recountDue(deps);
}

/** Purges a deleted build of `dev`. If this fails, the collector retries it. */
export const removeBuild = (deps: Pick<Deps, 'main' | 'clock'>, { workspace_id, id }: Item): Promise<void> =>
  removeForGood(deps, deletedKey(workspace_id as string, id as string));

/** Releases the storage of one deleted version and makes its blobs garbage. */
async function removeForGood(deps: Pick<Deps, 'main' | 'clock'>, { pk, sk }: Pick<Item, 'pk' | 'sk'>): Promise<void> {
  const { main, clock } = deps;
  await retryOnConflict(clock, `the deleted version ${sk}`, async () => {
    const item = await main.get({ pk, sk });
    if (item === undefined) return true;
    const workspaceId = item.workspace_id as string;
    const until = item.blobs_until as number | undefined;
    const layer = await releaseLayer(deps, workspaceId, item.held_layer as string | undefined, until);
    const freed = { versions: item.dev_of === undefined ? -1 : 0, bytes: layer.growth - (item.bytes as number) };
    const { ok } = await main.transact([
      { op: 'delete', key: { pk, sk }, condition: exists() },
      useOperation(deps, workspaceId, freed),
      ...(await releaseHolder(deps, item.bundle as string | undefined, until)),
      ...layer.operations,
      ...(item.dev_of === undefined ? [] : [{ op: 'delete', key: idKey(sk) } as const]),
      discard(deps, definitionKey(sk), until),
      ...(item.contents === undefined ? [] : [discard(deps, item.contents as string, until)]),
      ...(item.evals === undefined ? [] : [discard(deps, item.evals as string, until)]),
    ]);
    return ok || undefined;
  });
}
