import { randomBytes, randomUUID } from 'node:crypto';

const TOKEN_BYTES = 32;

/** Identifiers and randomness, as a port. */
export interface Ids {
  /** Letter of the cell, with which keys, tokens and names of hosts begin (docs/cells.md). */
  readonly cell: string;
  /** A UUIDv4, lower case, dashed. */
  uuid(): string;
  /** Bytes from a cryptographically secure source. */
  randomBytes(length: number): Uint8Array;
  /** Ten digits that increase with each call in this process. They order what is made in the same millisecond. */
  ordinal(): string;
}

/** Cell of a platform that is not one of several. */
export const DEFAULT_CELL = 'a';

/** Returns 256 random bits as a token, after the letter of the cell. */
export const newToken = (ids: Pick<Ids, 'cell' | 'randomBytes'>): string =>
  ids.cell + Buffer.from(ids.randomBytes(TOKEN_BYTES)).toString('base64url');

/** Returns random hexadecimal digits, two per byte. */
export const randomHex = (ids: Pick<Ids, 'randomBytes'>, bytes: number): string =>
  Buffer.from(ids.randomBytes(bytes)).toString('hex');

/** The random source of the machine, on both hosts. */
export class SystemIds implements Ids {
  readonly cell: string;
  #ordinals = 0;

  constructor(cell = DEFAULT_CELL) {
    this.cell = cell;
  }

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
