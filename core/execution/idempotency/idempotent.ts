import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import { outcomeOfAbandonedCall, type Recovery } from './abandoned-call.ts';
import { type ClaimedKey, KeyStore } from './key-store.ts';
import { errorAnswer, type KeptAnswer } from './stored-answer.ts';

/** A call that its sender may retry. */
export interface KeyedCall extends Recovery {
  readonly workspaceId: string;
  /** The sender's, 1 to 255 characters. */
  readonly key: string;
  /** See `fingerprintOf`. Equal for retries of the same request. */
  readonly fingerprint: string;
  /** The run that this call would begin; also the UUID of its request. */
  readonly runId: string;
  /** When this call is answered at the latest, in epoch milliseconds. */
  readonly deadline: number;
}

/** Stores the answer before it is sent, and returns the answer to send: the one that the key has. */
export type Keep = (answer: KeptAnswer) => Promise<KeptAnswer>;

const MIN_PAUSE_MS = 25;
const MAX_PAUSE_MS = 500;

type IdempotencyDeps = Pick<Deps, 'counters' | 'runs' | 'blobs' | 'clock' | 'config' | 'log'>;

/**
 * Makes a call once, however often it is sent with its key within 24 hours: one request runs `execute`, and the others
 * wait for its answer, returned as `replayed`. `execute` calls `keep` with the answer of the run that it began. An error
 * is kept too once the run is recorded; a call that was refused before that leaves the key free.
 *
 * If the host of the first call dies, the answer is made from the record of its run. If the run was lost as well, the
 * next retry makes the call again.
 *
 * Throws CONFLICT if the key came with another request before, and if the first call is not done by this one's deadline.
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
      // Most calls are answered during the short pauses: only later is it worth a look at the run.
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

/** Executes a call that holds its key. Throws CONFLICT if it failed and another call has taken the key over meanwhile. */
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

/** Frees the key if no run began; otherwise keeps the error. Returns false if another call has taken the key over. */
async function settleFailure(
  deps: IdempotencyDeps,
  keys: KeyStore,
  { workspaceId, runId, answerFrom }: KeyedCall,
  error: unknown,
): Promise<boolean> {
  const run = await new RunStore(deps, workspaceId).find(runId);
  if (run === undefined) return keys.free();
  // With `answerFrom`, the record of the run is the answer once it has ended.
  if (answerFrom === undefined) await keys.keep(runId, errorAnswer(error, runId));
  return true;
}

function checkFingerprint(claimed: ClaimedKey, { fingerprint }: KeyedCall): void {
  if (claimed.fingerprint === fingerprint) return;
  throw new PlatformError(
    'CONFLICT',
    'This Idempotency-Key came with another request before: its path, query or body was different.',
    { hint: 'Send a new key with every new request, and the same key only with the same request.' },
  );
}

const stillRunning = (claimed: ClaimedKey | undefined): PlatformError =>
  new PlatformError(
    'CONFLICT',
    `The first request with this Idempotency-Key is still under way${claimed ? `, as run ${claimed.runId}` : ''}.`,
    { hint: 'Send it again later with the same key to get its answer.', suggested_wait_time: 5 },
  );
