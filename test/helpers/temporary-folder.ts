import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const VARIABLE = 'PLATFORM_TESTS_FOLDER';

/** Makes the folder of a run of tests, and removes it at its end. */
export default function setUp(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'platform-tests-'));
  process.env[VARIABLE] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}

/** A new folder that goes with the run of tests; outside of one, that stays. */
export const temporaryFolder = (prefix: string): string => mkdtempSync(join(process.env[VARIABLE] ?? tmpdir(), prefix));
