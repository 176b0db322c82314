import { createHash } from 'node:crypto';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getLarge, putIfLarge } from '#core/ports/large-value.ts';
import { absent, allOf, anyOf, type Condition, equals, type Item, lessThan } from '#core/ports/table.ts';
import { answerBlobKey } from '#core/runs/items.ts';
import type { KeptAnswer } from './stored-answer.ts';

/** State of a workspace's key: the call that claimed it, and its answer once there is one. */
export interface ClaimedKey {
  readonly fingerprint: string;
  /** Id of the call's run. */
  readonly runId: string;
  /** Epoch milliseconds. */
  readonly deadline: number;
  readonly claimedAt: number;
  /** The item if it has an answer: see {@link KeyStore.readAnswer}. */
  readonly answered?: Item;
}

/** A call that claims a key. */
interface Claim {
  readonly workspaceId: string;
  readonly key: string;
  readonly fingerprint: string;
  readonly runId: string;
  readonly deadline: number;
  /** Epoch milliseconds from which on the key is kept for 24 hours. @default - the time at which it is claimed */
  readonly keptUntil?: number;
}

export const keyHash = (key: string): string => createHash('sha256').update(key).digest('hex');

const KEPT_SECONDS = 24 * 3600;
/** Stays below DynamoDB's item limit of 400 KB. */
const MAX_INLINE_BODY_BYTES = 300 * 1024;

/**
 * Counters table: `IDEM#<workspace id>#<hash of the key> / ANSWER` holds the call that came with an `Idempotency-Key`.
 * Its
 * state is `running` with the id of its run, then `done` with its answer, which is in a blob if it is large.
 */
export class KeyStore {
  readonly #deps: Pick<Deps, 'counters' | 'blobs' | 'clock' | 'log'>;
  readonly #call: Claim;
  readonly #key: { readonly pk: string; readonly sk: string };

  constructor(deps: Pick<Deps, 'counters' | 'blobs' | 'clock' | 'log'>, call: Claim) {
    this.#deps = deps;
    this.#call = call;
    this.#key = { pk: `IDEM#${call.workspaceId}#${keyHash(call.key)}`, sk: 'ANSWER' };
  }

  async find(): Promise<ClaimedKey | undefined> {
    const item = await this.#deps.counters.get(this.#key);
    return (
      item && {
        fingerprint: item.fingerprint as string,
        runId: item.run_id as string,
        deadline: item.deadline as number,
        claimedAt: item.claimed_at as number,
        ...(item.state === 'done' && { answered: item }),
      }
    );
  }

  /** Claims a key that is free or expired. Returns false if another call holds it. */
  claim(): Promise<boolean> {
    return this.#put(anyOf(absent(), lessThan('ttl', epochSeconds(this.#deps.clock.now()) + 1)));
  }

  /** Claims the key of a dead call. Returns false if the call was answered or another one took it over. */
  takeOver(deadRunId: string): Promise<boolean> {
    return this.#put(isRunning(deadRunId));
  }

  /** Frees the key. Returns false if another call has taken it over. */
  async free(): Promise<boolean> {
    return (await this.#deps.counters.delete(this.#key, equals('run_id', this.#call.runId))).ok;
  }

  /**
   * Stores the answer of the run `runId` and returns the answer to send, which is an earlier stored one if it exists.
   * Never
   * throws: if the answer cannot be stored, retries get one that is built from the run's record.
   */
  async keep(runId: string, given: KeptAnswer): Promise<KeptAnswer> {
    const { counters, log } = this.#deps;
    const answer = { ...given, headers: { 'x-run-id': runId, 'x-platform-run-id': runId, ...given.headers } };
    try {
      const blob = answerBlobKey(this.#call.workspaceId, runId);
      const isLarge = await putIfLarge(this.#deps, blob, answer.body, MAX_INLINE_BODY_BYTES);
      const { ok } = await counters.update(
        this.#key,
        {
          set: {
            state: 'done',
            status: answer.status,
            headers: answer.headers,
            ...(isLarge ? { blob } : { body: answer.body }),
          },
        },
        isRunning(runId),
      );
      if (ok) return answer;
      const kept = await this.find();
      return kept?.answered === undefined ? answer : await this.readAnswer(kept.answered);
    } catch (error) {
      log.error('answer not kept', { run_id: runId, error: String(error) });
      return answer;
    }
  }

  async readAnswer({ status, headers, body, blob }: Item): Promise<KeptAnswer> {
    const text = (body as string | undefined) ?? (await getLarge(this.#deps, blob as string));
    if (text === undefined) throw new Error(`the answer ${blob} is gone`);
    return { status: status as number, headers: headers as Record<string, string>, body: text };
  }

  async #put(condition: Condition): Promise<boolean> {
    const { counters, clock } = this.#deps;
    const { fingerprint, runId, deadline, keptUntil = clock.now() } = this.#call;
    const { ok } = await counters.put(
      {
        ...this.#key,
        state: 'running',
        fingerprint,
        run_id: runId,
        deadline,
        claimed_at: clock.now(),
        ttl: epochSeconds(keptUntil) + KEPT_SECONDS,
      },
      condition,
    );
    return ok;
  }
}

const isRunning = (runId: string): Condition => allOf(equals('state', 'running'), equals('run_id', runId));
