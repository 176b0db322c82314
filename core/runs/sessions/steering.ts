import { PlatformError } from '#core/base/errors.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, exists, type Key, queryAll } from '#core/ports/table.ts';
import { turnKey } from './items.ts';
import { statePartition } from './state.ts';

/** Messages that may wait for the run of one turn. */
const MAX_MESSAGES = 20;
/** Tries to get the next number, while others add messages. */
const MAX_TRIES = 40;
const PAUSE_MS = 50;
const KEPT_MS = 24 * 3600_000;

type SteerDeps = Pick<Deps, 'runs' | 'clock'>;

/** The turn whose run gets messages. */
interface SteeredTurn {
  readonly workspaceId: string;
  readonly sessionId: string;
  readonly number: number;
}

/** A message, and the fate of it: it was taken, it still waits, or it was withdrawn. */
type Fate = 'taken' | 'waits' | 'withdrawn';

/**
 * Messages for a run that is under way. The run takes one, or its sender withdraws it: both are writes on the same item, so
 * that one of them happens.
 */
export class SteeringStore {
  readonly #deps: SteerDeps;
  readonly #turn: SteeredTurn;

  constructor(deps: SteerDeps, turn: SteeredTurn) {
    this.#deps = deps;
    this.#turn = turn;
  }

  /**
   * Adds a message for the run. Returns its number, or `undefined` if the turn has ended. Throws CONFLICT if too many wait.
   */
  async add(text: string): Promise<number | undefined> {
    const { runs, clock } = this.#deps;
    const { workspaceId, sessionId, number: turn } = this.#turn;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const known = await this.#all();
      if (known.filter(({ taken }) => !taken).length >= MAX_MESSAGES) {
        throw new PlatformError(
          'CONFLICT',
          `The session ${sessionId} has ${MAX_MESSAGES} messages that its run has not taken yet, the maximum.`,
          { hint: 'Send the message again after the next turn of the run.' },
        );
      }
      const number = (known.at(-1)?.number ?? 0) + 1;
      const item = { ...this.#key(number), text, ttl: epochSeconds(clock.now() + KEPT_MS) };
      const written = await runs.transact([
        { op: 'put', item, condition: absent() },
        // A write, so that it conflicts with the one that ends the turn.
        {
          op: 'update',
          key: turnKey(workspaceId, sessionId, turn),
          changes: { add: { steered: 1 } },
          condition: allOf(exists(), absent('status'), absent('erased')),
        },
      ]);
      if (written.ok) return number;
      if (written.failed.includes(1)) return undefined;
      // Another message came at the same time.
      await clock.sleep(Math.random() * PAUSE_MS);
    }
    throw new PlatformError('CONFLICT', `Too many messages came to the session ${sessionId} at the same time.`, {
      hint: 'Send the message again.',
    });
  }

  /** Returns the texts that were not taken, and the number of the last of them. */
  async waiting(): Promise<{ readonly texts: string[]; readonly upTo: number } | undefined> {
    const open = (await this.#all()).filter(({ taken }) => !taken);
    const last = open.at(-1);
    return last && { texts: open.map(({ text }) => text), upTo: last.number };
  }

  /** Records that the run has taken all messages up to this number. Safe to repeat. */
  async take(upTo: number): Promise<void> {
    const open = (await this.#all()).filter(({ number, taken }) => number <= upTo && !taken);
    for (const { number } of open) await this.#deps.runs.update(this.#key(number), { set: { taken: true } }, exists());
  }

  /** Whether a message was taken. */
  async isTaken(number: number): Promise<boolean> {
    return (await this.#deps.runs.get(this.#key(number)))?.taken === true;
  }

  /** Takes a message back that the run has not taken. Returns what became of it. */
  async withdraw(number: number): Promise<Exclude<Fate, 'waits'>> {
    const { ok } = await this.#deps.runs.delete(this.#key(number), allOf(exists(), absent('taken')));
    if (ok) return 'withdrawn';
    return (await this.isTaken(number)) ? 'taken' : 'withdrawn';
  }

  async #all(): Promise<{ readonly number: number; readonly text: string; readonly taken: boolean }[]> {
    const { workspaceId, sessionId } = this.#turn;
    const query = { pk: statePartition(workspaceId, sessionId), sk: { beginsWith: this.#prefix } };
    const items = await Array.fromAsync(queryAll(this.#deps.runs, query));
    return items.map(({ sk, text, taken }) => ({
      number: Number(sk.slice(this.#prefix.length)),
      text: text as string,
      taken: taken === true,
    }));
  }

  get #prefix(): string {
    return `STEER#${String(this.#turn.number).padStart(8, '0')}#`;
  }

  #key(number: number): Key {
    const { workspaceId, sessionId } = this.#turn;
    return { pk: statePartition(workspaceId, sessionId), sk: `${this.#prefix}${String(number).padStart(4, '0')}` };
  }
}
