import type { Deps } from '#core/ports/deps.ts';
import { expireDevVersions } from './dev/publish.ts';
import { collectGarbage } from './retention/removal.ts';

/** Removes expired `dev` versions and unreferenced data. Safe to repeat. */
export async function collectAgentGarbage(deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'log'>): Promise<void> {
  await expireDevVersions(deps);
  await collectGarbage(deps);
}
