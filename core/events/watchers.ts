import { PlatformError } from '#core/base/errors.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';

/**
 * Counters table: `WS#<workspace id>#WATCHERS / <end of its lease>#<id>` is an open stream, with expiry. On AWS each
 * stream occupies a Lambda environment for minutes, which other workspaces need, too.
 */
const MAX_STREAMS = 100;
/** Longer than the lifetime of a stream. */
const LEASE_SECONDS = 300;

/**
 * Takes a lease for a stream. Concurrent calls may exceed the limit by a few. Throws RATE_LIMITED.
 *
 * @returns a function that releases the lease
 */
export async function takePlace(
  { counters, clock, ids }: Pick<Deps, 'counters' | 'clock' | 'ids'>,
  workspaceId: string,
): Promise<() => Promise<void>> {
  const pk = `WS#${workspaceId}#WATCHERS`;
  const now = clock.now();
  // Processes that died do not release their leases, and tables remove expired items hours later.
  const { items } = await counters.query({ pk, sk: { greaterThan: isoTime(now) }, limit: MAX_STREAMS });
  if (items.length >= MAX_STREAMS) {
    throw new PlatformError(
      'RATE_LIMITED',
      `The workspace already has ${MAX_STREAMS} open event streams: close some, or poll without "Accept: text/event-stream".`,
      { suggested_wait_time: 10 },
    );
  }
  const key = { pk, sk: `${isoTime(now + LEASE_SECONDS * 1000)}#${ids.uuid()}` };
  await counters.put({ ...key, ttl: epochSeconds(now) + LEASE_SECONDS });
  return async () => void (await counters.delete(key));
}
