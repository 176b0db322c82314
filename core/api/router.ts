import type { Route } from '#core/http/route.ts';

/** No name or id is longer, and a longer one might not fit into the key of an item. */
const MAX_SEGMENT_LENGTH = 256;

/** A path of the route table, with its rows. */
export interface Address<Row> {
  readonly rows: ReadonlyMap<string, Row>;
  /** The values of its `{parameters}`, decoded once. */
  readonly params: Readonly<Record<string, string>>;
}

/** The paths that begin with the same segments. */
interface Branch<Row> {
  readonly fixed: Map<string, Branch<Row>>;
  free?: Branch<Row>;
  path?: Path<Row>;
}

interface Path<Row> {
  readonly segments: readonly string[];
  readonly rows: Map<string, Row>;
}

/**
 * Finds the rows of a path, whatever the method. Rows of the most specific path count alone: nothing else is at
 * `/agents/validate`, although it looks like `/agents/{id}`. First segments of fixed paths never stand for an org: otherwise a
 * mistyped management path would be answered as the call of an agent.
 */
export class Router<Row extends Pick<Route, 'method' | 'path'>> {
  readonly #root: Branch<Row> = { fixed: new Map() };

  constructor(rows: readonly Row[]) {
    for (const row of rows) {
      const segments = row.path.split('/').slice(1);
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
      branch.path ??= { segments, rows: new Map() };
      branch.path.rows.set(row.method, row);
    }
  }

  /** `path` is percent-encoded. */
  find(path: string): Address<Row> | undefined {
    const given = path.split('/').slice(1).map(decoded);
    const found = this.#fit(this.#root, given, 0);
    if (found === undefined) return undefined;
    const params: Record<string, string> = {};
    for (const [i, segment] of found.segments.entries()) if (isFree(segment)) params[nameOf(segment)] = given[i]!;
    return { rows: found.rows, params };
  }

  /** Fixed segments come first. If they lead nowhere, a free one may, but never the first of the path. */
  #fit(branch: Branch<Row>, given: readonly string[], at: number): Path<Row> | undefined {
    if (at === given.length) return branch.path;
    const segment = given[at]!;
    const fixed = branch.fixed.get(segment);
    const found = fixed && this.#fit(fixed, given, at + 1);
    if (found || branch.free === undefined || (at === 0 && fixed)) return found;
    if (segment.length === 0 || segment.length > MAX_SEGMENT_LENGTH) return undefined;
    return this.#fit(branch.free, given, at + 1);
  }
}

const isFree = (segment: string): boolean => segment.startsWith('{');
const nameOf = (segment: string): string => segment.slice(1, -1);

/** What is not valid percent-encoding stays as it is. */
function decoded(segment: string): string {
  if (!segment.includes('%')) return segment;
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
