import { markFiles, restoreSnapshot, type SnapshotMark, takeSnapshot } from '#core/execution/durable/files.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import type { DurableWork } from '../engine.ts';

/** A snapshot is taken at least every so many turns. */
const TURNS = 5;

/** The files of a durable loop's sandbox, which follow it into its next sandbox. */
export class KeptFiles {
  readonly #durable: DurableWork;
  readonly #signal: AbortSignal;
  #mark: SnapshotMark | undefined;
  /** The turn after which files were kept, and where. */
  #kept: { readonly turn: number; readonly blob?: string; readonly content?: Uint8Array } | undefined;
  /** The last turn after which the files were looked at. */
  #lookedAt = 0;
  #problem: string | undefined;

  constructor(durable: DurableWork, signal: AbortSignal) {
    this.#durable = durable;
    this.#signal = signal;
  }

  /** Notes the files that another process kept. */
  resume(kept: { readonly turn: number; readonly blob: string } | undefined): void {
    this.#kept = kept;
    this.#lookedAt = kept?.turn ?? 0;
  }

  /** Prepares a sandbox that was just opened: with the files that were kept, if there are any. */
  async open(session: SandboxSession): Promise<void> {
    const { snapshotBytes: maxBytes } = this.#durable;
    this.#mark = undefined;
    this.#problem = undefined;
    const kept = this.#kept;
    if (kept === undefined) {
      const marked = await markFiles(session, { signal: this.#signal });
      if ('mark' in marked) this.#mark = marked.mark;
      return;
    }
    const content = kept.content ?? (await this.#durable.journal.readFiles(kept.blob!));
    if (content === undefined) {
      this.#problem = 'The kept files are damaged.';
      return;
    }
    const restored = await restoreSnapshot(session, content, { maxBytes, signal: this.#signal });
    if ('mark' in restored) this.#mark = restored.mark;
    else this.#problem = restored.problem;
  }

  /** Keeps the files after a turn if it is time to, or if the run is about to leave its sandbox. */
  async keep(session: SandboxSession, turn: number, mustKeep: boolean): Promise<void> {
    if (turn <= this.#lookedAt || (!mustKeep && turn - this.#lookedAt < TURNS)) return;
    const { snapshotBytes: maxBytes, journal } = this.#durable;
    this.#lookedAt = turn;
    const taken = await takeSnapshot(session, { maxBytes, signal: this.#signal, since: this.#mark });
    // Files that cannot be kept do not stop the run. It says so when it needs them.
    if (!('content' in taken)) return;
    await journal.writeFiles(turn, taken.content);
    this.#mark = taken.mark;
    this.#kept = { turn, content: taken.content };
  }

  /** Tells the model about its new sandbox, after `turn`. */
  notice(turn: number): string {
    const { turn: keptTurn } = this.#kept ?? {};
    const files =
      this.#problem !== undefined
        ? `The files that you wrote are gone. ${this.#problem}`
        : keptTurn === undefined
          ? 'The files that you wrote are gone.'
          : keptTurn < turn
            ? `Its files are those of turn ${keptTurn}: what was changed later is gone.`
            : 'Your files are in it.';
    return `[The run was interrupted and goes on in a new sandbox. ${files} Processes that ran in the background have ended.]`;
  }
}
