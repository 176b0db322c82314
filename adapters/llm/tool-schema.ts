import { memoizeWeak } from '#core/base/memoize-weak.ts';
import type { JsonSchema } from '#core/ports/llm.ts';

/**
 * Rewrites the schema of a tool's parameters to what all providers accept: an object without combinations at its top,
 * in draft 2020-12. The model may then be told less than the author wrote; calls are validated against the original.
 *
 * - A reference at the top is replaced by its target, and combinations there by the properties of their members.
 * - Lists with a schema for each place get `prefixItems`, and every list gets `items`.
 * - Keywords of other drafts, and references that lead nowhere, are left out.
 */
export const looseToolSchema: (schema: JsonSchema) => JsonSchema = memoizeWeak((given: JsonSchema) => {
  const top = mergedTop(given, given);
  const rewritten = rewritten2020({ ...withoutKeywords(top, NOT_AT_TOP), type: 'object' });
  return withoutLostReferences(rewritten, rewritten) as JsonSchema;
});

type Parts = Readonly<Record<string, unknown>>;

const NOT_AT_TOP = ['$schema', 'anyOf', 'oneOf', 'allOf', 'not', 'if', 'then', 'else', '$ref', 'enum', 'const'];
const COMBINATIONS = ['anyOf', 'oneOf', 'allOf'];

const isObject = (value: unknown): value is Parts =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const withoutKeywords = (schema: Parts, keywords: readonly string[]): Parts =>
  Object.fromEntries(Object.entries(schema).filter(([keyword]) => !keywords.includes(keyword)));

/** Adds the properties of referenced and combined schemas to the schema itself. Visits each schema once. */
function mergedTop(root: Parts, schema: Parts, seen = new Set<unknown>()): Parts {
  if (seen.has(schema)) return {};
  seen.add(schema);
  const target = typeof schema.$ref === 'string' ? resolve(root, schema.$ref) : undefined;
  const members = COMBINATIONS.flatMap((keyword) => {
    const list = Array.isArray(schema[keyword]) ? schema[keyword] : [];
    return list.filter(isObject).map((member) => ({ member, isRequired: keyword === 'allOf' }));
  });
  if (isObject(target)) members.push({ member: target, isRequired: true });
  let { properties, required }: Parts = schema;
  for (const { member, isRequired } of members) {
    const merged = mergedTop(root, member, seen);
    if (isObject(merged.properties)) properties = { ...merged.properties, ...(isObject(properties) && properties) };
    if (isRequired && Array.isArray(merged.required)) {
      required = [...new Set([...(Array.isArray(required) ? required : []), ...merged.required])];
    }
  }
  return {
    ...schema,
    ...(properties !== undefined && { properties }),
    ...(required !== undefined && { required }),
  };
}

/** Keywords whose value is a schema, a list of schemas, or a map of schemas. */
const SCHEMAS = [
  'items',
  'additionalItems',
  'additionalProperties',
  'not',
  'if',
  'then',
  'else',
  'contains',
  'propertyNames',
];
const LISTS = ['anyOf', 'oneOf', 'allOf', 'prefixItems'];
const MAPS = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'];

/** Applies `change` to every schema within a schema, innermost first. */
function mapSchemas(schema: unknown, change: (schema: Parts) => Parts): unknown {
  if (Array.isArray(schema)) return schema.map((each) => mapSchemas(each, change));
  if (!isObject(schema)) return schema;
  const entries = Object.entries(schema).map(([keyword, value]): [string, unknown] => {
    if (SCHEMAS.includes(keyword) || LISTS.includes(keyword)) return [keyword, mapSchemas(value, change)];
    if (!MAPS.includes(keyword) || !isObject(value)) return [keyword, value];
    return [keyword, Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mapSchemas(each, change)]))];
  });
  return change(Object.fromEntries(entries));
}

const TYPES = ['string', 'number', 'integer', 'boolean', 'array', 'object', 'null'];

