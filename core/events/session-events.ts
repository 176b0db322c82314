import type { Deps } from '#core/ports/deps.ts';
import type { Turn } from '#core/runs/sessions/session.ts';
import { SessionStore } from '#core/runs/sessions/store.ts';
import { RunEvents } from './run-events.ts';
import type { Watched, WatchedEvent } from './watch.ts';

type SessionEventDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>;

/** Maximum number of turns whose events one read returns. */
const TURNS_AT_ONCE = 20;
/** Maximum number of events that one read returns. The next read continues after them. */
const EVENTS_AT_ONCE = 500;

/** The last event that a client has received. A stream continues after it. */
export interface SessionPlace {
  readonly number: number;
  readonly event: number;
}

export const SESSION_EVENT_ID = /^(\d{1,8})\.(\d{1,8})$/;

/**
 * The events of the runs of a session, one run after another. Their ids are `<number of the message>.<id in its run>`; that of an `end` is where the next message begins. The
 * stream of a session ends when it is deleted.
 */
export class SessionEvents implements Watched {
  readonly #deps: SessionEventDeps;
  readonly #store: SessionStore;
  readonly #workspaceId: string;
  readonly #sessionId: string;
  /** Number of the turn before which everything was reported. */
  #passed: number;
  #current: { readonly turn: Turn; readonly events: RunEvents } | undefined;
  /** Id of the last event of the run with which the stream begins. */
  #after: number;

  constructor(
    deps: SessionEventDeps,
    { workspaceId, sessionId }: { readonly workspaceId: string; readonly sessionId: string },
    after: SessionPlace,
  ) {
    this.#deps = deps;
    this.#store = new SessionStore(deps, workspaceId);
    this.#workspaceId = workspaceId;
    this.#sessionId = sessionId;
    this.#passed = Math.max(0, after.number - 1);
    this.#after = after.event;
  }

  async look(): Promise<{ events: WatchedEvent[]; isOver: boolean }> {
    const found: WatchedEvent[] = [];
    for (let turns = 0; turns < TURNS_AT_ONCE && found.length < EVENTS_AT_ONCE; turns++) {
      this.#current ??= await this.#next();
      if (this.#current === undefined) break;
      const { turn, events } = this.#current;
      const { events: seen, isOver } = await events.look();
      found.push(...seen.map((event) => ({ ...event, id: placeAfter(turn, event), data: ofTurn(turn, event) })));
      if (!isOver) break;
      this.#passed = turn.number;
      this.#current = undefined;
    }
    const isOver = this.#current === undefined && (await this.#store.find(this.#sessionId, 1)) === undefined;
    return { events: found, isOver };
  }

  async #next(): Promise<{ readonly turn: Turn; readonly events: RunEvents } | undefined> {
    const [turn] = await this.#store.turns(this.#sessionId, { after: this.#passed, limit: 1, reverse: false });
    if (turn === undefined) return undefined;
    const run = { workspaceId: this.#workspaceId, id: turn.runId };
    const events = new RunEvents(this.#deps, run, this.#after);
    this.#after = 0;
    return { turn, events };
  }
}

/** Returns the place after an event: after the end of a turn the next one begins, so that no end is reported twice. */
const placeAfter = ({ number }: Turn, { id, type }: WatchedEvent): string =>
  type === 'end' ? `${number + 1}.0` : `${number}.${id}`;

const ofTurn = ({ number, runId }: Turn, { data }: WatchedEvent): WatchedEvent['data'] => ({
  message_number: number,
  run_id: runId,
  ...data,
});
