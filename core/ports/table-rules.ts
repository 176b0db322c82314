/**
 * Rules that both adapters of {@link Table} share: the table definition, checks of arguments, encoding and size of items,
 * conditions, and cursors.
 */
import { hash } from 'node:crypto';
import type { Json } from '#core/base/json.ts';
import type { Clock } from './clock.ts';
import { epochSeconds } from './clock.ts';
import {
  type Changes,
  type Condition,
  type IndexName,
  type Item,
  type Key,
  MAX_BATCH_KEYS,
  MAX_ITEM_BYTES,
  MAX_TRANSACTION_OPERATIONS,
  type Query,
  type SortKeyRange,
  TableUsageError,
  type TransactOperation,
} from './table.ts';

export type TableName = 'main' | 'runs' | 'counters';
export const TABLE_NAMES: readonly TableName[] = ['main', 'runs', 'counters'];

/** All tables have the same schema: string keys, two indexes, expiry by `ttl`. */
export const TABLE_SCHEMA = {
  partitionKey: 'pk',
  sortKey: 'sk',
  ttl: 'ttl',
  indexes: {
    gsi1: { partitionKey: 'gsi1pk', sortKey: 'gsi1sk' },
    gsi2: { partitionKey: 'gsi2pk', sortKey: 'gsi2sk' },
  },
} as const;

/**
 * Attributes that indexes copy on AWS. A run is written twice and rarely listed: copies in each index would cost more
 * per call than reading the listed items by key.
 */
export const PROJECTIONS = { main: 'ALL', runs: 'KEYS_ONLY', counters: 'ALL' } as const satisfies Record<
  TableName,
  Projection
>;
export type Projection = 'ALL' | 'KEYS_ONLY';

const MAX_QUERY_LIMIT = 1000;
const MAX_PARTITION_KEY_BYTES = 2048;
const MAX_SORT_KEY_BYTES = 1024;
const MAX_NAME_LENGTH = 255;
/** A reserved attribute name. An update without changes removes it, because DynamoDB requires at least one change. */
export const NO_ATTRIBUTE = '(none)';

/** Attributes of keys and indexes -> maximum value length in bytes. */
const KEY_ATTRIBUTES = new Map(
  [TABLE_SCHEMA, ...Object.values(TABLE_SCHEMA.indexes)].flatMap(({ partitionKey, sortKey }): [string, number][] => [
    [partitionKey, MAX_PARTITION_KEY_BYTES],
    [sortKey, MAX_SORT_KEY_BYTES],
  ]),
);

/** Reads hide expired items, because both hosts remove them late. */
export const isExpired = (item: Item, clock: Clock): boolean =>
  item.ttl !== undefined && item.ttl <= epochSeconds(clock.now());

// --- attributes -----------------------------------------------------------------------------------------------------

export type Scalar = string | number | boolean | null;

/**
 * One attribute as the adapters store it. Objects and arrays are stored as JSON text: DynamoDB's own maps and lists
 * forbid empty names, more than 32 levels and large numbers, all of which JSON from users may hold.
 */
export interface Attribute {
  readonly name: string;
  readonly value: Json;
  /** JSON of the value. */
  readonly text: string;
}

export const isScalar = (value: Json): value is Scalar => typeof value !== 'object' || value === null;

/** Encodes the attributes of an item for a put. Throws {@link TableUsageError} on values that cannot be stored. */
export function encodeItem(item: Item): Attribute[] {
  checkKey(item);
  const attributes = encodeAttributes(item);
  checkItemSize(attributes);
  return attributes;
}

/** Encodes an item as JSON text, for hosts that store it as one value. Throws like {@link encodeItem}. */
export function textOfItem(item: Item): string {
  checkKey(item);
  const given = textOf(item);
  const clean = cleanValues(item);
  const text = clean === item ? given : JSON.stringify(clean);
  if (isPerhapsTooLarge(text.length)) checkItemSize(encodeAttributes(clean));
  return text;
}

