import { PlatformError } from '#core/base/errors.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';

/** A limit and how much of it remains. */
export interface RateLimit {
  readonly limit: number;
  readonly remaining: number;
  /** Epoch milliseconds at which the count resets. */
  readonly resetAt: number;
}

const DAY_MS = 24 * 3600 * 1000;

/** See `docs/interface/limits.md#rate-limit-headers`. */
export const rateLimitHeaders = ({ limit, remaining, resetAt }: RateLimit): Record<string, string> => ({
  'x-ratelimit-limit': String(limit),
  'x-ratelimit-remaining': String(remaining),
  'x-ratelimit-reset': String(epochSeconds(resetAt)),
});

export const rateLimitOf = (limit: number, used: number, resetAt: number): RateLimit => ({
  limit,
  remaining: Math.max(0, limit - used),
  resetAt,
});

/** Returns the next midnight, UTC. */
export const endOfDay = (now: number): number => (Math.floor(now / DAY_MS) + 1) * DAY_MS;

/** A RATE_LIMITED error with the limit, for the headers of the answer. */
export type LimitError = PlatformError & { readonly rateLimit: RateLimit };

/** Whether an error means that the daily calls are used up, not that too many calls are running. */
export const isUsedUp = (error: PlatformError): boolean => (error as Partial<LimitError>).rateLimit?.remaining === 0;

/** Builds the error. `message` names the exceeded limit. Without `waitSeconds`, the caller must wait for the reset. */
export function limitError(message: string, rateLimit: RateLimit, now: number, waitSeconds?: number): LimitError {
  const { resetAt } = rateLimit;
  const error =
    waitSeconds === undefined
      ? new PlatformError('RATE_LIMITED', `${message} The limit resets at ${isoTime(resetAt)}.`, {
          suggested_wait_time: Math.max(1, Math.ceil((resetAt - now) / 1000)),
        })
      : new PlatformError('RATE_LIMITED', message, { suggested_wait_time: waitSeconds });
  return Object.assign(error, { rateLimit });
}
