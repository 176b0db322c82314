import { markFiles, restoreSnapshot, type SnapshotMark, takeSnapshot } from '#core/execution/durable/files.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import type { DurableWork, EngineRun } from '../engine.ts';

/** A snapshot is taken after so many turns, unless they were very short, and after so long a time. */
const TURNS = 5;
const MIN_PAUSE_MS = 2000;
const MAX_PAUSE_MS = 20_000;

/** The files of a durable loop's sandbox, which follow it into its next sandbox. */
export class KeptFiles {
  readonly #clock: Clock;
  readonly #durable: DurableWork;
  readonly #hasBundle: boolean;
  readonly #signal: AbortSignal;
  #mark: SnapshotMark | undefined;
  /** The turn after which files were kept, and where. */
  #kept: { readonly turn: number; readonly blob: string } | undefined;
  /** The last turn after which the files were looked at. */
  #lookedAt = 0;
  #lookedAtTime: number;
  #problem: string | undefined;

  constructor(clock: Clock, { durable, agent }: EngineRun, signal: AbortSignal) {
    this.#clock = clock;
    this.#durable = durable!;
    this.#hasBundle = agent.bundle !== undefined;
    this.#lookedAtTime = clock.now();
    this.#signal = signal;
  }

  /** Notes the files that another process kept. */
  resume(kept: { readonly turn: number; readonly blob: string } | undefined): void {
    this.#kept = kept;
    this.#lookedAt = kept?.turn ?? 0;
  }

  /** Whether there are files that the next sandbox gets. */
  get hasFiles(): boolean {
    return this.#kept !== undefined;
  }

  /** What the files of the sandbox were like when they were last looked at. */
  get mark(): SnapshotMark | undefined {
    return this.#mark;
  }

  /**
   * Prepares a sandbox that was just opened: with the files that were kept, if there are any.
   *
   * @param mark What its files are like, if they are those of a session.
   */
  async open(session: SandboxSession, mark?: SnapshotMark): Promise<void> {
    const { snapshotBytes: maxBytes } = this.#durable;
    this.#mark = mark;
    this.#problem = undefined;
    const kept = this.#kept;
    if (kept === undefined) {
      if (mark !== undefined) return;
      if (!this.#hasBundle) return;
      const marked = await markFiles(session, { signal: this.#signal });
      if ('mark' in marked) this.#mark = marked.mark;
      return;
    }
    const content = await this.#durable.journal.readFiles(kept.blob);
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
    if (turn <= this.#lookedAt || (!mustKeep && !this.#isTime(turn))) return;
    const { snapshotBytes: maxBytes, journal } = this.#durable;
    this.#lookedAt = turn;
    this.#lookedAtTime = this.#clock.now();
    const taken = await takeSnapshot(session, { maxBytes, signal: this.#signal, since: this.#mark });
    // Files that cannot be kept do not stop the run. It says so when it needs them.
    if (!('content' in taken)) return;
    this.#kept = { turn, blob: await journal.writeFiles(turn, taken.content) };
    this.#mark = taken.mark;
  }

  #isTime(turn: number): boolean {
    const since = this.#clock.now() - this.#lookedAtTime;
    return since >= MAX_PAUSE_MS || (turn - this.#lookedAt >= TURNS && since >= MIN_PAUSE_MS);
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
    return `[The run was interrupted and continues in a new sandbox. ${files} Processes that ran in the background have ended.]`;
  }
}
