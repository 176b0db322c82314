import { PlatformError } from '#core/base/errors.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';

/**
 * Counters table: `WS#<workspace id>#WATCHERS / <end of its lease>#<id>`, an open stream, with expiry. On AWS each one holds a Lambda
 * environment for minutes, which calls of other workspaces need, too.
 */
const MAX_STREAMS = 100;
/** Longer than a stream lives. */
const LEASE_SECONDS = 300;

/**
 * Takes a place for a stream. Several at the same moment may pass the limit by a few. Throws RATE_LIMITED.
 *
 * @returns what gives the place back
 */
export async function takePlace(
  { counters, clock, ids }: Pick<Deps, 'counters' | 'clock' | 'ids'>,
  workspaceId: string,
): Promise<() => Promise<void>> {
  const pk = `WS#${workspaceId}#WATCHERS`;
  const now = clock.now();
  // A process that died gave no place back, and tables remove what has expired hours later.
  const { items } = await counters.query({ pk, sk: { greaterThan: isoTime(now) }, limit: MAX_STREAMS });
  if (items.length >= MAX_STREAMS) {
    throw new PlatformError(
      'RATE_LIMITED',
      `The workspace has ${MAX_STREAMS} open streams of events already: close some, or ask for pages without "Accept: text/event-stream".`,
      { suggested_wait_time: 10 },
    );
  }
  const key = { pk, sk: `${isoTime(now + LEASE_SECONDS * 1000)}#${ids.uuid()}` };
  await counters.put({ ...key, ttl: epochSeconds(now) + LEASE_SECONDS });
  return async () => void (await counters.delete(key));
}
