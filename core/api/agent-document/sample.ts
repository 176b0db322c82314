import { isObject } from '#core/manifest/field-error.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Words of a schema whose values are simple to make. With another one, nothing is shown rather than a wrong value. */
const KNOWN: ReadonlySet<string> = new Set([
  ...['$schema', '$id', 'title', 'description', 'type', 'properties', 'required', 'additionalProperties', 'deprecated'],
  ...[
    'items',
    'minimum',
    'maximum',
    'accepts_files',
    'accept',
    'max_files',
    '$defs',
    'definitions',
    'readOnly',
    'writeOnly',
  ],
]);
const MAX_DEPTH = 8;
const MAX_MEMBERS = 50;

/**
 * Returns a value that matches a schema: the author's first example or default, else the smallest value of its type.
 * `undefined` if the schema has no example and says more than types and members.
 */
export function sampleOf(schema: unknown, depth = 0): unknown {
  if (!isObject(schema) || depth > MAX_DEPTH) return undefined;
  const given = givenIn(schema);
  if (given !== undefined) return given;
  if (!Object.keys(schema).every((word) => KNOWN.has(word))) return undefined;
  const { type, minimum, maximum } = schema;
  switch (Array.isArray(type) ? type[0] : (type ?? 'object')) {
    case 'object':
      return membersOf(schema, depth);
    case 'array':
      return [];
    case 'string':
      return 'text';
    case 'integer':
    case 'number':
      if (maximum !== undefined) return undefined;
      return minimum === undefined || Number.isInteger(minimum) ? (minimum ?? 1) : undefined;
    case 'boolean':
      return true;
    default:
      return null;
  }
}

function givenIn({ examples, default: preset, const: only, enum: choices }: Schema): unknown {
  return [
    Array.isArray(examples) ? examples[0] : undefined,
    preset,
    only,
    Array.isArray(choices) ? choices[0] : undefined,
  ].find((each) => each !== undefined);
}

function membersOf({ properties, required }: Schema, depth: number): unknown {
  const known = isObject(properties) ? properties : {};
  const names = Array.isArray(required) ? required.filter((name): name is string => typeof name === 'string') : [];
  if (names.length > MAX_MEMBERS) return undefined;
  const members = names.map((name) => [name, Object.hasOwn(known, name) ? sampleOf(known[name], depth + 1) : 'text']);
  return members.some(([, value]) => value === undefined) ? undefined : Object.fromEntries(members);
}
