import type { Deps } from '#core/ports/deps.ts';
import { cancelRun, waitForEnd } from '#core/runs/cancellation.ts';
import { eraseSession } from '#core/runs/sessions/erase.ts';
import { eraseRun } from '#core/runs/sessions/erase-run.ts';
import { SessionStore } from '#core/runs/sessions/store.ts';
import { findResponse } from './stored-responses.ts';

type DeleteDeps = Pick<
  Deps,
  'main' | 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'config' | 'runSignals' | 'wakeRun'
>;

/**
 * Erases what was said in the run of a response, and its session if it has no other. In a longer one the message stays, as
 * with OpenAI: its conversation has it. Throws NOT_FOUND.
 */
export async function deleteResponse(deps: DeleteDeps, incoming: Parameters<typeof findResponse>[1]) {
  const { run, runs, workspace } = await findResponse(deps, incoming);
  if (await cancelRun(deps, workspace.id, run.id)) await waitForEnd(deps, runs, run.id);
  const found = run.sessionId === null ? undefined : await new SessionStore(deps, workspace.id).find(run.sessionId, 2);
  if (found?.newest.length === 1) await eraseSession(deps, workspace.id, found.session.id);
  else await eraseRun(deps, workspace.id, run.id);
  return { id: incoming.params.response_id, object: 'response', deleted: true };
}
