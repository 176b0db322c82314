import type { LogLine } from '../../ui/text/log-view.tsx';

/** What a run printed, in the order in which it came. */
export interface LogPiece {
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: what turns colours on and off begins with one.
const COLOURS = /\u001b\[([\d;]*)m/g;
/** Colours that are turned on in a row: more are of no use. */
const MAX_OPEN = 64;

/**
 * The lines of what was printed, or of one stream of it, each with the colours that an earlier one of its stream turned on. A line of
 * two pieces is one; so is the end without a line break.
 */
export function logLines(pieces: readonly LogPiece[], only?: LogPiece['stream']): LogLine[] {
  const lines: LogLine[] = [];
  const rest = { stdout: '', stderr: '' };
  const colours = { stdout: '', stderr: '' };
  const add = (stream: LogPiece['stream'], line: string) => {
    lines.push({ key: lines.length, stream, text: colours[stream] + line });
    if (line.includes('\u001b')) colours[stream] = openAfter(colours[stream], line);
  };
  for (const { stream, text } of pieces) {
    if (only !== undefined && stream !== only) continue;
    const parts = (rest[stream] + text).split('\n');
    rest[stream] = parts.pop()!;
    for (const part of parts) add(stream, part);
  }
  for (const stream of ['stdout', 'stderr'] as const) if (rest[stream] !== '') add(stream, rest[stream]);
  return lines;
}

/** The colours that are still on after a line. */
function openAfter(open: string, line: string): string {
  const last = [...line.matchAll(COLOURS)].reduce(
    (on, [all, codes = '']) => (/^0?$|^0;|;0?$/.test(codes) ? '' : on + all),
    open,
  );
  return last.length > MAX_OPEN ? '' : last;
}
