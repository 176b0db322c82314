import type { Json } from '#core/base/json.ts';
import { parseVersion } from '#core/manifest/references.ts';
import { dayOf, epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import {
  absent,
  allOf,
  anyOf,
  equals,
  exists,
  type Item,
  type Key,
  lessThan,
  type TransactOperation,
} from '#core/ports/table.ts';
import { noteOperation } from '../destinations/notes.ts';
import { headKey, runIdOf } from '../items.ts';
import type { Run } from '../run.ts';
import { channelScore } from '../usage/channel-calls.ts';
import { type Drop, dropOf, MAX_RECENT, type VersionScores, WINDOW } from './drop.ts';
import { type OnlineAgent, onlineAgentIndex, onlineAgentKey, onlineNoteKey, openNotesOf } from './notes.ts';

/*
 * Runs table, besides the notes (`notes.ts`): `WS#<workspace id>#ONLINE_SCORES#<agent> / ...`:
 * - `V#<version>`: the newest scores of a version, for `score.dropped`;
 * - `SPENT#<day>`: what judges cost on a day (UTC), in millionths of a US dollar.
 */

const LEASE_MS = 60_000;
/** Kept as long as a version that gets no runs can still be compared with. */
const SCORES_KEPT_SECONDS = 90 * 24 * 3600;
const SPENT_KEPT_SECONDS = 7 * 24 * 3600;
/** Versions that are read to find the one before. */
const MAX_VERSIONS = 20;
const VERSION_DIGITS = 9;

/** A run that is to be scored. */
export interface OnlineNote {
  readonly runId: string;
  /** When it was noted, in epoch milliseconds. */
  readonly notedAt: number;
}

interface StoredScores extends VersionScores {
  readonly revision: number;
  /** The last day (UTC) on which a drop was reported. */
  readonly reportedOn?: string;
}

/** What is stored with the end of a note. */
export interface Scored {
  /** The mean of its scores; absent for a run without one. */
  readonly value?: number;
  /** What its judges cost, in millionths of a US dollar. */
  readonly costMicro: number;
}

type StoreDeps = Pick<Deps, 'runs' | 'clock'>;

/** The runs of one agent that are to be scored, and their scores. */
export class OnlineStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;
  readonly #agent: string;

  constructor(deps: StoreDeps, { workspaceId, agent }: Pick<OnlineAgent, 'workspaceId' | 'agent'>) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
    this.#agent = agent;
  }

  /** Returns the oldest runs that are still to be scored. */
  async open(limit: number): Promise<OnlineNote[]> {
    const pk = openNotesOf(this.#workspaceId, this.#agent);
    const { items } = await this.#deps.runs.query({ index: 'gsi1', pk, limit });
    return items.map((item) => ({ runId: runIdOf(item), notedAt: Date.parse(item.gsi1sk!.split('#')[0]!) }));
  }

  /** Whether a run is still to be dealt with: the index may lag. */
  async isOpen(runId: string): Promise<boolean> {
    return (await this.#deps.runs.get(this.#noteKey(runId)))?.gsi1sk !== undefined;
  }

  /** Takes the agent for the process with this token. Returns false if another process was faster. */
  async take(listedAs: string, token: string): Promise<boolean> {
    const changes = { set: { holder: token, ...this.#index(this.#deps.clock.now() + LEASE_MS) } };
    return (await this.#deps.runs.update(this.#agentKey, changes, equals('gsi1sk', listedAs))).ok;
  }

  /** Renews the lease. Returns false if another process holds the agent. */
  async hold(token: string): Promise<boolean> {
    return (await this.#list(token, this.#deps.clock.now() + LEASE_MS)) !== undefined;
  }

  /** Lets any process take the agent from `from` (epoch milliseconds) on. Undefined if another one holds it. */
  async release(token: string, from: number): Promise<OnlineAgent | undefined> {
    const listedAs = await this.#list(token, from);
    return listedAs === undefined ? undefined : { workspaceId: this.#workspaceId, agent: this.#agent, listedAs };
  }

  async #list(token: string, from: number): Promise<string | undefined> {
    const index = this.#index(from);
    const { ok } = await this.#deps.runs.update(this.#agentKey, { set: index }, equals('holder', token));
    return ok ? index.gsi1sk : undefined;
  }

  /**
   * Notes the runs of judges before they begin, so that they are erased with the run. Returns false if what was said in the run was erased, or
   * if it was dealt with.
   */
  async noteJudges(runId: string, judges: readonly string[]): Promise<boolean> {
    return retryOnConflict(this.#deps.clock, `the scores of the run ${runId}`, async () => {
      const written = await this.#deps.runs.transact([
        {
          op: 'update',
          key: this.#noteKey(runId),
          changes: { set: { judges: judges as unknown as Json } },
          condition: exists('gsi1sk'),
        },
        { op: 'check', key: headKey(this.#workspaceId, runId), condition: allOf(exists(), absent('erased')) },
      ]);
      if (written.ok) return true;
      return written.failed.length > 0 ? false : undefined;
    });
  }

  /** Returns what judges have cost on a day, in millionths of a US dollar. */
  async spentMicro(day: string): Promise<number> {
    return ((await this.#deps.runs.get(this.#scoresKey(`SPENT#${day}`)))?.micro as number | undefined) ?? 0;
  }

  /**
   * Ends the note of a run and counts its score, in one transaction, which also notes a drop that is to be announced. Does nothing if the note
   * has ended.
   *
   * @param tell Tells people of a drop, before the transaction. It may be called again with the same one.
   */
  async complete(
    run: Run,
    { value, costMicro }: Scored,
    tell: (drop: Drop, day: string) => Promise<void>,
  ): Promise<void> {
    const { runs, clock } = this.#deps;
    await retryOnConflict(clock, `the scores of ${this.#agent}`, async () => {
      const written = await runs.transact([
        this.#end(run.id),
        ...(costMicro > 0 ? [this.#spend(costMicro)] : []),
        ...(value === undefined ? [] : await this.#scoreOperations(run, value, tell)),
      ]);
      return written.ok || written.failed.includes(0) || undefined;
    });
  }

  /** Ends the note of a run of which nothing is left. */
  async drop(runId: string): Promise<void> {
    const end = this.#end(runId);
    await this.#deps.runs.update(end.key, end.changes, end.condition);
  }

  #end(runId: string): Extract<TransactOperation, { op: 'update' }> {
    const changes = { remove: ['gsi1pk', 'gsi1sk'] };
    return { op: 'update', key: this.#noteKey(runId), changes, condition: exists('gsi1sk') };
  }

  #spend(micro: number): TransactOperation {
    const now = this.#deps.clock.now();
    const changes = { set: { ttl: epochSeconds(now) + SPENT_KEPT_SECONDS }, add: { micro } };
    return { op: 'update', key: this.#scoresKey(`SPENT#${dayOf(now)}`), changes };
  }

  async #scoreOperations(
    run: Run,
    value: number,
    tell: (drop: Drop, day: string) => Promise<void>,
  ): Promise<TransactOperation[]> {
    const { workspaceId, id: runId, agentVersion } = run;
    const now = this.#deps.clock.now();
    const version = parseVersion(agentVersion) as number;
    const versions = await this.#versions(version);
    const stored = versions.find((each) => each.version === version);
    const former = versions.find((each) => each.version < version && each.recent.length >= WINDOW);
    const recent = [...(stored?.recent ?? []), Math.round(value * 1000) / 1000].slice(-MAX_RECENT);
    const today = dayOf(now);
    const dropped = stored?.reportedOn === today ? undefined : dropOf({ version, recent }, former);
    if (dropped !== undefined) await tell(dropped, today);
    const ttl = epochSeconds(now) + SCORES_KEPT_SECONDS;
    const reported_on = dropped === undefined ? stored?.reportedOn : today;
    const revision = (stored?.revision ?? 0) + 1;
    const item: Item = { ...this.#scoresKey(versionSk(version)), version, recent, revision, reported_on, ttl };
    // Reads hide an item that has expired.
    const isNew = anyOf(absent(), lessThan('ttl', epochSeconds(now) + 1));
    const condition = stored === undefined ? isNew : equals('revision', stored.revision);
    const channel = channelScore(run, value);
    return [
      { op: 'put', item, condition },
      ...(channel === undefined ? [] : [channel]),
      ...(dropped === undefined
        ? []
        : [noteOperation({ workspaceId, runId, about: 'score_dropped' }, { at: now, ttl, drop: dropped })]),
    ];
  }

  /** Returns the scores of a version and of those before it, the newest version first. */
  async #versions(version: number): Promise<StoredScores[]> {
    const { pk } = this.#scoresKey('');
    const sk = { between: [versionSk(0), versionSk(version)] as const };
    const { items } = await this.#deps.runs.query({ pk, sk, reverse: true, limit: MAX_VERSIONS });
    return items.map(({ version: number, recent, revision, reported_on }) => ({
      version: number as number,
      recent: recent as number[],
      revision: revision as number,
      ...(reported_on !== undefined && { reportedOn: reported_on as string }),
    }));
  }

  #noteKey(runId: string): Key {
    return onlineNoteKey(this.#workspaceId, runId);
  }
  get #agentKey(): Key {
    return onlineAgentKey(this.#workspaceId, this.#agent);
  }
  #index(from: number) {
    return onlineAgentIndex(this.#workspaceId, this.#agent, from);
  }
  #scoresKey(sk: string): Key {
    return { pk: `WS#${this.#workspaceId}#ONLINE_SCORES#${this.#agent}`, sk };
  }
}

const versionSk = (version: number): string => `V#${String(version).padStart(VERSION_DIGITS, '0')}`;
