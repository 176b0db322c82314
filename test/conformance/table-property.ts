import fc, { type Arbitrary } from 'fast-check';
import { expect } from 'vitest';
import { hasCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import {
  type Changes,
  type Condition,
  type Item,
  type Key,
  MAX_ITEM_BYTES,
  type Page,
  type Query,
  type SortKeyRange,
  type Table,
  type TransactOperation,
} from '#core/ports/table.ts';
import { operationKey } from '#core/ports/table-rules.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';

// Applies the same random steps to several tables and compares every answer. On a difference fast-check prints the
// shortest sequence with its seed and path; add them beside `interruptAfterTimeLimit` to replay it.

export interface Compared {
  /** Empty tables that must behave alike. */
  readonly hosts: readonly Host[];
  readonly clock: ManualClock;
  /** Flushes pending writes. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

/** Returns the number of sequences with equal answers. `start` creates the tables of the n-th sequence. */
export async function compareTables(timeLimitMs: number, start: (n: number) => Promise<Compared>): Promise<number> {
  let sequences = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 60, size: 'max' }), async (steps) => {
      sequences += 1;
      const { hosts, clock, settle, close } = await start(sequences);
      try {
        for (const each of steps) {
          if (each.do === 'wait') await clock.advance(each.seconds * 1000);
          else if (each.do === 'settle') await settle();
          else {
            const [here, ...elsewhere] = await Promise.all(hosts.map((host) => host.does(each)));
            // Items may be dictionaries: objects without a prototype.
            for (const answer of elsewhere) expect(structuredClone(here)).toStrictEqual(structuredClone(answer));
          }
        }
      } finally {
        await close();
      }
    }),
    { numRuns: 100_000, interruptAfterTimeLimit: timeLimitMs },
  );
  return sequences;
}

type Step =
  | { do: 'get'; key: Key }
  | { do: 'batchGet'; keys: Key[] }
  | { do: 'put'; item: Item; condition?: Condition }
  | { do: 'update'; key: Key; changes: Changes; condition?: Condition }
  | { do: 'delete'; key: Key; condition?: Condition }
  | { do: 'transact'; operations: TransactOperation[] }
  /** All pages. */
  | { do: 'query'; query: Query }
  /** Reads a first page, whose cursor `resume` uses later. */
  | { do: 'begin'; query: Query }
  | { do: 'resume' }
  | { do: 'wait'; seconds: number }
  /** Flushes pending writes. */
  | { do: 'settle' };

type HostStep = Exclude<Step, { do: 'wait' | 'settle' }>;

/** A table with the state of one caller. */
export class Host {
  readonly #table: Table;
  readonly #prefix: string;
  #begun: Query | undefined;

  constructor(table: Table, prefix: string) {
    this.#table = table;
    this.#prefix = prefix;
  }

  /** Returns the answer to a step, or the code of its error. */
  async does(each: HostStep): Promise<unknown> {
    try {
      return await this.#perform(each);
    } catch (error) {
      if (hasCode(error, 'TABLE_USAGE')) return 'TABLE_USAGE';
      throw error;
    }
  }