const rewritten2020 = (root: Parts): unknown =>
  mapSchemas(root, ({ $id, additionalItems, ...schema }) => {
    const changed: Record<string, unknown> = { ...schema };
    // An id with a fragment is an anchor in draft 07.
    if (typeof $id === 'string' && !$id.includes('#')) changed.$id = $id;
    if (Array.isArray(schema.items)) {
      changed.prefixItems = schema.items.length > 0 ? schema.items : undefined;
      changed.items = isObject(additionalItems) ? additionalItems : undefined;
    }
    const places = changed.prefixItems;
    if (!isObject(changed.items) && [schema.type].flat().includes('array')) {
      changed.items = Array.isArray(places) && places.length > 0 ? { anyOf: places } : {};
    }
    // Drafts 03 and 04.
    for (const [exclusive, bound] of [
      ['exclusiveMinimum', 'minimum'],
      ['exclusiveMaximum', 'maximum'],
    ] as const) {
      if (typeof schema[exclusive] !== 'boolean') continue;
      changed[exclusive] = schema[exclusive] ? schema[bound] : undefined;
      if (schema[exclusive]) changed[bound] = undefined;
    }
    if (!Array.isArray(schema.required)) changed.required = undefined;
    const types = [schema.type].flat();
    if (!types.every((type) => TYPES.includes(type as string))) changed.type = undefined;
    return Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== undefined));
  });

const withoutLostReferences = (root: unknown, within: unknown): unknown =>
  mapSchemas(root, ({ $ref, ...schema }) =>
    $ref === undefined || (typeof $ref === 'string' && resolve(within, $ref) !== undefined)
      ? { ...($ref !== undefined && { $ref }), ...schema }
      : schema,
  );

/** Returns the schema that a reference such as `#/$defs/a` leads to. */
function resolve(root: unknown, reference: string): unknown {
  if (reference !== '#' && !reference.startsWith('#/')) return undefined;
  let found = root;
  for (const step of reference.split('/').slice(1)) {
    const name = decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~');
    found = (found as Parts | undefined)?.[name];
  }
  return found;
}

/** Names of the properties that a provider does not accept, with the names that it is told instead. */
export type KeyAliases = ReadonlyMap<string, string>;

const NONE: KeyAliases = new Map();

/** Returns aliases for the property names in a schema that do not match `accepted`, each of its own. */
export const keyAliases: (accepted: RegExp) => (schema: JsonSchema) => KeyAliases = memoizeWeak((accepted: RegExp) =>
  memoizeWeak((schema: JsonSchema): KeyAliases => {
    const names = new Set<string>();
    mapSchemas(schema, (each) => {
      for (const name of isObject(each.properties) ? Object.keys(each.properties) : []) names.add(name);
      return each;
    });
    const refused = [...names].filter((name) => !accepted.test(name));
    if (refused.length === 0) return NONE;
    const aliases = new Map<string, string>();
    /** Last number of each plain name, as thousands of names may have the same. */
    const numbers = new Map<string, number>();
    for (const name of refused) {
      const words = name.normalize('NFKD').split(/[^a-zA-Z0-9.-]/);
      const plain =
        words
          .filter((word) => word !== '')
          .join('_')
          .slice(0, 48) || 'key';
      let alias = plain;
      let number = numbers.get(plain) ?? 1;
      while (names.has(alias)) alias = `${plain}_${++number}`;
      numbers.set(plain, number);
      names.add(alias);
      aliases.set(name, alias);
    }
    return aliases;
  }),
);

/** Returns the schema with the aliases of its properties. */
export const withAliases = (schema: JsonSchema, aliases: KeyAliases): JsonSchema =>
  mapSchemas(schema, (each) => {
    const { properties, required } = each;
    const renamed = isObject(properties)
      ? Object.entries(properties).map(([name, value]) => {
          const alias = aliases.get(name);
          return alias === undefined ? [name, value] : [alias, titled(value, name)];
        })
      : undefined;
    return {
      ...each,
      ...(renamed && { properties: Object.fromEntries(renamed) }),
      ...(Array.isArray(required) && { required: required.map((name) => aliases.get(name) ?? name) }),
    };
  }) as JsonSchema;

/** Tells the model the author's name. */
const titled = (schema: unknown, name: string): unknown => (isObject(schema) ? { title: name, ...schema } : schema);

/** Returns a call's parameters with the original names of their members. */
export function withoutAliases<Value>(value: Value, aliases: KeyAliases): Value {
  if (aliases.size === 0) return value;
  const names = new Map([...aliases].map(([name, alias]) => [alias, name]));
  const restored = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(restored);
    if (!isObject(part)) return part;
    return Object.fromEntries(Object.entries(part).map(([name, each]) => [names.get(name) ?? name, restored(each)]));
  };
  return restored(value) as Value;
}
