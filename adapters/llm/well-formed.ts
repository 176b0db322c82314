/** NUL and lone surrogates as `JSON.stringify` writes them, after an even number of backslashes. */
const REFUSED_IN_JSON = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/;

/** Replaces characters in JSON text that providers refuse: NUL, and surrogates without their pair. */
export function wellFormedBody(json: string): string {
  // Much faster than the pattern, which few bodies need.
  if (!json.includes('\\ud') && !json.includes('\\u0000')) return json;
  if (!REFUSED_IN_JSON.test(json)) return json;
  return JSON.stringify(wellFormed(JSON.parse(json)));
}

function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed().replaceAll('\0', '\ufffd');
  if (Array.isArray(value)) return value.map(wellFormed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [wellFormed(name), wellFormed(member)]));
}