  async #perform(each: HostStep): Promise<unknown> {
    const table = this.#table;
    switch (each.do) {
      case 'get':
        return table.get(this.#own(each.key));
      case 'batchGet':
        return table.batchGet(each.keys.map((key) => this.#own(key)));
      case 'put':
        return table.put(this.#own(each.item), each.condition);
      case 'update':
        return table.update(this.#own(each.key), this.#ownChanges(each.changes), each.condition);
      case 'delete':
        return table.delete(this.#own(each.key), each.condition);
      case 'transact':
        return table.transact(each.operations.map((operation) => this.#ownOperation(operation)));
      case 'query': {
        const query = this.#own(each.query);
        const pages: Page[] = [];
        let cursor: string | undefined;
        do {
          const page = await table.query({ ...query, cursor });
          pages.push(page);
          cursor = page.cursor;
        } while (cursor !== undefined);
        return query.index ? withoutOrderOfEquals(pages, `${query.index}sk`) : pages;
      }
      case 'begin': {
        const query = this.#own(each.query);
        const page = await table.query(query);
        this.#begun = page.cursor === undefined ? undefined : { ...query, cursor: page.cursor };
        return page;
      }
      case 'resume':
        return this.#begun && table.query(this.#begun);
    }
  }

  #own<T extends object>(keys: T): T {
    const own = { ...keys } as Record<string, unknown>;
    for (const name of ['pk', 'gsi1pk', 'gsi2pk']) if (own[name]) own[name] = this.#prefix + own[name];
    if (Object.hasOwn(own, FILLER)) own[FILLER] = 'x'.repeat(MAX_ITEM_BYTES - (own[FILLER] as number));
    return own as T;
  }

  #ownChanges(changes: Changes): Changes {
    return { ...changes, set: changes.set && this.#own(changes.set) };
  }

  #ownOperation(operation: TransactOperation): TransactOperation {
    if (operation.op === 'put') return { ...operation, item: this.#own(operation.item) };
    const key = this.#own(operation.key);
    if (operation.op === 'update') return { ...operation, key, changes: this.#ownChanges(operation.changes) };
    return { ...operation, key };
  }
}

/** Items with the same sort key in an index have no order, so they may be on different pages. */
function withoutOrderOfEquals(pages: Page[], sortKey: string) {
  const items = pages.flatMap((page) => page.items);
  const id = (item: Item) => JSON.stringify([item.pk, item.sk]);
  return {
    lengths: pages.map((page) => page.items.length),
    order: items.map((item) => item[sortKey]),
    items: items.toSorted((a, b) => (id(a) < id(b) ? -1 : 1)),
  };
}

// --- arbitraries ----------------------------------------------------------------------------------------------------

const oneOf = <T>(...values: T[]): Arbitrary<T> => fc.constantFrom(...values);
const often = <T>(weight: number, arbitrary: Arbitrary<T>) => ({ weight, arbitrary });

const badKeys = oneOf('', '\ud800', 'x'.repeat(2049), 5 as never);
const partition = fc.oneof(often(300, oneOf('p', 'p', 'p', 'q')), often(1, badKeys));
const sortKey = fc.oneof(
  often(300, oneOf('a', 'a\0', 'ab', 'b', 'é', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{10ffff}x')),
  often(25, fc.string({ unit: 'binary', minLength: 1, maxLength: 4 })),
  often(4, oneOf('k'.repeat(1024), 'é'.repeat(512))),
  often(1, badKeys),
);
const key: Arbitrary<Key> = fc.record({ pk: partition, sk: sortKey });

const text = fc.oneof(
  often(6, oneOf('', 'a', 'b', 'ab', 'é', '\uffff', '\u{10000}', '\0', 'a\ud800')),
  often(1, fc.string({ unit: 'binary', maxLength: 5 })),
);
const number = fc.oneof(
  often(6, oneOf(0, -0, 1, -1, 2, 10, 0.1, 0.2, -0.3, 1.5, 100, 123456.789)),
  often(2, oneOf(2 ** 53, -(2 ** 53), 2 ** 60, 1e21, -1e21, 1e-7, 1e-130, 9e125, Number.MAX_SAFE_INTEGER)),
  often(
    1,
    fc.double({ noNaN: true, min: -1e100, max: 1e100 }).filter((n) => n === 0 || Math.abs(n) > 1e-130),
  ),
);
const badNumber = oneOf(Number.NaN, Number.POSITIVE_INFINITY, 1e126, -1e300, 1e-131, 5e-324);
const scalar = fc.oneof(often(3, text), often(4, number), often(1, oneOf(true, false, null)));
const document = fc.oneof(
  often(1, fc.array(fc.oneof(text, number, oneOf(1e300, 5e-324, null)), { maxLength: 3 })),
  often(1, fc.dictionary(fc.oneof(text, oneOf('__proto__', 'constructor')), text, { maxKeys: 3 })),
  often(1, fc.jsonValue({ maxDepth: 3 })),
) as Arbitrary<Json>;
const badValue = fc.oneof(
  badNumber,
  oneOf<unknown>([Number.NaN], { a: [undefined] }, new Date(0), { a: () => 1 }) as Arbitrary<Json>,
);
const value = fc.oneof(often(120, scalar), often(40, document), often(5, oneOf(undefined)), often(1, badValue));

const nowSeconds = new ManualClock().now() / 1000;
const ttl = fc.oneof(
  often(100, fc.integer({ min: nowSeconds - 5, max: nowSeconds + 30 })),
  often(1, oneOf(0, -1, 1.5, 'soon' as never, 2 ** 53)),
);
/** Names include words, operators and placeholders of DynamoDB's expressions. */
const freeName = fc.oneof(
  often(200, oneOf('a', 'b', 'size', '#0', ':0', 'x.y[0]', 'é')),
  often(1, oneOf('', '(none)', 'n'.repeat(255), 'n'.repeat(256), '\ud800')),
);
/** Only these attributes are added to, so that both hosts hold the same kinds of values. */
const sumName = oneOf('n', 'm');
const summand = fc.oneof(
  often(20, fc.integer({ min: -1000, max: 1000 })),
  often(10, oneOf(0.1, 0.2, -0.3, 1.25, 0.001)),
  often(1, fc.oneof(oneOf(9e125, -9e125, 1e-130), badNumber)),
);
const sum = fc.oneof(often(8, summand), often(1, oneOf<Json>('text', null, true, [1])));

const special = {
  ttl,
  gsi1pk: partition,
  gsi1sk: sortKey,
  gsi2pk: partition,
  gsi2sk: sortKey,
};
const attributes = fc
  .tuple(
    fc.dictionary(freeName, value, { maxKeys: 3 }),
    fc.record({ ...special, n: sum, m: sum }, { requiredKeys: [] }),
  )
  .map(([free, known]) => ({ ...free, ...known }) as Partial<Item>);
/** Attribute that stands for a text of `x`: the number of bytes below the item size limit. It keeps reports short. */
const FILLER = 'filler';
const large: Arbitrary<Partial<Item>> = fc.record({ [FILLER]: fc.integer({ min: 0, max: 60 }) });
const item: Arbitrary<Item> = fc
  .tuple(
    key,
    fc.oneof(
      often(60, attributes),
      often(
        1,
        fc.tuple(attributes, large).map(([a, b]) => ({ ...a, ...b })),
      ),
    ),
  )
  .map(([itemKey, rest]) => ({ ...rest, ...itemKey }));

const anyName = fc.oneof(often(4, freeName), often(4, sumName), often(2, oneOf('ttl', 'pk', 'sk', 'gsi1pk', 'gsi1sk')));
const comparable = fc.oneof(
  often(100, scalar),
  often(20, ttl),
  often(40, sum as Arbitrary<number>),
  often(1, badNumber),
);
const condition: Arbitrary<Condition> = fc.letrec<{ condition: Condition }>((tie) => {
  const parts = fc.array(tie('condition'), { minLength: 0, maxLength: 3 });
  const nested = fc.oneof(
    often(
      8,
      parts.filter(({ length }) => length > 0),
    ),
    often(1, parts),
  );
  return {
    condition: fc.oneof(
      { maxDepth: 3 },
      often(
        3,
        fc.record({
          op: oneOf('absent' as const, 'exists' as const),
          attribute: fc.option(anyName, { nil: undefined }),
        }),
      ),
      often(3, fc.record({ op: oneOf('equals' as const), attribute: anyName, value: comparable as Arbitrary<never> })),
      often(
        3,
        fc.record({ op: oneOf('lessThan' as const), attribute: anyName, value: comparable as Arbitrary<never> }),
      ),
      often(1, fc.record({ op: oneOf('and' as const, 'or' as const), conditions: nested })),
    ),
  };
}).condition;
const perhaps = fc.option(condition, { nil: undefined, freq: 2 });

const changes: Arbitrary<Changes> = fc
  .record({
    set: fc.option(fc.oneof(often(20, attributes), often(1, large)), { nil: undefined }),
    add: fc.option(fc.dictionary(fc.oneof(often(60, sumName), often(1, anyName)), summand, { maxKeys: 2 }), {
      nil: undefined,
    }),
    remove: fc.option(fc.uniqueArray(anyName, { maxLength: 2 }), { nil: undefined }),
    asDrawn: fc.nat(30).map((n) => n === 0),
  })
  .map(({ asDrawn, ...all }): Changes => {
    // DynamoDB Local counts one byte more for a sum that ends in 0 than for the same number when put.
    const drawn = all.set && FILLER in all.set ? { ...all, add: undefined } : all;
    // An attribute in two changes is refused, which hides every other effect, so most draws keep them apart.
    if (asDrawn) return drawn as Changes;
    const taken = new Set([...Object.keys(drawn.add ?? {}), ...(drawn.remove ?? [])]);
    const set = drawn.set && Object.fromEntries(Object.entries(drawn.set).filter(([name]) => !taken.has(name)));
    const remove = drawn.remove?.filter(
      (name) => !Object.hasOwn(drawn.add ?? {}, name) && !['pk', 'sk'].includes(name),
    );
    return { add: drawn.add, remove, set: set as Changes['set'] };
  });

const range: Arbitrary<SortKeyRange> = fc.oneof(
  fc.record({ beginsWith: sortKey }),
  fc.record({ lessThan: sortKey }),
  fc.record({ greaterThan: sortKey }),
  fc.record({ between: fc.tuple(sortKey, sortKey) }),
);
const tableQuery: Arbitrary<Query> = fc.record({
  pk: partition,
  sk: fc.option(range, { nil: undefined, freq: 2 }),
  limit: fc.oneof(often(20, oneOf(1, 2, 3, 5, undefined)), often(1, oneOf(0, 1001, 1.5))),
  reverse: oneOf(true, false, undefined),
});
const anyQuery = fc
  .tuple(tableQuery, oneOf(undefined, 'gsi1' as const, 'gsi2' as const))
  .map(([query, index]): Query => ({ ...query, index }));

const operation: Arbitrary<TransactOperation> = fc.oneof(
  fc.record({ op: oneOf('put' as const), item, condition: perhaps }),
  fc.record({ op: oneOf('update' as const), key, changes, condition: perhaps }),
  fc.record({ op: oneOf('delete' as const), key, condition: perhaps }),
  fc.record({ op: oneOf('check' as const), key, condition }),
);

const operations = fc.oneof(
  often(
    20,
    fc.uniqueArray(operation, { minLength: 1, maxLength: 4, selector: (one) => JSON.stringify(operationKey(one)) }),
  ),
  often(1, fc.array(operation, { maxLength: 12 })),
);

const step: Arbitrary<Step> = fc.oneof(
  often(3, fc.record({ do: oneOf('get' as const), key })),
  often(1, fc.record({ do: oneOf('batchGet' as const), keys: fc.array(key, { maxLength: 8 }) })),
  often(12, fc.record({ do: oneOf('put' as const), item, condition: perhaps })),
  often(8, fc.record({ do: oneOf('update' as const), key, changes, condition: perhaps })),
  often(2, fc.record({ do: oneOf('delete' as const), key, condition: perhaps })),
  often(3, fc.record({ do: oneOf('transact' as const), operations })),
  often(4, fc.record({ do: oneOf('query' as const), query: anyQuery })),
  often(2, fc.record({ do: oneOf('begin' as const), query: tableQuery })),
  often(3, fc.record({ do: oneOf('resume' as const) })),
  often(1, fc.record({ do: oneOf('settle' as const) })),
  often(1, fc.record({ do: oneOf('wait' as const), seconds: fc.integer({ min: 1, max: 10 }) })),
) as Arbitrary<Step>;
