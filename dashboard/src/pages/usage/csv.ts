export type Cell = string | number;

/**
 * A table as RFC 4180 has it. A text that a spreadsheet would take for a formula gets a quote before it: names of tenants come from
 * callers.
 */
export function csv(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cell = (value: Cell): string => {
    const text = typeof value === 'string' && /^\s*[=+\-@＝＋－＠]|^[\t\r\n]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}
