import type { Place } from './fill-command.ts';
import { markPlaces } from './placeholder-positions.ts';

const PLACEHOLDER = /\{\{(\w+)\}\}/g;

/** Maximum nesting: commands are untrusted, and the parser is recursive. A placeholder has two brackets. */
const MAX_BRACKETS = 500;

/** Returns the placeholders of a command that do not accept all values, with the reason. */
export function commandProblems(command: string): { readonly name: string; readonly problem: string }[] {
  return placesIn(command).flatMap(({ name, problem }) => (problem === undefined ? [] : [{ name, problem }]));
}

/**
 * Returns the placeholders in order, for `fill-command.ts`. For parsing, a word of the same length replaces each. The
 * author's command determines the parsing time, so this runs in a worker thread (`worker-pool/checks.ts`).
 */
export function placesIn(command: string): Place[] {
  const places: Place[] = [...command.matchAll(PLACEHOLDER)].map((match) => ({
    name: match[1]!,
    pos: match.index,
    end: match.index + match[0].length,
    problem: 'where the shell accepts no values',
  }));
  if ((command.match(/[({`]/g)?.length ?? 0) > MAX_BRACKETS) {
    for (const place of places) place.problem = `in a command with more than ${MAX_BRACKETS} brackets and backquotes`;
  } else if (places.length > 0) {
    const text = command.replace(PLACEHOLDER, (match) => 'x'.repeat(match.length));
    markPlaces(text, places);
  }
  return places;
}
