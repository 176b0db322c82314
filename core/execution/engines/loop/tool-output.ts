import { hasCode } from '#core/base/errors.ts';
import { endOf, startOf } from '#core/base/text.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import type { SecretMask } from '#core/runs/masking/masking.ts';
import type { ToolOutcome } from './tool-outcome.ts';

/** One result, as the model gets it (`docs/interface/loops.md#bounds`). */
export const MAX_RESULT_BYTES = 16 * 1024;
/** Of a result that is too long, how much of what the model gets is its beginning. Errors stand at the end. */
const HEAD_PART = 6 / 16;
/** All results of one turn together, as the model gets them. */
export const MAX_TURN_BYTES = 48 * 1024;
/** In the run's sandbox: the whole text of each result that the model gets in part. */
const FOLDER = '/tmp/tool_output';

/** What is left of a text without its middle; of a whole text, both are all of it. */
interface Cut {
  readonly head: Uint8Array;
  readonly tail: Uint8Array;
  readonly totalBytes: number;
}

/** A result as the model gets it. */
export interface BoundOutcome extends ToolOutcome {
  /** Only of results that are not whole. */
  readonly cut?: Cut;
}

/** A call of a tool: its turn, and its number in the turn, from 1. */
export interface CallPlace {
  readonly turn: number;
  readonly number: number;
}

interface ToolOutputOptions {
  /** Opens it at the first call. */
  readonly session: () => Promise<SandboxSession>;
  readonly mask: SecretMask;
  /** Whether the model has a tool that reads files: without one, none are written. */
  readonly canRead: boolean;
  /** Of all files together. */
  readonly maxFileBytes: number;
}

/** Bounds the results of tools when they are made, and keeps the whole of them in files of the sandbox. */
export class ToolOutput {
  readonly #options: ToolOutputOptions;
  #fileBytes = 0;
  /** Turn and number of a call -> the file with all of its result; `undefined` if there is none. */
  readonly #places = new Map<string, string | undefined>();

  constructor(options: ToolOutputOptions) {
    this.#options = options;
  }

  /** The outcome with at most `maxBytes` of its text: its beginning and its end. All of it is then in a file. */
  async bound(outcome: BoundOutcome, at: CallPlace, maxBytes = MAX_RESULT_BYTES): Promise<BoundOutcome> {
    if (Buffer.byteLength(outcome.text) <= maxBytes) return outcome;
    const file = await this.#keep(outcome.text, at);
    const cut = withoutMiddle(outcome.cut ?? wholeOf(outcome.text), maxBytes - NOTE_BYTES);
    return { ...outcome, text: textOf(cut, file), cut };
  }

  /** The outcomes of a turn with at most `maxBytes` together. Small ones stay whole; the others get the same size. */
  share(turn: number, outcomes: readonly BoundOutcome[], maxBytes: number): Promise<BoundOutcome[]> {
    const fair = fairShare(
      outcomes.map(({ text }) => Buffer.byteLength(text)),
      maxBytes,
    );
    return Promise.all(outcomes.map((outcome, index) => this.bound(outcome, { turn, number: index + 1 }, fair)));
  }

  /** What stands in place of a whole result, for which a full conversation has no room. */
  async leaveOut(text: string, at: CallPlace): Promise<string> {
    const file = await this.#keep(text, at);
    return `[... left out, because the conversation was full${whereIn(file)} ...]`;
  }

  /** Keeps a result once. Returns the path, or `undefined` if there is no file. */
  async #keep(text: string, { turn, number }: CallPlace): Promise<string | undefined> {
    const place = `${turn}-${number}`;
    if (this.#places.has(place)) return this.#places.get(place);
    const file = await this.#write(`${FOLDER}/${place}.txt`, text);
    this.#places.set(place, file);
    return file;
  }

  async #write(file: string, text: string): Promise<string | undefined> {
    const { session, mask, canRead, maxFileBytes } = this.#options;
    if (!canRead) return undefined;
    // The tools of an author may return secrets that the sandbox does not have.
    const bytes = Buffer.from(mask.text(text));
    if (this.#fileBytes + bytes.byteLength > maxFileBytes) return undefined;
    this.#fileBytes += bytes.byteLength;
    try {
      await (await session()).writeFile(file, bytes);
      return file;
    } catch (error) {
      // The disk is full, or a tool has put something in the way; or there is no sandbox here, which this tool did not need.
      if (hasCode(error, 'SANDBOX_FILE') || hasCode(error, 'SANDBOX_ERROR')) return undefined;
      throw error;
    }
  }
}

/** The size that each of `sizes` may have, so that all of them have `total` together. */
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

/** Room for the line about what was left out. */
const NOTE_BYTES = 100;

function wholeOf(text: string): Cut {
  const bytes = Buffer.from(text);
  return { head: bytes, tail: bytes, totalBytes: bytes.byteLength };
}

function withoutMiddle({ head, tail, totalBytes }: Cut, maxBytes: number): Cut {
  const headBytes = Math.max(0, Math.floor(maxBytes * HEAD_PART));
  const tailBytes = Math.max(0, maxBytes - headBytes);
  // Copies: a view would keep the whole text in memory until the turn ends.
  return { head: new Uint8Array(startOf(head, headBytes)), tail: new Uint8Array(endOf(tail, tailBytes)), totalBytes };
}

const textOf = ({ head, tail, totalBytes }: Cut, file: string | undefined): string => {
  const note = `\n[... ${sizeOf(totalBytes - head.byteLength - tail.byteLength)} left out${whereIn(file)} ...]\n`;
  return Buffer.concat([head, Buffer.from(note), tail]).toString();
};

const whereIn = (file: string | undefined): string => (file === undefined ? '' : `; all of it: ${file}`);

const sizeOf = (bytes: number): string => (bytes < 1024 ? `${bytes} bytes` : `${Math.round(bytes / 1024)} KB`);
