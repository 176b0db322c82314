import { useMemo } from 'react';
import { classes } from '../classes.ts';
import { type DiffLine, diffLines } from './diff-lines.ts';
import { escapeText } from './escape-text.ts';
import { cutLine } from './viewer.tsx';

/** Number of context lines around a change. */
const AROUND = 3;
const MAX_LINES = 2_000;

type Row = (DiffLine & { readonly skipped?: undefined }) | { readonly skipped: number };

/** Returns changes with context lines, and counts of the omitted lines. */
function rowsOf(lines: readonly DiffLine[]): Row[] {
  const rows: Row[] = [];
  const isNear = lines.map(() => false);
  for (const [index, { kind }] of lines.entries()) {
    if (kind === 'same') continue;
    for (let at = Math.max(0, index - AROUND); at <= Math.min(lines.length - 1, index + AROUND); at++)
      isNear[at] = true;
  }
  let skipped = 0;
  for (const [index, line] of lines.entries()) {
    if (!isNear[index]) {
      skipped++;
      continue;
    }
    if (skipped > 0) rows.push({ skipped });
    skipped = 0;
    rows.push(line);
  }
  if (skipped > 0) rows.push({ skipped });
  return rows;
}

const MARKS = { same: ' ', added: '+', removed: '−' };
const GROUNDS = { same: '', added: 'bg-good-ground text-good', removed: 'bg-bad-ground text-bad' };
const SPOKEN = { same: undefined, added: 'added: ', removed: 'removed: ' };

/** Line diff of two texts, always shown as plain text. */
export function DiffView({
  label,
  before,
  after,
}: {
  readonly label: string;
  readonly before: string;
  readonly after: string;
}) {
  const rows = useMemo(() => rowsOf(diffLines(before, after)), [before, after]);
  if (before === after) return <p className="text-soft">No differences.</p>;
  const shown = rows.slice(0, MAX_LINES);
  return (
    <section
      aria-label={label}
      dir="ltr"
      // A scrollable area must be reachable by keyboard.
      // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
      tabIndex={0}
      className="max-h-[32rem] overflow-auto rounded-md border border-line bg-panel py-1 font-mono text-xs"
    >
      {shown.map((row, index) =>
        row.skipped === undefined ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name.
          <div key={index} className={classes('flex px-2 whitespace-pre-wrap', GROUNDS[row.kind])}>
            <span aria-hidden className="w-4 shrink-0 select-none">
              {MARKS[row.kind]}
            </span>
            {SPOKEN[row.kind] && <span className="sr-only">{SPOKEN[row.kind]}</span>}
            <span className="min-w-0 break-words [unicode-bidi:plaintext]">{escapeText(cutLine(row.text))}</span>
          </div>
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: as above.
          <div key={index} className="px-6 text-soft">
            {row.skipped} unchanged {row.skipped === 1 ? 'line' : 'lines'}
          </div>
        ),
      )}
      {rows.length > shown.length && <div className="px-6 text-soft">{rows.length - shown.length} lines more</div>}
    </section>
  );
}
