import { findWorkspaceIdBySlug } from '#core/accounts/workspaces/store.ts';
import { lazy } from '#core/base/lazy.ts';
import { isChannelName } from '#core/manifest/channel-name.ts';
import { type AgentAddress, DEV, parseVersion, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { exists, getAll, type Item, queryAll } from '#core/ports/table.ts';
import type { CalledChannel, Sticking } from './channels/channel.ts';
import { findBuild, findDev } from './dev/slots.ts';
import { headKey, idKey, partitionOf, readHead, readVersion, versionKey, workspaceIndex } from './record.ts';

const MAX_NAME_LENGTH = 50;

/** Passed instead of a user id for the platform's own work. */
export const ANYONE = Symbol('anyone');

/** The version that a name leads to, and the channel if the name is one. */
export interface Resolved {
  readonly agent: AgentVersion;
  readonly channel?: CalledChannel | undefined;
}

// Loaded lazily: most calls name no channel.
const channelPart = lazy(() => import('./channels/resolve.ts'));

type StoreDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** The agents of one workspace. `publish.ts` adds and removes versions; this class finds them and changes their members. */
export class AgentStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /** Counts a fork of the agent: deleting a forked agent requires confirmation. */
  async addFork(name: string): Promise<void> {
    await this.#deps.main.update(headKey(this.#workspaceId, name), { add: { fork_count: 1 } }, exists());
  }

  async countForks(name: string): Promise<number> {
    return (await readHead(this.#deps, this.#workspaceId, name)).fork_count;
  }

  /** Finds a live version of this workspace by id; finds builds of `dev` only for the user `devOf`. */
  async find(id: string, devOf?: string): Promise<AgentVersion | undefined> {
    const version = await findAnyVersion(this.#deps, id, devOf);
    return version?.workspaceId === this.#workspaceId ? version : undefined;
  }

  /** Finds a live version by its number, or the current one. */
  async findVersion(name: string, version: number | 'latest'): Promise<AgentVersion | undefined> {
    const workspaceId = this.#workspaceId;
    const number = version === 'latest' ? (await readHead(this.#deps, workspaceId, name)).current : version;
    if (number === 0) return undefined;
    const item = await this.#deps.main.get(versionKey({ workspaceId, name, version: number }));
    return item === undefined || item.deleted_at !== undefined ? undefined : await readVersion(this.#deps, item);
  }

  /**
   * Finds the version that a name stands for: `v3`, `latest`, a channel or a preview. A channel with a canary divides calls,
   * which say what their caller sticks by. Everything else gets the version of the channel.
   *
   * This is the only place that knows what names of versions mean, except for `dev` ({@link resolveCall}).
   */
  async resolve(name: string, version: string, sticking?: Sticking): Promise<Resolved | undefined> {
    const number = parseVersion(version);
    if (number !== undefined) {
      const agent = await this.findVersion(name, number);
      return agent && { agent };
    }
    if (!isChannelName(version)) return undefined;
    const { resolveChannel } = await channelPart();
    return resolveChannel(this.#deps, this, { workspaceId: this.#workspaceId, name }, version, sticking);
  }

  /** Finds the build that `dev` of a user runs. */
  findDev(name: string, userId: string): Promise<AgentVersion | undefined> {
    return findDev(this.#deps, { workspaceId: this.#workspaceId, userId, name });
  }

  /**
   * Finds the newest live version that is no preview, even one that cannot run yet. If the newest was deleted, finds the current
   * one.
   */
  async findNewest(name: string): Promise<AgentVersion | undefined> {
    const { assigned } = await readHead(this.#deps, this.#workspaceId, name);
    const newest = await this.findVersion(name, assigned);
    if (newest?.preview !== undefined) return this.findNewestLive(name);
    return newest ?? this.findVersion(name, 'latest');
  }

  /** Finds the version that has the name of a preview, even one that cannot run yet. */
  async findPreview(name: string, preview: string): Promise<AgentVersion | undefined> {
    const { previews } = await readHead(this.#deps, this.#workspaceId, name);
    const version = Object.hasOwn(previews, preview) ? previews[preview]!.version : undefined;
    return version === undefined ? undefined : this.findVersion(name, version);
  }

  /** Returns the number of the next publish, unless another publish comes first. */
  async nextVersion(name: string): Promise<number> {
    return (await readHead(this.#deps, this.#workspaceId, name)).assigned + 1;
  }

  /** Lists the live versions of one agent, oldest first. */
  async listVersions(name: string): Promise<AgentVersion[]> {
    const pk = partitionOf(this.#workspaceId, name);
    return this.#readLive(queryAll(this.#deps.main, { pk, sk: { beginsWith: 'V#' } }));
  }

  /** Finds the newest live version that is no preview, even one that cannot run yet. */
  async findNewestLive(name: string): Promise<AgentVersion | undefined> {
    const pk = partitionOf(this.#workspaceId, name);
    const newestFirst = queryAll(this.#deps.main, { pk, sk: { beginsWith: 'V#' }, reverse: true, limit: 10 });
    for await (const item of newestFirst) {
      if (item.deleted_at === undefined && item.preview === undefined) return readVersion(this.#deps, item);
    }
    return undefined;
  }

  /** Lists the live versions of all agents, oldest first. */
  async listAll(): Promise<AgentVersion[]> {
    const pk = workspaceIndex(this.#workspaceId);
    return this.#readLive(queryAll(this.#deps.main, { index: 'gsi1', pk, limit: 1000 }));
  }

  async #readLive(items: AsyncIterable<Item>): Promise<AgentVersion[]> {
    const versions: AgentVersion[] = [];
    for await (const item of items)
      if (item.deleted_at === undefined) versions.push(await readVersion(this.#deps, item));
    return versions;
  }
}

/** Finds the current versions (`v3`) of these agents; agents without one are left out. */
export async function currentVersions(
  { main }: Pick<Deps, 'main'>,
  workspaceId: string,
  names: readonly string[],
): Promise<Map<string, string>> {
  const heads = await getAll(
    main,
    names.map((name) => headKey(workspaceId, name)),
  );
  return new Map(
    heads.flatMap((head, index) => {
      const current = (head?.current as number | undefined) ?? 0;
      return current === 0 ? [] : [[names[index]!, versionName(current)] as const];
    }),
  );
}

/** A version as listed in the index of its workspace. */
export interface ListedVersion {
  readonly id: string;
  readonly name: string;
  /** `v3`. */
  readonly version: string;
  readonly createdAt: string;
}

/** Lists the versions published since a time (epoch milliseconds), oldest first, at most 1,000. */
export async function versionsSince(
  { main }: Pick<Deps, 'main'>,
  workspaceId: string,
  since: number,
): Promise<ListedVersion[]> {
  const sk = { greaterThan: isoTime(since) };
  const { items } = await main.query({ index: 'gsi1', pk: workspaceIndex(workspaceId), sk, limit: 1000 });
  return items.map((item) => ({
    id: item.id as string,
    name: item.name as string,
    version: versionName(item.version as number),
    createdAt: item.created_at as string,
  }));
}

/**
 * Finds a live version of any workspace by id: the caller must check that it may be seen. Finds builds of `dev` only
 * for
 * the user `devOf`, or for {@link ANYONE}.
 */
export async function findAnyVersion(
  deps: StoreDeps,
  id: string,
  devOf?: string | typeof ANYONE,
): Promise<AgentVersion | undefined> {
  if (!/^[0-9a-f-]{36}$/.test(id)) return undefined;
  const place = await deps.main.get(idKey(id));
  if (place === undefined) return undefined;
  const userId = place.dev_of as string | undefined;
  if (userId !== undefined) {
    if (devOf !== userId && devOf !== ANYONE) return undefined;
    return findBuild(deps, { workspaceId: place.workspace_id as string, userId, name: place.name as string }, id);
  }
  const store = new AgentStore(deps, place.workspace_id as string);
  return await store.findVersion(place.name as string, place.version as number);
}

/**
 * Finds what a call of an address runs: the live version of any workspace, for the caller to check that it may be called.
 * `version` is `v1`, `v2`, ..., `latest`, the name of a channel or preview, or `dev` for the one of the user `devOf`; any other text
 * finds nothing.
 *
 * @param sticking What the call has to stick by. @default - no call: the canary of a channel is left out
 */
export async function resolveCall(
  deps: StoreDeps,
  { org, agent, version }: AgentAddress,
  { devOf, sticking }: { readonly devOf?: string | undefined; readonly sticking?: Sticking } = {},
): Promise<Resolved | undefined> {
  const isDev = version === DEV && devOf !== undefined;
  if (!isDev && parseVersion(version) === undefined && !isChannelName(version)) return undefined;
  const store = await storeOf(deps, org, agent);
  if (!isDev) return store?.resolve(agent, version, sticking);
  const build = await store?.findDev(agent, devOf);
  return build && { agent: build };
}

/** Finds the version of an address as {@link resolveCall} does, for everything that is no call. */
export const resolveAgent = async (
  deps: StoreDeps,
  org: string,
  name: string,
  version: string,
  devOf?: string,
): Promise<AgentVersion | undefined> => (await resolveCall(deps, { org, agent: name, version }, { devOf }))?.agent;

/** Finds the newest live version that is no preview, even one that cannot run yet, to report what it lacks. */
export async function findNewest(deps: StoreDeps, org: string, name: string): Promise<AgentVersion | undefined> {
  return (await storeOf(deps, org, name))?.findNewestLive(name);
}

/**
 * Returns the store of an organization; `undefined` if the organization does not exist or the agent name is invalid.
 */
async function storeOf(deps: StoreDeps, org: string, name: string): Promise<AgentStore | undefined> {
  if (name.length > MAX_NAME_LENGTH) return undefined;
  const workspaceId = await findWorkspaceIdBySlug(deps, org.slice(0, 100));
  return workspaceId === undefined ? undefined : new AgentStore(deps, workspaceId);
}
