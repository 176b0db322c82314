import type { Json } from '#core/base/json.ts';
import type { JsonSchema } from '#core/ports/llm.ts';

/**
 * Schema for the model's answer. Models are asked for an object, so any other output is its member `result`
 * (`docs/interface/prompts.md#schema`).
 */
export function objectSchema(schema: JsonSchema): JsonSchema {
  if (isObjectSchema(schema)) return { ...schema, type: 'object' };
  // References start at the root, so definitions must stay there.
  const { $schema, $defs, definitions, ...root } = schema;
  const dialect = $schema === undefined ? {} : { $schema };
  const wrapped = (result: unknown) => ({ type: 'object', properties: { result }, required: ['result'] });
  const text = JSON.stringify([root, $defs, definitions]);
  if (!REFERENCE_TO_ROOT.test(text)) {
    return {
      ...dialect,
      ...($defs !== undefined && { $defs }),
      ...(definitions !== undefined && { definitions }),
      ...wrapped(root),
    };
  }
  let name = 'result';
  while (isObject($defs) && name in $defs) name += '_';
  const [movedRoot, movedDefs, movedDefinitions] = JSON.parse(
    text.replaceAll(new RegExp(REFERENCE_TO_ROOT, 'g'), (_, path: string) => `"$ref":"#/$defs/${name}${path}"`),
  );
  return {
    ...dialect,
    ...(definitions !== undefined && { definitions: movedDefinitions }),
    $defs: { ...movedDefs, [name]: movedRoot },
    ...wrapped({ $ref: `#/$defs/${name}` }),
  };
}

/** Matches references in JSON text to the root or into it, except to definitions. */
const REFERENCE_TO_ROOT = /"\$ref":"#((?!\/(?:\$defs|definitions)\/)[^"]*)"/;

/** Providers accept only objects without alternatives at the top level. */
export const isObjectSchema = (schema: JsonSchema): boolean =>
  (schema.type === 'object' || (schema.type === undefined && 'properties' in schema)) &&
  !ALTERNATIVES.some((keyword) => keyword in schema);

/**
 * Whether the model is given the schema: it constrains the members of an object or the elements of an array. Other
 * schemas
 * leave the form of the answer to the prompt.
 */
export const constrainsShape = (schema: JsonSchema): boolean =>
  isFilled(schema.properties) || isFilled(schema.items) || ALTERNATIVES.some((keyword) => keyword in schema);

const isFilled = (value: unknown): boolean => isObject(value) && Object.keys(value).length > 0;
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const ALTERNATIVES = ['anyOf', 'oneOf', 'allOf', '$ref'] as const;
/** Maximum steps of one clean-up, far more than the longest answer needs. */
const MAX_STEPS = 200_000;

/**
 * Removes nulls that stand for omitted members: models write them, and providers' strict modes require them. Keeps
 * nulls
 * that the schema allows, and those of required members.
 */
export const withoutForbiddenNulls = (schema: JsonSchema, value: Json): Json =>
  new NullRemover(schema).clean([schema], value);

class NullRemover {
  readonly #root: JsonSchema;
  #steps = 0;

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  /** @param schemas Schemas of which some or all apply at this position. */
  clean(schemas: readonly unknown[], value: Json): Json {
    if (typeof value !== 'object' || value === null || this.#steps > MAX_STEPS) return value;
    const here = this.#expanded(schemas);
    this.#steps += here.length + 1;
    if (Array.isArray(value)) {
      const items = here.flatMap((schema) => ('items' in schema ? [schema.items] : []));
      return items.length === 0 ? value : value.map((element) => this.clean(items, element));
    }
    const members = Object.entries(value).flatMap(([name, member]): [string, Json][] => {
      this.#steps += here.length;
      const ofName = here.flatMap(({ properties, required, additionalProperties }) =>
        isObject(properties) && Object.hasOwn(properties, name)
          ? [{ schema: properties[name], isRequired: Array.isArray(required) && required.includes(name) }]
          : isObject(additionalProperties)
            ? [{ schema: additionalProperties, isRequired: true }]
            : [],
      );
      const isLeftOut =
        member === null &&
        ofName.some(({ isRequired }) => !isRequired) &&
        !ofName.some(({ schema }) => this.#allowsNull(schema));
      if (isLeftOut) return [];
      return [
        [
          name,
          ofName.length === 0
            ? member
            : this.clean(
                ofName.map(({ schema }) => schema),
                member,
              ),
        ],
      ];
    });
    return Object.fromEntries(members);
  }

  /** Adds the schemas that these refer to or choose from. */
  #expanded(schemas: readonly unknown[]): Record<string, unknown>[] {
    const found = new Set<Record<string, unknown>>();
    const open = [...schemas];
    while (open.length > 0) {
      const schema = open.pop();
      if (!isObject(schema) || found.has(schema)) continue;
      this.#steps++;
      found.add(schema);
      for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
        if (Array.isArray(schema[keyword])) open.push(...schema[keyword]);
      }
      if (typeof schema.$ref === 'string') open.push(this.#target(schema.$ref));
      open.push(schema.then, schema.else);
    }
    return [...found];
  }

  #allowsNull(schema: unknown, levels = 20): boolean {
    this.#steps++;
    if (!isObject(schema) || levels === 0 || this.#steps > MAX_STEPS) return schema !== false;
    const { type, enum: values, $ref, anyOf, oneOf, allOf } = schema;
    if (type !== undefined && ![type].flat().includes('null')) return false;
    if (Array.isArray(values) && !values.includes(null)) return false;
    if ('const' in schema && schema.const !== null) return false;
    const allows = (each: unknown) => this.#allowsNull(each, levels - 1);
    for (const alternatives of [anyOf, oneOf]) {
      if (Array.isArray(alternatives) && !alternatives.some(allows)) return false;
    }
    if (Array.isArray(allOf) && !allOf.every(allows)) return false;
    return typeof $ref !== 'string' || allows(this.#target($ref));
  }

  #target(reference: string): unknown {
    const names = reference.split('/').slice(1);
    let node: unknown = reference.startsWith('#') ? this.#root : undefined;
    for (const name of names) {
      const plain = name.replaceAll('~1', '/').replaceAll('~0', '~');
      node = typeof node === 'object' && node !== null ? (node as Record<string, unknown>)[plain] : undefined;
    }
    return node;
  }
}
