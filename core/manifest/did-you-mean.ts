/** Longer names are not compared: the cost is the product of both lengths. */
const MAX_LENGTH = 60;
const MAX_KNOWN = 200;

/**
 * Returns the known name that `name` was probably meant to be: equal except for case, `_` and `-`; at most two typing
 * errors away; or one that contains it or is part of it. Returns `undefined` if there is none.
 */
export function didYouMean(name: string, known: readonly string[]): string | undefined {
  if (name.length > MAX_LENGTH) return undefined;
  const plain = plainOf(name);
  const candidates = known.slice(0, MAX_KNOWN).filter((other) => other.length <= MAX_LENGTH);
  const nearest = candidates
    .map((other) => ({ other, distance: distanceOf(plain, plainOf(other)) }))
    .sort((a, b) => a.distance - b.distance)[0];
  // Almost any short name is within two changes of another.
  if (nearest && nearest.distance <= (plain.length < 5 ? 1 : 2)) return nearest.other;
  if (plain.length < 4) return undefined;
  return candidates.find((other) => plainOf(other).includes(plain) || plain.includes(plainOf(other)));
}

/** Returns a suggestion to append to a sentence without its full stop. */
export function suggestion(name: string, known: readonly string[], shown = (text: string) => `"${text}"`): string {
  const meant = didYouMean(name, known);
  return meant === undefined ? '.' : `: did you mean ${shown(meant)}?`;
}

const plainOf = (name: string): string => name.toLowerCase().replaceAll(/[_-]/g, '');

/**
 * Returns the edit distance: letters inserted, removed, replaced or swapped with the next (optimal string alignment).
 */
function distanceOf(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      row[j] = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (isSame ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        row[j] = Math.min(row[j]!, before[j - 2]! + 1);
    }
    before = last;
    last = row;
  }
  return last[b.length]!;
}
