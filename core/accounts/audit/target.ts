import type { Json } from '#core/base/json.ts';
import type { Audit } from '#core/http/route.ts';

/** Description of the changed object in an entry: texts, numbers, and lists of names. */
export type Target = { readonly [member: string]: Json };

/** Members of a request that an entry may contain. */
export interface Asked {
  readonly params: Readonly<Record<string, string>>;
  readonly query?: unknown;
  readonly body?: unknown;
}

/** Path parameters that are secrets. */
const NEVER = ['token', 'secret'];
const MAX_TEXT = 200;
const MAX_NAMES = 50;

/** Describes the object that a request changes: the path's parameters, and the members that its row lists. */
export function targetOf({ request = [] }: Audit, { params, query, body }: Asked): Target {
  const { workspace_id: _, ...named } = params;
  const given = { ...(query as object), ...(body as object) } as Record<string, unknown>;
  const listed = request.map((name) => [name, given[name]] as const);
  const ofPath = Object.entries(named).filter(([name]) => !NEVER.includes(name));
  return shown([...ofPath, ...listed]);
}

/** Describes the answer: the ids and names that the row lists. */
export const answeredTarget = ({ response = {} }: Audit, answer: unknown): Target =>
  shown(
    Object.entries(response).map(([name, path]) => [
      name,
      // biome-ignore lint/suspicious/noExplicitAny: answers have every shape.
      path.split('.').reduce((part: any, member) => part?.[member], answer),
    ]),
  );

function shown(members: readonly (readonly [string, unknown])[]): Target {
  const target: Record<string, Json> = {};
  for (const [name, value] of members) {
    if (Array.isArray(value)) target[name] = value.slice(0, MAX_NAMES).filter(isText).map(cut);
    else if (isText(value)) target[name] = cut(value);
    else if (typeof value === 'number' || typeof value === 'boolean') target[name] = value;
  }
  return target;
}

const isText = (value: unknown): value is string => typeof value === 'string';
const cut = (text: string): string => text.slice(0, MAX_TEXT).toWellFormed();
