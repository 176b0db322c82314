import { isObject } from '#core/manifest/field-error.ts';

type Schema = Record<string, unknown>;

/** A schema that is nested deeper accepts everything from there: readers of documents are recursive, too. */
const MAX_DEPTH = 100;

const ONE: ReadonlySet<string> = new Set([
  ...['additionalProperties', 'contains', 'else', 'if', 'items', 'not', 'propertyNames', 'then'],
  ...['unevaluatedItems', 'unevaluatedProperties'],
]);
const LIST: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
const MAP: ReadonlySet<string> = new Set([
  ...['$defs', 'definitions', 'dependentSchemas', 'patternProperties', 'properties'],
]);
const TYPES: readonly unknown[] = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];
const isText = (value: unknown): boolean => typeof value === 'string';
const isFlag = (value: unknown): boolean => typeof value === 'boolean';
const isCount = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 0;
const isNumber = (value: unknown): boolean => typeof value === 'number';
const isSet = (value: unknown): value is readonly unknown[] =>
  Array.isArray(value) && new Set(value).size === value.length;
/**
 * Values of words that are wrong leave the word out: draft-07 does not check definitions under `$defs`, and readers
 * refuse a whole document for them.
 */
const WELL_FORMED: ReadonlyMap<string, (value: unknown) => boolean> = new Map<string, (value: unknown) => boolean>([
  [
    'type',
    (value) =>
      TYPES.includes(value) || (isSet(value) && value.length > 0 && value.every((each) => TYPES.includes(each))),
  ],
  ['required', (value) => isSet(value) && value.every(isText)],
  ['enum', Array.isArray],
  ['examples', Array.isArray],
  ['multipleOf', (value) => isNumber(value) && (value as number) > 0],
  ...['$comment', 'contentEncoding', 'contentMediaType', 'description', 'format', 'pattern', 'title'].map(
    (word) => [word, isText] as const,
  ),
  ...['deprecated', 'readOnly', 'uniqueItems', 'writeOnly'].map((word) => [word, isFlag] as const),
  ...['exclusiveMaximum', 'exclusiveMinimum', 'maximum', 'minimum'].map((word) => [word, isNumber] as const),
  ...[
    'maxContains',
    'maxItems',
    'maxLength',
    'maxProperties',
    'minContains',
    'minItems',
    'minLength',
    'minProperties',
  ].map((word) => [word, isCount] as const),
]);
/**
 * Words that mean a place or another document, which the schema has no longer, and words to which OpenAPI gives a meaning
 * of its own.
 */
const LEFT_OUT: ReadonlySet<string> = new Set([
  ...[
    '$anchor',
    '$dynamicAnchor',
    '$dynamicRef',
    '$id',
    '$recursiveAnchor',
    '$recursiveRef',
    '$schema',
    '$vocabulary',
    'id',
  ],
  ...['discriminator', 'externalDocs', 'xml'],
]);

/**
 * Returns a JSON Schema as components of an OpenAPI document: itself as `name`, and each of its definitions as
 * `name_<definition>`. References lead to the components; one that leads elsewhere, or only back to itself, is left out,
 * so that its place accepts everything. The words of draft-07 for lists and dependencies become those of 2020-12. Never
 * throws for a schema that can be published.
 */
export function componentsOf(schema: Schema, name: string): Record<string, unknown> {
  const components = new Map<string, unknown>();
  const places = new Map<string, string>([['#', name]]);
  const definitions: [string, unknown][] = [];
  const names = new Set<string>();
  for (const group of ['$defs', 'definitions']) {
    for (const [key, definition] of Object.entries(isObject(schema[group]) ? schema[group] : {})) {
      const component = freeName(`${name}_${key.replaceAll(/[^A-Za-z0-9]+/g, '_').slice(0, 60)}`, names);
      places.set(`#/${group}/${escaped(key)}`, component);
      definitions.push([component, definition]);
    }
  }
  const { $defs: _, definitions: __, ...root } = schema;
  const copier = new Copier(places, typeof schema.$id === 'string' ? schema.$id : undefined);
  components.set(name, copier.copy(root, 0));
  for (const [component, definition] of definitions) components.set(component, copier.copy(definition, 0));
  const made = Object.fromEntries(components);
  dropDeadEnds(made, copier.references);
  return made;
}

const escaped = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1');
const unescaped = (part: string): string => part.replaceAll('~1', '/').replaceAll('~0', '~');

function freeName(wanted: string, taken: Set<string>): string {
  let name = wanted;
  // Most definitions have names that differ; those of a hostile schema must not take quadratic time.
  for (let n = taken.size + 1; taken.has(name); n++) name = `${wanted}_${n}`;
  taken.add(name);
  return name;
}

/**
 * Whether a value of a schema, such as a default, has a member `$ref`: some readers would follow it. Also for a value that
 * is nested too deeply for them.
 */