/** Changes after the checks of {@link checkChanges}. */
export interface CheckedChanges {
  readonly set: Attributes;
  /** Whether `set` has only scalars. Objects and arrays could be changed by the caller later. */
  readonly isFlat: boolean;
  readonly add: readonly (readonly [name: string, amount: number])[];
  readonly remove: readonly string[];
}

type Attributes = { readonly [attribute: string]: Json | undefined };

/** Checks the changes of an update. Throws {@link TableUsageError} for values that no item can hold. */
export function checkChanges(key: Key, changes: Changes): CheckedChanges {
  checkKey(key);
  const given: Attributes = changes.set ?? NOTHING;
  const isFlat = Object.values(given).every((value) => isScalar(value ?? null));
  const length = isFlat ? lengthOf(given) : textOf(given).length;
  const set = cleanValues(given);
  const add = Object.entries<number>(changes.add ?? NOTHING);
  const remove = changes.remove ?? [];
  const isSet = (name: string): boolean => Object.hasOwn(set, name) && set[name] !== undefined;
  if (isSet('pk') || isSet('sk')) throw new TableUsageError('an update cannot change pk or sk');
  for (const [name, amount] of add) {
    checkName(name);
    if (isSet(name)) throw new TableUsageError(`an update names attribute "${name}" twice`);
    if (name === 'ttl' || KEY_ATTRIBUTES.has(name)) throw new TableUsageError(`an update cannot add to ${name}`);
    checkNumber(name, amount);
  }
  for (const [position, name] of remove.entries()) {
    checkName(name);
    if (name === 'pk' || name === 'sk') throw new TableUsageError(`an update cannot change ${name}`);
    if (isSet(name) || Object.hasOwn(changes.add ?? NOTHING, name) || remove.indexOf(name) < position) {
      throw new TableUsageError(`an update names attribute "${name}" twice`);
    }
  }
  // DynamoDB refuses these before it looks at the condition.
  if (isPerhapsTooLarge(length)) checkItemSize(encodeAttributes({ ...set, pk: key.pk, sk: key.sk }));
  return { set, isFlat, add, remove };
}

const NOTHING: { readonly [attribute: string]: never } = {};

export interface EncodedChanges {
  readonly set: readonly Attribute[];
  readonly add: readonly (readonly [name: string, amount: number])[];
  readonly remove: readonly string[];
}

/** Like {@link checkChanges}, for hosts that store each attribute. */
export function encodeChanges(key: Key, changes: Changes): EncodedChanges {
  const { set, add, remove } = checkChanges(key, changes);
  return { set: encodeAttributes(set), add, remove };
}

/**
 * Returns the item after an update and its JSON text, for hosts whose database has no such update. The item shares
 * objects with `current` and, unless they are flat, with `changes`. Throws like {@link encodeItem}.
 */
export function applyChanges(
  key: Key,
  current: Item | undefined,
  { set, isFlat, add, remove }: CheckedChanges,
): { readonly item: Item; readonly text: string } {
  const before = current ?? { pk: key.pk, sk: key.sk };
  // Objects and arrays are those of records, whose attributes have the same names again and again.
  const isRecord = !isFlat && add.length === 0 && !Object.hasOwn(set, '__proto__');
  const item = isRecord ? { ...before } : copyOf(before);
  for (const name of Object.keys(set)) if (set[name] !== undefined) item[name] = set[name];
  for (const [name, amount] of add) item[name] = sumOf(name, current, amount);
  for (const name of remove) delete item[name];
  const text = JSON.stringify(item);
  if (isPerhapsTooLarge(text.length)) checkItemSize(encodeAttributes(item));
  return { item, text };
}

/**
 * The copy has no prototype, so V8 stores it as a dictionary. Attribute names may be as unique as values, and an object
 * with its own hidden class costs four times as much to copy and change. `__proto__` is an ordinary name in it.
 */
function copyOf(item: Item): Item {
  const copy: Item = Object.create(null);
  for (const name of Object.keys(item)) copy[name] = item[name]!;
  return copy;
}

