import { useMemo } from 'react';
import { classes } from '../classes.ts';
import { cutLine, escapeText } from './viewer.tsx';

interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed';
  readonly text: string;
}

/** Cells of the table of the longest common subsequence; beyond, all lines between the first and the last change are shown as changed. */
const MAX_CELLS = 4_000_000;
/** Equal lines that are shown around a change. */
const AROUND = 3;
const MAX_LINES = 2_000;

/** The lines of two texts, those of the first that are missing before those that are new. */
function diffLines(before: string, after: string): DiffLine[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  const same = (text: string): DiffLine => ({ kind: 'same', text });
  let head = 0;
  while (head < Math.min(a.length, b.length) && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < Math.min(a.length, b.length) - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const middle = changes(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return [...a.slice(0, head).map(same), ...middle, ...a.slice(a.length - tail).map(same)];
}

function changes(a: readonly string[], b: readonly string[]): DiffLine[] {
  const removed = (text: string): DiffLine => ({ kind: 'removed', text });
  const added = (text: string): DiffLine => ({ kind: 'added', text });
  const width = b.length + 1;
  if ((a.length + 1) * width > MAX_CELLS) return [...a.map(removed), ...b.map(added)];
  // At i, j: the most lines that a from i on and b from j on have in common.
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] =
        a[i] === b[j]
          ? common[(i + 1) * width + j + 1]! + 1
          : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: 'same', text: a[i]! });
      i++;
      j++;
    } else if (j === b.length || (i < a.length && common[(i + 1) * width + j]! >= common[i * width + j + 1]!)) {
      lines.push(removed(a[i++]!));
    } else lines.push(added(b[j++]!));
  }
  return lines;
}

type Row = (DiffLine & { readonly skipped?: undefined }) | { readonly skipped: number };

/** Changes with what is around them; what is left out is counted. */
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

/** What differs between two texts, line by line. Both are shown as text, whatever is in them. */
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
  const shown = rows.slice(0, MAX_LINES);
  return (
    <section
      aria-label={label}
      dir="ltr"
      // A scrolled area must be reachable by keyboard.
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
            {row.skipped} equal {row.skipped === 1 ? 'line' : 'lines'}
          </div>
        ),
      )}
      {rows.length > shown.length && <div className="px-6 text-soft">{rows.length - shown.length} lines more</div>}
    </section>
  );
}
