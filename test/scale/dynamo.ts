import { HostBusyError } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Changes, IndexName, Item, Key, Table, TransactOperation } from '#core/ports/table.ts';
import { TABLE_SCHEMA, type TableName } from '#core/ports/table-rules.ts';
import { type Place, UnitCounter } from '#test/helpers/unit-counter.ts';
import { RateMeter, TokenBucket } from './meters.ts';

/** Units a second of each kind. */
export interface Capacity {
  readonly read: number;
  readonly write: number;
}

export interface DynamoProps {
  readonly clock: Clock;
  /** How long a request takes, in milliseconds. */
  readonly latencyMs: number;
  /** Of an item, and of a partition. */
  readonly partition: Capacity;
  /** Of a table and of each of its indexes, when it is new. */
  readonly table: Capacity;
  /** The load is this part of the real one: what workspaces share has as much less capacity. @default 1 */
  readonly scale?: number;
  /** Whether requests above the capacity are refused, or only counted. */
  readonly throttles: boolean;
  /** From 0 to below 1. */
  readonly random: () => number;
}

type Kind = 'read' | 'write';

/** What a request needs capacity of. */
interface Share {
  readonly of: 'item' | 'partition' | 'table';
  /** Whether requests of different workspaces meet there. */
  readonly isShared: boolean;
  /** Without ids of workspaces and runs: places of one form are one row. */
  readonly name: string;
}

/** Attempts of the SDK, and the first pause after a throttle: `@smithy/core/retry`. */
const ATTEMPTS = 3;
const FIRST_PAUSE_MS = 500;
/** Further attempts of a transaction: `aws/tables/dynamo-table.ts`. */
const TRANSACTION_RETRIES = 5;
const TRANSACTION_PAUSE_MS = 25;

/**
 * DynamoDB's limits on tables in memory: each item and each partition key takes so many units a second, and so does each new
 * table and index. A refused request is made again as the SDK does, and then ends as the platform's adapter ends it.
 *
 * It is stricter than DynamoDB in one way: it never splits a partition. DynamoDB divides a busy partition between sort keys
 * after some minutes, unless these only grow (docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html).
 */