function sumOf(name: string, item: Item | undefined, amount: number): number {
  const before = item !== undefined && Object.hasOwn(item, name) ? item[name] : 0;
  if (typeof before !== 'number') throw new TableUsageError(`cannot add to attribute "${name}": it is not a number`);
  const sum = addDecimals(before, amount);
  checkNumber(name, sum);
  return sum;
}

/** Number of quotes, colons and commas around an attribute in JSON text. */
const PUNCTUATION = 4;
/** Upper bound of DynamoDB's bytes per character of JSON text: 3 for UTF-8, the rest for the overhead of attributes. */
const MAX_BYTES_A_CHARACTER = 5;

const isPerhapsTooLarge = (length: number): boolean => length * MAX_BYTES_A_CHARACTER > MAX_ITEM_BYTES;
/** Maximum JSON length of a number or of `false`. */
const MAX_SHORT_LENGTH = 24;

/** Estimates the JSON length of attributes without objects and arrays, without encoding them. */
function lengthOf(values: Attributes): number {
  let length = 0;
  for (const name of Object.keys(values)) {
    const value = values[name];
    length += name.length + PUNCTUATION + (typeof value === 'string' ? value.length : MAX_SHORT_LENGTH);
  }
  return length;
}

function encodeAttributes(values: Attributes): Attribute[] {
  const attributes: Attribute[] = [];
  for (const [name, given] of Object.entries(values)) {
    if (given === undefined) continue;
    checkName(name);
    const text = jsonText(name, given);
    const value = cleanValue(name, given);
    attributes.push({ name, value, text: Object.is(value, given) ? text : JSON.stringify(value) });
  }
  return attributes;
}

/** Encodes unchecked attributes as JSON. */
function textOf(values: Attributes): string {
  try {
    return JSON.stringify(values);
  } catch (error) {
    // Encodes them one by one, to name the faulty attribute in the message.
    for (const [name, value] of Object.entries(values)) jsonText(name, value);
    throw error;
  }
}

function jsonText(name: string, value: Json | undefined): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw new TableUsageError(`attribute "${name}" is not JSON: ${(error as Error).message}`);
  }
}

/**
 * Normalizes attributes for storage; returns the same object if nothing changes. Encode them as JSON first, which
 * proves that they have no cycles.
 */
function cleanValues<T extends Attributes>(values: T): T {
  const changed: [string, Json][] = [];
  for (const name of Object.keys(values)) {
    const value = values[name];
    if (value === undefined) continue;
    checkName(name);
    const clean = cleanValue(name, value);
    if (!Object.is(clean, value)) changed.push([name, clean]);
  }
  return changed.length === 0 ? values : { ...values, ...Object.fromEntries(changed) };
}

function cleanValue(name: string, value: Json): Json {
  const maxBytes = KEY_ATTRIBUTES.get(name);
  if (maxBytes !== undefined) return checkKeyString(name, value, maxBytes);
  if (name === 'ttl' && !(Number.isSafeInteger(value) && (value as number) >= 0)) {
    throw new TableUsageError(`ttl must be epoch seconds, a whole number, not ${show(value)}`);
  }
  switch (typeof value) {
    case 'string':
      // UTF-8 cannot hold a lone surrogate, and both hosts must keep the same text.
      return value.toWellFormed();
    case 'number':
      checkNumber(name, value);
      // DynamoDB has no negative zero.
      return value === 0 ? 0 : value;
    case 'boolean':
      return value;
    default:
      checkJson(name, value);
      return value;
  }
}

/** Refuses values that `JSON.stringify` changes silently: dates, maps, functions, NaN, `undefined` in arrays. */
function checkJson(name: string, root: unknown): void {
  const left: unknown[] = [root];
  while (left.length > 0) {
    const value = left.pop();
    if (value === null || typeof value === 'string' || typeof value === 'boolean') continue;
    if (typeof value === 'number' && Number.isFinite(value)) continue;
    if (Array.isArray(value)) {
      // A plain loop visits the holes of a sparse array.
      for (let index = 0; index < value.length; index += 1) left.push(value[index]);
      continue;
    }
    const prototype = typeof value === 'object' ? Object.getPrototypeOf(value) : undefined;
    if (prototype !== null && prototype !== Object.prototype) {
      throw new TableUsageError(`attribute "${name}" holds a value that is not JSON: ${show(value)}`);
    }
    const members = value as { readonly [name: string]: unknown };
    for (const name of Object.keys(members)) if (members[name] !== undefined) left.push(members[name]);
  }
}

