import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import { outcomeOfAbandonedCall, type Recovery } from './abandoned-call.ts';
import { type ClaimedKey, KeyStore } from './key-store.ts';
import { errorAnswer, type KeptAnswer } from './stored-answer.ts';

/** A call that its client may retry. */
export interface KeyedCall extends Recovery {
  readonly workspaceId: string;
  /** The client's idempotency key, 1 to 255 characters. */
  readonly key: string;
  /** See `fingerprintOf`. Equal for retries of the same request. */
  readonly fingerprint: string;
  /** Id of the run that this call would begin; also the UUID of its request. */
  readonly runId: string;
  /** Epoch milliseconds by which this call must be answered. */
  readonly deadline: number;
  /** Epoch milliseconds at which its run has ended at the latest, if that is later than the deadline. */
  readonly keptUntil?: number;
}

/** Stores the answer before it is sent. Returns the answer to send, which is the one stored under the key. */
export type Keep = (answer: KeptAnswer) => Promise<KeptAnswer>;

const MIN_PAUSE_MS = 25;
const MAX_PAUSE_MS = 500;

type IdempotencyDeps = Pick<Deps, 'counters' | 'runs' | 'blobs' | 'clock' | 'config' | 'log'>;

/**
 * Makes a call once, however often it is sent with its key within 24 hours: one request runs `execute`, and the others
 * wait for its answer, returned as `replayed`. `execute` calls `keep` with the answer of the run that it began. Errors
 * are
 * stored as well once the run is recorded; a call that was rejected before that leaves the key free.
 *
 * If the host of the first call dies, the answer is built from the record of its run. If the run was lost as well, the
 * next retry repeats the call.
 *
 * Throws CONFLICT if the key was used for another request, or if the first call has not ended by this one's deadline.
 */
export async function idempotent<T>(
  deps: IdempotencyDeps,
  call: KeyedCall,
  execute: (keep: Keep) => Promise<T>,
): Promise<{ readonly result: T } | { readonly replayed: KeptAnswer }> {
  const keys = new KeyStore(deps, call);
  let claimed: ClaimedKey | undefined;
  for (let pauseMs = MIN_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    if (claimed === undefined && (await keys.claim())) return { result: await executeOnce(deps, keys, call, execute) };
    claimed = await keys.find();
    if (claimed !== undefined) {
      checkFingerprint(claimed, call);
      if (claimed.answered) return { replayed: await keys.readAnswer(claimed.answered) };
      // Most calls are answered during the first, short pauses, so the run is read only later.
      const fate =
        pauseMs < MAX_PAUSE_MS ? 'pending' : await outcomeOfAbandonedCall(deps, call.workspaceId, claimed, call);
      if (fate === 'lost' && (await keys.takeOver(claimed.runId))) {
        return { result: await executeOnce(deps, keys, call, execute) };
      }
      if (typeof fate === 'object') return { replayed: await keys.keep(claimed.runId, fate) };
    }
    if (deps.clock.now() + pauseMs > call.deadline) throw stillRunning(claimed);
    await deps.clock.sleep(pauseMs);
  }
}

/** Executes a call that holds its key. Throws CONFLICT if it failed and another call has taken over the key. */
async function executeOnce<T>(
  deps: IdempotencyDeps,
  keys: KeyStore,
  call: KeyedCall,
  execute: (keep: Keep) => Promise<T>,
): Promise<T> {
  try {
    return await execute((answer) => keys.keep(call.runId, answer));
  } catch (error) {
    const isOurs = await settleFailure(deps, keys, call, error).catch((failure: unknown) => {
      deps.log.error('idempotency key not settled', { run_id: call.runId, error: String(failure) });
      return true;
    });
    throw isOurs ? error : stillRunning(undefined);
  }
}

/** Frees the key if no run began; otherwise stores the error. Returns false if another call has taken over the key. */
async function settleFailure(
  deps: IdempotencyDeps,
  keys: KeyStore,
  { workspaceId, runId, answerFrom }: KeyedCall,
  error: unknown,
): Promise<boolean> {
  const run = await new RunStore(deps, workspaceId).find(runId);
  if (run === undefined) return keys.free();
  // With `answerFrom`, the record of the ended run is the answer.
  if (answerFrom === undefined) await keys.keep(runId, errorAnswer(error, runId));
  return true;
}

function checkFingerprint(claimed: ClaimedKey, { fingerprint }: KeyedCall): void {
  if (claimed.fingerprint === fingerprint) return;
  throw new PlatformError(
    'CONFLICT',
    'This Idempotency-Key was already used for a request with a different path, query or body.',
    { hint: 'Use a new key for each new request, and the same key only for retries of the same request.' },
  );
}

const stillRunning = (claimed: ClaimedKey | undefined): PlatformError =>
  new PlatformError(
    'CONFLICT',
    `The first request with this Idempotency-Key is still in progress${claimed ? `, as run ${claimed.runId}` : ''}.`,
    { hint: 'Send it again later with the same key to get its answer.', suggested_wait_time: 5 },
  );
