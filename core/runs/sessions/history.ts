import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { PastTurn, Turn } from './session.ts';
import { damaged, SessionStore } from './store.ts';

/** Maximum text of earlier turns that a model gets. */
export const MAX_SAID_BYTES = 400 * 1024;
/**
 * What is left out at a time: as long as the beginning stays the same, providers read it from their caches. So the oldest
 * turns leave in large steps.
 */
const STEP_BYTES = MAX_SAID_BYTES / 2;
/** Blobs that are read at the same time. */
const AT_ONCE = 10;

interface History {
  /** The oldest first. */
  readonly turns: readonly PastTurn[];
  readonly leftOut: number;
}

/**
 * Returns the completed turns of a session that the run of turn `number` is given. All turns before it must have ended.
 * Throws INTERNAL_ERROR for a turn whose content is damaged.
 *
 * @param newest The newest turns before `number`, the newest first, as far as they are known.
 */
export async function historyOf(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock'>,
  { workspaceId, id, number }: { readonly workspaceId: string; readonly id: string; readonly number: number },
  newest: readonly Turn[] = [],
): Promise<History> {
  const store = new SessionStore(deps, workspaceId);
  const taken: Turn[] = [];
  let leftOut = 0;
  let from: number | undefined;
  const known = newest.filter((turn) => turn.number < number);
  const rest = (known.at(-1)?.number ?? number) - 1;
  /** Returns false for the newest turn that is left out. */
  const take = (turn: Turn): boolean => {
    from ??= beginOf(turn.said);
    // The text of the turns before this one.
    if (turn.said - turn.ownSaid < from) {
      leftOut = turn.number;
      return false;
    }
    if (turn.end?.status === 'completed') taken.push(turn);
    return true;
  };
  if (known.every(take)) for await (const turn of store.newestFirst(id, rest)) if (!take(turn)) break;
  const turns: PastTurn[] = [];
  taken.reverse();
  for (let at = 0; at < taken.length; at += AT_ONCE) {
    turns.push(...(await Promise.all(taken.slice(at, at + AT_ONCE).map((turn) => pastTurn(store, id, turn)))));
  }
  return { turns, leftOut };
}

/** Returns the text that is left out of `said` bytes. */
const beginOf = (said: number): number =>
  said <= MAX_SAID_BYTES ? 0 : STEP_BYTES * Math.ceil((said - MAX_SAID_BYTES) / STEP_BYTES);

async function pastTurn(store: SessionStore, id: string, turn: Turn): Promise<PastTurn> {
  const content = await store.content(id, turn);
  if (content === undefined) throw damaged(id, turn.number);
  return { number: turn.number, runId: turn.runId, ...content };
}

/** An output as a model reads what it said before: the text of a reply that was no JSON, else JSON. */
export function saidBy(output: Json): string {
  if (typeof output === 'string') return output;
  if (typeof output === 'object' && output !== null && !Array.isArray(output)) {
    const { result, ...others } = output;
    if (typeof result === 'string' && Object.keys(others).length === 0) return result;
  }
  return JSON.stringify(output);
}