function checkName(name: string): void {
  if (name.length < 1 || name.length > MAX_NAME_LENGTH || !name.isWellFormed() || name === NO_ATTRIBUTE) {
    throw new TableUsageError(`attribute names have 1 to ${MAX_NAME_LENGTH} characters, not ${show(name)}`);
  }
}

/** DynamoDB stores magnitudes from 1e-130 to below 1e126, with 38 digits. */
function checkNumber(name: string, value: number): void {
  const magnitude = Math.abs(value);
  if (magnitude === 0 || (magnitude >= 1e-130 && magnitude < 1e126)) return;
  throw new TableUsageError(
    `attribute "${name}" must be 0 or a number of magnitude 1e-130 to 1e126, not ${show(value)}`,
  );
}

/**
 * Adds in decimals, as DynamoDB does: 0.1 + 0.2 is 0.3. Exact for sums of at most 15 digits and for safe integers;
 * beyond that DynamoDB keeps up to 38 digits, while a double does not.
 */
function addDecimals(a: number, b: number): number {
  const sum = a + b;
  if (Number.isSafeInteger(a) && Number.isSafeInteger(b) && Number.isSafeInteger(sum)) return sum;
  const [x, y] = [decimal(a), decimal(b)];
  const exponent = Math.min(x.exponent, y.exponent);
  const digits = x.digits * 10n ** BigInt(x.exponent - exponent) + y.digits * 10n ** BigInt(y.exponent - exponent);
  if (String(digits).replace(/^-|0+$/g, '').length > 38) {
    throw new TableUsageError(`the sum of ${a} and ${b} needs more than 38 digits`);
  }
  return Number(`${digits}e${exponent}`);
}

function decimal(value: number): { digits: bigint; exponent: number } {
  const [, whole = '0', fraction = '', exponent = '0'] =
    /^(-?\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value)) ?? [];
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
}

// --- size -----------------------------------------------------------------------------------------------------------

const utf8Bytes = (text: string): number => Buffer.byteLength(text);

/** A UTF-16 unit has at most 3 bytes in UTF-8. */
const hasAtMost = (text: string, maxBytes: number): boolean =>
  text.length * 3 <= maxBytes || utf8Bytes(text) <= maxBytes;

/** Returns the size of an item as DynamoDB counts it, in the encoding of `DynamoTable`. */
export const itemBytes = (attributes: readonly Attribute[]): number =>
  attributes.reduce((sum, attribute) => sum + utf8Bytes(attribute.name) + valueBytes(attribute), 0);

/** Throws if the item is over 400 KB. */
export function checkItemSize(attributes: readonly Attribute[]): void {
  const characters = attributes.reduce((sum, { name, text }) => sum + name.length + text.length + PUNCTUATION, 0);
  if (characters * MAX_BYTES_A_CHARACTER <= MAX_ITEM_BYTES) return;
  const bytes = itemBytes(attributes);
  if (bytes > MAX_ITEM_BYTES) {
    throw new TableUsageError(`an item may have ${MAX_ITEM_BYTES} bytes, this one has ${bytes}`);
  }
}

/** Member that holds a document's JSON text in DynamoDB. */
export const DOCUMENT_MEMBER = 'json';
const DOCUMENT_OVERHEAD_BYTES = 3 + 1 + DOCUMENT_MEMBER.length;

function valueBytes({ value, text }: Attribute): number {
  if (typeof value === 'string') return utf8Bytes(value);
  if (typeof value === 'number') return numberBytes(text);
  return isScalar(value) ? 1 : DOCUMENT_OVERHEAD_BYTES + utf8Bytes(text);
}

