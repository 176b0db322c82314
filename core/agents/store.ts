import { findWorkspaceIdBySlug } from '#core/accounts/workspaces/store.ts';
import { DEV, parseVersion, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { exists, getAll, type Item, queryAll } from '#core/ports/table.ts';
import { findBuild, findDev } from './dev/slots.ts';
import { headKey, idKey, partitionOf, readHead, readVersion, versionKey, workspaceIndex } from './record.ts';

const MAX_NAME_LENGTH = 50;

/** Instead of a user, for what the platform does by itself. */
export const ANYONE = Symbol('anyone');

type StoreDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** The agents of one workspace. `publish.ts` adds and removes versions; this class finds them and changes their members. */
export class AgentStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /** Counts a fork of the agent, for the confirmation that deleting it needs. */
  async addFork(name: string): Promise<void> {
    await this.#deps.main.update(headKey(this.#workspaceId, name), { add: { fork_count: 1 } }, exists());
  }

  async countForks(name: string): Promise<number> {
    return (await readHead(this.#deps, this.#workspaceId, name)).fork_count;
  }

  /** A live version of this workspace by its id; builds of `dev` only of the user `devOf`. */
  async find(id: string, devOf?: string): Promise<AgentVersion | undefined> {
    const version = await findAnyVersion(this.#deps, id, devOf);
    return version?.workspaceId === this.#workspaceId ? version : undefined;
  }

  /** A live version by its number, or the current one. */
  async findVersion(name: string, version: number | 'latest'): Promise<AgentVersion | undefined> {
    const workspaceId = this.#workspaceId;
    const number = version === 'latest' ? (await readHead(this.#deps, workspaceId, name)).current : version;
    if (number === 0) return undefined;
    const item = await this.#deps.main.get(versionKey({ workspaceId, name, version: number }));
    return item === undefined || item.deleted_at !== undefined ? undefined : await readVersion(this.#deps, item);
  }

  /** What `dev` of a user runs. */
  findDev(name: string, userId: string): Promise<AgentVersion | undefined> {
    return findDev(this.#deps, { workspaceId: this.#workspaceId, userId, name });
  }

  /** The newest live version, even one that cannot run yet, unless the newest was deleted: then the current one. */
  async findNewest(name: string): Promise<AgentVersion | undefined> {
    const { assigned } = await readHead(this.#deps, this.#workspaceId, name);
    return (await this.findVersion(name, assigned)) ?? this.findVersion(name, 'latest');
  }

  /** The number that the next publish gets, unless another one comes first. */
  async nextVersion(name: string): Promise<number> {
    return (await readHead(this.#deps, this.#workspaceId, name)).assigned + 1;
  }

  /** Live versions of one agent, oldest first. */
  async listVersions(name: string): Promise<AgentVersion[]> {
    const pk = partitionOf(this.#workspaceId, name);
    return this.#readLive(queryAll(this.#deps.main, { pk, sk: { beginsWith: 'V#' } }));
  }

  /** The newest live version, even one that cannot run yet. */
  async findNewestLive(name: string): Promise<AgentVersion | undefined> {
    const pk = partitionOf(this.#workspaceId, name);
    const newestFirst = queryAll(this.#deps.main, { pk, sk: { beginsWith: 'V#' }, reverse: true, limit: 10 });
    for await (const item of newestFirst) if (item.deleted_at === undefined) return readVersion(this.#deps, item);
    return undefined;
  }

  /** Live versions of all agents, oldest first. */
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

/** The current versions (`v3`) of those of these agents that have one. */
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

/** A version as the index of its workspace names it. */
export interface ListedVersion {
  readonly id: string;
  readonly name: string;
  /** `v3`. */
  readonly version: string;
  readonly createdAt: string;
}

/** Versions that were published since a time (epoch milliseconds), oldest first, at most a thousand. */
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
 * A live version of any workspace by its id: the caller must check that it may be seen. Builds of `dev` are found for the
 * user `devOf` alone, or for the platform itself as `anyone`.
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
 * The live version of any workspace that `org/name/version` addresses: the caller must check that it may be seen.
 * `version` is `v1`, `v2`, ... or `latest`; `dev` finds that of the user `devOf`; any other text finds nothing.
 */
export async function resolveAgent(
  deps: StoreDeps,
  org: string,
  name: string,
  version: string,
  devOf?: string,
): Promise<AgentVersion | undefined> {
  if (version === DEV && devOf !== undefined) return (await storeOf(deps, org, name))?.findDev(name, devOf);
  const number = parseVersion(version);
  if (number === undefined) return undefined;
  return (await storeOf(deps, org, name))?.findVersion(name, number);
}

/** The newest live version, even one that cannot run yet: for telling what it lacks. */
export async function findNewest(deps: StoreDeps, org: string, name: string): Promise<AgentVersion | undefined> {
  return (await storeOf(deps, org, name))?.findNewestLive(name);
}

/** The store of an organization; `undefined` when there is no such organization, or no agent can have the name. */
async function storeOf(deps: StoreDeps, org: string, name: string): Promise<AgentStore | undefined> {
  if (name.length > MAX_NAME_LENGTH) return undefined;
  const workspaceId = await findWorkspaceIdBySlug(deps, org.slice(0, 100));
  return workspaceId === undefined ? undefined : new AgentStore(deps, workspaceId);
}
