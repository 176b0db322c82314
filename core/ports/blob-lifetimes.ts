/** Blobs whose keys begin with `prefix` are deleted `days` after they were written. */
export interface BlobLifetime {
  readonly prefix: `${string}/`;
  readonly days: number;
}

/**
 * The blobs that expire by their age. On AWS the bucket's lifecycle rules delete them (`lib/stacks/data-stack.ts`), on one
 * machine `deleteExpiredBlobs` (`core/api/sweeps.ts`).
 */
export const blobLifetimes = (runRetentionDays: number): readonly BlobLifetime[] => [
  // A form can be used for an hour, a transfer into a sandbox takes at most a quarter of an hour.
  { prefix: 'uploads/', days: 1 },
  { prefix: 'transfers/', days: 1 },
  // Bodies of runs and kept answers: written when their records exist already, so no record outlives its blob.
  { prefix: 'runs/', days: runRetentionDays },
];
