/** A JSON Schema as a type that each language can print. What it cannot say is `unknown`, which accepts everything. */
export type Type =
  | { readonly kind: 'unknown' | 'string' | 'number' | 'integer' | 'boolean' | 'null' }
  | { readonly kind: 'literal'; readonly value: string | number | boolean }
  | { readonly kind: 'array' | 'record'; readonly of: Type }
  | { readonly kind: 'object'; readonly members: ReadonlyMap<string, Member>; readonly isOpen: boolean }
  | { readonly kind: 'union' | 'all'; readonly types: readonly Type[] }
  | { readonly kind: 'name'; readonly name: string };

export interface Member {
  readonly type: Type;
  readonly isRequired: boolean;
  readonly description: string | undefined;
}

export interface NamedType {
  readonly name: string;
  readonly type: Type;
  readonly description: string | undefined;
}

type Json = Readonly<Record<string, unknown>>;

const MAX_DEPTH = 50;
/** Types of one agent in all. Schemas that combine each other could need millions, which would help no reader. */
const MAX_TYPES = 20_000;

const UNKNOWN: Type = { kind: 'unknown' };
const NULL: Type = { kind: 'null' };

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const isRecordOfAll = (type: Type): boolean => type.kind === 'record' && type.of.kind === 'unknown';

/** `acme/daily-report` as `DailyReport`. */
export function identifierOf(text: string): string {
  const words = text.match(/[A-Za-z0-9]+/g) ?? [];
  const joined = words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('');
  return joined.slice(0, 80);
}

/** The types of a schema, its own first, then those of its definitions. `taken` are names of the same file. */
export function typesOf(schema: unknown, name: string, taken: Set<string>): NamedType[] {
  return new Reader(schema, taken).read(name);
}

/** Returns a name like `wanted` that is not taken, and takes it. */
export function take(wanted: string, taken: Set<string>): string {
  let name = wanted;
  for (let n = 2; taken.has(name); n++) name = `${wanted}${n}`;
  taken.add(name);
  return name;
}

class Reader {
  readonly #root: unknown;
  readonly #taken: Set<string>;
  /** By their addresses in the schema. `undefined` while it is read. */
  readonly #named = new Map<string, { readonly name: string; type?: Type; readonly description?: string }>();
  #left = MAX_TYPES;
  #prefix = '';

  constructor(root: unknown, taken: Set<string>) {
    this.#root = root ?? null;
    this.#taken = taken;
  }

