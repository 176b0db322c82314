const HEAD_BYTES = 1024 ** 2;
const TAIL_BYTES = 64 * 1024;
const LINE_END = 10;

/**
 * Truncates a command's stderr: passes on its beginning as it arrives and its end with the exit
 * (`docs/interface/sandbox.md#program-protocol`). It cuts at line ends if possible, because a partial secret could not
 * be masked.
 */
export class KeptStderr {
  #room = HEAD_BYTES;
  #tail = Buffer.alloc(0);
  #leftOut = 0;

  /** Returns the part of `data` that is passed on now. */
  take(data: Buffer): Buffer {
    const head = data.subarray(0, this.#headLength(data));
    const rest = data.subarray(head.length);
    this.#room = rest.length > 0 ? 0 : Math.max(0, this.#room - head.length);
    this.#tail = Buffer.concat([this.#tail, rest]);
    // The buffer holds up to twice the tail, so that most chunks are only appended.
    if (this.#tail.length > 2 * TAIL_BYTES) {
      this.#leftOut += this.#tail.length - TAIL_BYTES;
      this.#tail = Buffer.from(this.#tail.subarray(-TAIL_BYTES));
    }
    return head;
  }

  /** Returns the retained end, preceded by a note about the omitted bytes. */
  end(): Buffer {
    if (this.#leftOut === 0 && this.#tail.length <= TAIL_BYTES) return this.#tail;
    const last = this.#tail.subarray(-TAIL_BYTES);
    const line = last.indexOf(LINE_END) + 1;
    const kept = last.subarray(line < last.length ? line : 0);
    const leftOut = this.#leftOut + this.#tail.length - kept.length;
    return Buffer.concat([Buffer.from(`\n[... ${leftOut} bytes left out ...]\n`), kept]);
  }

  #headLength(data: Buffer): number {
    if (this.#room === 0) return 0;
    if (data.length < this.#room) return data.length;
    const before = data.lastIndexOf(LINE_END, this.#room - 1) + 1;
    return before || data.indexOf(LINE_END, this.#room) + 1 || Math.min(data.length, this.#room);
  }
}
