import { setTimeout } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import {
  type AttributeValue,
  BatchGetItemCommand,
  type ConditionalCheckFailedException,
  DeleteItemCommand,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  type TransactionCanceledException,
  type TransactWriteItem,
  TransactWriteItemsCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { HostBusyError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Clock } from '#core/ports/clock.ts';
import type {
  Changes,
  Condition,
  Item,
  Key,
  Page,
  Query,
  SortKeyRange,
  Table,
  TransactOperation,
  TransactResult,
  UpdateResult,
  WriteResult,
} from '#core/ports/table.ts';
import { getAll, TableUsageError } from '#core/ports/table.ts';
import {
  type Attribute,
  checkBatch,
  checkCondition,
  checkKey,
  checkTransaction,
  DOCUMENT_MEMBER,
  type EncodedChanges,
  encodeChanges,
  encodeItem,
  isExpired,
  isScalar,
  NO_ATTRIBUTE,
  type Projection,
  planQuery,
  type QueryPlan,
  type Scalar,
  TABLE_SCHEMA,
} from '#core/ports/table-rules.ts';
import { isNamed } from '../named-error.ts';
import { isThrottledPart } from './throttles.ts';

type Attributes = Record<string, AttributeValue>;

/** Additional retries after those of the SDK, with exponential backoff from 25 ms: less than a second in total. */
const RETRIES = 5;
const FIRST_PAUSE_MS = 25;

/**
 * {@link Table} in a DynamoDB table with the schema `TABLE_SCHEMA`. Scalars are stored as DynamoDB's own types, objects
 * and arrays as a map with a single member that holds their JSON text (see `Attribute`).
 */
export class DynamoTable implements Table {
  readonly #client: DynamoDBClient;
  readonly #tableName: string;
  readonly #clock: Clock;
  readonly #projection: Projection;

  /** @param projection Projection of the table's indexes. */
  constructor(client: DynamoDBClient, tableName: string, clock: Clock, projection: Projection) {
    this.#client = client;
    this.#tableName = tableName;
    this.#clock = clock;
    this.#projection = projection;
  }

  async get(key: Key): Promise<Item | undefined> {
    checkKey(key);
    const { Item } = await this.#client.send(
      new GetItemCommand({ TableName: this.#tableName, Key: keyAttributes(key), ConsistentRead: true }),
    );
    return this.#visible(Item);
  }

  async batchGet(keys: readonly Key[]): Promise<(Item | undefined)[]> {
    checkBatch(keys);
    // DynamoDB rejects duplicate keys.
    let left = [...new Map(keys.map((key) => [idOf(key), keyAttributes(key)])).values()];
    const found = new Map<string, Item>();
    for (let idle = 0; left.length > 0; ) {
      const { Responses, UnprocessedKeys } = await this.#client.send(
        new BatchGetItemCommand({ RequestItems: { [this.#tableName]: { Keys: left, ConsistentRead: true } } }),
      );
      const items = Responses?.[this.#tableName] ?? [];
      for (const attributes of items) {
        const item = this.#visible(attributes);
        if (item) found.set(idOf(item), item);
      }
      left = UnprocessedKeys?.[this.#tableName]?.Keys ?? [];
      // One response has at most 16 MB. The remaining keys can be requested immediately.
      idle = items.length > 0 ? 0 : idle + 1;
      if (idle > RETRIES) throw new Error(`DynamoDB left ${left.length} keys of a batch unread`);
      if (left.length > 0 && idle > 0) await pause(idle);
    }
    return keys.map((key) => found.get(idOf(key)));
  }

  async put(item: Item, condition?: Condition): Promise<WriteResult> {
    const attributes = encodeItem(item);
    checkCondition(condition);
    const stored = storedAttributes(attributes);
    const command = new PutItemCommand({
      TableName: this.#tableName,
      Item: stored,
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      ...expression({ condition }),
    });
    return write(async () => {
      try {
        await this.#client.send(command);
      } catch (error) {
        if (!wasPutBefore(error, stored)) throw error;
      }
      return { ok: true };
    });
  }

  async update(key: Key, changes: Changes, condition?: Condition): Promise<UpdateResult> {
    const encoded = encodeChanges(key, changes);
    checkCondition(condition);
    const command = new UpdateItemCommand({
      TableName: this.#tableName,
      Key: keyAttributes(key),
      ReturnValues: 'ALL_NEW',
      ...expression({ condition, changes: encoded }),
    });
    return write(async () => {
      const { Attributes } = await this.#client.send(command);
      return { ok: true, item: itemOf(Attributes!) };
    });
  }

  async delete(key: Key, condition?: Condition): Promise<WriteResult> {
    checkKey(key);
    checkCondition(condition);
    const command = new DeleteItemCommand({
      TableName: this.#tableName,
      Key: keyAttributes(key),
      ...expression({ condition }),
    });
    return write(async () => {
      await this.#client.send(command);
      return { ok: true };
    });
  }

  async query(query: Query): Promise<Page> {
    const plan = planQuery(query);
    const items: Item[] = [];
    let startKey = startKeyOf(plan);
    // One item more than requested shows whether another page follows. Expired items and the limit of 1 MB per response
    // may require several queries.
    do {
      const answer = await this.#client.send(
        new QueryCommand({
          TableName: this.#tableName,
          IndexName: plan.index,
          // Indexes do not support consistent reads.
          ConsistentRead: plan.index === undefined,
          ScanIndexForward: !plan.reverse,
          Limit: plan.limit + 1 - items.length,
          ExclusiveStartKey: startKey,
          ...keyCondition(plan),
        }),
      );
      items.push(...(await this.#itemsOf(plan, answer.Items ?? [])));
      startKey = answer.LastEvaluatedKey;
    } while (startKey && items.length <= plan.limit);
    if (items.length <= plan.limit) return { items };
    items.pop();
    return { items, cursor: plan.cursorAfter(items.at(-1)!) };
  }

  /** Returns the visible items of a query's result. */
  async #itemsOf({ index, pk }: QueryPlan, found: readonly Attributes[]): Promise<Item[]> {
    if (index === undefined || this.#projection === 'ALL') {
      return found.map((attributes) => this.#visible(attributes)).filter((item) => item !== undefined);
    }
    const entries = found.map(itemOf);
    const items = await getAll(this, entries);
    const { partitionKey, sortKey } = TABLE_SCHEMA.indexes[index];
    // The index lags behind the table: the item may have left the partition, but the cursor needs its indexed position.
    return items.flatMap((item, position) =>
      item?.[partitionKey] === pk ? [{ ...item, [sortKey]: entries[position]![sortKey] }] : [],
    );
  }

  async transact(operations: readonly TransactOperation[]): Promise<TransactResult> {
    checkTransaction(operations);
    const TransactItems = operations.map((operation) => this.#transactItem(operation));
    for (let tries = 0; ; tries += 1) {
      try {
        // The SDK gives each command a token, by which DynamoDB recognizes retries after a lost response.
        await this.#client.send(new TransactWriteItemsCommand({ TransactItems }));
        return { ok: true };
      } catch (error) {
        if (!isNamed(error, 'TransactionCanceledException')) throw asUsageError(error);
        const { CancellationReasons = [] } = error as TransactionCanceledException;
        const misuse = CancellationReasons.find((reason) => reason.Code === 'ValidationError');
        if (misuse) throw new TableUsageError(misuse.Message ?? 'DynamoDB refused the transaction');
        const failed = [...CancellationReasons.keys()].filter(
          (position) => CancellationReasons[position]?.Code === 'ConditionalCheckFailed',
        );
        if (failed.length > 0) return { ok: false, failed };
        if (tries === RETRIES) {
          if (!CancellationReasons.some(isThrottledPart)) return { ok: false, failed };
          throw new HostBusyError('DynamoDB throttles the items of a transaction', { cause: error });
        }
        await pause(tries + 1);
      }
    }
  }

  #transactItem(operation: TransactOperation): TransactWriteItem {
    const TableName = this.#tableName;
    const { condition } = operation;
    switch (operation.op) {
      case 'put':
        return { Put: { TableName, Item: storedAttributes(encodeItem(operation.item)), ...expression({ condition }) } };
      case 'update': {
        const changes = encodeChanges(operation.key, operation.changes);
        return { Update: { TableName, Key: keyAttributes(operation.key), ...expression({ condition, changes }) } };
      }
      case 'delete':
        return { Delete: { TableName, Key: keyAttributes(operation.key), ...expression({ condition }) } };
      case 'check':
        return { ConditionCheck: { TableName, Key: keyAttributes(operation.key), ...expression({ condition }) } };
    }
  }

  #visible(attributes: Attributes | undefined): Item | undefined {
    if (!attributes) return undefined;
    const item = itemOf(attributes);
    return isExpired(item, this.#clock) ? undefined : item;
  }
}

/** Sends one write. A failed condition is a result, not an error. Waits for a transaction that locks the item. */
async function write<T>(send: () => Promise<T>): Promise<T | { ok: false }> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await send();
    } catch (error) {
      if (isNamed(error, 'ConditionalCheckFailedException')) return { ok: false };
      if (!isNamed(error, 'TransactionConflictException') || tries === RETRIES) throw asUsageError(error);
      await pause(tries + 1);
    }
  }
}

/**
 * Whether the condition failed because an earlier attempt of the same put stored the item and its response was lost.
 */
function wasPutBefore(error: unknown, stored: Attributes): boolean {
  if (!isNamed(error, 'ConditionalCheckFailedException')) return false;
  const { $metadata, Item } = error as ConditionalCheckFailedException;
  return ($metadata.attempts ?? 1) > 1 && Item !== undefined && isDeepStrictEqual(itemOf(Item), itemOf(stored));
}

/** Waits in real time, like the SDK's own backoff, even if tests set the clock. */
const pause = (round: number): Promise<void> =>
  setTimeout(FIRST_PAUSE_MS * 2 ** (round - 1) * (0.5 + Math.random() / 2));

/** Errors that depend on the stored item: an `add` to a non-number, an update that makes the item too large. */
const asUsageError = (error: unknown): unknown =>
  isNamed(error, 'ValidationException') ? new TableUsageError((error as Error).message) : error;

// --- items ----------------------------------------------------------------------------------------------------------

const idOf = ({ pk, sk }: Key): string => JSON.stringify([pk, sk]);

const keyAttributes = ({ pk, sk }: Key): Attributes => ({ pk: { S: pk }, sk: { S: sk } });

const storedAttributes = (attributes: readonly Attribute[]): Attributes =>
  Object.fromEntries(attributes.map((attribute) => [attribute.name, storedValue(attribute)]));

const storedValue = ({ value, text }: Attribute): AttributeValue =>
  isScalar(value) ? scalarValue(value) : { M: { [DOCUMENT_MEMBER]: { S: text } } };

function scalarValue(value: Scalar): AttributeValue {
  if (value === null) return { NULL: true };
  if (typeof value === 'string') return { S: value };
  return typeof value === 'number' ? { N: String(value) } : { BOOL: value };
}

/** Reads an item from attributes of DynamoDB, as also its streams have them. */
export const itemOf = (attributes: Attributes): Item =>
  Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, jsonOf(name, value)])) as Item;

function jsonOf(name: string, value: AttributeValue): Json {
  if (value.S !== undefined) return value.S;
  if (value.N !== undefined) return Number(value.N);
  if (value.BOOL !== undefined) return value.BOOL;
  if (value.NULL) return null;
  const document = value.M?.[DOCUMENT_MEMBER]?.S;
  if (document !== undefined) return JSON.parse(document) as Json;
  throw new Error(`attribute "${name}" was not written by the platform`);
}

// --- expressions ----------------------------------------------------------------------------------------------------

/** Attribute names and values of one request, under placeholders. */
class Placeholders {
  readonly #names: [string, string][] = [];
  readonly #values: [string, AttributeValue][] = [];

  name(attribute: string): string {
    const placeholder = `#${this.#names.length}`;
    this.#names.push([placeholder, attribute]);
    return placeholder;
  }

  value(value: AttributeValue): string {
    const placeholder = `:${this.#values.length}`;
    this.#values.push([placeholder, value]);
    return placeholder;
  }

  /** `undefined` if there are none: DynamoDB rejects empty maps. */
  get members() {
    return {
      ExpressionAttributeNames: this.#names.length > 0 ? Object.fromEntries(this.#names) : undefined,
      ExpressionAttributeValues: this.#values.length > 0 ? Object.fromEntries(this.#values) : undefined,
    };
  }
}

function expression({ condition, changes }: { condition?: Condition; changes?: EncodedChanges }) {
  const placeholders = new Placeholders();
  // Typed `string`, because the types of transactions require an expression.
  return {
    UpdateExpression: (changes && updateText(changes, placeholders)) as string,
    ConditionExpression: (condition && conditionText(condition, placeholders)) as string,
    ...placeholders.members,
  };
}

function conditionText(condition: Condition, placeholders: Placeholders): string {
  switch (condition.op) {
    case 'absent':
      return `attribute_not_exists(${placeholders.name(condition.attribute ?? 'pk')})`;
    case 'exists':
      return `attribute_exists(${placeholders.name(condition.attribute ?? 'pk')})`;
    case 'equals':
      return `${placeholders.name(condition.attribute)} = ${placeholders.value(scalarValue(condition.value))}`;
    case 'lessThan':
      return `${placeholders.name(condition.attribute)} < ${placeholders.value(scalarValue(condition.value))}`;
    case 'and':
    case 'or': {
      const parts = condition.conditions.map((part) => conditionText(part, placeholders));
      // DynamoDB rejects redundant parentheses.
      return parts.length === 1 ? parts[0]! : `(${parts.join(condition.op === 'and' ? ' AND ' : ' OR ')})`;
    }
  }
}

function updateText({ set, add, remove }: EncodedChanges, placeholders: Placeholders): string {
  const clauses: [string, string[]][] = [
    ['SET', set.map((one) => `${placeholders.name(one.name)} = ${placeholders.value(storedValue(one))}`)],
    ['ADD', add.map(([name, amount]) => `${placeholders.name(name)} ${placeholders.value(scalarValue(amount))}`)],
    ['REMOVE', remove.map((name) => placeholders.name(name))],
  ];
  const text = clauses.filter(([, parts]) => parts.length > 0).map(([verb, parts]) => `${verb} ${parts.join(', ')}`);
  // The expression must not be empty.
  return text.length > 0 ? text.join(' ') : `REMOVE ${placeholders.name(NO_ATTRIBUTE)}`;
}

function keyCondition({ pk, sk, index }: QueryPlan) {
  const { partitionKey, sortKey } = index ? TABLE_SCHEMA.indexes[index] : TABLE_SCHEMA;
  const placeholders = new Placeholders();
  const partition = `${placeholders.name(partitionKey)} = ${placeholders.value({ S: pk })}`;
  return {
    KeyConditionExpression: sk ? `${partition} AND ${rangeText(sortKey, sk, placeholders)}` : partition,
    ...placeholders.members,
  };
}

function rangeText(sortKey: string, range: SortKeyRange, placeholders: Placeholders): string {
  const name = placeholders.name(sortKey);
  const bound = (text: string) => placeholders.value({ S: text });
  if ('beginsWith' in range) return `begins_with(${name}, ${bound(range.beginsWith)})`;
  if ('between' in range) return `${name} BETWEEN ${bound(range.between[0])} AND ${bound(range.between[1])}`;
  return 'lessThan' in range ? `${name} < ${bound(range.lessThan)}` : `${name} > ${bound(range.greaterThan)}`;
}

function startKeyOf({ pk, index, after }: QueryPlan): Attributes | undefined {
  if (!after || !index) return after && keyAttributes(after);
  const { partitionKey, sortKey } = TABLE_SCHEMA.indexes[index];
  return { ...keyAttributes(after), [partitionKey]: { S: pk }, [sortKey]: { S: after.indexSk! } };
}
