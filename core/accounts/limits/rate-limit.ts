import { PlatformError } from '#core/base/errors.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';

/** A limit and how much of it is left. */
export interface RateLimit {
  readonly limit: number;
  readonly remaining: number;
  /** Epoch milliseconds, when all of it is there again. */
  readonly resetAt: number;
}

const DAY_MS = 24 * 3600 * 1000;

/** `spec.md` *Limits*. */
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

/** RATE_LIMITED, and the limit that the answer is to show. */
export type LimitError = PlatformError & { readonly rateLimit: RateLimit };

/** `message` tells what was too much; without `waitSeconds`, it is too much until the limit is reset. */
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
