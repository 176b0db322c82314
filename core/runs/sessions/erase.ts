import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, equals, exists, type Item, queryAll } from '#core/ports/table.ts';
import { type CancelDeps, cancelRun } from '../cancellation.ts';
import { workspaceIdOf } from '../items.ts';
import { RunStore } from '../store.ts';
import { eraseRun, removeBlobs } from './erase-run.ts';
import {
  bytesKey,
  digitOf,
  MAX_TURNS,
  nameKey,
  sessionBlobs,
  sessionFrom,
  sessionIdIn,
  sessionKey,
  sessionPartition,
  sessionsByExpiry,
  turnFrom,
  turnKey,
  turnSk,
} from './items.ts';
import type { Session } from './session.ts';
import { eraseState } from './state.ts';
import { nameHash, SessionStore } from './store.ts';

export type EraseDeps = CancelDeps & Pick<Deps, 'counters'>;

/** Turns that are erased at the same time. */
const AT_ONCE = 10;
/** For so long no message that was on its way gets the number of an erased turn. */
const KEPT_SECONDS = 24 * 3600;

/**
 * Erases a session at once: its turns and blobs, and what was said in its runs and the sub-calls of these. Cancels what is
 * under way. If the process dies meanwhile, the sweep goes on. Returns false if there is no such session.
 */
export async function eraseSession(deps: EraseDeps, workspaceId: string, id: string): Promise<boolean> {
  const key = sessionKey(workspaceId, id);
  // From here on nobody finds it.
  const marked = await deps.runs.update(
    key,
    { set: { erased: true, gsi1sk: new Date(0).toISOString() }, remove: ['title', 'metadata'] },
    allOf(exists(), absent('done')),
  );
  if (!marked.ok) return false;
  const session = sessionFrom(workspaceId, { ...marked.item, metadata: {} });
  await eraseTurns(deps, session);
  await eraseState(deps, { workspaceId, sessionId: id });
  await removeBlobs(deps, sessionBlobs(workspaceId, id));
  await forgetName(deps, session);
  const counted = (marked.item.counted as number | undefined) ?? 0;
  // The bytes are given back once.
  await deps.runs.transact([
    {
      op: 'update',
      key,
      changes: {
        set: { done: true, ttl: epochSeconds(deps.clock.now()) + KEPT_SECONDS },
        remove: ['gsi1pk', 'gsi1sk', 'gsi2pk', 'gsi2sk', 'external_id', 'tenant_id', 'counted'],
      },
      condition: allOf(equals('erased', true), absent('done')),
    },
    { op: 'update', key: bytesKey(workspaceId, digitOf(id)), changes: { add: { bytes: -counted } } },
  ]);
  return true;
}

async function eraseTurns(deps: EraseDeps, { id, workspaceId }: Pick<Session, 'id' | 'workspaceId'>): Promise<void> {
  const { runs, clock } = deps;
  const ttl = epochSeconds(clock.now()) + KEPT_SECONDS;
  const pk = sessionPartition(workspaceId, id);
  let last = 0;
  for (;;) {
    const sk = { between: [turnSk(last + 1), turnSk(MAX_TURNS)] as const };
    const { items } = await runs.query({ pk, sk, limit: AT_ONCE });
    if (items.length === 0) {
      // A message that is just beginning takes the next number: it must find that one taken.
      const end = { ...turnKey(workspaceId, id, last + 1), erased: true, ttl };
      if ((await runs.put(end, absent())).ok) return;
      continue;
    }
    await Promise.all(items.map((item) => eraseTurn(deps, workspaceId, item, ttl)));
    last = turnFrom(items.at(-1)!).number;
  }
}

async function eraseTurn(deps: EraseDeps, workspaceId: string, item: Item, ttl: number): Promise<void> {
  const { pk, sk, run_id: runId, copied } = item;
  if (runId === undefined) return;
  // From here on the end of its run writes nothing that was said. The id of the run stays until that is erased, too.
  await deps.runs.put({ pk, sk, erased: true, run_id: runId, copied, ttl });
  // The run of a copied turn belongs to the session that this one was forked from.
  if (copied !== true) await eraseRunOfTurn(deps, workspaceId, runId as string);
  await deps.runs.put({ pk, sk, erased: true, ttl });
}

async function eraseRunOfTurn(deps: EraseDeps, workspaceId: string, runId: string): Promise<void> {
  await cancelRun(deps, workspaceId, runId);
  const below = [...(await new RunStore(deps, workspaceId).callers(runId)).keys()];
  await Promise.all([runId, ...below].map((each) => eraseRun(deps, workspaceId, each)));
}

/** Frees the external id of a session. */
async function forgetName({ runs }: EraseDeps, session: Session): Promise<void> {
  if (session.externalId === undefined) return;
  const key = nameKey(session.workspaceId, nameHash(session, session.externalId));
  await runs.delete(key, equals('session', session.id));
}

/**
 * Erases the sessions of all workspaces whose time is over, and those whose erasure was interrupted.
 * Safe to run on several hosts at once.
 */
export async function eraseExpiredSessions(deps: EraseDeps & Pick<Deps, 'log'>): Promise<void> {
  const before = isoTime(deps.clock.now());
  for (const query of sessionsByExpiry()) {
    for await (const item of queryAll(deps.runs, { ...query, sk: { lessThan: before }, limit: 50 })) {
      const id = sessionIdIn(item);
      try {
        await eraseIfExpired(deps, workspaceIdOf(item), id);
      } catch (error) {
        deps.log.error('expired session not erased', { session_id: id, error: String(error) });
      }
    }
  }
}

async function eraseIfExpired(deps: EraseDeps, workspaceId: string, id: string): Promise<void> {
  const store = new SessionStore(deps, workspaceId);
  const { items } = await deps.runs.query({ pk: sessionPartition(workspaceId, id), reverse: true, limit: 2 });
  const found = store.read(items);
  if (found !== undefined && !store.isExpired(found)) {
    await store.touch(found);
    return;
  }
  await eraseSession(deps, workspaceId, id);
}
