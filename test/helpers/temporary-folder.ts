import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const VARIABLE = 'PLATFORM_TESTS_FOLDER';

/**
 * Makes the folder of a run of tests, and removes it at its end. Processes of the run keep compiled modules in it, because the
 * tests start hundreds of them from the same files.
 */
export default function setUp(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'platform-tests-'));
  process.env[VARIABLE] = folder;
  process.env.NODE_COMPILE_CACHE ??= join(folder, 'compile-cache');
  return () => rmSync(folder, { recursive: true, force: true });
}

/** For the environment of a process that does not inherit that of the tests. */
export const compileCacheVariable = (): Record<string, string> => {
  const folder = process.env.NODE_COMPILE_CACHE;
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: folder };
};

/** A new folder that goes with the run of tests; outside of one, that stays. */
export const temporaryFolder = (prefix: string): string => mkdtempSync(join(process.env[VARIABLE] ?? tmpdir(), prefix));
