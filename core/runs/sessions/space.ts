import { quotaError } from '#core/accounts/resources/quota.ts';
import { planOf } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, anyOf, equals, exists, queryAll } from '#core/ports/table.ts';
import { bytesKey, digitOf, sessionKey } from './items.ts';
import type { FoundSession } from './store.ts';

const FIRST_BYTES = 8 * 1024;
const LARGEST_STEP_BYTES = 1024 * 1024;

type SpaceDeps = Pick<Deps, 'runs' | 'config'>;

/**
 * Counts what a session holds against the plan of its workspace. Space is counted ahead, in steps that double up to 1 MB, so
 * that few messages write it; and in one of 16 items, so that none is written by every session. Throws
 * STORAGE_QUOTA_EXCEEDED.
 */
export async function countBytes(
  deps: SpaceDeps,
  workspace: Workspace,
  { session, newest, counted }: Pick<FoundSession, 'session' | 'newest' | 'counted'>,
): Promise<void> {
  const held = newest[0]?.bytes ?? 0;
  if (held < counted) return;
  const wanted = roomFor(held);
  const growth = wanted - counted;
  const plan = planOf(deps, workspace);
  const used = await usedBytes(deps, workspace.id);
  if (plan.session_bytes !== null && used + growth > plan.session_bytes) {
    throw quotaError('session_bytes', plan, { used, growth });
  }
  // Of messages that come at the same time, one counts.
  await deps.runs.transact([
    {
      op: 'update',
      key: sessionKey(workspace.id, session.id),
      changes: { set: { counted: wanted } },
      condition: allOf(exists(), absent('erased'), anyOf(absent('counted'), equals('counted', counted))),
    },
    { op: 'update', key: bytesKey(workspace.id, digitOf(session.id)), changes: { add: { bytes: growth } } },
  ]);
}

function roomFor(held: number): number {
  let room = FIRST_BYTES;
  while (room <= held) room += Math.min(room, LARGEST_STEP_BYTES);
  return room;
}

/** Returns the bytes that the sessions of a workspace hold, as they are counted. */
export async function usedBytes({ runs }: Pick<Deps, 'runs'>, workspaceId: string): Promise<number> {
  let used = 0;
  for await (const { bytes } of queryAll(runs, { pk: bytesKey(workspaceId, '0').pk })) used += bytes as number;
  return Math.max(0, used);
}