export class DynamoModel {
  readonly #props: DynamoProps;
  readonly #buckets = new Map<string, TokenBucket>();
  readonly #meters = new Map<string, { readonly share: Share; readonly kind: Kind; readonly meter: RateMeter }>();
  readonly units = new UnitCounter((place, kind, units) => this.#charge(place, kind, units));
  /** Requests that were refused, tries included. */
  throttled = 0;
  /** Requests that stayed refused after all tries. */
  failed = 0;

  constructor(props: DynamoProps) {
    this.#props = props;
  }

  table(inner: Table, name: TableName): Table {
    const counted = this.units.count(inner, name);
    const of = (keys: readonly Key[]): Place[] => keys.map(({ pk, sk }) => ({ table: name, pk, sk }));
    const perform = async <T>(kind: Kind, places: () => Promise<Place[]>, act: () => Promise<T>, retries = 0) => {
      const { clock, latencyMs } = this.#props;
      for (let tries = 0; ; tries++) {
        for (let attempt = 1; ; attempt++) {
          await clock.sleep(latencyMs);
          const needed = await places();
          if (this.#hasRoom(needed, kind)) {
            // What it takes is known when it has ended: until then a unit counts, for others of the same moment.
            this.#hold(needed, kind, 1);
            return act().finally(() => this.#hold(needed, kind, -1));
          }
          this.throttled += 1;
          if (attempt === (retries > 0 ? 1 : ATTEMPTS)) break;
          await clock.sleep(this.#props.random() * FIRST_PAUSE_MS * 2 ** (attempt - 1));
        }
        if (tries === retries) {
          this.failed += 1;
          throw new HostBusyError('throttled');
        }
        await clock.sleep(TRANSACTION_PAUSE_MS * 2 ** tries * (0.5 + this.#props.random() / 2));
      }
    };
    /** The item's own place, and those of its entries in indexes before and after the change. */
    const written = async (key: Key, after: Partial<Item>): Promise<Place[]> => {
      const before = await inner.get(key);
      return [...of([key]), ...entriesOf(name, before ?? {}), ...entriesOf(name, after)];
    };
    return {
      get: (key) =>
        perform(
          'read',
          async () => of([key]),
          () => counted.get(key),
        ),
      batchGet: (keys) =>
        perform(
          'read',
          async () => of(keys),
          () => counted.batchGet(keys),
        ),
      query: (query) => {
        const { pk, index } = query;
        return perform(
          'read',
          async () => [{ table: name, pk, ...(index && { index }) }],
          () => counted.query(query),
        );
      },
      put: (item, condition) =>
        perform(
          'write',
          () => written(item, item),
          () => counted.put(item, condition),
        ),
      update: (key, changes, condition) =>
        perform(
          'write',
          () => written(key, setBy(changes)),
          () => counted.update(key, changes, condition),
        ),
      delete: (key, condition) =>
        perform(
          'write',
          () => written(key, {}),
          () => counted.delete(key, condition),
        ),
      transact: (operations) =>
        perform(
          'write',
          async () => (await Promise.all(operations.map((each) => written(keyOf(each), changedBy(each))))).flat(),
          () => counted.transact(operations),
          TRANSACTION_RETRIES,
        ),
    };
  }

  /** The busiest place of each form: units in its busiest second. */
  peaks(): { readonly share: Share; readonly kind: Kind; readonly peak: number }[] {
    const found = new Map<string, { share: Share; kind: Kind; peak: number }>();
    for (const { share, kind, meter } of this.#meters.values()) {
      const id = `${share.of} ${share.name} ${kind}`;
      if ((found.get(id)?.peak ?? -1) < meter.peak) found.set(id, { share, kind, peak: meter.peak });
    }
    return [...found.values()];
  }

  #hasRoom(places: readonly Place[], kind: Kind): boolean {
    if (!this.#props.throttles) return true;
    return places.every((place) => sharesOf(place).every(({ id, share }) => this.#bucket(id, share, kind).left > 0));
  }

  #hold(places: readonly Place[], kind: Kind, units: number): void {
    if (!this.#props.throttles) return;
    for (const { id, share } of places.flatMap(sharesOf)) this.#bucket(id, share, kind).charge(units);
  }

  #charge(place: Place, kind: Kind, units: number): void {
    for (const { id, share } of sharesOf(place)) {
      if (this.#props.throttles) this.#bucket(id, share, kind).charge(units);
      const key = `${kind} ${id}`;
      let known = this.#meters.get(key);
      if (known === undefined) {
        known = { share, kind, meter: new RateMeter(this.#props.clock) };
        this.#meters.set(key, known);
      }
      known.meter.add(units);
    }
  }

  #bucket(id: string, { of, isShared }: Share, kind: Kind): TokenBucket {
    const key = `${kind} ${id}`;
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      const { clock, partition, table, scale = 1 } = this.#props;
      bucket = new TokenBucket(clock, { rate: (of === 'table' ? table : partition)[kind] / (isShared ? scale : 1) });
      this.#buckets.set(key, bucket);
    }
    return bucket;
  }
}

function sharesOf({ table, index, pk, sk }: Place): { readonly id: string; readonly share: Share }[] {
  const whole = index === undefined ? table : `${table} ${index}`;
  const form = `${whole} ${formOf(pk)}`;
  return [
    { id: whole, share: { of: 'table', isShared: true, name: whole } },
    { id: `${whole} ${pk}`, share: { of: 'partition', isShared: !ID.test(pk), name: form } },
    // An entry of an index is written as often as its item.
    ...(sk !== undefined && index === undefined
      ? [
          {
            id: `${whole} ${pk} / ${sk}`,
            share: { of: 'item', isShared: !ID.test(pk + sk), name: `${form} / ${formOf(sk)}` } as const,
          },
        ]
      : []),
  ];
}

const ID = /[0-9a-f]{8}-[0-9a-f]{4}-/;

/** A key without what differs from one workspace, run or day to the next. */
const formOf = (key: string): string =>
  key
    .replaceAll(/[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/g, '<id>')
    .replaceAll(/\d{4}-\d\d-\d\d(T[\d:.]+Z)?/g, '<time>')
    .replaceAll(/\b[0-9a-f]{24,64}\b/g, '<hash>')
    .replaceAll(/(?<=#)(\d+|[0-9a-f]|\d[a-d])(?=#|$)/g, '<n>')
    .replaceAll(/#w\d+\//g, '#<org>/');

function entriesOf(table: TableName, item: Partial<Item>): Place[] {
  return Object.entries(TABLE_SCHEMA.indexes).flatMap(([index, { partitionKey, sortKey }]) => {
    const [pk, sk] = [item[partitionKey], item[sortKey]];
    return pk === undefined || sk === undefined ? [] : [{ table, index: index as IndexName, pk, sk }];
  });
}

const setBy = ({ set = {} }: Changes): Partial<Item> => set as Partial<Item>;
const keyOf = (operation: TransactOperation): Key => (operation.op === 'put' ? operation.item : operation.key);
const changedBy = (operation: TransactOperation): Partial<Item> =>
  operation.op === 'put' ? operation.item : operation.op === 'update' ? setBy(operation.changes) : {};
