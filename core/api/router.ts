import type { Route } from '#core/http/route.ts';

/** Names and IDs are shorter, and a longer segment might exceed the key size of an item. */
const MAX_SEGMENT_LENGTH = 256;

/** A path of the route table with its rows. */
export interface Address<Row> {
  readonly rows: ReadonlyMap<string, Row>;
  /** Values of its `{parameters}`, decoded once. */
  readonly params: Readonly<Record<string, string>>;
}

/** Paths that start with the same segments. */
interface Branch<Row> {
  readonly fixed: Map<string, Branch<Row>>;
  free?: Branch<Row>;
  path?: Path<Row>;
}

interface Path<Row> {
  /** Parameter names with their positions. */
  readonly params: readonly (readonly [position: number, name: string])[];
  readonly rows: Map<string, Row>;
}

/**
 * Finds the rows of a path for any method. Only the most specific path matches: `/agents/validate` is never
 * `/agents/{id}`. First segments of fixed paths are never an org; otherwise a mistyped management path would be served
 * as an agent call.
 */
export class Router<Row extends Pick<Route, 'method' | 'path'>> {
  readonly #root: Branch<Row> = { fixed: new Map() };

  constructor(rows: readonly Row[]) {
    for (const row of rows) {
      const [, ...segments] = row.path.split('/');
      let branch = this.#root;
      for (const segment of segments) {
        if (isFree(segment)) {
          branch.free ??= { fixed: new Map() };
          branch = branch.free;
        } else {
          const next = branch.fixed.get(segment) ?? { fixed: new Map() };
          branch.fixed.set(segment, next);
          branch = next;
        }
      }
      const params = segments.flatMap((segment, i) =>
        isFree(segment) ? [[i + 1, segment.slice(1, -1)] as const] : [],
      );
      branch.path ??= { params, rows: new Map() };
      branch.path.rows.set(row.method, row);
    }
  }

  /** `path` is percent-encoded. */
  find(path: string): Address<Row> | undefined {
    const given = path.split('/');
    if (path.includes('%')) for (let i = 1; i < given.length; i++) given[i] = decoded(given[i]!);
    const found = this.#fit(this.#root, given, 1);
    if (found === undefined) return undefined;
    const params: Record<string, string> = {};
    for (const [position, name] of found.params) params[name] = given[position]!;
    return { rows: found.rows, params };
  }

  /** Tries fixed segments first, then parameters, except for the first segment of a path. */
  #fit(branch: Branch<Row>, given: readonly string[], at: number): Path<Row> | undefined {
    if (at === given.length) return branch.path;
    const segment = given[at]!;
    const fixed = branch.fixed.get(segment);
    const found = fixed && this.#fit(fixed, given, at + 1);
    if (found || branch.free === undefined || (at === 1 && fixed)) return found;
    if (segment.length === 0 || segment.length > MAX_SEGMENT_LENGTH) return undefined;
    return this.#fit(branch.free, given, at + 1);
  }
}

const isFree = (segment: string): boolean => segment.startsWith('{');

/** Decodes a segment; invalid percent-encoding is left unchanged. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment.replace(/(?:%[0-9a-f]{2})+/gi, (part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
  }
}
