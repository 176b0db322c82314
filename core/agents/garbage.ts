import type { Deps } from '#core/ports/deps.ts';
import { expireDevVersions } from './dev/publish.ts';
import { expirePreviews } from './previews/expire.ts';
import { collectGarbage } from './retention/removal.ts';

/** Removes expired `dev` versions, previews and unreferenced data. Safe to repeat. */
export async function collectAgentGarbage(deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'log'>): Promise<void> {
  await expireDevVersions(deps);
  await expirePreviews(deps);
  await collectGarbage(deps);
}