  read(name: string): NamedType[] {
    this.#prefix = name;
    this.#refer('#', 0);
    const all = [...this.#named.values()].map((each) => ({
      name: each.name,
      type: each.type ?? UNKNOWN,
      description: each.description,
    }));
    return withoutCircles(all);
  }

  /** The type that a `$ref` names: `#`, or a member of `$defs` or `definitions`. */
  #refer(address: string, depth: number): Type {
    const known = this.#named.get(address);
    if (known !== undefined) return { kind: 'name', name: known.name };
    const target = this.#find(address);
    if (target === undefined || depth > MAX_DEPTH) return UNKNOWN;
    const part = address === '#' ? '' : identifierOf(address.slice(address.lastIndexOf('/'))) || 'Type';
    const name = take(`${this.#prefix}${part}`, this.#taken);
    const description = isObject(target) ? descriptionOf(target) : undefined;
    const named: { name: string; type?: Type; description?: string } = { name, ...(description && { description }) };
    this.#named.set(address, named);
    named.type = this.#type(target, depth + 1);
    return { kind: 'name', name };
  }

  #find(address: string): unknown {
    if (address === '#') return this.#root;
    const [, group, encoded] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(address) ?? [];
    if (group === undefined || !isObject(this.#root)) return undefined;
    const definitions = this.#root[group];
    const key = decoded(encoded!);
    return isObject(definitions) && Object.hasOwn(definitions, key) ? definitions[key] : undefined;
  }

  #type(schema: unknown, depth: number): Type {
    if (!isObject(schema) || depth > MAX_DEPTH || this.#left-- <= 0) return UNKNOWN;
    const parts: Type[] = [];
    if (typeof schema.$ref === 'string') parts.push(this.#refer(schema.$ref, depth));
    parts.push(this.#own(schema, depth));
    for (const part of listOf(schema.allOf)) parts.push(this.#type(part, depth + 1));
    for (const word of ['anyOf', 'oneOf'] as const) {
      if (!Array.isArray(schema[word])) continue;
      parts.push(union(schema[word].map((part) => this.#type(part, depth + 1))));
    }
    const type = this.#all(parts);
    return schema.nullable === true ? union([type, NULL]) : type;
  }

  /** What the schema says by itself, without the schemas that it combines. */
  #own(schema: Json, depth: number): Type {
    if ('const' in schema) return literal(schema.const);
    if (Array.isArray(schema.enum)) return union(schema.enum.map(literal));
    const kinds = Array.isArray(schema.type) ? schema.type : [schema.type];
    return union(kinds.map((kind) => this.#ofKind(kind, schema, depth)));
  }

  #ofKind(kind: unknown, schema: Json, depth: number): Type {
    switch (kind) {
      case 'string':
      case 'number':
      case 'integer':
      case 'boolean':
      case 'null':
        return { kind };
      case 'array':
        return { kind: 'array', of: this.#type(schema.items, depth + 1) };
      case 'object':
        return this.#object(schema, depth);
      default:
        return kind === undefined && isObject(schema.properties) ? this.#object(schema, depth) : UNKNOWN;
    }
  }

  #object(schema: Json, depth: number): Type {
    const required = new Set(listOf(schema.required).filter((name) => typeof name === 'string'));
    const members = new Map<string, Member>();
    for (const [name, member] of Object.entries(isObject(schema.properties) ? schema.properties : {})) {
      members.set(name, {
        type: this.#type(member, depth + 1),
        isRequired: required.has(name),
        description: isObject(member) ? descriptionOf(member) : undefined,
      });
    }
    for (const name of required) {
      if (!members.has(name)) members.set(name, { type: UNKNOWN, isRequired: true, description: undefined });
    }
    const more = schema.additionalProperties;
    if (members.size === 0) return { kind: 'record', of: this.#type(more, depth + 1) };
    return { kind: 'object', members, isOpen: more === true || isObject(more) || isObject(schema.patternProperties) };
  }

  /** A type that meets all. Objects become one object, those with a name only at the top: they may contain themselves. */
  #all(types: readonly Type[], isTop = true): Type {
    const known = [...new Set(types)].filter(({ kind }) => kind !== 'unknown');
    const telling = known.some((type) => !isRecordOfAll(type)) ? known.filter((type) => !isRecordOfAll(type)) : known;
    if (telling.length < 2) return telling[0] ?? UNKNOWN;
    const objects = isTop ? telling.map((type) => this.#resolved(type)) : telling;
    if (!objects.every((type) => type?.kind === 'object')) return { kind: 'all', types: telling };
    const members = new Map<string, Member>();
    for (const object of objects) {
      for (const [name, member] of object.members) {
        if (this.#left-- <= 0) return UNKNOWN;
        const other = members.get(name);
        if (other === undefined) members.set(name, member);
        else {
          members.set(name, {
            type: this.#all([other.type, member.type], false),
            isRequired: other.isRequired || member.isRequired,
            description: other.description ?? member.description,
          });
        }
      }
    }
    return { kind: 'object', members, isOpen: objects.some(({ isOpen }) => isOpen) };
  }

  #resolved(type: Type): Type | undefined {
    if (type.kind !== 'name') return type;
    return [...this.#named.values()].find(({ name }) => name === type.name)?.type;
  }
}

/** Two texts of a JSON pointer are special; a wrong escape of the address is no fault of the reader. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return text;
  }
}

const descriptionOf = ({ description, title }: Json): string | undefined =>
  [description, title].find((text) => typeof text === 'string' && text.trim() !== '') as string | undefined;

function literal(value: unknown): Type {
  if (value === null) return NULL;
  if (typeof value === 'number' && !Number.isFinite(value)) return { kind: 'number' };
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? { kind: 'literal', value }
    : UNKNOWN;
}

function union(types: readonly Type[]): Type {
  const flat = types.flatMap((type) => (type.kind === 'union' ? type.types : [type]));
  if (flat.length === 0 || flat.some(({ kind }) => kind === 'unknown')) return UNKNOWN;
  const isSimple = (type: Type) => !('of' in type || 'types' in type || 'members' in type);
  const byText = new Map(flat.map((type) => [isSimple(type) ? JSON.stringify(type) : type, type]));
  const different = [...byText.values()];
  return different.length === 1 ? different[0]! : { kind: 'union', types: different };
}

/** A name may stand for a type that contains it, such as a tree, but not for itself. */
function withoutCircles(all: readonly NamedType[]): NamedType[] {
  const byName = new Map(all.map((each) => [each.name, each]));
  const isDone = new Map<string, Type>();
  const open = new Set<string>();
  const settle = (name: string): void => {
    if (isDone.has(name)) return;
    open.add(name);
    isDone.set(name, settled(byName.get(name)!.type));
    open.delete(name);
  };
  const settled = (type: Type): Type => {
    if (type.kind === 'union') return union(type.types.map(settled));
    if (type.kind === 'all') return { kind: 'all', types: type.types.map(settled) };
    if (type.kind !== 'name') return type;
    if (open.has(type.name) || open.size > MAX_DEPTH) return UNKNOWN;
    settle(type.name);
    return type;
  };
  return all.map((each) => {
    settle(each.name);
    return { ...each, type: isDone.get(each.name)! };
  });
}
