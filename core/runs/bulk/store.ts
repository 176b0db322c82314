import type { Json } from '#core/base/json.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import {
  absent,
  allOf,
  anyOf,
  type Changes,
  equals,
  type Item,
  lessThan,
  queryAll,
  type TransactOperation,
} from '#core/ports/table.ts';
import { type Bulk, type BulkFailure, MAX_OPEN_BULKS } from './bulk.ts';

/*
 * Runs table:
 * - `WS#<workspace id>#BULK / <id>`: a bulk action. While it runs, gsi1 lists it under `BULKS` by the time at which a
 * process
 *   may claim it: at once, or when the lease of the present worker expires;
 * - `WS#<workspace id>#BULK / <id>#RUNS`: the ids of its runs, if they are listed by id;
 * - `WS#<workspace id>#BULK / OPEN`: the number of running bulk actions.
 */

type StoreDeps = Pick<Deps, 'runs' | 'clock' | 'config'>;

/** Lease duration: after this long without a renewal, another process takes over the action. */
const LEASE_MS = 60_000;
const OPEN = 'BULKS';

const partitionOf = (workspaceId: string): string => `WS#${workspaceId}#BULK`;
const openKey = (workspaceId: string) => ({ pk: partitionOf(workspaceId), sk: 'OPEN' });
const isRunning = equals('status', 'running');

/** A bulk action that a process may claim, as listed in the index. */
export interface DueBulk {
  readonly id: string;
  readonly workspaceId: string;
  readonly listedAs: string;
}

/** Results of one page of a bulk action. */
export interface BulkProgress {
  readonly done: number;
  readonly skipped: number;
  readonly failures: readonly BulkFailure[];
  /** Runs of the page that are not done yet. */
  readonly page: readonly string[];
}

/** The bulk actions of one workspace. */
export class BulkStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /** Creates a bulk action. Returns false if the workspace already has {@link MAX_OPEN_BULKS} in progress. */
  async create(bulk: Bulk, runIds: readonly string[] | undefined): Promise<boolean> {
    const { runs, clock, config } = this.#deps;
    const ttl = epochSeconds(clock.now()) + config.runRetentionDays * 24 * 3600;
    const { id, ...members } = bulk;
    const set = { ...(members as unknown as { [member: string]: Json }), ttl, ...this.#index(id, clock.now()) };
    // Written first, so that a bulk action always finds its runs.
    if (runIds) await runs.update(this.#idsKey(id), { set: { run_ids: [...runIds], ttl } });
    return retryOnConflict(clock, `the bulk actions of workspace ${this.#workspaceId}`, async () => {
      const written = await runs.transact([
        { op: 'update', key: this.#key(id), changes: { set }, condition: absent() },
        {
          op: 'update',
          key: openKey(this.#workspaceId),
          changes: { add: { open: 1 } },
          condition: anyOf(absent('open'), lessThan('open', MAX_OPEN_BULKS)),
        },
      ]);
      if (written.ok) return true;
      return written.failed.includes(1) ? false : undefined;
    });
  }

  async find(id: string): Promise<Bulk | undefined> {
    const item = /^[0-9a-f-]{36}$/.test(id) ? await this.#deps.runs.get(this.#key(id)) : undefined;
    return item && bulkFrom(item);
  }

  async runIds(id: string): Promise<readonly string[]> {
    return ((await this.#deps.runs.get(this.#idsKey(id)))?.run_ids as string[] | undefined) ?? [];
  }

  /**
   * Claims a bulk action for the process with this token. Returns `undefined` if another process claimed it or it has
   * ended.
   */
  async take({ id, listedAs }: DueBulk, token: string): Promise<Bulk | undefined> {
    const set = { holder: token, ...this.#index(id, this.#deps.clock.now() + LEASE_MS) };
    const taken = await this.#deps.runs.update(this.#key(id), { set }, allOf(isRunning, equals('gsi1sk', listedAs)));
    return taken.ok ? bulkFrom(taken.item) : undefined;
  }

  /** Renews the lease until `until` (epoch milliseconds), after which another process may claim the action. */
  async hold(id: string, token: string, until = this.#deps.clock.now() + LEASE_MS): Promise<boolean> {
    return this.#change(id, { set: this.#index(id, until) }, allOf(isRunning, equals('holder', token)));
  }

  /** Records the next page of runs. Returns false if the action was aborted or another process holds the lease. */
  async beginPage(id: string, token: string, { page, next }: Pick<Bulk, 'page' | 'next'>): Promise<boolean> {
    const set = { page: [...page], next: next as Json, updatedAt: isoTime(this.#deps.clock.now()) };
    return this.#change(id, { set }, allOf(isRunning, equals('holder', token)));
  }

  /**
   * Adds results to the counters, even if the action was aborted concurrently. The listed failures are those of `bulk`.
   */
  async addProgress(bulk: Bulk, token: string, { done, skipped, failures, page }: BulkProgress): Promise<boolean> {
    const set = {
      page: [...page],
      failures: bulk.failures as unknown as Json,
      updatedAt: isoTime(this.#deps.clock.now()),
    };
    const add = { done, skipped, failed: failures.length };
    return this.#change(bulk.id, { set, add }, equals('holder', token));
  }

  /**
   * Ends a running action; with `token`, only if that process holds it. Returns false if it has ended or is held by
   * another.
   */
  async end(id: string, end: Pick<Bulk, 'status' | 'message'>, token?: string): Promise<boolean> {
    const { runs, clock } = this.#deps;
    const now = isoTime(clock.now());
    const set = { ...end, endedAt: now, updatedAt: now };
    const condition = token === undefined ? isRunning : allOf(isRunning, equals('holder', token));
    const operations: TransactOperation[] = [
      { op: 'update', key: this.#key(id), changes: { set, remove: ['gsi1pk', 'gsi1sk'] }, condition },
      { op: 'update', key: openKey(this.#workspaceId), changes: { add: { open: -1 } } },
    ];
    return retryOnConflict(clock, `the bulk actions of workspace ${this.#workspaceId}`, async () => {
      const written = await runs.transact(operations);
      if (written.ok) return true;
      return written.failed.includes(0) ? false : undefined;
    });
  }

  async #change(id: string, changes: Changes, condition: ReturnType<typeof equals>): Promise<boolean> {
    return (await this.#deps.runs.update(this.#key(id), changes, condition)).ok;
  }

  #key(id: string) {
    return { pk: partitionOf(this.#workspaceId), sk: id };
  }

  #idsKey(id: string) {
    return { pk: partitionOf(this.#workspaceId), sk: `${id}#RUNS` };
  }

  #index(id: string, from: number) {
    return { gsi1pk: OPEN, gsi1sk: `${isoTime(from)}#${id}` };
  }
}

/** Yields bulk actions of all workspaces that no process holds. */
export async function* listDueBulks({ runs, clock }: Pick<Deps, 'runs' | 'clock'>): AsyncGenerator<DueBulk> {
  // In the sort key, `#` and the id follow the time; `$` sorts after `#`.
  const sk = { lessThan: `${isoTime(clock.now())}$` };
  for await (const item of queryAll(runs, { index: 'gsi1', pk: OPEN, sk })) {
    yield { id: item.sk, workspaceId: item.workspaceId as string, listedAs: item.gsi1sk! };
  }
}

function bulkFrom(item: Item): Bulk {
  const { pk, sk, gsi1pk, gsi1sk, ttl, holder, ...members } = item;
  return { id: sk, ...members } as unknown as Bulk;
}
