import type { JsonSchema } from '#core/ports/llm.ts';

/**
 * JSON Schema subset supported in a provider's strict mode. All features have limits, because grammars grow with them.
 */
export interface StrictDialect {
  /** Keywords that the provider enforces. Others become part of the description. */
  readonly keywords: ReadonlySet<string>;
  readonly formats: ReadonlySet<string>;
  /** Whether every property must be required: an optional one becomes nullable instead. */
  readonly requiresAll: boolean;
  readonly allowsCycles: boolean;
  /** Maximum number of optional properties, counting each use of a definition. */
  readonly maxOptional: number;
  /** Maximum number of subschemas with alternatives or several types, counted in the same way. */
  readonly maxUnions: number;
  readonly maxProperties: number;
  readonly maxEnumValues: number;
  /** Maximum nesting of objects and arrays. */
  readonly maxDepth: number;
}

/**
 * Translates the schema to the provider's dialect. Returns `undefined` if it has no equivalent: with open objects, any
 * value, conditions or combinations. Every value that matches the given schema, and has only named members, matches the
 * new one, with null for missing members. The reverse does not hold: bounds that the provider does not support become
 * part of descriptions.
 *
 * Visits each part of the schema once.
 */
export function strictSchema(dialect: StrictDialect, schema: JsonSchema): JsonSchema | undefined {
  try {
    return new Writer(dialect, schema).write();
  } catch (error) {
    if (error === UNFIT) return undefined;
    throw error;
  }
}

const UNFIT = Symbol('unfit');

interface Size {
  optional: number;
  unions: number;
  properties: number;
  enumValues: number;
}
const NOTHING: Size = { optional: 0, unions: 0, properties: 0, enumValues: 0 };

/** Keywords that narrow a schema in ways that no provider supports; omitting them would change its meaning. */
const UNKNOWN_TO_ALL = [
  'not',
  'if',
  'then',
  'else',
  'dependentRequired',
  'dependentSchemas',
  'dependencies',
  'patternProperties',
  'propertyNames',
  'contains',
  'prefixItems',
  'additionalItems',
  '$dynamicRef',
  '$recursiveRef',
];
/** Keywords that only restrict a value's range: a description can express them. */
const BOUNDS = [
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
];
const REFERENCE = /^#\/(\$defs|definitions)\/([\w.-]+)$/;

type Parts = Record<string, unknown>;

class Writer {
  readonly #dialect: StrictDialect;
  readonly #root: JsonSchema;
  /** New definitions and their size by reference; `undefined` while one is being written. */
  readonly #definitions = new Map<
    string,
    { readonly name: string; readonly schema: Parts; readonly size: Size } | undefined
  >();
  /** Size of the definition, or of the root, that is being written. */
  #size: Size = { ...NOTHING };

  constructor(dialect: StrictDialect, root: JsonSchema) {
    this.#dialect = dialect;
    this.#root = root;
  }

