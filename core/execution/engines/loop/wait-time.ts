import type { Json } from '#core/base/json.ts';
import { requestTime } from '#core/http/request-time.ts';
import { isoTime } from '#core/ports/clock.ts';

/**
 * Reads when a call of the tool `wait` ends, in epoch milliseconds; `problem` is for the model.
 *
 * @param now Epoch milliseconds.
 */
export function waitUntil(
  { seconds, until }: { readonly [name: string]: Json },
  now: number,
): { readonly at: number } | { readonly problem: string } {
  if ((seconds === undefined) === (until === undefined)) return { problem: 'Give either seconds or until.' };
  if (seconds !== undefined) return { at: now + (seconds as number) * 1000 };
  const { data } = requestTime.safeParse(until);
  if (data === undefined) return { problem: 'until must be a time with an offset, such as 2026-12-01T09:00:00Z.' };
  const at = Date.parse(data);
  return at > now ? { at } : { problem: `until must be in the future, and it is ${isoTime(now)} now.` };
}
