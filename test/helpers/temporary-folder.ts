import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const VARIABLE = 'PLATFORM_TESTS_FOLDER';

/**
 * Creates the folder of a test run and removes it at the end. Processes of the run share a compile cache in it, because
 * the tests start hundreds of them from the same files.
 */
export default function setUp(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'platform-tests-'));
  process.env[VARIABLE] = folder;
  process.env.NODE_COMPILE_CACHE ??= join(folder, 'compile-cache');
  return () => rmSync(folder, { recursive: true, force: true });
}

/** Returns the variable for the environment of a process that does not inherit the environment of the tests. */
export const compileCacheVariable = (): Record<string, string> => {
  const folder = process.env.NODE_COMPILE_CACHE;
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: folder };
};

/** The folder of the test run, which all of its processes share. */
export const runFolder = (): string => process.env[VARIABLE] ?? tmpdir();

/** Creates a folder that is removed after the test run; outside of a test run, it stays. */
export const temporaryFolder = (prefix: string): string => mkdtempSync(join(runFolder(), prefix));
