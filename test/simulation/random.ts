import { SystemIds } from '#core/ports/ids.ts';

/** Random source of a simulation, determined by its seed. */
export class Random extends SystemIds {
  #state: number;

  constructor(seed: number) {
    super();
    this.#state = seed * 0x9e3779b1;
  }

  /** Returns a number from 0 to below 1 (splitmix32). */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    let x = this.#state ^ (this.#state >>> 16);
    x = Math.imul(x, 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
  }

  /** Returns an integer from `min` to `max`, inclusive. */
  between(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.between(0, choices.length - 1)]!;
  }

  shuffle<T>(items: T[]): T[] {
    for (let i = items.length - 1; i > 0; i--) {
      const j = this.between(0, i);
      [items[i], items[j]] = [items[j]!, items[i]!];
    }
    return items;
  }

  override randomBytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.between(0, 255));
  }

  override uuid(): string {
    const bytes = this.randomBytes(16);
    // Three of sixteen first digits give enough partitions.
    bytes[0] = this.pick([0x00, 0x70, 0xf0]) | (bytes[0]! & 0x0f);
    bytes[6] = (bytes[6]! & 0x0f) | 0x40;
    bytes[8] = (bytes[8]! & 0x3f) | 0x80;
    return Buffer.from(bytes)
      .toString('hex')
      .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  }
}