/** DynamoDB's count: one byte per two significant digits, one more byte, and one for a minus sign. */
function numberBytes(text: string): number {
  if (text === '0') return 1;
  const significant = text
    .replace(/e.*$/, '')
    .replace(/[-.]/g, '')
    .replace(/^0+|0+$/g, '');
  return Math.ceil(significant.length / 2) + (text.startsWith('-') ? 2 : 1);
}

// --- keys and conditions --------------------------------------------------------------------------------------------

export function checkKey(key: Key): void {
  checkKeyString('pk', key.pk, MAX_PARTITION_KEY_BYTES);
  checkKeyString('sk', key.sk, MAX_SORT_KEY_BYTES);
}

export function checkBatch(keys: readonly Key[]): void {
  if (keys.length > MAX_BATCH_KEYS)
    throw new TableUsageError(`a batch has at most ${MAX_BATCH_KEYS} keys, not ${keys.length}`);
  keys.forEach(checkKey);
}

function checkKeyString(name: string, value: unknown, maxBytes: number): string {
  // Keys that differ only in a lone surrogate would become the same UTF-8 text.
  if (typeof value === 'string' && value !== '' && value.isWellFormed() && hasAtMost(value, maxBytes)) return value;
  throw new TableUsageError(`${name} must be a string of 1 to ${maxBytes} bytes of UTF-8, not ${show(value)}`);
}

export function checkCondition(condition: Condition | undefined): void {
  if (condition === undefined) return;
  if (condition.op === 'and' || condition.op === 'or') {
    if (condition.conditions.length === 0) throw new TableUsageError(`the condition "${condition.op}" is empty`);
    condition.conditions.forEach(checkCondition);
    return;
  }
  if (condition.attribute !== undefined) checkName(condition.attribute);
  if (condition.op !== 'equals' && condition.op !== 'lessThan') return;
  const { attribute, value } = condition;
  const comparable =
    typeof value === 'number' ||
    (typeof value === 'string' && value.isWellFormed()) ||
    (condition.op === 'equals' && (typeof value === 'boolean' || value === null));
  if (!comparable) {
    throw new TableUsageError(`the condition "${condition.op}" cannot compare "${attribute}" with ${show(value)}`);
  }
  if (typeof value === 'number') checkNumber(attribute, value);
}

/** Whether the stored item, expired or not, meets the condition. */
export function holds(condition: Condition | undefined, item: Item | undefined): boolean {
  if (condition === undefined) return true;
  switch (condition.op) {
    case 'absent':
    case 'exists': {
      const there =
        condition.attribute === undefined ? item !== undefined : attributeOf(item, condition.attribute) !== undefined;
      return there === (condition.op === 'exists');
    }
    case 'equals':
      return attributeOf(item, condition.attribute) === condition.value;
    case 'lessThan': {
      const value = attributeOf(item, condition.attribute);
      if (typeof value === 'number') return typeof condition.value === 'number' && value < condition.value;
      return (
        typeof value === 'string' && typeof condition.value === 'string' && compareUtf8(value, condition.value) < 0
      );
    }
    case 'and':
      return condition.conditions.every((part) => holds(part, item));
    case 'or':
      return condition.conditions.some((part) => holds(part, item));
  }
}

const attributeOf = (item: Item | undefined, name: string): Json | undefined =>
  item !== undefined && Object.hasOwn(item, name) ? item[name] : undefined;

const SURROGATE = /[\ud800-\udfff]/;

