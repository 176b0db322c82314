import { batchesOf } from '#core/base/batches.ts';
import type { Json } from '#core/base/json.ts';
import { readCursor, writeCursor } from '#core/http/cursor.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import {
  absent,
  allOf,
  anyOf,
  equals,
  type Item,
  lessThan,
  queryAll,
  type TransactOperation,
} from '#core/ports/table.ts';
import { runExpiry } from '#core/runs/items.ts';
import { type DueEval, OPEN_EVALS } from './due.ts';
import {
  type Evaluation,
  MAX_OPEN_EVALS,
  type Slot,
  type SlotResult,
  type StoredCase,
  type StoredSlot,
} from './eval.ts';
import type { Summary, Verdict } from './verdict.ts';

/*
 * Runs table. All of it expires with the runs.
 * - `WS#<workspace id>#EVAL / <id>`: an evaluation. gsi2 lists those of an agent by time. While it runs, gsi1 lists it under `EVALS` by the
 *   time at which a process may claim it: at once, or when the lease of the present worker expires;
 * - `WS#<workspace id>#EVAL / OPEN`: the number of running evaluations;
 * - `WS#<workspace id>#EVAL#<id> / CASE#<case>`: a case;
 * - `WS#<workspace id>#EVAL#<id> / RUN#<case>#<lane>#<repeat>`: one of its runs, with its result once there is one.
 */

type StoreDeps = Pick<Deps, 'runs' | 'clock' | 'config'>;

/** Lease duration: after this long without a renewal, another process takes over the evaluation. */
const LEASE_MS = 60_000;

const isRunning = equals('status', 'running');
const partitionOf = (workspaceId: string): string => `WS#${workspaceId}#EVAL`;
const listOf = (workspaceId: string, { agentName, firstVersion }: Pick<Evaluation, 'agentName' | 'firstVersion'>) =>
  `WS#${workspaceId}#EVALS#${agentName}#${firstVersion}`;
const digits = (number: number, length: number): string => String(number).padStart(length, '0');
const caseSk = (number: number): string => `CASE#${digits(number, 5)}`;
const slotSk = ({ case: number, lane, repeat }: Slot): string =>
  `RUN#${digits(number, 5)}#${lane}#${digits(repeat, 2)}`;

