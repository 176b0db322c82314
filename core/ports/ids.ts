/** Identifiers and randomness, as a port. */
export interface Ids {
  /** A UUIDv4, lower case, dashed. */
  uuid(): string;
  /** Bytes of a cryptographically secure source. */
  randomBytes(length: number): Uint8Array;
}
