import type { LogLine } from '../../ui/text/log-view.tsx';

/** A chunk of a run's output, in order of arrival. */
export interface LogPiece {
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: what turns colours on and off begins with one.
const COLOURS = /\u001b\[([\d;]*)m/g;
/** Maximum number of active colour sequences. */
const MAX_OPEN = 64;

/**
 * Splits output, or one stream of it, into lines; each starts with the colours still active in its stream. Joins a line
 * split over two chunks, and includes a last line without a line break.
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

/** Returns the colour sequences still active after a line. */
function openAfter(open: string, line: string): string {
  const last = [...line.matchAll(COLOURS)].reduce(
    (on, [all, codes = '']) => (/^0?$|^0;|;0?$/.test(codes) ? '' : on + all),
    open,
  );
  return last.length > MAX_OPEN ? '' : last;
}