/** The evaluations of one workspace. */
export class EvalStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /**
   * Creates an evaluation, unless it exists: another process may have derived the same id. Returns false if the workspace already has
   * {@link MAX_OPEN_EVALS} in progress.
   */
  async create(evaluation: Evaluation, cases: readonly StoredCase[]): Promise<boolean> {
    const { runs, clock, config } = this.#deps;
    const { id, ...members } = evaluation;
    const ttl = runExpiry(config, clock.now());
    // Written first, so that an evaluation always finds its cases.
    for (const batch of batchesOf(cases, CASES_AT_ONCE)) {
      await Promise.all(
        batch.map((each) =>
          runs.put({ ...this.#caseKey(id, caseSk(each.number)), case: each as unknown as Json, ttl }),
        ),
      );
    }
    const set = {
      ...(members as unknown as { [member: string]: Json }),
      ttl,
      ...this.#index(id, clock.now()),
      gsi2pk: listOf(this.#workspaceId, evaluation),
      gsi2sk: `${evaluation.createdAt}#${id}`,
    };
    return retryOnConflict(clock, `the evaluations of workspace ${this.#workspaceId}`, async () => {
      const written = await runs.transact([
        { op: 'update', key: this.#key(id), changes: { set }, condition: absent() },
        {
          op: 'update',
          key: this.#openKey,
          changes: { add: { open: 1 } },
          condition: anyOf(absent('open'), lessThan('open', MAX_OPEN_EVALS)),
        },
      ]);
      if (written.ok || written.failed.includes(0)) return true;
      return written.failed.includes(1) ? false : undefined;
    });
  }

  async find(id: string): Promise<Evaluation | undefined> {
    const item = /^[0-9a-f-]{36}$/.test(id) ? await this.#deps.runs.get(this.#key(id)) : undefined;
    return item && evaluationFrom(item);
  }

  /** Returns a page of the evaluations of an agent, newest first. Throws INVALID_INPUT for a cursor of another listing. */
  async list(
    agent: Pick<Evaluation, 'agentName' | 'firstVersion'>,
    { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
  ): Promise<{ readonly evaluations: readonly Evaluation[]; readonly nextCursor: string | null }> {
    const pk = listOf(this.#workspaceId, agent);
    const after = cursor === undefined ? undefined : readCursor(cursor, [pk], placeIn);
    const sk = after === undefined ? undefined : { lessThan: after };
    const page = await this.#deps.runs.query({ index: 'gsi2', pk, ...(sk && { sk }), limit, reverse: true });
    const last = page.items.at(-1);
    return {
      evaluations: page.items.map(evaluationFrom),
      nextCursor: page.cursor !== undefined && last ? writeCursor([pk], [last.gsi2sk!]) : null,
    };
  }

  /** Returns a page of the cases from the number `from` on. */
  async casesOnly(
    id: string,
    { from, limit }: { readonly from: number; readonly limit: number },
  ): Promise<readonly StoredCase[]> {
    const { pk } = this.#caseKey(id, '');
    const cases: StoredCase[] = [];
    for await (const item of queryAll(this.#deps.runs, { pk, sk: { between: [caseSk(from), 'CASE#~'] }, limit })) {
      cases.push(item.case as unknown as StoredCase);
      if (cases.length === limit) break;
    }
    return cases;
  }

  /** Returns a page of the cases from the number `from` on, each with its runs so far. */
  async cases(
    id: string,
    page: { readonly from: number; readonly limit: number },
  ): Promise<readonly { readonly case: StoredCase; readonly slots: readonly StoredSlot[] }[]> {
    const cases = await this.casesOnly(id, page);
    if (cases.length === 0) return [];
    const { pk } = this.#caseKey(id, '');
    const range = [`RUN#${digits(page.from, 5)}`, `RUN#${digits(cases.at(-1)!.number, 5)}~`] as const;
    const slots = new Map<number, StoredSlot[]>();
    for await (const item of queryAll(this.#deps.runs, { pk, sk: { between: range }, limit: 1000 })) {
      const slot = item.slot as unknown as StoredSlot;
      const own = slots.get(slot.case) ?? [];
      slots.set(slot.case, own);
      own.push(slot);
    }
    return cases.map((each) => ({ case: each, slots: slots.get(each.number) ?? [] }));
  }

  /** Yields the runs of an evaluation, case by case. */
  async *slots(id: string): AsyncGenerator<StoredSlot> {
    const { pk } = this.#caseKey(id, '');
    for await (const item of queryAll(this.#deps.runs, { pk, sk: { beginsWith: 'RUN#' }, limit: 1000 })) {
      yield item.slot as unknown as StoredSlot;
    }
  }

  /** Claims an evaluation for the process with this token. Undefined if another process claimed it or it has ended. */
  async take({ id, listedAs }: DueEval, token: string): Promise<Evaluation | undefined> {
    const set = { holder: token, ...this.#index(id, this.#deps.clock.now() + LEASE_MS) };
    const condition = allOf(isRunning, equals('gsi1sk', listedAs));
    const taken = await this.#deps.runs.update(this.#key(id), { set }, condition);
    return taken.ok ? evaluationFrom(taken.item) : undefined;
  }

  /** Renews the lease until `until` (epoch milliseconds). Returns false if it has ended or another process holds it. */
  async hold(id: string, token: string, until = this.#deps.clock.now() + LEASE_MS): Promise<boolean> {
    const changes = { set: this.#index(id, until) };
    return (await this.#deps.runs.update(this.#key(id), changes, allOf(isRunning, equals('holder', token)))).ok;
  }

  /** Notes a run that is about to begin, so that an abort finds it. Safe to repeat. */
  async begin(id: string, slot: StoredSlot): Promise<void> {
    const ttl = runExpiry(this.#deps.config, this.#deps.clock.now());
    const item = { ...this.#caseKey(id, slotSk(slot)), slot: slot as unknown as Json, is_open: true, ttl };
    await this.#deps.runs.put(item, absent());
  }

  /**
   * Stores the result of a run, and counts it with what the evaluation paid for it. A recorded run is not counted. A second result of the same run
   * changes nothing.
   */
  async complete(id: string, slot: StoredSlot & { readonly result: SlotResult }, costMicro: number): Promise<void> {
    const { runs, clock } = this.#deps;
    const { outcome } = slot.result;
    const counter = { passed: 'passed', failed: 'failed', error: 'errors', cancelled: 'errors' }[outcome];
    const counts: { [name: string]: number } = slot.lane === 'observed' ? {} : { done: 1, [counter]: 1 };
    const operations: TransactOperation[] = [
      {
        op: 'update',
        key: this.#caseKey(id, slotSk(slot)),
        changes: { set: { slot: slot as unknown as Json }, remove: ['is_open'] },
        condition: equals('is_open', true),
      },
      {
        op: 'update',
        key: this.#key(id),
        changes: {
          set: { updatedAt: isoTime(clock.now()) },
          add: { ...counts, costMicro },
        },
      },
    ];
    await retryOnConflict(clock, `the evaluation ${id}`, async () => {
      const written = await runs.transact(operations);
      return written.ok || written.failed.includes(0) || undefined;
    });
  }

  /** Ends a running evaluation; with `token`, only if that process holds it. Returns false if it has ended. */
  async end(
    id: string,
    end: {
      readonly status: Exclude<Evaluation['status'], 'running'>;
      readonly verdict?: Verdict;
      readonly reason: string | null;
      readonly summary?: Summary;
    },
    token?: string,
  ): Promise<boolean> {
    const { runs, clock } = this.#deps;
    const now = isoTime(clock.now());
    const set = { ...(end as unknown as { [member: string]: Json }), endedAt: now, updatedAt: now };
    const condition = token === undefined ? isRunning : allOf(isRunning, equals('holder', token));
    const operations: TransactOperation[] = [
      { op: 'update', key: this.#key(id), changes: { set, remove: ['gsi1pk', 'gsi1sk', 'holder'] }, condition },
      { op: 'update', key: this.#openKey, changes: { add: { open: -1 } } },
    ];
    return retryOnConflict(clock, `the evaluations of workspace ${this.#workspaceId}`, async () => {
      const written = await runs.transact(operations);
      if (written.ok) return true;
      return written.failed.includes(0) ? false : undefined;
    });
  }

  #key(id: string) {
    return { pk: partitionOf(this.#workspaceId), sk: id };
  }
  get #openKey() {
    return { pk: partitionOf(this.#workspaceId), sk: 'OPEN' };
  }
  #caseKey(id: string, sk: string) {
    return { pk: `${partitionOf(this.#workspaceId)}#${id}`, sk };
  }
  #index(id: string, from: number) {
    return { gsi1pk: OPEN_EVALS, gsi1sk: `${isoTime(from)}#${id}` };
  }
}

/** Cases that are written concurrently. */
const CASES_AT_ONCE = 25;

const placeIn = ([place]: readonly unknown[]): string | undefined =>
  typeof place === 'string' && place !== '' && place.length < 100 ? place : undefined;

function evaluationFrom(item: Item): Evaluation {
  const { pk, sk, gsi1pk, gsi1sk, gsi2pk, gsi2sk, ttl, holder, ...members } = item;
  return { id: sk, ...members } as unknown as Evaluation;
}
