import { messageViews, sessionViews } from '#core/execution/sessions/view.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type FoundSession, SessionStore } from '#core/runs/sessions/store.ts';

/** Messages that are read at the same time. */
const AT_ONCE = 20;

/** A session as JSON lines: first the session, then each message. */
export async function* exportLines(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>,
  workspaceId: string,
  found: FoundSession,
): AsyncGenerator<Uint8Array> {
  const { id } = found.session;
  const [session] = await sessionViews(deps, workspaceId, [found]);
  yield lineOf({ type: 'session', ...session });
  const store = new SessionStore(deps, workspaceId);
  for (let after = 0; ; ) {
    const turns = await store.turns(id, { after, limit: AT_ONCE, reverse: false });
    if (turns.length === 0) return;
    for (const message of await messageViews(deps, workspaceId, id, turns)) {
      yield lineOf({ type: 'message', ...message });
    }
    after = turns.at(-1)!.number;
  }
}

const lineOf = (value: object): Uint8Array => Buffer.from(`${JSON.stringify(value)}\n`);