  write(): JsonSchema {
    const schema = this.#schema(this.#root, 1);
    const { maxOptional, maxUnions, maxProperties, maxEnumValues } = this.#dialect;
    const { optional, unions, properties, enumValues } = this.#size;
    if (optional > maxOptional || unions > maxUnions || properties > maxProperties || enumValues > maxEnumValues) {
      throw UNFIT;
    }
    const definitions = [...this.#definitions.values()].map((definition) => [definition!.name, definition!.schema]);
    return definitions.length === 0 ? schema : { ...schema, $defs: Object.fromEntries(definitions) };
  }

  #schema(given: unknown, depth: number): Parts {
    if (!isObject(given) || depth > this.#dialect.maxDepth || UNKNOWN_TO_ALL.some((keyword) => keyword in given)) {
      throw UNFIT;
    }
    if (given.$ref !== undefined) return this.#reference(given, depth);
    const alternatives = given.anyOf ?? given.oneOf;
    if (alternatives !== undefined) return this.#alternatives(given, alternatives, depth);
    if (given.allOf !== undefined) return this.#only(given, depth);
    const types = typesOf(given);
    if (types.length > 1) this.#size.unions++;
    const schema: Parts = {
      ...notes(given, this.#unenforced(given)),
      type: types.length === 1 ? types[0] : types,
      ...this.#values(given),
      ...(types.includes('object') && this.#object(given, depth)),
      ...(types.includes('array') && { items: this.#schema(given.items, depth + 1) }),
    };
    for (const keyword of BOUNDS) {
      if (given[keyword] !== undefined && this.#dialect.keywords.has(keyword)) schema[keyword] = given[keyword];
    }
    if (this.#dialect.formats.has(given.format as string)) schema.format = given.format;
    return schema;
  }

  #values(given: Parts): Parts {
    const { enum: values } = given;
    if (values === undefined) return 'const' in given ? { const: scalar(given.const) } : {};
    if (!Array.isArray(values)) throw UNFIT;
    this.#size.enumValues += values.length;
    return { enum: values.map(scalar) };
  }

  #object(given: Parts, depth: number): Parts {
    const { properties = {}, required = [], additionalProperties, unevaluatedProperties } = given;
    const isClosed = additionalProperties === false || unevaluatedProperties === false;
    if (!isObject(properties) || !Array.isArray(required)) throw UNFIT;
    const names = Object.keys(properties);
    // An open object without named members is a map.
    if (additionalProperties !== undefined ? additionalProperties !== false : names.length === 0 && !isClosed)
      throw UNFIT;
    if (required.some((name) => !Object.hasOwn(properties, name))) throw UNFIT;
    this.#size.properties += names.length;
    const entries = names.map((name) => {
      const schema = this.#schema(properties[name], depth + 1);
      if (required.includes(name)) return [name, schema];
      if (this.#dialect.requiresAll) return [name, this.#orNull(schema)];
      this.#size.optional++;
      return [name, schema];
    });
    return {
      properties: Object.fromEntries(entries),
      required: this.#dialect.requiresAll ? names : required,
      additionalProperties: false,
    };
  }

  #orNull(schema: Parts): Parts {
    if (allowsNull(schema)) return schema;
    this.#size.unions++;
    const { description, ...rest } = schema;
    const told = description === undefined ? {} : { description };
    if (schema.$ref !== undefined) return { ...told, anyOf: [rest, { type: 'null' }] };
    if (Array.isArray(schema.anyOf)) return { ...schema, anyOf: [...schema.anyOf, { type: 'null' }] };
    const { const: only, enum: values = 'const' in schema ? [only] : undefined, ...others } = schema;
    const type = [...[schema.type].flat(), 'null'];
    return { ...others, type, ...(Array.isArray(values) && { enum: [...values, null] }) };
  }

  #alternatives(given: Parts, alternatives: unknown, depth: number): Parts {
    const others = Object.keys(given).filter((name) => !['anyOf', 'oneOf'].includes(name) && isNarrowing(name));
    if (!Array.isArray(alternatives) || others.length > 0 || ('anyOf' in given && 'oneOf' in given)) throw UNFIT;
    this.#size.unions++;
    return { ...notes(given), anyOf: alternatives.map((each) => this.#schema(each, depth)) };
  }

  /** Merges a combination with a single member. */
  #only(given: Parts, depth: number): Parts {
    const { allOf, ...rest } = given;
    if (!Array.isArray(allOf) || allOf.length !== 1 || Object.keys(rest).some(isNarrowing)) throw UNFIT;
    return this.#schema(allOf[0], depth);
  }

  #reference(given: Parts, depth: number): Parts {
    const { $ref, ...rest } = given;
    if (typeof $ref !== 'string' || Object.keys(rest).some(isNarrowing)) throw UNFIT;
    if ($ref === '#' && this.#dialect.allowsCycles) return { $ref };
    const [, section, name] = REFERENCE.exec($ref) ?? [];
    const found = section === undefined ? undefined : (this.#root[section] as Parts | undefined)?.[name!];
    if (found === undefined) throw UNFIT;
    if (!this.#definitions.has($ref)) this.#define($ref, name!, found, depth);
    const definition = this.#definitions.get($ref);
    if (definition === undefined && !this.#dialect.allowsCycles) throw UNFIT;
    for (const key of Object.keys(NOTHING) as (keyof Size)[]) this.#size[key] += definition?.size[key] ?? 0;
    return { $ref: `#/$defs/${definition?.name ?? this.#nameOf($ref, name!)}` };
  }

  #define($ref: string, name: string, found: unknown, depth: number): void {
    const outer = this.#size;
    this.#size = { ...NOTHING };
    this.#definitions.set($ref, undefined);
    const schema = this.#schema(found, depth);
    this.#definitions.set($ref, { name: this.#nameOf($ref, name), schema, size: this.#size });
    this.#size = outer;
  }

  /** Merges `definitions` and `$defs` into one. */
  #nameOf($ref: string, name: string): string {
    const isTaken = $ref.startsWith('#/definitions/') && isObject(this.#root.$defs) && name in this.#root.$defs;
    return isTaken ? `definitions.${name}` : name;
  }

  /** Describes the unenforced keywords in words. */
  #unenforced(given: Parts): string {
    const { keywords, formats } = this.#dialect;
    const bounds = BOUNDS.filter(
      (keyword) => !keywords.has(keyword) && ![undefined, false].includes(given[keyword] as undefined),
    );
    const words = bounds.map((keyword) => `${keyword} ${JSON.stringify(given[keyword])}`);
    if (given.format !== undefined && !formats.has(given.format as string))
      words.push(`format ${String(given.format)}`);
    return words.join(', ');
  }
}

const isObject = (value: unknown): value is Parts =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether a keyword beside `$ref`, `anyOf` or `allOf` restricts values. Keywords unknown to JSON Schema do not. */
const isNarrowing = (keyword: string): boolean => NARROWING.has(keyword);
const NARROWING = new Set([
  ...UNKNOWN_TO_ALL,
  ...BOUNDS,
  'type',
  'format',
  'enum',
  'const',
  'properties',
  'required',
  'additionalProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
  'items',
  'anyOf',
  'oneOf',
  'allOf',
]);

function notes({ title, description }: Parts, more = ''): Parts {
  const text = [...(typeof description === 'string' ? [description] : []), ...(more === '' ? [] : [`(${more})`])].join(
    ' ',
  );
  return { ...(typeof title === 'string' && { title }), ...(text !== '' && { description: text }) };
}

/** Returns the types of a subschema, inferred from its other keywords if it has no `type`. */
function typesOf({ type, properties, items, enum: values, ...given }: Parts): string[] {
  if (type !== undefined) {
    const types = [type].flat();
    // Values of an enumeration narrow its types.
    if (Array.isArray(values) && types.length > 1) return [...new Set(values.map(typeOf))];
    return types as string[];
  }
  if (properties !== undefined) return ['object'];
  if (items !== undefined) return ['array'];
  const known = Array.isArray(values) ? values : 'const' in given ? [given.const] : [];
  if (known.length === 0) throw UNFIT;
  return [...new Set(known.map(typeOf))];
}

const typeOf = (value: unknown): string => (value === null ? 'null' : typeof value);

function scalar(value: unknown): unknown {
  if (typeof value === 'object' && value !== null) throw UNFIT;
  return value;
}

const allowsNull = ({ type, enum: values, anyOf }: Parts): boolean =>
  Array.isArray(anyOf)
    ? anyOf.some(allowsNull)
    : [type].flat().includes('null') && (!Array.isArray(values) || values.includes(null));
