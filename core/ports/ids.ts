import { randomBytes, randomUUID } from 'node:crypto';

/** Identifiers and randomness, as a port. */
export interface Ids {
  /** A UUIDv4, lower case, dashed. */
  uuid(): string;
  /** Bytes of a cryptographically secure source. */
  randomBytes(length: number): Uint8Array;
}

/** The machine's own randomness, on both hosts. */
export class SystemIds implements Ids {
  uuid(): string {
    return randomUUID();
  }

  randomBytes(length: number): Uint8Array {
    return randomBytes(length);
  }
}
