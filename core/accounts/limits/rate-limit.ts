import { PlatformError } from '#core/base/errors.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';

/** A limit, and what is left of it. */
export interface RateLimit {
  readonly limit: number;
  readonly remaining: number;
  /** Epoch milliseconds at which the count starts again. */
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

/** The next midnight, UTC. */
export const endOfDay = (now: number): number => (Math.floor(now / DAY_MS) + 1) * DAY_MS;

/** A RATE_LIMITED error with the limit for the headers of the answer. */
export type LimitError = PlatformError & { readonly rateLimit: RateLimit };

/** Whether an error says that the day's calls are used up, and not that too much is under way at the moment. */
export const isUsedUp = (error: PlatformError): boolean => (error as Partial<LimitError>).rateLimit?.remaining === 0;

/** `message` says which limit was exceeded. Without `waitSeconds`, the caller must wait for the reset. */
export function limitError(message: string, rateLimit: RateLimit, now: number, waitSeconds?: number): LimitError {
  const { resetAt } = rateLimit;
  const error =
    waitSeconds === undefined
      ? new PlatformError('RATE_LIMITED', `${message} The count starts again at ${isoTime(resetAt)}.`, {
          suggested_wait_time: Math.max(1, Math.ceil((resetAt - now) / 1000)),
        })
      : new PlatformError('RATE_LIMITED', message, { suggested_wait_time: waitSeconds });
  return Object.assign(error, { rateLimit });
}
