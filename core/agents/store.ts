import { findWorkspaceIdBySlug } from '#core/accounts/workspaces/store.ts';
import type { Json } from '#core/base/json.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getLarge, putIfLarge } from '#core/ports/large-value.ts';
import { absent, allOf, equals, exists, type Item, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { untilWritten } from '#core/ports/until-written.ts';
import type { AgentDefinition } from './definition.ts';
import type { AgentVersion, Bundle, Install } from './version.ts';

/**
 * Main table:
 * - `WS#<workspace id>#AGENT#<name> / HEAD`: the highest version number ever assigned, the current version, and a
 *   revision that grows with every change to which versions there are and can run;
 * - `WS#<workspace id>#AGENT#<name> / V#00001`: a version (gsi1: all of a workspace; gsi2: the public ones);
 * - `AGENT#<version id> / META`: where the version with that id lies.
 *
 * A version is *live* until it is deleted, *runnable* once nothing is missing to run it (its code bundle, its
 * dependencies), and *current* when it is the newest live runnable one: `latest` names it, and it supersedes the others.
 */
/** `spec.md` *Limits*. */
const DELETION_RETENTION_SECONDS = 30 * 24 * 3600;

const idKey = (id: string) => ({ pk: `AGENT#${id}`, sk: 'META' });
const versionSort = (version: number): string => `V#${String(version).padStart(5, '0')}`;
const definitionKey = (id: string): string => `definitions/${id}.json`;

/** What an agent's HEAD item holds; 0 where there is nothing yet. */
type Head = {
  readonly assigned: number;
  readonly current: number;
  readonly revision: number;
  readonly fork_count: number;
};

type StoreDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** The agents of one workspace. */
export class AgentStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  #partition(name: string): string {
    return `WS#${this.#workspaceId}#AGENT#${name}`;
  }

  #headKey(name: string) {
    return { pk: this.#partition(name), sk: 'HEAD' };
  }

  #versionKey(name: string, version: number) {
    return { pk: this.#partition(name), sk: versionSort(version) };
  }

  /**
   * Publishes the next version of `definition.name`. Version numbers have no gap and no double, however many publish at
   * once; numbers of deleted versions are not given out again, so that nothing that was addressed means something else.
   */
  async publish(
    definition: AgentDefinition,
    workspace: Workspace,
    state: { runnable: boolean; bundle?: Bundle; install?: Install; forkedFrom?: string },
  ): Promise<AgentVersion> {
    const { main, clock, ids } = this.#deps;
    const { name } = definition;
    const id = ids.uuid();
    const isLarge = await putIfLarge(this.#deps, definitionKey(id), JSON.stringify(definition));

    return untilWritten(clock, `the agent ${name}`, async () => {
      const head = await this.#head(name);
      const version = head.assigned + 1;
      const now = isoTime(clock.now());
      const item: Item = {
        ...this.#versionKey(name, version),
        id,
        workspace_id: this.#workspaceId,
        org_slug: workspace.slug,
        org_name: workspace.name,
        name,
        version,
        created_at: now,
        updated_at: now,
        runnable: state.runnable,
        bundle: state.bundle as Json | undefined,
        install: state.install as Json | undefined,
        forked_from: state.forkedFrom,
        definition: isLarge ? undefined : (definition as unknown as Json),
        gsi1pk: `WS#${this.#workspaceId}#AGENTS`,
        gsi1sk: `${now}#${id}`,
        ...(definition.is_public && publicIndex(now, id)),
      };
      const result = await main.transact([
        { op: 'put', item, condition: absent() },
        { op: 'put', item: { ...idKey(id), workspace_id: this.#workspaceId, name, version } },
        this.#changeHead(name, head, { assigned: version, ...(state.runnable && { current: version }) }),
        ...(state.runnable ? this.#supersede(name, head.current, now) : []),
      ]);
      return result.ok ? this.#read(item) : undefined;
    });
  }

  async #head(name: string): Promise<Head> {
    const item = await this.#deps.main.get(this.#headKey(name));
    return { assigned: 0, current: 0, revision: 0, fork_count: 0, ...(item as Partial<Head> | undefined) };
  }

  /** Fails when anybody changed the agent's versions since `head` was read: what was decided by it may be wrong. */
  #changeHead(name: string, { revision }: Head, set: Partial<Head>): TransactOperation {
    return {
      op: 'update',
      key: this.#headKey(name),
      changes: { set: { ...set, revision: revision + 1 } },
      condition: revision === 0 ? absent('revision') : equals('revision', revision),
    };
  }

  /** The write that makes the version which was current until now a superseded one. */
  #supersede(name: string, current: number, at: string): TransactOperation[] {
    if (current === 0) return [];
    return [{ op: 'update', key: this.#versionKey(name, current), changes: { set: { superseded_at: at } } }];
  }

  /** Notes a version's bundle, and its installation; without one, a former one is forgotten. */
  async setBuild(version: AgentVersion, build: { bundle: Bundle; install?: Install }): Promise<AgentVersion> {
    const result = await this.#deps.main.update(
      this.#versionKey(version.name, version.version),
      {
        set: { ...build, updated_at: isoTime(this.#deps.clock.now()) } as unknown as Record<string, Json>,
        remove: build.install === undefined ? ['install'] : [],
      },
      exists(),
    );
    return result.ok ? this.#read(result.item) : version;
  }

  /** Makes a version runnable and, unless a newer one is current, current. Safe to repeat, and for a deleted version. */
  async activate({ name, version }: AgentVersion): Promise<void> {
    const { main, clock } = this.#deps;
    await untilWritten(clock, `the agent ${name}`, async () => {
      // In this order: what is read after the head cannot be older than it.
      const head = await this.#head(name);
      const stored = await this.findVersion(name, version);
      if (stored === undefined || stored.runnable) return true;
      const now = isoTime(clock.now());
      const isNewest = version > head.current;
      const result = await main.transact([
        {
          op: 'update',
          key: this.#versionKey(name, version),
          changes: { set: { runnable: true, updated_at: now, ...(!isNewest && { superseded_at: now }) } },
          condition: allOf(exists(), absent('deleted_at')),
        },
        this.#changeHead(name, head, isNewest ? { current: version } : {}),
        ...(isNewest ? this.#supersede(name, head.current, now) : []),
      ]);
      return result.ok || result.failed.includes(0) || undefined;
    });
  }

  /** Replaces the changeable part of a definition. `undefined` when the version was deleted meanwhile. */
  async update(version: AgentVersion, definition: AgentDefinition): Promise<AgentVersion | undefined> {
    const isLarge = await putIfLarge(this.#deps, definitionKey(version.id), JSON.stringify(definition));
    const listed = definition.is_public ? publicIndex(version.createdAt, version.id) : undefined;
    const result = await this.#deps.main.update(
      this.#versionKey(version.name, version.version),
      {
        set: {
          updated_at: isoTime(this.#deps.clock.now()),
          ...(!isLarge && { definition: definition as unknown as Json }),
          ...listed,
        },
        remove: [...(isLarge ? ['definition'] : []), ...(listed ? [] : ['gsi2pk', 'gsi2sk'])],
      },
      allOf(exists(), absent('deleted_at')),
    );
    return result.ok ? this.#read(result.item) : undefined;
  }

  /**
   * Soft-deletes one version: nothing finds it any more, and after 30 days it is gone. The newest runnable version that
   * is left becomes current. False when it was deleted already.
   */
  async remove(version: AgentVersion): Promise<boolean> {
    const { main, clock } = this.#deps;
    const { name } = version;
    return untilWritten(clock, `the agent ${name}`, async () => {
      const head = await this.#head(name);
      const isCurrent = head.current === version.version;
      const others = (await this.listVersions(name)).filter((other) => other.version !== version.version);
      const next = isCurrent ? others.findLast((other) => other.runnable) : undefined;
      const now = clock.now();
      const ttl = epochSeconds(now) + DELETION_RETENTION_SECONDS;
      const result = await main.transact([
        {
          op: 'update',
          key: this.#versionKey(name, version.version),
          changes: { set: { deleted_at: isoTime(now), ttl }, remove: ['gsi1pk', 'gsi1sk', 'gsi2pk', 'gsi2sk'] },
          condition: allOf(exists(), absent('deleted_at')),
        },
        { op: 'update', key: idKey(version.id), changes: { set: { ttl } } },
        this.#changeHead(name, head, isCurrent ? { current: next?.version ?? 0 } : {}),
        ...(next
          ? [
              {
                op: 'update' as const,
                key: this.#versionKey(name, next.version),
                changes: { remove: ['superseded_at'] },
              },
            ]
          : []),
      ]);
      if (result.ok) return true;
      return result.failed.includes(0) ? false : undefined;
    });
  }

  /** Counts a fork of the agent, for the confirmation that deleting it needs. */
  async addFork(name: string): Promise<void> {
    await this.#deps.main.update(this.#headKey(name), { add: { fork_count: 1 } }, exists());
  }

  async countForks(name: string): Promise<number> {
    return (await this.#head(name)).fork_count;
  }

  /** A live version of this workspace by its id. */
  async find(id: string): Promise<AgentVersion | undefined> {
    const version = await findAnyVersion(this.#deps, id);
    return version?.workspaceId === this.#workspaceId ? version : undefined;
  }

  /** A live version by its number, or the current one. */
  async findVersion(name: string, version: number | 'latest'): Promise<AgentVersion | undefined> {
    const number = version === 'latest' ? (await this.#head(name)).current : version;
    if (number === 0) return undefined;
    const item = await this.#deps.main.get(this.#versionKey(name, number));
    return item === undefined || item.deleted_at !== undefined ? undefined : this.#read(item);
  }

  /** The number that the next publish would get, if nobody else publishes meanwhile. */
  async nextVersion(name: string): Promise<number> {
    return (await this.#head(name)).assigned + 1;
  }

  /** Live versions of one agent, oldest first. */
  async listVersions(name: string): Promise<AgentVersion[]> {
    const items = queryAll(this.#deps.main, { pk: this.#partition(name), sk: { beginsWith: 'V#' } });
    return this.#readAll(items);
  }

  /** Live versions of all agents, oldest first. */
  async listAll(): Promise<AgentVersion[]> {
    return this.#readAll(
      queryAll(this.#deps.main, { index: 'gsi1', pk: `WS#${this.#workspaceId}#AGENTS`, limit: 1000 }),
    );
  }

  async #readAll(items: AsyncIterable<Item>): Promise<AgentVersion[]> {
    const versions: AgentVersion[] = [];
    for await (const item of items) if (item.deleted_at === undefined) versions.push(await this.#read(item));
    return versions;
  }

  #read(item: Item): Promise<AgentVersion> {
    return readVersion(this.#deps, item);
  }
}

const publicIndex = (createdAt: string, id: string) => ({ gsi2pk: 'PUBLIC', gsi2sk: `${createdAt}#${id}` });

async function readVersion(deps: Pick<Deps, 'blobs'>, item: Item): Promise<AgentVersion> {
  let definition = item.definition as unknown as AgentDefinition | undefined;
  if (definition === undefined) {
    const text = await getLarge(deps, definitionKey(item.id as string));
    if (text === undefined) throw new Error(`the definition of agent version ${item.id} is missing`);
    definition = JSON.parse(text) as AgentDefinition;
  }
  return {
    id: item.id as string,
    workspaceId: item.workspace_id as string,
    orgSlug: item.org_slug as string,
    orgName: item.org_name as string,
    name: item.name as string,
    version: item.version as number,
    definition,
    createdAt: item.created_at as string,
    updatedAt: item.updated_at as string,
    runnable: item.runnable as boolean,
    bundle: item.bundle as unknown as Bundle | undefined,
    install: item.install as unknown as Install | undefined,
    supersededAt: item.superseded_at as string | undefined,
    forkedFrom: item.forked_from as string | undefined,
  };
}

/** Every runnable public version, newest first. */
export async function* listPublicVersions(deps: Pick<Deps, 'main' | 'blobs'>): AsyncGenerator<AgentVersion> {
  for await (const item of queryAll(deps.main, { index: 'gsi2', pk: 'PUBLIC', reverse: true, limit: 1000 })) {
    if (item.runnable === true && item.deleted_at === undefined) yield readVersion(deps, item);
  }
}

/** A live version by its id, whoever asks: the caller must check that it may be seen. */
export async function findAnyVersion(deps: StoreDeps, id: string): Promise<AgentVersion | undefined> {
  if (!/^[0-9a-f-]{36}$/.test(id)) return undefined;
  const place = await deps.main.get(idKey(id));
  if (place === undefined) return undefined;
  return new AgentStore(deps, place.workspace_id as string).findVersion(place.name as string, place.version as number);
}

/**
 * The live version that `org/name/version` addresses, whoever asks: the caller must check that it may be seen.
 * `version` is `v1`, `v2`, ... or `latest`; anything else finds nothing.
 */
export async function resolveAgent(
  deps: StoreDeps,
  org: string,
  name: string,
  version: string,
): Promise<AgentVersion | undefined> {
  const number = version === 'latest' ? 'latest' : Number(/^v([1-9]\d{0,4})$/.exec(version)?.[1]);
  if (Number.isNaN(number) || name.length > 50) return undefined;
  const workspaceId = await findWorkspaceIdBySlug(deps, org.slice(0, 100));
  if (workspaceId === undefined) return undefined;
  return new AgentStore(deps, workspaceId).findVersion(name, number);
}

/** The newest live version, even one that cannot run yet: for telling what it lacks. */
export async function findNewest(deps: StoreDeps, org: string, name: string): Promise<AgentVersion | undefined> {
  const workspaceId = name.length > 50 ? undefined : await findWorkspaceIdBySlug(deps, org.slice(0, 100));
  return workspaceId === undefined ? undefined : (await new AgentStore(deps, workspaceId).listVersions(name)).at(-1);
}
