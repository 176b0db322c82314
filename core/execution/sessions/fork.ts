import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Deps } from '#core/ports/deps.ts';
import { eraseSession } from '#core/runs/sessions/erase.ts';
import { sessionIdOf } from '#core/runs/sessions/items.ts';
import type { Session } from '#core/runs/sessions/session.ts';
import { countBytes } from '#core/runs/sessions/space.ts';
import { copyState } from '#core/runs/sessions/state.ts';
import { damaged, noSession, SessionStore } from '#core/runs/sessions/store.ts';

type ForkDeps = Pick<Deps, 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'config' | 'runSignals' | 'wakeRun'>;

/** Turns that are copied at the same time. */
const AT_ONCE = 25;

/**
 * Opens a session that begins with copies of the first `after` messages of another one, and returns its id. Throws CONFLICT if
 * one of them is under way, INTERNAL_ERROR for a damaged one, STORAGE_QUOTA_EXCEEDED.
 */
export async function forkSession(
  deps: ForkDeps,
  workspace: Workspace,
  from: Session,
  { after, title }: { readonly after: number; readonly title?: string | undefined },
): Promise<string> {
  const store = new SessionStore(deps, workspace.id);
  const last = after === 0 ? undefined : await store.turn(from.id, after);
  if (after > 0 && last === undefined) throw noSession(from.id);
  const { externalId: _, ...rest } = from;
  const fork: Session = {
    ...rest,
    id: sessionIdOf(deps.ids.uuid()),
    title: title ?? from.title,
    forkedFrom: { sessionId: from.id, after },
    createdAt: deps.clock.now(),
  };
  await store.open(fork);
  try {
    await countBytes(deps, workspace, { session: fork, newest: last ? [last] : [], counted: 0 });
    for (let number = 0; number < after; ) {
      const turns = await store.turns(from.id, {
        after: number,
        limit: Math.min(AT_ONCE, after - number),
        reverse: false,
      });
      const open = turns.find(({ end }) => end === undefined);
      if (open !== undefined) {
        throw new PlatformError(
          'CONFLICT',
          `Message ${open.number} of the session ${from.id} is under way, in the run ${open.runId}: it cannot be copied yet.`,
          { hint: 'Fork after an earlier message, or when that run has ended.' },
        );
      }
      if (turns.length === 0) throw damaged(from.id, number + 1);
      await store.copyTurns(from.id, fork.id, turns);
      number = turns.at(-1)!.number;
    }
    await copyState(deps, workspace.id, { from: from.id, to: fork.id, after });
  } catch (error) {
    await eraseSession(deps, workspace.id, fork.id);
    throw error;
  }
  return fork.id;
}
