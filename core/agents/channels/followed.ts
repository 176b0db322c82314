import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { readHead } from '../record.ts';
import { AgentStore } from '../store.ts';

/** Versions by the name that schedules and services follow: `latest` or a channel. */
export type Followed = ReadonlyMap<string, AgentVersion>;

/** Returns what schedules and services that follow an agent run. */
export async function followedOf(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
  { workspaceId, name }: { readonly workspaceId: string; readonly name: string },
): Promise<Followed> {
  const agents = new AgentStore(deps, workspaceId);
  const { current, channels } = await readHead(deps, workspaceId, name);
  const numbers = new Map([
    ...Object.entries(channels).map(([channel, { version }]) => [channel, version] as const),
    ['latest', current] as const,
  ]);
  const found = new Map<string, AgentVersion>();
  for (const [followed, number] of numbers) {
    const version = number === 0 ? undefined : await agents.findVersion(name, number);
    if (version !== undefined) found.set(followed, version);
  }
  return found;
}

export const isSameFollowed = (one: Followed, other: Followed): boolean =>
  one.size === other.size && [...one].every(([name, { id }]) => other.get(name)?.id === id);
