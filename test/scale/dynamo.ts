import { HostBusyError } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Changes, IndexName, Item, Key, Table, TransactOperation, TransactResult } from '#core/ports/table.ts';
import { TABLE_SCHEMA, type TableName } from '#core/ports/table-rules.ts';
import { type Place, UnitCounter } from '#test/helpers/unit-counter.ts';
import { RateMeter, TokenBucket } from './meters.ts';

/** Units per second of each kind. */
export interface Capacity {
  readonly read: number;
  readonly write: number;
}

export interface DynamoProps {
  readonly clock: Clock;
  /** Duration of a request, in milliseconds. */
  readonly latencyMs: number;
  /** Capacity of an item, and of a partition. */
  readonly partition: Capacity;
  /** Capacity of a new table, and of each of its indexes. */
  readonly table: Capacity;
  /** Fraction of the real load; the capacity that workspaces share is scaled alike. @default 1 */
  readonly scale?: number;
  /** Whether requests above the capacity are refused or only counted. */
  readonly throttles: boolean;
  /** Returns a random number from 0 to below 1. */
  readonly random: () => number;
}

type Kind = 'read' | 'write';

/** Consumer of capacity in a request. */
interface Share {
  readonly of: 'item' | 'partition' | 'table';
  /** Whether requests of different workspaces share it. */
  readonly isShared: boolean;
  /** Name without ids of workspaces and runs, which groups similar places in one row. */
  readonly name: string;
}

/** Attempts of the SDK, and its first delay after a throttle: `@smithy/core/retry`. */
const ATTEMPTS = 3;
const FIRST_PAUSE_MS = 500;
/** Further attempts of a transaction: `aws/tables/dynamo-table.ts`. */
const TRANSACTION_RETRIES = 5;
const TRANSACTION_PAUSE_MS = 25;

/**
 * Applies DynamoDB's limits to in-memory tables: each item, each partition key, and each new table and index has a
 * capacity in units per second. A refused request is retried as the SDK does, then fails as the platform's adapter
 * makes it fail.
 *
 * An item of a transaction refuses other writes for the duration of the request, as DynamoDB does.
 *
 * The model is stricter than DynamoDB in one way: it never splits a partition. DynamoDB splits a busy partition by sort
 * key after some minutes, unless sort keys only grow
 * (docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html).
 */
export class DynamoModel {
  readonly #props: DynamoProps;
  readonly #buckets = new Map<string, TokenBucket>();
  readonly #meters = new Map<string, { readonly share: Share; readonly kind: Kind; readonly meter: RateMeter }>();
  readonly units = new UnitCounter((place, kind, units) => this.#charge(place, kind, units));
  /** Number of refused requests, including retries. */
  throttled = 0;
  /** Number of requests that failed after all retries. */
  failed = 0;
  /** Number of writes that met a transaction on one of their items, including retries; DynamoDB bills them. */
  conflicts = 0;
  /** Items of transactions in progress. */
  readonly #inTransaction = new Set<string>();

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
            // The cost is known only at the end; until then a request counts as one unit for concurrent ones.
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
    const idOf = ({ pk, sk }: Key): string => `${name} ${pk} / ${sk}`;
    /** Waits, as the adapter does, while one of the items is in a transaction. Returns `undefined` if it gives up. */
    const whenFree = async <T>(keys: readonly Key[], onFree: () => Promise<T>): Promise<T | undefined> => {
      const { clock, random, latencyMs } = this.#props;
      for (let tries = 0; keys.some((key) => this.#inTransaction.has(idOf(key))); tries++) {
        this.conflicts += 1;
        if (tries === TRANSACTION_RETRIES) return undefined;
        await clock.sleep(latencyMs + TRANSACTION_PAUSE_MS * 2 ** tries * (0.5 + random() / 2));
      }
      return onFree();
    };
    const single = async <T>(key: Key, write: () => Promise<T>): Promise<T> => {
      const written = await whenFree([key], write);
      if (written === undefined) throw new HostBusyError('in a transaction');
      return written;
    };
    const together = async (keys: readonly Key[], write: () => Promise<TransactResult>): Promise<TransactResult> => {
      const written = await whenFree(keys, async () => {
        for (const key of keys) this.#inTransaction.add(idOf(key));
        try {
          return await write();
        } finally {
          for (const key of keys) this.#inTransaction.delete(idOf(key));
        }
      });
      return written ?? { ok: false, failed: [] };
    };
    /** Returns the item itself, and its index entries before and after the change. */
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
        single(item, () =>
          perform(
            'write',
            () => written(item, item),
            () => counted.put(item, condition),
          ),
        ),
      update: (key, changes, condition) =>
        single(key, () =>
          perform(
            'write',
            () => written(key, setBy(changes)),
            () => counted.update(key, changes, condition),
          ),
        ),
      delete: (key, condition) =>
        single(key, () =>
          perform(
            'write',
            () => written(key, {}),
            () => counted.delete(key, condition),
          ),
        ),
      transact: (operations) =>
        together(operations.map(keyOf), () =>
          perform(
            'write',
            async () => (await Promise.all(operations.map((each) => written(keyOf(each), changedBy(each))))).flat(),
            () => counted.transact(operations),
            TRANSACTION_RETRIES,
          ),
        ),
    };
  }

  /** Returns the busiest place of each form with the units of its busiest second. */
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
    // Each write of an item also writes its index entry.
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

/** Removes the parts of a key that differ between workspaces, runs or days. */
const formOf = (key: string): string =>
  key
    .replaceAll(/[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/g, '<id>')
    .replaceAll(/\d{4}-\d\d-\d\d(T[\d:.]+Z)?/g, '<time>')
    .replaceAll(/\b[0-9a-f]{24,64}\b/g, '<hash>')
    .replaceAll(/(?<=#)(\d+|[0-9a-f]{1,2})(?=#|$)/g, '<n>')
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
