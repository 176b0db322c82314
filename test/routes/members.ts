import * as z from 'zod';
import { isRaw, type Route } from '#core/http/route.ts';
import { jsonBody } from './rows.ts';

export interface JsonSchema {
  readonly type?: string;
  readonly format?: string;
  readonly pattern?: string;
  readonly maxLength?: number;
  readonly description?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly allOf?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly additionalProperties?: JsonSchema | boolean;
}

/** Field that a request of a row may have. */
export interface Member {
  readonly row: Route;
  readonly part: 'query' | 'headers' | 'body';
  /** Path from the request part; `*` is an item of a list or record. */
  readonly path: readonly string[];
  readonly schema: JsonSchema;
}

/**
 * Returns every field of every part of the row's requests, at every depth. Bodies that a handler reads itself have
 * none.
 */
export function membersOf(row: Route): Member[] {
  const { query, headers, body } = row.request ?? {};
  const shapes = { query, headers, body: body && !isRaw(body) ? body : undefined };
  return Object.entries(shapes).flatMap(([part, shape]) =>
    shape === undefined
      ? []
      : within(z.toJSONSchema(shape, { io: 'input', unrepresentable: 'any' }) as JsonSchema, []).map((found) => ({
          row,
          part: part as Member['part'],
          ...found,
        })),
  );
}

function within(schema: JsonSchema, path: readonly string[]): Pick<Member, 'path' | 'schema'>[] {
  const { anyOf = [], oneOf = [], allOf = [], properties = {}, items, additionalProperties } = schema;
  return [
    ...(path.length > 0 ? [{ path, schema }] : []),
    ...[...anyOf, ...oneOf, ...allOf].flatMap((each) => within(each, path)),
    ...Object.entries(properties).flatMap(([name, each]) => within(each, [...path, name])),
    ...(items ? within(items, [...path, '*']) : []),
    ...(typeof additionalProperties === 'object' ? within(additionalProperties, [...path, '*']) : []),
  ];
}

/** Returns a request with `value` in this field and all other required fields of the row. */
export function requestWith({ row, part, path }: Member, value: string) {
  const json = jsonBody(row) as Record<string, unknown> | undefined;
  if (part === 'query') return { query: `?${new URLSearchParams({ [path[0]!]: value })}`, json };
  if (part === 'headers') return { query: '', headers: { [path[0]!]: value }, json };
  return { query: '', json: { ...json, ...nested(path, value, json) } };
}

function nested([name, ...rest]: readonly string[], value: string, beside: unknown): Record<string, unknown> {
  const old = (beside as Record<string, unknown> | undefined)?.[name!];
  if (rest.length === 0) return { [name!]: value };
  if (rest[0] === '*') return { [name!]: [value] };
  return { [name!]: { ...(old as object | undefined), ...nested(rest, value, old) } };
}
