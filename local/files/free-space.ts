import { statfs } from 'node:fs/promises';
import type { Clock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import type { Space } from '#core/ports/space.ts';

const MB = 1024 ** 2;
const GB = 1024 ** 3;
const PERIOD_MS = 1000;
const LOG_PERIOD_MS = 60_000;
/** Minimum free share of the file system's inodes. */
const MIN_FREE_FILES = 1 / 50;

interface FileSystem {
  readonly bsize: number;
  readonly blocks: number;
  readonly bavail: number;
  /** Total inodes; 0 if the file system has no fixed number. */
  readonly files: number;
  readonly ffree: number;
}

export interface FreeSpaceOptions {
  readonly folder: string;
  /** @default - {@link defaultMinFree} */
  readonly minFreeBytes?: number;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Pick<Log, 'warn'>;
  readonly statfs?: (folder: string) => Promise<FileSystem>;
}

/** {@link Space} on the file system of one folder, which is queried at most once a second. */
export class FreeSpace implements Space {
  readonly #options: FreeSpaceOptions;
  #found: Promise<string | undefined> = Promise.resolve(undefined);
  #foundAt = Number.NEGATIVE_INFINITY;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(options: FreeSpaceOptions) {
    this.#options = options;
  }

  problem(): Promise<string | undefined> {
    const now = this.#options.clock.now();
    // The second case: the clock was set back.
    if (now - this.#foundAt >= PERIOD_MS || now < this.#foundAt) {
      this.#foundAt = now;
      this.#found = this.#look(now);
    }
    return this.#found;
  }

  async #look(now: number): Promise<string | undefined> {
    const { folder, minFreeBytes, statfs: ask = statfs } = this.#options;
    try {
      const found = await ask(folder);
      const problem = problemOf(found, minFreeBytes ?? defaultMinFree(found));
      if (problem !== undefined) this.#warn(now, 'the disk is nearly full', { folder, problem });
      return problem;
    } catch (error) {
      this.#warn(now, 'free disk space unknown', { folder, error: String(error) });
      return undefined;
    }
  }

  #warn(now: number, message: string, fields: Record<string, unknown>): void {
    if (now - this.#loggedAt < LOG_PERIOD_MS) return;
    this.#loggedAt = now;
    this.#options.log.warn(message, fields);
  }
}

/** Returns the larger of 1 GB and 2% of the file system, but on a small one at most 10%. */
const defaultMinFree = ({ bsize, blocks }: FileSystem): number => {
  const size = bsize * blocks;
  return Math.min(size / 10, Math.max(GB, size / 50));
};

function problemOf({ bsize, bavail, files, ffree }: FileSystem, minFree: number): string | undefined {
  const free = bsize * bavail;
  const remedy =
    'Nothing new is stored until the operator deletes files or enlarges the disk of PLATFORM_DATA, or lowers PLATFORM_MIN_FREE_MB.';
  if (free < minFree) {
    return `The disk of the platform is nearly full: ${inMb(free)} are free, and ${inMb(minFree)} must stay free. ${remedy}`;
  }
  if (minFree > 0 && files > 0 && ffree < files * MIN_FREE_FILES) {
    return `The disk of the platform is nearly full: ${ffree} of ${files} inodes are free. ${remedy}`;
  }
  return undefined;
}

const inMb = (bytes: number): string => `${Math.floor(bytes / MB)} MB`;
