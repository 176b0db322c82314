import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Item } from '#core/ports/table.ts';
import { findWorkspace } from './store.ts';

/** Seconds after which a client tries again: a freeze takes minutes. */
const WAIT_SECONDS = 30;

/**
 * What a request or a process wants of a workspace: to read it; to change it, or to begin a run; or to change it for a run
 * that has begun.
 */
export type Use = 'read' | 'change' | 'run';

/**
 * Throws while a workspace moves to another cell: RATE_LIMITED, which clients repeat. Once it has moved, throws FORBIDDEN, which
 * names the other cell.
 */
export function checkStays({ slug, move }: Pick<Workspace, 'slug' | 'move'>, use: Use): void {
  if (move === undefined) return;
  const { state, cell, address } = move;
  if (state === 'moved') {
    throw new PlatformError('FORBIDDEN', `The workspace "${slug}" has moved to cell ${cell}.`, {
      hint:
        address === undefined ? 'Use the address of that cell.' : `Use ${address}: keys of the workspace work there.`,
    });
  }
  if (state === 'arriving' || (use !== 'read' && !(use === 'run' && state === 'draining'))) throw movingError(slug);
}

/** Keys of indexes. */
export const INDEX_KEYS = ['gsi1pk', 'gsi1sk', 'gsi2pk', 'gsi2sk'] as const;

/** Returns an item as it replaces one that is parked: in no index, until its workspace works again. */
export function keepParked(before: Item, after: Item): Item {
  if (before.moving !== true) return after;
  const parked: Record<string, Json> = {};
  const rest = { ...after };
  for (const name of INDEX_KEYS) {
    if (after[name] !== undefined) parked[name] = after[name];
    delete rest[name];
  }
  return { ...rest, moving: true, parked };
}

/** Throws RATE_LIMITED for an item that is marked because its workspace moves. */
export function checkNotMoving(item: Item): void {
  if (item.moving === true) throw movingError();
}

/** Throws like {@link checkStays} for a workspace that was read some time ago, or not at all. */
export async function checkStillStays(deps: Pick<Deps, 'main'>, workspaceId: string, use: Use): Promise<void> {
  const workspace = await findWorkspace(deps, workspaceId);
  if (workspace !== undefined) checkStays(workspace, use);
}

/** Throws like {@link checkStays} for an item that is marked. */
export async function refuseMoving(deps: Pick<Deps, 'main'>, workspaceId: string): Promise<never> {
  await checkStillStays(deps, workspaceId, 'change');
  throw movingError();
}

function movingError(slug?: string): PlatformError {
  const name = slug === undefined ? 'This workspace' : `The workspace "${slug}"`;
  return new PlatformError('RATE_LIMITED', `${name} moves to another cell, which takes some minutes: try again.`, {
    suggested_wait_time: WAIT_SECONDS,
  });
}
