import { isObject } from '../field-error.ts';

/**
 * Estimates whether a check is cheap for any content of the value: then it may run on the thread that serves requests.
 *
 * A schema is simple if it has at most {@link MAX_WEIGHT} parts, with references expanded, and only keywords that visit
 * each node of a value once. Then the cost of a check is at most its parts times the nodes of the value. Everything
 * that is not listed here is not simple: patterns, most formats, unique objects, circular references, unknown keywords.
 */

/** Maximum parts of a schema: subschemas, required names, allowed values. More would take too long to compile. */
const MAX_WEIGHT = 150;
/** Maximum of parts times nodes of the value: about two milliseconds. */
const MAX_COST = 20_000;
/** Number of characters that take as long to count as one part at one node. */
const CHARACTERS_A_PLACE = 50;

/** Keywords without weight: they are ignored, or compare two numbers. */
const WEIGHTLESS = new Set([
  '$comment',
  '$defs',
  '$schema',
  'accept',
  'accepts_files',
  'default',
  'definitions',
  'deprecated',
  'description',
  'example',
  'examples',
  'exclusiveMaximum',
  'exclusiveMinimum',
  'max_files',
  'maxItems',
  'maximum',
  'maxProperties',
  'minItems',
  'minimum',
  'minProperties',
  'multipleOf',
  'readOnly',
  'title',
  'type',
  'writeOnly',
]);
/** Keywords that count the characters of a text. */
const TEXT_RULES = new Set(['maxLength', 'minLength']);
/** Formats with digits at fixed positions. */
const SIMPLE_FORMATS = new Set(['date', 'time', 'date-time', 'uuid']);
/** Maximum length of the schema text. A longer text takes too long to compile, whatever its content. */
const MAX_TEXT = 16 * 1024;
/** Keywords that can redirect a reference. */
const RENAMES = /"\$(id|anchor|dynamicAnchor|recursiveAnchor)"/;
/** Names that a reference contains unescaped. */
const PLAIN_NAME = /^[\w.-]+$/;
const SCALARS = new Set(['string', 'number', 'integer', 'boolean', 'null']);

export interface SchemaWeight {
  readonly parts: number;
  /** Whether any part counts the characters of texts. */
  readonly readsTexts: boolean;
}

/** Returns the weight of a simple schema with the JSON `text`; `undefined` if it is not simple. */
export function estimateCost(schema: Readonly<Record<string, unknown>>, text: string): SchemaWeight | undefined {
  if (text.length > MAX_TEXT || RENAMES.test(text)) return undefined;
  const scale = new Scale(schema);
  try {
    scale.addSchema(schema);
  } catch (error) {
    if (error === NOT_SIMPLE) return undefined;
    throw error;
  }
  return { parts: scale.parts, readsTexts: scale.readsTexts };
}

/** Whether checking `value` is cheap. Visits at most as many nodes as a cheap check would. */
export function isSmallCheck({ parts, readsTexts }: SchemaWeight, value: unknown): boolean {
  const maxLength = MAX_COST / (parts + 1);
  const open = [value];
  let places = 0;
  while (open.length > 0) {
    const node = open.pop();
    places += 1;
    if (typeof node === 'string') places += readsTexts ? node.length / CHARACTERS_A_PLACE : 0;
    else if (Array.isArray(node)) {
      if (node.length > maxLength) return false;
      for (const member of node) open.push(member);
    } else if (typeof node === 'object' && node !== null) {
      for (const name in node) {
        open.push((node as Record<string, unknown>)[name]);
        if (open.length > maxLength) return false;
      }
    }
    if (places + open.length > maxLength) return false;
  }
  return true;
}

const NOT_SIMPLE = Symbol('not simple');

class Scale {
  parts = 0;
  readsTexts = false;
  readonly #root: Readonly<Record<string, unknown>>;
  /** References that are being expanded, to detect cycles. */
  readonly #open = new Set<string>();

  constructor(root: Readonly<Record<string, unknown>>) {
    this.#root = root;
  }

  addSchema(schema: unknown): void {
    this.#add(1);
    if (typeof schema === 'boolean') return;
    if (!isObject(schema)) throw NOT_SIMPLE;
    for (const name in schema) this.#addKeyword(name, schema[name], schema);
  }

  #addKeyword(name: string, value: unknown, schema: Readonly<Record<string, unknown>>): void {
    if (WEIGHTLESS.has(name)) return;
    if (TEXT_RULES.has(name)) {
      this.readsTexts = true;
      return;
    }
    switch (name) {
      case 'properties':
        if (!isObject(value)) throw NOT_SIMPLE;
        for (const property in value) this.addSchema(value[property]);
        return;
      case 'items':
      case 'additionalProperties':
      case 'not':
      case 'if':
      case 'then':
      case 'else':
        this.addSchema(value);
        return;
      case 'anyOf':
      case 'oneOf':
      case 'allOf':
      case 'prefixItems':
        this.#addList(value, (each) => this.addSchema(each));
        return;
      case 'required':
        this.#addList(value, () => this.#add(1));
        return;
      case 'enum':
        this.#addList(value, (each) => this.#addValue(each));
        return;
      case 'const':
        this.#addValue(value);
        return;
      case 'format':
        if (typeof value !== 'string' || !SIMPLE_FORMATS.has(value)) throw NOT_SIMPLE;
        this.readsTexts = true;
        return;
      case 'uniqueItems':
        if (value !== false && !hasScalarItems(schema)) throw NOT_SIMPLE;
        return;
      case '$ref':
        this.#addReference(value);
        return;
      default:
        throw NOT_SIMPLE;
    }
  }

  /** Expands a reference; only `#/$defs/name` and `#/definitions/name` are simple. */
  #addReference(reference: unknown): void {
    if (typeof reference !== 'string' || this.#open.has(reference)) throw NOT_SIMPLE;
    const [start, section, name, ...rest] = reference.split('/');
    if (start !== '#' || (section !== '$defs' && section !== 'definitions') || rest.length > 0) throw NOT_SIMPLE;
    if (name === undefined || !PLAIN_NAME.test(name)) throw NOT_SIMPLE;
    const all = this.#root[section];
    if (!isObject(all) || !Object.hasOwn(all, name)) throw NOT_SIMPLE;
    this.#open.add(reference);
    this.addSchema(all[name]);
    this.#open.delete(reference);
  }

  /** Adds the weight of a value to compare with. */
  #addValue(value: unknown): void {
    this.#add(1);
    if (typeof value !== 'object' || value === null) return;
    for (const name in value) this.#addValue((value as Record<string, unknown>)[name]);
  }

  #addList(list: unknown, add: (element: unknown) => void): void {
    if (!Array.isArray(list)) throw NOT_SIMPLE;
    for (const element of list) add(element);
  }

  #add(parts: number): void {
    this.parts += parts;
    if (this.parts > MAX_WEIGHT) throw NOT_SIMPLE;
  }
}

/** Whether all items are scalars: then duplicates are found with a hash table, otherwise by comparing all pairs. */
function hasScalarItems({ items }: Readonly<Record<string, unknown>>): boolean {
  if (!isObject(items) || items.type === undefined) return false;
  return [items.type].flat().every((type) => SCALARS.has(type as string));
}