function misleads(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (depth > MAX_DEPTH || Object.hasOwn(value, '$ref')) return true;
  return Object.values(value).some((each) => misleads(each, depth + 1));
}

class Copier {
  /** Copies of schemas that have a reference. */
  readonly references: { $ref?: string }[] = [];
  readonly #places: ReadonlyMap<string, string>;
  readonly #id: string | undefined;

  constructor(places: ReadonlyMap<string, string>, id: string | undefined) {
    this.#places = places;
    this.#id = id;
  }

  /** `depth` is that of the schema in its component. */
  copy(schema: unknown, depth: number): unknown {
    if (!isObject(schema)) return schema === false ? false : {};
    // References below a name of its own would be meant from there.
    if (depth > MAX_DEPTH || (depth > 0 && typeof schema.$id === 'string')) return {};
    const members: [string, unknown][] = [];
    for (const [word, value] of Object.entries(schema)) members.push(...this.#member(word, value, schema, depth));
    const copy = Object.fromEntries(members) as { $ref?: string };
    if (copy.$ref !== undefined) this.references.push(copy);
    return copy;
  }

  #member(word: string, value: unknown, schema: Schema, depth: number): [string, unknown][] {
    const inner = (each: unknown): unknown => this.copy(each, depth + 1);
    const map = (each: unknown): unknown =>
      Object.fromEntries(Object.entries(isObject(each) ? each : {}).map(([key, one]) => [key, inner(one)]));
    if (LEFT_OUT.has(word) || WELL_FORMED.get(word)?.(value) === false) return [];
    if (word === '$ref') {
      const target = typeof value === 'string' ? this.#target(value) : undefined;
      return target === undefined ? [] : [[word, target]];
    }
    // Draft-07.
    if (word === 'items' && Array.isArray(value)) return value.length > 0 ? [['prefixItems', value.map(inner)]] : [];
    if (word === 'additionalItems') return Array.isArray(schema.items) ? [['items', inner(value)]] : [];
    if (word === 'dependencies') {
      const all = Object.entries(isObject(value) ? value : {});
      return [
        ['dependentRequired', Object.fromEntries(all.filter(([, each]) => isSet(each) && each.every(isText)))],
        ['dependentSchemas', map(Object.fromEntries(all.filter(([, each]) => !Array.isArray(each))))],
      ];
    }
    if (ONE.has(word)) return [[word, inner(value)]];
    if (LIST.has(word)) return Array.isArray(value) && value.length > 0 ? [[word, value.map(inner)]] : [];
    if (MAP.has(word)) return [[word, map(value)]];
    return misleads(value) ? [] : [[word, value]];
  }

  /** Returns the address in the document of what a reference means; `undefined` if that is not in the schema. */
  #target(reference: string): string | undefined {
    const own = this.#id !== undefined && reference.startsWith(`${this.#id}#`) ? this.#id.length : 0;
    const [, ...parts] = decoded(reference.slice(own)).split('/');
    if (!/^#(\/|$)/.test(reference.slice(own))) return undefined;
    const isDefinition = (parts[0] === '$defs' || parts[0] === 'definitions') && parts.length > 1;
    const component = this.#places.get(isDefinition ? `#/${parts[0]}/${parts[1]}` : '#');
    if (component === undefined) return undefined;
    const rest = isDefinition ? parts.slice(2) : parts;
    return ['#/components/schemas', component, ...rest.map(encodeURIComponent)].join('/');
  }
}

/** A wrong escape is no fault of the reader. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Drops the references whose targets are not in the components, and those that lead back to themselves. */
function dropDeadEnds(components: Record<string, unknown>, references: readonly { $ref?: string }[]): void {
  const find = (reference: string): unknown => {
    let found: unknown = components;
    for (const part of reference
      .split('/')
      .slice(3)
      .map((each) => unescaped(decodeURIComponent(each)))) {
      if (typeof found !== 'object' || found === null || !Object.hasOwn(found, part)) return undefined;
      found = (found as Schema)[part];
    }
    return found;
  };
  const targets = new Map(references.map((each) => [each as unknown, find(each.$ref!)]));
  const isSchema = (value: unknown): boolean => isObject(value) || typeof value === 'boolean';
  const sound = new Set<unknown>();
  for (const reference of references) {
    const way = new Set<unknown>();
    let at: unknown = reference;
    while (targets.has(at) && !way.has(at) && !sound.has(at)) {
      way.add(at);
      at = targets.get(at);
    }
    if (way.has(at) || !isSchema(at)) {
      // The last step of the way is the one that leads nowhere, or closes the circle.
      const last = [...way].at(-1) as { $ref?: string } | undefined;
      if (last !== undefined) {
        delete last.$ref;
        targets.delete(last);
      }
    }
    for (const each of way) sound.add(each);
  }
}
