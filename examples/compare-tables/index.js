// Two versions of a table in, the differences out. No dependencies.
import { text } from 'node:stream/consumers';

class InputError extends Error {}

/** Returns the rows of a CSV text (RFC 4180: quotes, doubled quotes and line breaks in cells). */
function parseCsv(csv, name) {
  const rows = [];
  let row = [];
  const cells = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|\r|$)/y;
  const source = csv.replace(/^\ufeff/, '');
  while (cells.lastIndex < source.length) {
    const match = cells.exec(source);
    if (match === null)
      throw new InputError(`${name}: row ${rows.length + 1} has a quote that does not enclose a cell`);
    const [, quoted, plain, end] = match;
    row.push(quoted === undefined ? plain.trim() : quoted.replaceAll('""', '"'));
    if (end === ',' && cells.lastIndex < source.length) continue;
    if (end === ',') row.push('');
    if (row.some((cell) => cell !== '')) rows.push(row);
    row = [];
  }
  return rows;
}

/** Returns the columns and the rows by key. Maps, because a file may have names such as `__proto__`. */
function readTable(input, name) {
  if (typeof input[name] !== 'string') throw new InputError(`${name}: must be a table as CSV text`);
  const [columns, ...rows] = parseCsv(input[name], name);
  if (columns === undefined) throw new InputError(`${name}: must have a header row`);
  const repeated = columns.find((column, index) => columns.indexOf(column) < index);
  if (repeated !== undefined) throw new InputError(`${name}: the column "${repeated}" is there twice`);
  const at = columns.indexOf(input.key);
  if (at < 0) throw new InputError(`key: "${input.key}" is no column of ${name}; it has ${columns.join(', ')}`);
  const byKey = new Map();
  for (const [index, row] of rows.entries()) {
    if (row.length > columns.length) throw new InputError(`${name}: row ${index + 2} has more cells than the header`);
    const key = row[at] ?? '';
    if (key === '') throw new InputError(`${name}: row ${index + 2} has no ${input.key}`);
    if (byKey.has(key)) throw new InputError(`${name}: ${input.key} "${key}" is there twice`);
    byKey.set(key, new Map(columns.map((column, position) => [column, row[position] ?? ''])));
  }
  return { columns, byKey };
}

export function compare(input) {
  if (typeof input?.key !== 'string') throw new InputError('key: must be the name of a column');
  const [before, after] = [readTable(input, 'before'), readTable(input, 'after')];
  const shared = before.columns.filter((column) => after.columns.includes(column));
  const changed = [];
  let unchanged = 0;
  for (const [key, old] of before.byKey) {
    const row = after.byKey.get(key);
    if (row === undefined) continue;
    const differing = shared.filter((column) => old.get(column) !== row.get(column));
    if (differing.length === 0) unchanged++;
    for (const column of differing) changed.push({ key, column, before: old.get(column), after: row.get(column) });
  }
  const missingIn = (table, keys) => [...keys].filter((key) => !table.has(key));
  const added = missingIn(before.byKey, after.byKey.keys());
  const removed = missingIn(after.byKey, before.byKey.keys());
  const rowsChanged = new Set(changed.map(({ key }) => key)).size;
  return {
    summary: `${added.length} added, ${removed.length} removed, ${rowsChanged} changed, ${unchanged} unchanged`,
    added,
    removed,
    changed,
    unchanged,
    columns_added: after.columns.filter((column) => !shared.includes(column)),
    columns_removed: before.columns.filter((column) => !shared.includes(column)),
  };
}

async function main() {
  try {
    console.log(JSON.stringify(compare(JSON.parse(await text(process.stdin)))));
  } catch (error) {
    if (!(error instanceof InputError || error instanceof SyntaxError)) throw error;
    console.log(JSON.stringify({ error: error instanceof InputError ? error.message : 'the input must be JSON' }));
    process.exitCode = 1;
  }
}

// Tests import this module without standard input.
if (process.argv[1] === import.meta.filename) await main();
