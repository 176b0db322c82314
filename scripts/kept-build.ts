import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
/** Copies of the repository that share `node_modules` use the same builds. */
const KEPT = join(ROOT, 'node_modules/.cache');

/**
 * Returns the folder of the build `name` of these `sources`, which must not be changed. Calls `build` with an empty
 * folder if the sources, whose paths are relative to the repository, are not those of the last build. That build is
 * then replaced. Processes may call it at the same time. Throws what `build` throws.
 */
export async function keptBuild(
  name: string,
  sources: readonly string[],
  build: (into: string) => void | Promise<void>,
): Promise<string> {
  const builds = join(KEPT, name);
  const kept = join(builds, keyOf(sources));
  if (existsSync(kept)) return kept;
  mkdirSync(builds, { recursive: true });
  // Other processes find complete builds only.
  const building = mkdtempSync(join(builds, 'building-'));
  try {
    await build(building);
    for (const other of readdirSync(builds)) {
      if (!other.startsWith('building-') && join(builds, other) !== kept)
        rmSync(join(builds, other), { recursive: true });
    }
    renameSync(building, kept);
  } catch (error) {
    // Another process was faster.
    if (!existsSync(kept)) throw error;
  } finally {
    rmSync(building, { recursive: true, force: true });
  }
  return kept;
}

function keyOf(sources: readonly string[]): string {
  const hash = createHash('sha256').update(process.version);
  for (const file of [...sources].sort()) hash.update(`\0${file}\0`).update(readFileSync(join(ROOT, file)));
  return hash.digest('hex');
}