/** JavaScript compares UTF-16 units, which puts U+FFFD after U+10000; both databases compare bytes. */
export function compareUtf8(a: string, b: string): number {
  if (a === b) return 0;
  if (SURROGATE.test(a) || SURROGATE.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return a < b ? -1 : 1;
}

/** Checks everything about a transaction that does not depend on the stored items. */
export function checkTransaction(operations: readonly TransactOperation[]): void {
  if (operations.length < 1 || operations.length > MAX_TRANSACTION_OPERATIONS) {
    throw new TableUsageError(
      `a transaction has 1 to ${MAX_TRANSACTION_OPERATIONS} operations, not ${operations.length}`,
    );
  }
  for (const [position, operation] of operations.entries()) {
    const key = operationKey(operation);
    checkKey(key);
    checkCondition(operation.condition);
    // A quadratic search is fine: transactions are small.
    for (let earlier = 0; earlier < position; earlier++) {
      const { pk, sk } = operationKey(operations[earlier]!);
      if (pk === key.pk && sk === key.sk) {
        throw new TableUsageError(`a transaction names the item ${show([pk, sk])} twice`);
      }
    }
  }
}

export const operationKey = (operation: TransactOperation): Key =>
  operation.op === 'put' ? operation.item : operation.key;

// --- queries and cursors --------------------------------------------------------------------------------------------

/** A checked query. */
export interface QueryPlan {
  readonly pk: string;
  readonly sk?: SortKeyRange;
  readonly index?: IndexName;
  readonly limit: number;
  readonly reverse: boolean;
  /** End of the previous page. */
  readonly after?: Position;
  /** Cursor of a page that ends with `item`. */
  cursorAfter(item: Item): string;
}

/** Position of an item in a query: its key, and its sort key in the index. */
export interface Position extends Key {
  readonly indexSk?: string;
}

export function planQuery(query: Query): QueryPlan {
  const { pk, sk, index, cursor, limit = 100, reverse = false } = query;
  if (index !== undefined && !Object.hasOwn(TABLE_SCHEMA.indexes, index)) {
    throw new TableUsageError(`there is no index ${show(index)}`);
  }
  checkKeyString('the partition of a query', pk, MAX_PARTITION_KEY_BYTES);
  if (sk !== undefined) checkRange(sk);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_QUERY_LIMIT) {
    throw new TableUsageError(`the limit of a query is 1 to ${MAX_QUERY_LIMIT}, not ${show(limit)}`);
  }
  // A cursor contains a digest of its query, so it cannot be used in another one.
  const digest = () => hash('sha256', JSON.stringify([pk, sk, index, reverse]), 'base64url').slice(0, 12);
  const indexSkName = index && TABLE_SCHEMA.indexes[index].sortKey;
  return {
    pk,
    sk,
    index,
    limit,
    reverse,
    after: cursor === undefined ? undefined : decodeCursor(cursor, digest(), pk, index),
    cursorAfter: (item) => {
      const place = indexSkName ? [item[indexSkName], item.pk, item.sk] : [item.sk];
      return Buffer.from(JSON.stringify([digest(), ...place])).toString('base64url');
    },
  };
}

function checkRange(range: SortKeyRange): void {
  const [[operator, bounds] = [], ...more] = Object.entries(range);
  if (more.length > 0 || !['beginsWith', 'between', 'lessThan', 'greaterThan'].includes(operator ?? '')) {
    throw new TableUsageError(`not a range of sort keys: ${show(range)}`);
  }
  const values: unknown[] = operator === 'between' ? bounds : [bounds];
  for (const value of values) checkKeyString('a bound of a sort key range', value, MAX_SORT_KEY_BYTES);
  if ('between' in range && compareUtf8(range.between[0], range.between[1]) > 0) {
    throw new TableUsageError(`the lower bound of a range is over the upper: ${show(range)}`);
  }
}

function decodeCursor(cursor: string, digest: string, pk: string, index: IndexName | undefined): Position {
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    parts = undefined;
  }
  if (Array.isArray(parts) && parts[0] === digest && parts.length === (index ? 4 : 2)) {
    const position: Position = index ? { indexSk: parts[1], pk: parts[2], sk: parts[3] } : { pk, sk: parts[1] };
    checkKey(position);
    if (index) checkKeyString('the place of a cursor', position.indexSk, MAX_SORT_KEY_BYTES);
    return position;
  }
  throw new TableUsageError('the cursor does not belong to this query');
}

function show(value: unknown): string {
  const text =
    typeof value === 'string' || (typeof value === 'object' && value !== null) ? safeJson(value) : String(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

function safeJson(value: object | string): string {
  try {
    return JSON.stringify(value) ?? typeof value;
  } catch {
    return 'a cyclic object';
  }
}
