import { hasCode, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { sizeText } from '#core/base/size-text.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { MAX_INLINE_BYTES } from '#core/ports/large-value.ts';
import type { LlmAnswer, LlmFile, LlmMessage, LlmTool } from '#core/ports/llm.ts';
import { absent, type Item, queryAll } from '#core/ports/table.ts';
import type { Decision } from '#core/runs/approvals/approval.ts';
import { journalBlobKey, journalPartition } from '#core/runs/items.ts';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import type { Spending } from '#core/runs/usage/spending.ts';
import { fromBytesJson, toBytesJson } from './bytes-json.ts';
import type { SnapshotMark } from './files.ts';
import { DamagedError, type RunSeal } from './sealing.ts';

/**
 * What a loop did, in the order in which it happened. Runs table:
 *
 * - `WS#<workspace id>#JOURNAL#<run id without dashes> / STEP#<number, 6 digits>`: one step, sealed (`sealing.ts`), here or
 *   in a blob.
 *
 * Numbers have no gaps, and each step is written only if its number is free. That is the fence: a process that takes a run
 * over writes a step first, so the next write of the process before it fails, and it stops before its next effect.
 */
export type Step =
  /** A process took the run over. */
  | { readonly type: 'attempt'; readonly attempt: number }
  /** The beginning of the conversation, or its new beginning after a compaction. */
  | {
      readonly type: 'base';
      readonly turn: number;
      /** Absent, as the tools, for a conversation that another version of its agent continues: those of the version. */
      readonly system?: string;
      readonly tools?: readonly LlmTool[];
      readonly messages: readonly LlmMessage[];
      readonly compactionsLeft: number;
    }
  /** A user's message to the model before a turn: of a branch (`branch.ts`), or of its session, up to the number `steered`. */
  | { readonly type: 'message'; readonly turn: number; readonly text: string; readonly steered?: number }
  /** An answer of the model, and what the conversation got since the answer before. Written before its tools run. */
  | {
      readonly type: 'turn';
      readonly turn: number;
      readonly before: TurnEnd;
      readonly answer: LlmAnswer;
      readonly provider: string;
      readonly model: string;
      /** Spending of the run so far. */
      readonly spending: Spending;
      /** Calls of the answer that wait until something is decided about them, by number from 0. @default - none */
      readonly asks?: readonly number[];
    }
  /** What was decided about a call that waited. Written before the call runs. */
  | { readonly type: 'decision'; readonly turn: number; readonly call: number; readonly decision: Decision }
  /** A tool begins that did not begin with its turn. */
  | { readonly type: 'begin'; readonly turn: number; readonly call: number }
  | {
      readonly type: 'result';
      readonly turn: number;
      readonly call: number;
      readonly outcome: StoredOutcome;
      readonly durationMs: number;
    }
  | FilesStep
  /** A program begins in a sandbox; absent `ref`: no other process can use it. */
  | ProgramStep
  /** A process leaves the program to itself, after so many characters of its output were emitted. */
  | { readonly type: 'look'; readonly stdout: number; readonly stderr: number }
  /** A program has ended to wait. */
  | SuspendedStep;

/** The files of the sandbox were kept after a turn. */
export interface FilesStep {
  readonly type: 'files';
  readonly turn: number;
  readonly blob: string;
}

export interface SuspendedStep {
  readonly type: 'suspended';
  /** What it printed to stderr, shortened and masked. */
  readonly stderr: string;
  readonly executionMs: number;
}

export interface ProgramStep {
  readonly type: 'program';
  /** Number of the beginning, from 1. */
  readonly number: number;
  readonly ref?: Json;
  /** Key of the run in its environment. */
  readonly serviceKey?: string;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  /** What the files of its session were like when it began. */
  readonly mark?: SnapshotMark;
  /** For a program that does steps: the position of the last entry before (`../steps/store.ts`). */
  readonly stepsBefore?: number;
}

/** What was added to the conversation after the results of a turn. */
export interface TurnEnd {
  /** Texts of results that the model got in another form than the tool gave them, by number of the call. */
  readonly texts: { readonly [number: string]: string };
  readonly messages: readonly LlmMessage[];
  /** What the platform asked of the model because it called no tool. */
  readonly asked?: 'again' | 'correction';
}

export interface StoredOutcome {
  readonly text: string;
  readonly isError: boolean;
  readonly files?: readonly LlmFile[];
  /** Parts of a shortened text in bytes: its beginning, its end, and the whole. */
  readonly cut?: { readonly head: number; readonly tail: number; readonly total: number };
  /** Whether a call of another agent has succeeded in this run. */
  readonly hasCalledDependency?: true;
}

const VERSION = 1;
const PREFIX = 'STEP#';
/** Maximum size of a run's journal as it is stored. */
export const MAX_JOURNAL_BYTES = 64 * 1024 * 1024;
const WRITE_TRIES = 5;
const RETRY_MS = 500;

type JournalDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'log'>;

export interface JournalPlace {
  readonly workspaceId: string;
  readonly runId: string;
  readonly seal: RunSeal;
  /** Epoch milliseconds until which the steps are kept at most. */
  readonly keptUntil: number;
}

/** Returns the beginning of the program that may still work. */
export function lastProgram(past: readonly Step[]): ProgramStep | undefined {
  const last = past.findLast(({ type }) => type === 'program' || type === 'suspended');
  return last?.type === 'program' ? last : undefined;
}

/** The journal of one run. Nothing is written for a run that ends before its first tool. */
export class Journal {
  readonly #deps: JournalDeps;
  readonly #place: JournalPlace;
  /** Steps that were written before this process took the run. */
  readonly past: readonly Step[];
  /** Number of the program that runs or is to begin, from 1: see {@link ProgramStep}. */
  begun: number;
  #count: number;
  #bytes: number;
  #waiting: Step[] = [];
  /** Blob with the files of the sandbox. */
  #files: string | undefined;
  #writing: Promise<void> = Promise.resolve();

  private constructor(
    deps: JournalDeps,
    place: JournalPlace,
    past: { steps: readonly Step[]; count: number; bytes: number },
  ) {
    this.#deps = deps;
    this.#place = place;
    this.past = past.steps;
    const begun = past.steps.filter(({ type }) => type === 'program').length;
    this.begun = begun === 0 ? 1 : begun + (lastProgram(past.steps) === undefined ? 1 : 0);
    this.#count = past.count;
    this.#bytes = past.bytes;
  }

  /** Returns the empty journal of a run that begins. */
  static begin(deps: JournalDeps, place: JournalPlace): Journal {
    return new Journal(deps, place, { steps: [], count: 0, bytes: 0 });
  }

  /**
   * Begins the journal of a run with steps of another one, and with the files that the other one kept. Everything is stored
   * when it resolves. Throws what {@link write} throws.
   */
  static async beginWith(
    deps: JournalDeps,
    place: JournalPlace,
    { origin, steps, files }: { readonly origin: Journal; readonly steps: readonly Step[]; readonly files?: FilesStep },
  ): Promise<Journal> {
    const begun = Journal.begin(deps, place);
    const kept = files && (await begun.#copyFiles(origin, files));
    const all = kept === undefined ? steps : [...steps, kept];
    await begun.write(...all);
    return new Journal(deps, place, { steps: all, count: begun.#count, bytes: begun.#bytes });
  }

  /** Reads the journal of a run. Throws {@link DamagedError} if a step is damaged or missing. */
  static async read(deps: JournalDeps, place: JournalPlace): Promise<Journal> {
    const { workspaceId, runId } = place;
    const steps: Step[] = [];
    let bytes = 0;
    const query = { pk: journalPartition(workspaceId, runId), sk: { beginsWith: PREFIX }, limit: 200 };
    for await (const item of queryAll(deps.runs, query)) {
      if (item.sk !== nameOf(steps.length + 1)) {
        throw new DamagedError(`Step ${steps.length + 1} of the journal of the run ${runId} is missing.`);
      }
      const sealed = await sealedOf(deps, place, item);
      bytes += sealed.byteLength;
      steps.push(fromBytesJson(place.seal.open(item.sk, sealed)) as Step);
    }
    return new Journal(deps, place, { steps, count: steps.length, bytes });
  }

  /** The last turn that was finished before this process took the run. */
  get turn(): number {
    const last = this.past.findLast((step) => step.type === 'turn');
    return last === undefined ? 0 : last.turn - 1;
  }

  /** Adds steps that are written before the next {@link write}: nothing that they tell has had an effect yet. */
  note(...steps: readonly Step[]): void {
    this.#waiting.push(...steps);
  }

  /**
   * Writes all steps so far, and these. Resolves once they are stored: do nothing that they tell before. Throws
   * {@link RunContinuesError} if another process has taken the run over, and UNPROCESSABLE if the journal is full.
   */
  write(...steps: readonly Step[]): Promise<void> {
    this.#waiting.push(...steps);
    const written = this.#writing.then(() => this.#writeWaiting());
    this.#writing = written.catch(() => {});
    return written;
  }

  /** Stores the files of the run's sandbox after a turn, in place of those before. Returns the name of their blob. */
  async writeFiles(turn: number, content: Uint8Array): Promise<string> {
    const before = this.#files;
    const blob = `FILES-${turn}-${this.#deps.clock.now()}`;
    await this.#deps.blobs.put(this.#blobKey(blob), this.#place.seal.sealPieces(blob, content));
    await this.write({ type: 'files', turn, blob });
    this.#files = blob;
    if (before !== undefined) await this.#deps.blobs.delete(this.#blobKey(before));
    return blob;
  }

  /** Reads what {@link writeFiles} stored; `undefined` if it is missing or damaged. */
  async readFiles(blob: string): Promise<Uint8Array | undefined> {
    this.#files = blob;
    const sealed = await this.#deps.blobs.get(this.#blobKey(blob));
    try {
      return sealed && Buffer.concat(await Array.fromAsync(this.#place.seal.openPieces(blob, sealed)));
    } catch (error) {
      if (hasCode(error, 'DAMAGED')) return undefined;
      throw error;
    }
  }

  /** Copies the files that another run kept. Returns `undefined` if they are missing or damaged. */
  async #copyFiles(origin: Journal, { turn, blob }: FilesStep): Promise<FilesStep | undefined> {
    const sealed = await this.#deps.blobs.get(origin.#blobKey(blob));
    if (sealed === undefined) return undefined;
    const pieces = () => origin.#place.seal.openPieces(blob, sealed);
    try {
      for await (const _ of pieces());
    } catch (error) {
      if (hasCode(error, 'DAMAGED')) return undefined;
      throw error;
    }
    const name = `FILES-${turn}-${this.#deps.clock.now()}`;
    await this.#deps.blobs.put(this.#blobKey(name), this.#place.seal.sealPieces(name, pieces()));
    return { type: 'files', turn, blob: name };
  }

  #blobKey(name: string): string {
    return journalBlobKey(this.#place.workspaceId, this.#place.runId, name);
  }

  async #writeWaiting(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#put(this.#waiting[0]!);
      this.#waiting.shift();
    }
  }

  async #put(step: Step): Promise<void> {
    const { workspaceId, runId, seal, keptUntil } = this.#place;
    const sk = nameOf(this.#count + 1);
    const sealed = seal.seal(sk, toBytesJson(step));
    if (this.#bytes + sealed.byteLength > MAX_JOURNAL_BYTES) throw journalFull();
    const isLarge = sealed.byteLength > MAX_INLINE_BYTES;
    const blob = `${sk.replace('#', '-')}-${this.#deps.clock.now()}`;
    const ttl = epochSeconds(keptUntil);
    const where = isLarge ? { blob } : { data: sealed.toString('base64') };
    const item = { pk: journalPartition(workspaceId, runId), sk, version: VERSION, ...where, ttl };
    const { ok } = await this.#try(async () => {
      if (isLarge) await this.#deps.blobs.put(this.#blobKey(blob), sealed);
      return this.#deps.runs.put(item, absent());
    });
    if (!ok) throw new RunContinuesError(runId, 'lost');
    this.#count += 1;
    this.#bytes += sealed.byteLength;
  }

  /** Waits out a short fault of the tables: the turn waits, and nothing runs without its step. */
  async #try<T>(work: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        this.#deps.log.warn('step of a run not written', { run_id: this.#place.runId, tries, error: String(error) });
        if (tries === WRITE_TRIES) {
          throw new PlatformError('INTERNAL_ERROR', 'The platform could not write what the run does, and stopped it.');
        }
        await this.#deps.clock.sleep(RETRY_MS * 2 ** tries);
      }
    }
  }
}

const journalFull = (): PlatformError =>
  new PlatformError(
    'UNPROCESSABLE',
    `What the run has to remember is larger than ${sizeText(MAX_JOURNAL_BYTES)}, so that it cannot continue.`,
    { hint: 'Let the tools of the agent return less, or write it to files.' },
  );

const nameOf = (number: number): string => `${PREFIX}${String(number).padStart(6, '0')}`;

async function sealedOf({ blobs }: Pick<Deps, 'blobs'>, place: JournalPlace, item: Item): Promise<Uint8Array> {
  const { workspaceId, runId } = place;
  if (item.version !== VERSION) {
    throw new DamagedError(`The journal of the run ${runId} was written by another version of the platform.`);
  }
  if (item.data !== undefined) return Buffer.from(item.data as string, 'base64');
  const content = await blobs.get(journalBlobKey(workspaceId, runId, item.blob as string));
  if (content === undefined) throw new DamagedError(`${item.sk} of the journal of the run ${runId} is missing.`);
  return content;
}
