/** Blobs whose keys begin with `prefix` are deleted `days` after they were written. */
export interface BlobLifetime {
  readonly prefix: `${string}/`;
  readonly days: number;
}

/**
 * Blobs that expire by age. On AWS the bucket's lifecycle rules delete them (`lib/stacks/data-stack.ts`), on one
 * machine `deleteExpiredBlobs` (`core/api/sweeps.ts`).
 */
export const blobLifetimes = (runRetentionDays: number): readonly BlobLifetime[] => [
  // A form is valid for an hour, and a transfer into a sandbox takes at most 15 minutes.
  { prefix: 'uploads/', days: 1 },
  { prefix: 'transfers/', days: 1 },
  // Orders and journals of durable runs, which end long before.
  { prefix: 'journals/', days: 32 },
  // Bodies of runs and stored answers: they are written after their records, so no record outlives its blob.
  { prefix: 'runs/', days: runRetentionDays },
];
