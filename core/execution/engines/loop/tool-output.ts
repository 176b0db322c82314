import { hasCode } from '#core/base/errors.ts';
import { endOf, startOf } from '#core/base/text.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import type { SecretMask } from '#core/runs/masking/masking.ts';
import type { ToolOutcome } from './tool-outcome.ts';

/** Maximum size of one result for the model (`docs/interface/loops.md#bounds`). */
export const MAX_RESULT_BYTES = 16 * 1024;
/** Fraction of a truncated result that is its beginning. Errors are usually at the end. */
const HEAD_PART = 6 / 16;
/** Maximum size of all results of one turn for the model. */
export const MAX_TURN_BYTES = 48 * 1024;
/** Folder in the run's sandbox with the full text of each truncated result. */
const FOLDER = '/tmp/tool_output';

/** A text without its middle. If nothing is left out, both parts are the complete text. */
interface Cut {
  readonly head: Uint8Array;
  readonly tail: Uint8Array;
  readonly totalBytes: number;
}

/** A result within the size limit, for the model. */
export interface BoundOutcome extends ToolOutcome {
  /** Present only for truncated results. */
  readonly cut?: Cut;
}

/** Identifies a tool call by its turn and its number in the turn, from 1. */
export interface CallPlace {
  readonly turn: number;
  readonly number: number;
}

interface ToolOutputOptions {
  /** Returns the sandbox, which is opened by the first call. */
  readonly session: () => Promise<SandboxSession>;
  readonly mask: SecretMask;
  /** Whether the model has a tool to read files; otherwise no files are written. */
  readonly canRead: boolean;
  /** Maximum size of all files together. */
  readonly maxFileBytes: number;
  /** Number of the message in a session, whose conversation names files of other messages. @default - no session */
  readonly message?: number | undefined;
}

/** Truncates long tool results as they arrive, and stores their full text in files of the sandbox. */
export class ToolOutput {
  readonly #options: ToolOutputOptions;
  #fileBytes = 0;
  /** Turn and number of a call -> file with its full result; `undefined` if there is none. */
  readonly #places = new Map<string, string | undefined>();

  constructor(options: ToolOutputOptions) {
    this.#options = options;
  }

  /** Truncates an outcome to `maxBytes`, keeping its beginning and end. The full text is then in a file. */
  async bound(outcome: BoundOutcome, at: CallPlace, maxBytes = MAX_RESULT_BYTES): Promise<BoundOutcome> {
    if (Buffer.byteLength(outcome.text) <= maxBytes) return outcome;
    const file = await this.#keep(outcome.text, at);
    const cut = withoutMiddle(outcome.cut ?? wholeOf(outcome.text), maxBytes - NOTE_BYTES);
    return { ...outcome, text: textOf(cut, file), cut };
  }

  /** Truncates the outcomes of a turn to `maxBytes` in total. Small ones stay complete; the others get equal shares. */
  share(turn: number, outcomes: readonly BoundOutcome[], maxBytes: number): Promise<BoundOutcome[]> {
    const fair = fairShare(
      outcomes.map(({ text }) => Buffer.byteLength(text)),
      maxBytes,
    );
    return Promise.all(outcomes.map((outcome, index) => this.bound(outcome, { turn, number: index + 1 }, fair)));
  }

  /** Restores the file of a result that another process stored. */
  restore({ turn, number }: CallPlace, text: string): void {
    const file = this.#fileOf(`${turn}-${number}`);
    this.#places.set(`${turn}-${number}`, text.includes(file) ? file : undefined);
  }

  /** Returns a replacement for a result that does not fit into a full conversation at all. */
  async leaveOut(text: string, at: CallPlace): Promise<string> {
    const file = await this.#keep(text, at);
    return `[... left out, because the conversation was full${whereIn(file)} ...]`;
  }

  /** Stores a result once. Returns the path, or `undefined` if there is no file. */
  async #keep(text: string, { turn, number }: CallPlace): Promise<string | undefined> {
    const place = `${turn}-${number}`;
    if (this.#places.has(place)) return this.#places.get(place);
    const file = await this.#write(this.#fileOf(place), text);
    this.#places.set(place, file);
    return file;
  }

  #fileOf(place: string): string {
    const { message } = this.#options;
    return `${FOLDER}/${message === undefined ? '' : `message-${message}-`}${place}.txt`;
  }

  async #write(file: string, text: string): Promise<string | undefined> {
    const { session, mask, canRead, maxFileBytes } = this.#options;
    if (!canRead) return undefined;
    // An author's tools may return secrets that the sandbox does not have.
    const bytes = Buffer.from(mask.text(text));
    if (this.#fileBytes + bytes.byteLength > maxFileBytes) return undefined;
    this.#fileBytes += bytes.byteLength;
    try {
      await (await session()).writeFile(file, bytes);
      return file;
    } catch (error) {
      // The disk is full, a tool blocks the path, or the host has no sandbox, which this tool did not need.
      if (hasCode(error, 'SANDBOX_FILE') || hasCode(error, 'SANDBOX_ERROR')) return undefined;
      throw error;
    }
  }
}

/** Returns the maximum for each of `sizes` such that they have `total` together. */
function fairShare(sizes: readonly number[], total: number): number {
  let left = total;
  const ascending = sizes.toSorted((a, b) => a - b);
  for (const [index, size] of ascending.entries()) {
    const share = Math.floor(left / (sizes.length - index));
    if (size > share) return share;
    left -= size;
  }
  return Number.POSITIVE_INFINITY;
}

/** Space for the note about the omitted part. */
const NOTE_BYTES = 100;

function wholeOf(text: string): Cut {
  const bytes = Buffer.from(text);
  return { head: bytes, tail: bytes, totalBytes: bytes.byteLength };
}

function withoutMiddle({ head, tail, totalBytes }: Cut, maxBytes: number): Cut {
  const headBytes = Math.max(0, Math.floor(maxBytes * HEAD_PART));
  const tailBytes = Math.max(0, maxBytes - headBytes);
  // Copies: views would keep the complete text in memory until the turn ends.
  return { head: new Uint8Array(startOf(head, headBytes)), tail: new Uint8Array(endOf(tail, tailBytes)), totalBytes };
}

const textOf = ({ head, tail, totalBytes }: Cut, file: string | undefined): string => {
  const note = `\n[... ${sizeOf(totalBytes - head.byteLength - tail.byteLength)} left out${whereIn(file)} ...]\n`;
  return Buffer.concat([head, Buffer.from(note), tail]).toString();
};

const whereIn = (file: string | undefined): string => (file === undefined ? '' : `; all of it: ${file}`);

const sizeOf = (bytes: number): string => (bytes < 1024 ? `${bytes} bytes` : `${Math.round(bytes / 1024)} KB`);
