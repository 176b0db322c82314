import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { Journal } from '#local/database/journal.ts';
import type { Row } from '#local/database/rows.ts';

/** Attributes and their types by key layout, such as `main WS#*#LEDGER / BALANCE` -> `cents number`. */
type Shapes = Readonly<Record<string, readonly string[]>>;

const RECORDED = new URL('stored-shapes.json', import.meta.url);

/** Returns the recorded shapes of the newest data version. */
export const recordedShapes = (): Shapes => JSON.parse(readFileSync(RECORDED, 'utf8'));

/** Returns the field `shapes` of a data version (`core/base/data-versions.ts`). */
export const fingerprintOf = (shapes: Shapes): string =>
  createHash('sha256').update(JSON.stringify(shapes)).digest('hex').slice(0, 16);

/** Watches all writes of this process; the returned function returns their shapes. */
export function watchStoredShapes(): () => Shapes {
  const shapes = new Map<string, Set<string>>();
  const note = ({ table, pk, sk }: Row, text: string) => {
    const layout = `${table} ${layoutOf(pk)} / ${layoutOf(sk)}`;
    const attributes = shapes.get(layout) ?? new Set();
    shapes.set(layout, attributes);
    for (const [name, value] of Object.entries(JSON.parse(text))) {
      if (name !== 'pk' && name !== 'sk' && value !== null) attributes.add(`${attributeOf(pk, name)} ${typeOf(value)}`);
    }
  };
  const { append } = Journal.prototype;
  Journal.prototype.append = function (this: Journal, rows: readonly Row[]) {
    for (const row of rows) if (row.text !== undefined) note(row, row.text);
    return append.call(this, rows);
  };
  return () => sorted([...shapes].map(([layout, attributes]) => [layout, [...attributes]]));
}

/** Returns the shapes that are not recorded yet. */
export const unrecorded = (shapes: Shapes, recorded: Shapes): string[] =>
  Object.entries(shapes).flatMap(([layout, attributes]) => {
    const known = recorded[layout];
    if (known === undefined) return [layout];
    return attributes.filter((each) => !known.includes(each)).map((each) => `${layout}: ${each}`);
  });

/** Adds these shapes to the recorded ones. */
export function record(shapes: Shapes): void {
  const recorded = recordedShapes();
  const all = { ...recorded, ...shapes };
  const merged = sorted(
    Object.keys(all).map((layout) => [layout, [...(recorded[layout] ?? []), ...(shapes[layout] ?? [])]]),
  );
  writeFileSync(RECORDED, `${JSON.stringify(merged, null, 2)}\n`);
}

const sorted = (entries: [layout: string, attributes: string[]][]): Shapes =>
  Object.fromEntries(entries.map(([layout, all]) => [layout, [...new Set(all)].sort()] as const).sort());

/** Keeps the platform's own words, and replaces ids, times and names of users with `*`. */
function layoutOf(key: string): string {
  const parts = key.split('#').map((part) => (/^[A-Z][A-Z_]+$/.test(part) ? part : '*'));
  return parts[0] === 'SECRET' ? 'SECRET#*' : parts.join('#');
}

/** Some attributes have a dynamic name: leases, runs, chat links, days and hours, models, tasks by priority. */
const attributeOf = (pk: string, name: string): string =>
  name
    .replace(pk.startsWith('CALLS#') ? /^[rx][\w-]{10}$/ : /^run_[\da-f]{12}$/, 'run_*')
    .replace(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/, '*')
    .replace(/:.*$/, ':*')
    .replaceAll(/(?<!^gsi)\d+/g, '0')
    .replace(/_(low|normal|high|urgent)$/, '_*');

const typeOf = (value: unknown): string => (Array.isArray(value) ? 'array' : typeof value);
