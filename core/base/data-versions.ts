/** A version of the form in which the platform stores data, on both hosts. */
export interface DataVersion {
  /** Its place in the list, from 1. */
  readonly version: number;
  /** Version of the platform that writes it first. */
  readonly platform: string;
  /** What is stored otherwise than in the version before. */
  readonly changes: string;
  /** How data of the version before gets there, and what brings it. */
  readonly migration: string;
  /** Of the keys and attributes that the platform writes: `test/e2e/stored-shapes.ts` computes it. */
  readonly shapes: string;
}

/**
 * Every change of what is stored, oldest first: a version that is released is never changed. `docs/deploy.md` has the table.
 *
 * The platform of a version reads data of the version before and of the one after: a deployment on AWS replaces functions one by one while
 * others run, and may be rolled back. What a migration leaves to do goes on while the platform runs, and the next version may rely on its end.
 * That is why a deployment takes one step at a time. One machine is stopped meanwhile, and takes all steps at its next start.
 */
export const DATA_VERSIONS: readonly DataVersion[] = [
  {
    version: 1,
    platform: '0.1.0',
    changes: 'The first form.',
    migration: 'None: data without a version is of this one.',
    shapes: '4eefe021050a71eb',
  },
];

/** The version that this platform writes. */
export const DATA_VERSION = DATA_VERSIONS.length;

/** Data that this platform does not take. */
export class DataVersionError extends Error {
  readonly code = 'DATA_VERSION';
  constructor(message: string) {
    super(message);
    this.name = 'DataVersionError';
  }
}
