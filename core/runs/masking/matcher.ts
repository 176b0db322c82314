/**
 * Finds all needles in a text in one pass (Aho and Corasick, "Efficient string matching", 1975): the time depends only
 * on
 * the length of the text. Positions are UTF-16 code units.
 *
 * A state is the longest suffix of the text so far that is a prefix of a needle. A state takes about 20 bytes, and
 * there is
 * at most one for each character of the needles. Fallbacks are computed when a text first reaches a state: most never
 * are.
 */
export class Matcher {
  /** Parent of each state: the state of its text without the last of {@link #characters}. State 0 is the empty text. */
  readonly #parents: Int32Array;
  readonly #characters: Uint16Array;
  readonly #depths: Int32Array;
  /** State of the longest shorter suffix that is a prefix of a needle; {@link UNKNOWN} until it is needed. */
  readonly #fallbacks: Int32Array;
  /** Index of the longest needle that ends in the state, plus one; 0 for none. Complete once the fallback is known. */
  readonly #ends: Int32Array;
  /**
   * Parent and character -> state, for states that do not directly follow their parent because a needle diverges there
   * from
   * an earlier one.
   */
  readonly #branches = new Map<number, number>();
  /** 1 for states that are parents in {@link #branches}. */
  readonly #hasBranches: Uint8Array;
  /** States after one ASCII character: in most text the matcher rarely leaves the empty state. */
  readonly #first = new Int32Array(128);
  readonly #lengths: Int32Array;
  #size = 1;

  constructor(needles: readonly string[]) {
    const total = needles.reduce((sum, needle) => sum + needle.length, 1);
    this.#parents = new Int32Array(total);
    this.#characters = new Uint16Array(total);
    this.#depths = new Int32Array(total);
    this.#fallbacks = new Int32Array(total);
    this.#ends = new Int32Array(total);
    this.#hasBranches = new Uint8Array(total);
    this.#lengths = Int32Array.from(needles, ({ length }) => length);
    for (const [index, needle] of needles.entries()) this.#add(needle, index);
    for (let code = 0; code < 128; code++) this.#first[code] = this.#childOf(0, code);
    this.#fallbacks.fill(UNKNOWN, 1);
  }

  /** Number of states. */
  get size(): number {
    return this.#size;
  }

  /** Returns the number of characters that the state stands for. */
  depthOf(state: number): number {
    return this.#depths[state]!;
  }

  /** Returns the length of the longest needle that ends in a state of {@link next}; 0 for none. */
  endOf(state: number): number {
    const needle = this.#ends[state]!;
    return needle === 0 ? 0 : this.#lengths[needle - 1]!;
  }

  /** Returns the index of that needle. */
  needleOf(state: number): number {
    return this.#ends[state]! - 1;
  }

  /** Returns the state after one more character. */
  next(state: number, code: number): number {
    let at = state;
    while (at !== 0) {
      const child = this.#childOf(at, code);
      if (child !== 0) {
        if (this.#fallbacks[child] === UNKNOWN) this.#link(child);
        return child;
      }
      at = this.#fallbacks[at]!;
    }
    const child = code < 128 ? this.#first[code]! : this.#childOf(0, code);
    if (this.#fallbacks[child] === UNKNOWN) this.#link(child);
    return child;
  }

  #add(needle: string, index: number): void {
    let state = 0;
    let at = 0;
    for (let child = 0; at < needle.length; at++) {
      child = this.#childOf(state, needle.charCodeAt(at));
      if (child === 0) break;
      state = child;
    }
    if (at < needle.length && state !== this.#size - 1) {
      this.#branches.set(keyOf(state, needle.charCodeAt(at)), this.#size);
      this.#hasBranches[state] = 1;
    }
    for (; at < needle.length; at++) {
      this.#parents[this.#size] = state;
      this.#characters[this.#size] = needle.charCodeAt(at);
      this.#depths[this.#size] = at + 1;
      state = this.#size++;
    }
    this.#ends[state] ||= index + 1;
  }

  /** Returns the state that extends `parent` by a character; 0 if no needle has that prefix. */
  #childOf(parent: number, code: number): number {
    const next = parent + 1;
    if (this.#parents[next] === parent && this.#characters[next] === code && next < this.#size) return next;
    return this.#hasBranches[parent] === 0 ? 0 : (this.#branches.get(keyOf(parent, code)) ?? 0);
  }

  /** Computes the fallbacks of a state and its ancestors. */
  #link(state: number): void {
    const path: number[] = [];
    for (let at = state; this.#fallbacks[at] === UNKNOWN; at = this.#parents[at]!) path.push(at);
    for (const at of path.reverse()) {
      const parent = this.#parents[at]!;
      const fallback = parent === 0 ? 0 : this.next(this.#fallbacks[parent]!, this.#characters[at]!);
      this.#fallbacks[at] = fallback;
      this.#ends[at] ||= this.#ends[fallback]!;
    }
  }
}

const UNKNOWN = -1;
const keyOf = (state: number, code: number): number => state * 0x10000 + code;
