import { randomBytes, randomUUID } from 'node:crypto';

/** Identifiers and randomness, as a port. */
export interface Ids {
  /** A UUIDv4, lower case, dashed. */
  uuid(): string;
  /** Bytes from a cryptographically secure source. */
  randomBytes(length: number): Uint8Array;
  /** Ten digits that increase with each call in this process. They order what is made in the same millisecond. */
  ordinal(): string;
}

/** Returns random hexadecimal digits, two per byte. */
export const randomHex = (ids: Pick<Ids, 'randomBytes'>, bytes: number): string =>
  Buffer.from(ids.randomBytes(bytes)).toString('hex');

/** The random source of the machine, on both hosts. */
export class SystemIds implements Ids {
  #ordinals = 0;

  uuid(): string {
    return randomUUID();
  }

  randomBytes(length: number): Uint8Array {
    return randomBytes(length);
  }

  ordinal(): string {
    this.#ordinals += 1;
    return String(this.#ordinals).padStart(10, '0');
  }
}
