export type Cell = string | number;

/**
 * Formats a table as CSV (RFC 4180). Prefixes text that a spreadsheet would evaluate as a formula with a quote, because
 * tenant names come from callers.
 */
export function csv(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cell = (value: Cell): string => {
    const text = typeof value === 'string' && /^\s*[=+\-@＝＋－＠]|^[\t\r\n]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}
