import { diffArrays } from 'diff';

export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed';
  readonly text: string;
}

/** Maximum number of changed lines for the shortest diff, whose cost is quadratic. */
const MAX_EDITS = 1_500;
/** Time limit, because comparing blocks the page. */
const MAX_MS = 1_000;

/**
 * Diffs two texts by line, with removed lines before added ones. If the texts differ too much, all lines between the
 * first and the last change count as changed.
 */
export function diffLines(before: string, after: string): DiffLine[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  const changes = diffArrays(a, b, { maxEditLength: MAX_EDITS, timeout: MAX_MS });
  if (changes === undefined) return wholeMiddle(a, b);
  return changes.flatMap(({ value, added, removed }) =>
    value.map((text): DiffLine => ({ kind: added ? 'added' : removed ? 'removed' : 'same', text })),
  );
}

function wholeMiddle(a: readonly string[], b: readonly string[]): DiffLine[] {
  const linesOf = (kind: DiffLine['kind'], lines: readonly string[]) => lines.map((text): DiffLine => ({ kind, text }));
  const shorter = Math.min(a.length, b.length);
  let head = 0;
  while (head < shorter && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < shorter - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  return [
    ...linesOf('same', a.slice(0, head)),
    ...linesOf('removed', a.slice(head, a.length - tail)),
    ...linesOf('added', b.slice(head, b.length - tail)),
    ...linesOf('same', a.slice(a.length - tail)),
  ];
}
