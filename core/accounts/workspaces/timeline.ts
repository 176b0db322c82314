import { isoTime } from '#core/ports/clock.ts';
import type { Item, Query } from '#core/ports/table.ts';

/**
 * Main table, gsi1 `WS#<workspace id>#TIMELINE / <time>#<entry>`: the entries of all timelines of a workspace, of schedules and of
 * services, for those who watch it.
 */
const timelinePartition = (workspaceId: string): string => `WS#${workspaceId}#TIMELINE`;

/** The attributes of an entry that list it. `at` in epoch milliseconds; entries of one moment are in the order of `entry`. */
export const timelineIndex = (workspaceId: string, at: number, entry: string): Pick<Item, 'gsi1pk' | 'gsi1sk'> => ({
  gsi1pk: timelinePartition(workspaceId),
  gsi1sk: `${isoTime(at)}#${entry}`,
});

/** Query for the entries since a time (epoch milliseconds), oldest first. */
export const timelineSince = (workspaceId: string, since: number) =>
  ({ index: 'gsi1', pk: timelinePartition(workspaceId), sk: { greaterThan: isoTime(since) } }) as const satisfies Query;
