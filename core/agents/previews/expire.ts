import { revokeAllStaticKeys } from '#core/accounts/service-keys/store.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { queryAll } from '#core/ports/table.ts';
import { removeVersion } from '../publish.ts';
import { readHead } from '../record.ts';
import { AgentStore } from '../store.ts';
import { PREVIEWS } from './preview.ts';

type ExpireDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'log'>;

/** Removes the versions of previews whose time is over. Safe to repeat, and to run several times at once. */
export async function expirePreviews(deps: ExpireDeps): Promise<void> {
  const { main, clock, log } = deps;
  const due = { index: 'gsi1', pk: PREVIEWS, sk: { lessThan: isoTime(clock.now()) } } as const;
  for await (const { pk, gsi1sk } of queryAll(main, due)) {
    const [workspaceId, name] = gsi1sk!.split('#').slice(1) as [string, string];
    await expireOf(deps, workspaceId, name).catch((error: unknown) =>
      log.error('preview not removed', { key: pk, error: String(error) }),
    );
  }
}

async function expireOf(deps: ExpireDeps, workspaceId: string, name: string): Promise<void> {
  const agents = new AgentStore(deps, workspaceId);
  const { previews } = await readHead(deps, workspaceId, name);
  for (const { version: number, ends_at } of Object.values(previews)) {
    if (Date.parse(ends_at) > deps.clock.now()) continue;
    const version = await agents.findVersion(name, number);
    if (version !== undefined) await removeVersion(deps, version, false);
  }
  if ((await agents.listVersions(name)).length === 0) await revokeAllStaticKeys(deps, { workspaceId, agentName: name });
}
