import type { Deps } from '#core/ports/deps.ts';
import { absent, equals, type Item, type TransactOperation } from '#core/ports/table.ts';
import { firstHolder, furtherHolder, releaseHolder } from './blobs.ts';
import { layersPartition } from './storage-usage.ts';

/**
 * Layers that versions of a workspace use. Main table: `WS#<workspace id>#LAYERS / <hash>` with the blob `key`, its
 * `bytes` and `sha256`, and the number of `versions`. The hash covers everything that determines the content, so
 * versions
 * with the same dependencies share a layer and the workspace is charged for it once.
 */
const layerItemKey = (workspaceId: string, hash: string) => ({ pk: layersPartition(workspaceId), sk: hash });

/** An existing layer: just built and announced, or held by another workspace. */
export interface GivenLayer {
  readonly key: string;
  readonly bytes: number;
  /** Hash of the blob, hex; absent for layers recorded by older releases. */
  readonly sha256?: string;
  readonly isNew: boolean;
}

/** Finds the layer `hash` of a workspace. */
export async function layerOf(
  { main }: Pick<Deps, 'main'>,
  workspaceId: string,
  hash: string,
): Promise<GivenLayer | undefined> {
  const item = await main.get(layerItemKey(workspaceId, hash));
  return item && { ...blobOf(item), isNew: false };
}

const blobOf = ({ key, bytes, sha256 }: Item) => ({
  key: key as string,
  bytes: bytes as number,
  ...(sha256 !== undefined && { sha256: sha256 as string }),
});

/**
 * Operations by which a version uses a layer, the key of its blob, and the growth of the workspace's storage in bytes.
 */
export interface LayerUse {
  readonly key: string;
  readonly sha256?: string;
  readonly growth: number;
  readonly operations: readonly TransactOperation[];
}

/** Adds a version to the layer `hash`: the workspace's own, or else `given`. `undefined` if neither exists. */
export async function useLayer(
  { main }: Pick<Deps, 'main'>,
  workspaceId: string,
  hash: string,
  given?: GivenLayer,
): Promise<LayerUse | undefined> {
  const itemKey = layerItemKey(workspaceId, hash);
  const own = await main.get(itemKey);
  if (own !== undefined) {
    const { key, sha256 } = blobOf(own);
    return {
      key,
      sha256,
      growth: 0,
      operations: [{ op: 'update', key: itemKey, changes: { add: { versions: 1 } }, condition: equals('key', key) }],
    };
  }
  if (given === undefined) return undefined;
  const { key, bytes, sha256, isNew } = given;
  return {
    key,
    sha256,
    growth: bytes,
    operations: [
      {
        op: 'put',
        item: { ...itemKey, key, bytes, ...(sha256 !== undefined && { sha256 }), versions: 1 },
        condition: absent(),
      },
      ...(isNew ? firstHolder(key) : [furtherHolder(key)]),
    ],
  };
}

/**
 * Operations by which a version releases its layer; an unused layer is deleted at `at`. They fail after a concurrent
 * change.
 */
export async function releaseLayer(
  deps: Pick<Deps, 'main' | 'clock'>,
  workspaceId: string,
  hash: string | undefined,
  at?: number,
): Promise<Omit<LayerUse, 'key' | 'sha256'>> {
  const key = layerItemKey(workspaceId, hash ?? 'none');
  const item = hash === undefined ? undefined : await deps.main.get(key);
  if (item === undefined) return { growth: 0, operations: [] };
  const versions = item.versions as number;
  const condition = equals('versions', versions);
  if (versions > 1) {
    return { growth: 0, operations: [{ op: 'update', key, changes: { add: { versions: -1 } }, condition }] };
  }
  return {
    growth: -(item.bytes as number),
    operations: [{ op: 'delete', key, condition }, ...(await releaseHolder(deps, item.key as string, at))],
  };
}
