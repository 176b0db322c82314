import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import { equals, exists } from '#core/ports/table.ts';
import {
  answerBlobKey,
  bodyBlobKey,
  bodyKey,
  contentBlobKey,
  headKey,
  hexOf,
  journalBlobKey,
  journalPartition,
} from '../items.ts';
import { eventPartition } from '../live-events.ts';
import { judgesOf } from '../online/notes.ts';
import { CANCELLED, emptyBody, type NewRun, type RunResult } from '../run.ts';
import { eraseComments } from '../scores/store.ts';
import { sessionBlobs } from './items.ts';

/** The records of the runs of a workspace, of which `RunStore` is one. */
interface EndStore {
  finish(run: NewRun, result: RunResult, options: { readonly isErased: true }): Promise<boolean>;
}

type EraseDeps = Pick<Deps, 'runs' | 'blobs'>;

/** Number of items that are removed at the same time. */
const AT_ONCE = 25;

/**
 * Erases what was said in a run: input, output, logs, trace, events, journal, and the copies that judges got. Its record stays, with its times
 * and costs, as usage follows from it.
 */
export async function eraseRun(
  deps: EraseDeps & Partial<Pick<Deps, 'counters'>>,
  workspaceId: string,
  runId: string,
): Promise<void> {
  await eraseAlone(deps, workspaceId, runId);
  // Read after the mark, which keeps further judges from beginning.
  for (const judge of await judgesOf(deps, workspaceId, runId)) await eraseAlone(deps, workspaceId, judge);
}

async function eraseAlone(
  deps: EraseDeps & Partial<Pick<Deps, 'counters'>>,
  workspaceId: string,
  runId: string,
): Promise<void> {
  const erased = await deps.runs.update(
    headKey(workspaceId, runId),
    {
      set: { body: emptyBody(null) as unknown as Json, body_in: 'head', erased: true },
      remove: ['error_message'],
    },
    exists(),
  );
  if (erased.ok && erased.item.idempotency !== undefined) {
    const key = { pk: `IDEM#${workspaceId}#${erased.item.idempotency}`, sk: 'ANSWER' };
    await deps.counters?.delete(key, equals('run_id', runId));
  }
  const journal = async () => {
    const pk = journalPartition(workspaceId, runId);
    if ((await deps.runs.query({ pk, limit: 1 })).items.length === 0) return;
    // The items go last: if the process dies before, they tell the sweep that there may be blobs.
    await removeBlobs(deps, journalBlobKey(workspaceId, runId, ''));
    await emptyPartition(deps, pk);
  };
  await Promise.all([
    deps.runs.delete(bodyKey(workspaceId, runId)),
    deps.blobs.delete(bodyBlobKey(workspaceId, runId)),
    deps.blobs.delete(contentBlobKey(workspaceId, runId)),
    deps.blobs.delete(answerBlobKey(workspaceId, runId)),
    journal(),
    emptyPartition(deps, eventPartition(workspaceId, runId)),
    emptyPartition(deps, approvalPartition(workspaceId, runId)),
    eraseComments(deps, workspaceId, runId),
  ]);
}

const approvalPartition = (workspaceId: string, runId: string): string => `WS#${workspaceId}#APPROVALS#${hexOf(runId)}`;

async function emptyPartition({ runs }: Pick<Deps, 'runs'>, pk: string): Promise<void> {
  for (;;) {
    const { items } = await runs.query({ pk, limit: AT_ONCE });
    if (items.length === 0) return;
    await Promise.all(items.map(({ sk }) => runs.delete({ pk, sk })));
  }
}

export async function removeBlobs({ blobs }: Pick<Deps, 'blobs'>, prefix: string): Promise<void> {
  const keys = await Array.fromAsync(blobs.list(prefix));
  for (let at = 0; at < keys.length; at += AT_ONCE) {
    await Promise.all(keys.slice(at, at + AT_ONCE).map((key) => blobs.delete(key)));
  }
}

/**
 * Records the end of a run whose session was erased while it ran: as cancelled, without what was said. Returns false, as for
 * any run that was cancelled.
 */
export async function eraseEnd(
  deps: EraseDeps,
  store: EndStore,
  workspaceId: string,
  { run, result }: { readonly run: NewRun; readonly result: RunResult },
): Promise<false> {
  const { session, ...alone } = run;
  const { said: _, hasContent: __, state: ___, ...rest } = result;
  const end = { ...CANCELLED, errorMessage: 'The session of the run was deleted.' };
  const creditsCents = result.cancelledCreditsCents ?? 0;
  await store.finish(alone, { ...rest, ...emptyBody(null), ...end, creditsCents }, { isErased: true });
  await eraseRun(deps, workspaceId, run.id);
  if (session) await removeBlobs(deps, sessionBlobs(workspaceId, session.sessionId));
  return false;
}
