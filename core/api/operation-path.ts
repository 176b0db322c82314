/**
 * Returns the path and query of an operation: `/runs/{run}` with `{run: 'a b'}` becomes `/runs/a%20b`. Undefined
 * members of the query are skipped. Throws Error for a parameter that cannot be part of a path.
 */
export function operationPath(
  path: string,
  params: Readonly<Record<string, string>> = {},
  query: Readonly<Record<string, unknown>> = {},
): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => segment(name, params[name] ?? ''));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
  return `${filled}${search.size > 0 ? `?${search}` : ''}`;
}

function segment(name: string, value: string): string {
  // URLs interpret these as the current or parent folder, which would change the path.
  if (/^\.{0,2}$/.test(value)) throw new Error(`the parameter "${name}" is "${value}", which cannot be part of a path`);
  return encodeURIComponent(value);
}
