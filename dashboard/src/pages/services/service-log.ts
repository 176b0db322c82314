/** A log line as returned by the API. */
interface Line {
  readonly timestamp: string | null;
  readonly severity: string;
  readonly message: string;
  readonly source?: 'app' | 'platform' | undefined;
}

/** A log line, or a gap of missing lines if there is no severity. */
interface KeptLine {
  readonly key: number;
  readonly timestamp: string | null;
  readonly severity?: string;
  readonly message: string;
  readonly source?: 'app' | 'platform' | undefined;
}

export interface Log {
  readonly lines: readonly KeptLine[];
  /** Key of the next line. */
  readonly next: number;
}

/** Maximum number of lines per response. */
export const PAGE = 500;
const MAX_LINES = 10_000;
/** Lines from other machines may arrive late, so each poll overlaps the previous one by this much. */
const OVERLAP_MS = 10_000;
export const EMPTY_LOG: Log = { lines: [], next: 0 };

const textOf = ({ timestamp, severity, source, message }: Omit<KeptLine, 'key'>): string =>
  `${timestamp} ${severity} ${source} ${message}`;

/** Returns the start time of the next poll; undefined for the first one. */
export function sinceOf({ lines }: Log): string | undefined {
  const newest = lines.findLast(({ timestamp }) => timestamp !== null)?.timestamp;
  return newest ? new Date(Date.parse(newest) - OVERLAP_MS).toISOString() : undefined;
}

/**
 * Merges the lines of a poll from {@link sinceOf} into the log, deduplicated and sorted by time; keeps the newest
 * 10,000.
 */
export function withFound(log: Log, found: readonly Line[]): Log {
  const since = sinceOf(log);
  const known = new Map<string, number>();
  for (const line of since === undefined ? [] : log.lines) {
    if (line.timestamp !== null && line.timestamp < since!) continue;
    known.set(textOf(line), (known.get(textOf(line)) ?? 0) + 1);
  }
  const fresh = found.filter((line) => {
    const count = known.get(textOf(line)) ?? 0;
    if (count > 0) known.set(textOf(line), count - 1);
    return count === 0;
  });
  if (fresh.length === 0) return log;
  const isGap = log.lines.length > 0 && found.length >= PAGE && fresh.length === found.length;
  const gap = {
    timestamp: fresh[0]!.timestamp,
    message: 'Some lines are missing here: there were too many to show live.',
  };
  const added = [...(isGap ? [gap] : []), ...fresh].map((line, index) => ({ ...line, key: log.next + index }));
  const lines = [...log.lines, ...added];
  const isLate = (log.lines.at(-1)?.timestamp ?? '') > (fresh[0]!.timestamp ?? '');
  if (isLate)
    lines.sort((a, b) => ((a.timestamp ?? '') < (b.timestamp ?? '') ? -1 : a.timestamp === b.timestamp ? 0 : 1));
  return { lines: lines.slice(-MAX_LINES), next: log.next + added.length };
}
