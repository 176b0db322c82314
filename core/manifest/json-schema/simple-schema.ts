import { isObject } from '../field-error.ts';

/**
 * Whether a check is small whatever the value holds, decided by counting: then it may run on the thread that serves
 * requests.
 *
 * A schema is simple if it has at most {@link MAX_WEIGHT} parts, references written out, and only keywords that look at
 * each place of a value once. Then a check takes at most its parts times the places of the value. What is not listed here
 * is not simple: patterns, most formats, unique objects, references in a circle, keywords that we do not know.
 */

/** Parts of a schema: subschemas, required names, allowed values. More would take too long to compile. */
const MAX_WEIGHT = 150;
/** Parts times places of the value: about two milliseconds. */
const MAX_COST = 20_000;
/** Characters whose counting takes as long as one other part at one place. */
const CHARACTERS_A_PLACE = 50;

/** Weigh nothing: they are not looked at, or compare two numbers. */
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
/** Count the characters of a text. */
const TEXT_RULES = new Set(['maxLength', 'minLength']);
/** Of digits at fixed places. */
const SIMPLE_FORMATS = new Set(['date', 'time', 'date-time', 'uuid']);
/** A longer text takes too long to be compiled, whatever it holds. */
const MAX_TEXT = 16 * 1024;
/** Names that can lead a reference elsewhere. */
const RENAMES = /"\$(id|anchor|dynamicAnchor|recursiveAnchor)"/;
/** Names that a reference holds as they are. */
const PLAIN_NAME = /^[\w.-]+$/;
const SCALARS = new Set(['string', 'number', 'integer', 'boolean', 'null']);

export interface SchemaWeight {
  readonly parts: number;
  /** Whether some part counts the characters of texts. */
  readonly readsTexts: boolean;
}

/** The weight of a simple schema, whose JSON is `text`; `undefined` for any other. */
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

/** Whether checking `value` is small. Looks at as many places of it as a small check would. */
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
  /** References that are being written out. */
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

  /** Only `#/$defs/name` and `#/definitions/name`. */
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

  /** A value to compare with. */
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

/** Then equal items are found by a table; otherwise each item is compared with each other one. */
function hasScalarItems({ items }: Readonly<Record<string, unknown>>): boolean {
  if (!isObject(items) || items.type === undefined) return false;
  return [items.type].flat().every((type) => SCALARS.has(type as string));
}
