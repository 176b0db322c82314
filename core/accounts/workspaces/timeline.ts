import { isoTime } from '#core/ports/clock.ts';
import type { Item, Query } from '#core/ports/table.ts';

/**
 * Main table, gsi1 `WS#<workspace id>#TIMELINE / <time>#<entry>`: the timeline entries of all schedules and services of
 * a workspace, for event streams.
 */
const timelinePartition = (workspaceId: string): string => `WS#${workspaceId}#TIMELINE`;

/**
 * Returns the index attributes of an entry. `at` is in epoch milliseconds; entries with the same time are ordered by
 * `entry`.
 */
export const timelineIndex = (workspaceId: string, at: number, entry: string): Pick<Item, 'gsi1pk' | 'gsi1sk'> => ({
  gsi1pk: timelinePartition(workspaceId),
  gsi1sk: `${isoTime(at)}#${entry}`,
});

/** Query for the entries since a time (epoch milliseconds), oldest first. */
export const timelineSince = (workspaceId: string, since: number) =>
  ({ index: 'gsi1', pk: timelinePartition(workspaceId), sk: { greaterThan: isoTime(since) } }) as const satisfies Query;
