import type { Json } from '#core/base/json.ts';
import type { RunStatus } from '#core/base/run-kinds.ts';
import type { RetriedCode, RetryPolicy } from '#core/manifest/retry-policy.ts';
import type { FailedTry, NewRun, Retries, RunEnd, Spent } from './run.ts';

export const firstTry = (policy: RetryPolicy, triedAt: number): Retries => ({ policy, failed: [], triedAt });

/** Number of the current try, from 1. */
export const attemptOf = ({ failed }: Retries): number => failed.length + 1;

/** Returns when a run that failed is tried again, in epoch milliseconds; `undefined` if it is not. */
export function nextTryAt(retries: Retries | undefined, { errorCode }: RunEnd, now: number): number | undefined {
  if (retries === undefined || errorCode === null) return undefined;
  const { policy, failed } = retries;
  const isRetried = policy.on.includes(errorCode as RetriedCode) && failed.length < policy.max;
  if (!isRetried) return undefined;
  return now + (policy.backoff_seconds[failed.length] ?? policy.backoff_seconds.at(-1)!) * 1000;
}

/** Returns how long after its first start a run may still begin a try, in milliseconds. */
export const retriedFor = ({ max, backoff_seconds }: RetryPolicy, tryMs: number): number =>
  Array.from({ length: max }, (_, i) => (backoff_seconds[i] ?? backoff_seconds.at(-1)!) * 1000 + tryMs).reduce(
    (sum, each) => sum + each,
  );

/** Whether a run with a retry policy has failed and is not tried again. */
export const isExhausted = ({ retries }: Pick<NewRun, 'retries'>, status: RunStatus): boolean =>
  retries !== undefined && (status === 'failed' || status === 'timeout');

/** The attribute `retry` of a run's head. */
export const storedRetries = ({ policy, failed, triedAt, spent }: Retries): Json =>
  // Drops undefined members, which the table does not accept.
  JSON.parse(JSON.stringify({ ...policy, failed, tried_at: triedAt, spent })) as Json;

export function retriesFrom(stored: Json | undefined): Retries | undefined {
  if (stored === undefined) return undefined;
  const { failed, tried_at, spent, ...policy } = stored as unknown as RetryPolicy & {
    readonly failed: readonly FailedTry[];
    readonly tried_at: number;
    readonly spent?: Spent;
  };
  return { policy, failed, triedAt: tried_at, spent };
}
