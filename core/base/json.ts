/**
 * A JSON value with finite numbers, as table items hold it. `undefined` members are dropped on write; dates, maps,
 * class instances and `undefined` in arrays are refused.
 *
 * Top-level scalar attributes have the limits of DynamoDB: numbers are 0 or of magnitude 1e-130 to 1e126,
 * and a lone surrogate is stored as U+FFFD. Objects and arrays may hold any JSON, at any depth.
 */
export type Json = string | number | boolean | null | Json[] | { [member: string]: Json };

/** Whether a value is an object of JSON: no list, and not null. */
export const isJsonObject = (value: unknown): value is { readonly [member: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Deeper JSON is refused: recursive code (validation, masking, encoding) would overflow the stack. */
const MAX_JSON_DEPTH = 500;

/**
 * Returns why a value from `JSON.parse` is refused, as the predicate of a sentence, or `undefined` for a valid value. A
 * number beyond 1.8e308 parses to Infinity, which cannot be written as JSON again.
 */
export function jsonProblem(value: Json, levels: number = MAX_JSON_DEPTH): string | undefined {
  if (typeof value === 'number' && !Number.isFinite(value)) return 'contains a number larger than 1.8e308';
  if (typeof value !== 'object' || value === null) return undefined;
  if (levels === 0) return `is nested more than ${MAX_JSON_DEPTH} levels deep`;
  for (const member of Object.values(value)) {
    const problem = jsonProblem(member, levels - 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const JSON_START = /^[ \t\r\n]*(?:[[{"\d-]|true|false|null)/;

/** Parses text from outside. Returns `undefined` unless it is one JSON value that {@link jsonProblem} accepts. */
export function parseJsonValue(text: string): Json | undefined {
  // Models often answer in prose, and a thrown error costs more than parsing a short text.
  if (!JSON_START.test(text)) return undefined;
  try {
    const value = JSON.parse(text) as Json;
    return jsonProblem(value) === undefined ? value : undefined;
  } catch {
    return undefined;
  }
}
