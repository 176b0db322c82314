/** A version of the stored data format, the same on both hosts. */
export interface DataVersion {
  /** Position in the list, from 1. */
  readonly version: number;
  /** First version of the platform that writes this format. */
  readonly platform: string;
  /** What differs from the previous version. */
  readonly changes: string;
  /** How data of the previous version is migrated, and which command or process does it. */
  readonly migration: string;
  /** Fingerprint of the stored keys and attributes, computed by `test/e2e/stored-shapes.ts`. */
  readonly shapes: string;
}

/**
 * All changes of the stored data, oldest first. A released version is never edited. `docs/deploy.md` has the table.
 *
 * A platform reads data of the previous and of the next version: a deployment on AWS replaces functions one by one
 * while others run, and may be rolled back. A migration may continue in the background while the platform runs, and the
 * next version may rely on its completion. So a deployment on AWS upgrades by one version at a time. A single machine
 * is stopped for an upgrade, and applies all migrations at its next start.
 */
export const DATA_VERSIONS: readonly DataVersion[] = [
  {
    version: 1,
    platform: '0.1.0',
    changes: 'The first form.',
    migration: 'None: data without a version is of this one.',
    shapes: 'af4c890ea381ccd3',
  },
];

/** The version that this platform writes. */
export const DATA_VERSION = DATA_VERSIONS.length;

/** The stored data has a version that this platform does not support. */
export class DataVersionError extends Error {
  readonly code = 'DATA_VERSION';
  constructor(message: string) {
    super(message);
    this.name = 'DataVersionError';
  }
}
