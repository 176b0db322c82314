import type { Deps } from '#core/ports/deps.ts';
import { type Item, type Key, queryAll, type TransactOperation } from '#core/ports/table.ts';
import type { NewState } from './session.ts';

/**
 * What the next message of a session is given besides its turns: the conversation of a loop, and the files of its sandbox.
 * Runs table:
 *
 * - `WS#<workspace id>#SESSION_STATE#<session id> / STATE`: the sealed data key, and where the parts are, each sealed with it.
 *   It is put in the transaction that ends a turn, so that a process which dies leaves that of the turn before;
 * - `WS#<workspace id>#SESSION_STATE#<session id> / STEER#<turn, 8 digits>#<number, 4 digits>`: a message for the run of a
 *   turn that is under way (`steering.ts`).
 *
 * Large parts are in blobs: `sessions/<workspace id>/<session id>/<name>`.
 */
export const statePartition = (workspaceId: string, sessionId: string): string =>
  `WS#${workspaceId}#SESSION_STATE#${sessionId}`;
export const stateKey = (workspaceId: string, sessionId: string): Key => ({
  pk: statePartition(workspaceId, sessionId),
  sk: 'STATE',
});
export const stateBlobKey = (workspaceId: string, sessionId: string, name: string): string =>
  `sessions/${workspaceId}/${sessionId}/${name}`;

export const STATE_VERSION = 1;

/** Where a part of the state is. */
export type StatePart = {
  /** The turn that gave it. */
  readonly after: number;
  readonly bytes: number;
  /** Sealed, as Base64; absent if it is in a blob. */
  readonly data?: string;
  readonly blob?: string;
  /** For files: the bundle of the sandbox in which they were kept. */
  readonly bundle?: string;
};

export const STATE_PARTS = ['conversation', 'files'] as const;
export type StateParts = { readonly [name in (typeof STATE_PARTS)[number]]?: StatePart };

export const statePartsOf = (item: Item | undefined): StateParts =>
  ({ conversation: item?.conversation, files: item?.files }) as StateParts;

/** Returns the write that puts a state in the place of the one before. */
export const stateOperation = (workspaceId: string, sessionId: string, { item }: NewState): TransactOperation => ({
  op: 'put',
  item: { ...item, ...stateKey(workspaceId, sessionId) },
});

/** Removes the blobs of the state before. */
export async function removeReplaced(
  { blobs, log }: Pick<Deps, 'blobs'> & Partial<Pick<Deps, 'log'>>,
  { workspaceId, sessionId }: { readonly workspaceId: string; readonly sessionId: string },
  { replaces }: Pick<NewState, 'replaces'>,
): Promise<void> {
  // An orphaned blob costs only storage, until the session is erased.
  const removed = replaces.map((name) => blobs.delete(stateBlobKey(workspaceId, sessionId, name)));
  for (const each of await Promise.allSettled(removed)) {
    if (each.status === 'rejected') log?.warn('state of a session not removed', { session_id: sessionId });
  }
}

/**
 * Copies the state of a session to a new one, which begins with its first `after` messages. Copies nothing if the state is
 * one of a later message.
 */
export async function copyState(
  { runs, blobs }: Pick<Deps, 'runs' | 'blobs'>,
  workspaceId: string,
  { from, to, after }: { readonly from: string; readonly to: string; readonly after: number },
): Promise<void> {
  const item = await runs.get(stateKey(workspaceId, from));
  const parts = STATE_PARTS.flatMap((name) => statePartsOf(item)[name] ?? []);
  if (item === undefined || parts.some((part) => part.after > after)) return;
  for (const { blob } of parts) {
    if (blob === undefined) continue;
    const content = await blobs.get(stateBlobKey(workspaceId, from, blob));
    // A later message has just replaced it, or it is damaged.
    if (content === undefined) return;
    await blobs.put(stateBlobKey(workspaceId, to, blob), content);
  }
  await runs.put({ ...item, ...stateKey(workspaceId, to) });
}

/** Erases the items of a session's state. Its blobs are removed with those of its turns. */
export async function eraseState(
  { runs }: Pick<Deps, 'runs'>,
  { workspaceId, sessionId }: { readonly workspaceId: string; readonly sessionId: string },
): Promise<void> {
  const pk = statePartition(workspaceId, sessionId);
  for await (const { sk } of queryAll(runs, { pk })) await runs.delete({ pk, sk });
}
