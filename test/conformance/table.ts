import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import {
  absent,
  allOf,
  anyOf,
  type Condition,
  equals,
  exists,
  type Item,
  type Key,
  lessThan,
  MAX_ITEM_BYTES,
  type Query,
  queryAll,
  type Table,
  type TransactOperation,
} from '#core/ports/table.ts';
import type { ManualClock } from '#test/helpers/manual-clock.ts';

export interface TableUnderTest {
  readonly table: Table;
  /** The clock of the table. */
  readonly clock: ManualClock;
}

const misuse = { code: 'TABLE_USAGE' };

/** Rules for every adapter of {@link Table}. Each test uses its own partitions. */
export function tableConformance(open: () => Promise<TableUnderTest>): void {
  let table: Table;
  let clock: ManualClock;
  let tests = 0;
  let pk: string;

  const key = (sk: string): Key => ({ pk, sk });
  const nowSeconds = () => Math.floor(clock.now() / 1000);
  const sortKeys = async (query: Partial<Query> = {}) =>
    (await Array.fromAsync(queryAll(table, { pk, ...query }))).map((item) => item.sk);

  beforeAll(async () => {
    ({ table, clock } = await open());
  });
  beforeEach(() => {
    tests += 1;
    pk = `partition-${tests}`;
  });

  describe('put and get', () => {
    test('gives back what was put', async () => {
      const item: Item = {
        ...key('a'),
        ttl: nowSeconds() + 60,
        gsi1pk: pk,
        gsi1sk: '1',
        text: 'žluťoučký 🐎 \u0000 end',
        empty: '',
        integer: -12,
        fraction: 0.1,
        large: Number.MAX_VALUE / 1e200,
        small: -1e-100,
        past53bits: 2 ** 60,
        yes: true,
        no: false,
        nothing: null,
        list: [1, 'two', [], { three: [null] }],
        map: { '': 'empty name', nested: { deep: [1e300, 5e-324, '\ud800'] }, __proto__x: 1 },
      };
      expect(await table.put(item)).toEqual({ ok: true });
      expect(await table.get(key('a'))).toEqual(item);
    });

    test('keeps JSON that DynamoDB maps would refuse', async () => {
      const document = JSON.parse('{"__proto__": {"x": 1}, "": [1e308, {"constructor": "\\ud83d"}]}') as Json;
      const deep = Array.from({ length: 200 }).reduce<Json>((inner) => ({ inner }), 'bottom');
      await table.put({ ...key('a'), document, deep });
      const stored = await table.get(key('a'));
      expect(JSON.stringify(stored?.document)).toBe(JSON.stringify(document));
      expect(stored?.deep).toEqual(deep);
    });

    test('replaces the whole item', async () => {
      await table.put({ ...key('a'), one: 1 });
      await table.put({ ...key('a'), two: 2 });
      expect(await table.get(key('a'))).toEqual({ ...key('a'), two: 2 });
    });

    test('drops undefined members, and makes lone surrogates and negative zero what both hosts can keep', async () => {
      await table.put({ ...key('a'), gone: undefined, map: { gone: undefined } as never, text: 'x\ud800', zero: -0 });
      const item = await table.get(key('a'));
      expect(item).toStrictEqual({ ...key('a'), map: {}, text: 'x\ufffd', zero: 0 });
    });

    test('does not share objects with the caller', async () => {
      const list = [1];
      await table.put({ ...key('a'), list });
      list.push(2);
      expect((await table.get(key('a')))?.list).toEqual([1]);
    });

    test('knows nothing of what was never put', async () => {
      expect(await table.get(key('a'))).toBeUndefined();
    });

    test('takes 400 KB, and not a byte more', async () => {
      const base: Item = { ...key('a'), number: -12.5, flag: true, list: [1], text: '' };
      // Names and values; the list is a map with one member `json` that holds its text.
      const overhead =
        pk.length + 'pksk'.length + 1 + 'number'.length + 4 + 'flag'.length + 1 + 'list'.length + 8 + 3 + 4;
      const room = MAX_ITEM_BYTES - overhead;
      expect(await table.put({ ...base, text: 'x'.repeat(room) })).toEqual({ ok: true });
      await expect(table.put({ ...base, text: 'x'.repeat(room + 1) })).rejects.toMatchObject(misuse);
      await expect(table.update(key('a'), { set: { n: 1 } })).rejects.toMatchObject(misuse);
      expect(await table.update(key('a'), { set: { number: -13.5 } })).toMatchObject({ ok: true });
    });

    test.each<[string, unknown]>([
      ['no sort key', { pk: 'x' }],
      ['an empty partition key', { pk: '', sk: 'a' }],
      ['a sort key of 1,025 bytes', { pk: 'x', sk: `${'é'.repeat(512)}x` }],
      ['a partition key of 2,049 bytes', { pk: 'x'.repeat(2049), sk: 'a' }],
      ['a key with a lone surrogate', { pk: 'x\udc00', sk: 'a' }],
      ['a number as key', { pk: 1, sk: 'a' }],
      ['an empty index key', { pk: 'x', sk: 'a', gsi1pk: '' }],
      ['an index key that is no string', { pk: 'x', sk: 'a', gsi2sk: 5 }],
      ['a ttl that is no number', { pk: 'x', sk: 'a', ttl: '5' }],
      ['a ttl with a fraction', { pk: 'x', sk: 'a', ttl: 1.5 }],
      ['NaN', { pk: 'x', sk: 'a', n: Number.NaN }],
      ['Infinity within a list', { pk: 'x', sk: 'a', n: [Number.POSITIVE_INFINITY] }],
      ['1e126', { pk: 'x', sk: 'a', n: 1e126 }],
      ['1e-131', { pk: 'x', sk: 'a', n: 1e-131 }],
      ['a date', { pk: 'x', sk: 'a', d: new Date(0) }],
      ['a map', { pk: 'x', sk: 'a', d: { m: new Map() } }],
      ['bytes', { pk: 'x', sk: 'a', d: new Uint8Array(2) }],
      ['undefined in a list', { pk: 'x', sk: 'a', d: [undefined] }],
      ['a big integer', { pk: 'x', sk: 'a', d: 1n }],
      ['a function', { pk: 'x', sk: 'a', d: () => 1 }],
      ['an attribute without a name', { pk: 'x', sk: 'a', '': 1 }],
    ])('refuses %s', async (_name, item) => {
      await expect(table.put(item as Item)).rejects.toMatchObject(misuse);
    });

    test('refuses a cyclic object', async () => {
      const cyclic: Record<string, unknown> = {};
      cyclic.self = cyclic;
      await expect(table.put({ ...key('a'), cyclic: cyclic as Json })).rejects.toMatchObject(misuse);
    });
  });

  describe('batchGet', () => {
    test('answers in the order of the keys, doubled and unknown ones too', async () => {
      await table.put({ ...key('a'), n: 1 });
      await table.put({ ...key('b'), n: 2, ttl: nowSeconds() });
      await table.put({ ...key('c'), n: 3 });
      const items = await table.batchGet([key('c'), key('x'), key('a'), key('b'), key('c')]);
      expect(items.map((item) => item?.n)).toEqual([3, undefined, 1, undefined, 3]);
    });

    test('answers whole when the items are too many bytes for one answer of DynamoDB', async () => {
      const keys = Array.from({ length: 50 }, (_, n) => key(`big-${n}`));
      await Promise.all(keys.map((each) => table.put({ ...each, text: 'x'.repeat(390_000) })));
      const items = await table.batchGet(keys);
      expect(items.map((item) => item?.sk)).toEqual(keys.map(({ sk }) => sk));
    });

    test('takes none to 100 keys', async () => {
      expect(await table.batchGet([])).toEqual([]);
      const keys = Array.from({ length: 101 }, (_, n) => key(`${n}`));
      expect(await table.batchGet(keys.slice(1))).toHaveLength(100);
      await expect(table.batchGet(keys)).rejects.toMatchObject(misuse);
      await expect(table.batchGet([{ pk, sk: '' }])).rejects.toMatchObject(misuse);
    });
  });

  describe('update', () => {
    test('sets, adds and removes, and answers with the whole item', async () => {
      await table.put({ ...key('a'), keep: 1, count: 5, drop: 'x', map: { old: 1 } });
      const result = await table.update(key('a'), {
        set: { map: { new: [1] }, fresh: null, ignored: undefined },
        add: { count: -2, made: 3 },
        remove: ['drop', 'never'],
      });
      const item = { ...key('a'), keep: 1, count: 3, made: 3, map: { new: [1] }, fresh: null };
      expect(result).toStrictEqual({ ok: true, item });
      expect(await table.get(key('a'))).toStrictEqual(item);
    });

    test('creates the item', async () => {
      expect(await table.update(key('a'), { add: { n: 1 } })).toEqual({ ok: true, item: { ...key('a'), n: 1 } });
      expect(await table.update(key('b'), {})).toEqual({ ok: true, item: key('b') });
      expect(await table.get(key('b'))).toEqual(key('b'));
    });

    test('adds in decimals', async () => {
      await table.update(key('a'), { add: { n: 0.1 } });
      expect(await table.update(key('a'), { add: { n: 0.2 } })).toMatchObject({ item: { n: 0.3 } });
      expect(await table.update(key('a'), { add: { n: -0.3 } })).toMatchObject({ item: { n: 0 } });
      expect(await table.update(key('b'), { add: { n: 9007199254740991 } })).toMatchObject({ ok: true });
      expect(await table.update(key('b'), { add: { n: -1 } })).toMatchObject({ item: { n: 9007199254740990 } });
    });

    test('loses no addition of simultaneous writers', async () => {
      await Promise.all(Array.from({ length: 50 }, () => table.update(key('a'), { add: { n: 1 } })));
      expect((await table.get(key('a')))?.n).toBe(50);
    });

    test('moves an item in, within and out of an index', async () => {
      const at = async () => (await table.query({ pk, index: 'gsi1' })).items.map((item) => item.gsi1sk);
      await table.put({ ...key('a'), gsi1pk: pk });
      expect(await at()).toEqual([]);
      await table.update(key('a'), { set: { gsi1sk: '1' } });
      await expect.poll(at).toEqual(['1']);
      await table.update(key('a'), { set: { gsi1sk: '2' } });
      await expect.poll(at).toEqual(['2']);
      await table.update(key('a'), { remove: ['gsi1pk'] });
      await expect.poll(at).toEqual([]);
    });

    test('refuses what it cannot do and changes nothing', async () => {
      await table.put({ ...key('a'), text: 'x', nothing: null, n: 9e125 });
      const refused = (changes: object, condition?: Condition) =>
        expect(table.update(key('a'), changes, condition)).rejects.toMatchObject(misuse);
      await refused({ add: { text: 1 }, set: { other: 1 } });
      await refused({ add: { nothing: 1 } });
      await refused({ add: { n: 9e125 } });
      await refused({ add: { n: Number.NaN } });
      await refused({ add: { ttl: 5 } });
      await refused({ add: { gsi1pk: 5 } });
      await refused({ set: { pk: 'x' } });
      await refused({ remove: ['sk'] });
      await refused({ set: { gsi1pk: '' } });
      await refused({ set: { x: 1 }, remove: ['x'] });
      await refused({ remove: ['x', 'x'] });
      await refused({ set: { x: 'x'.repeat(MAX_ITEM_BYTES) } }, equals('text', 'never'));
      // A failed condition takes precedence over an invalid change.
      expect(await table.update(key('a'), { add: { text: 1 } }, equals('text', 'y'))).toEqual({ ok: false });
      expect(await table.get(key('a'))).toEqual({ ...key('a'), text: 'x', nothing: null, n: 9e125 });
    });
  });

  describe('delete', () => {
    test('removes the item, and succeeds without one', async () => {
      await table.put({ ...key('a'), gsi1pk: pk, gsi1sk: 'x' });
      expect(await table.delete(key('a'))).toEqual({ ok: true });
      expect(await table.get(key('a'))).toBeUndefined();
      await expect.poll(() => sortKeys({ index: 'gsi1' })).toEqual([]);
      expect(await table.delete(key('a'))).toEqual({ ok: true });
      expect(await table.delete(key('a'), exists())).toEqual({ ok: false });
    });
  });

  describe('conditions', () => {
    const item = { text: 'b', n: 5, flag: true, nothing: null, list: [1] };

    test.each<[boolean, string, Condition]>([
      [false, 'absent', absent()],
      [true, 'exists', exists()],
      [true, 'absent attribute', absent('other')],
      [false, 'absent attribute that is null', absent('nothing')],
      [true, 'exists attribute', exists('list')],
      [false, 'exists attribute', exists('toString')],
      [true, 'equal text', equals('text', 'b')],
      [false, 'unequal text', equals('text', 'c')],
      [true, 'equal number', equals('n', 5)],
      [false, 'number as text', equals('n', '5')],
      [true, 'equal flag', equals('flag', true)],
      [false, 'unequal flag', equals('flag', false)],
      [true, 'null', equals('nothing', null)],
      [false, 'missing is not null', equals('other', null)],
      [false, 'a list equals nothing', equals('list', '[1]')],
      [true, 'less', lessThan('n', 5.5)],
      [false, 'not less', lessThan('n', 5)],
      [true, 'less text', lessThan('text', 'ba')],
      [false, 'less of another type', lessThan('text', 9)],
      [false, 'less of a missing one', lessThan('other', 9)],
      [false, 'less of null', lessThan('nothing', 9)],
      [true, 'and', allOf(exists(), equals('n', 5))],
      [false, 'and', allOf(exists(), equals('n', 6))],
      [true, 'or', anyOf(absent(), equals('n', 5))],
      [false, 'or', anyOf(absent(), equals('n', 6))],
      [true, 'one within one', allOf(anyOf(allOf(equals('n', 5))))],
      [true, 'nested', anyOf(allOf(absent(), exists()), allOf(anyOf(absent('y'), exists('z')), equals('text', 'b')))],
    ])('%s: %s', async (ok, _name, condition) => {
      await table.put({ ...key('a'), ...item });
      expect(await table.put({ ...key('a'), ...item, put: 1 }, condition)).toEqual({ ok });
      expect(await table.update(key('a'), { set: { x: 1 } }, condition)).toMatchObject({ ok });
      expect((await table.get(key('a')))?.x).toBe(ok ? 1 : undefined);
      const check: TransactOperation = { op: 'check', key: key('a'), condition };
      expect(await table.transact([check])).toEqual(ok ? { ok } : { ok, failed: [0] });
      expect(await table.delete(key('a'), condition)).toEqual({ ok });
    });

    test('orders text by its UTF-8 bytes', async () => {
      await table.put({ ...key('a'), text: '\uffff' });
      expect(await table.update(key('a'), {}, lessThan('text', '\u{10000}'))).toMatchObject({ ok: true });
      expect(await table.update(key('a'), {}, lessThan('text', 'z'))).toEqual({ ok: false });
    });

    test('let one of many simultaneous writers through', async () => {
      const results = await Promise.all(Array.from({ length: 20 }, (_, n) => table.put({ ...key('a'), n }, absent())));
      expect(results.filter((result) => result.ok)).toHaveLength(1);
    });

    test('see an item that has expired', async () => {
      await table.put({ ...key('lease'), ttl: nowSeconds() - 1 });
      expect(await table.get(key('lease'))).toBeUndefined();
      expect(await table.put({ ...key('lease'), n: 1 }, absent())).toEqual({ ok: false });
      const free = anyOf(absent(), lessThan('ttl', nowSeconds()));
      expect(await table.put({ ...key('lease'), n: 1, ttl: nowSeconds() + 5 }, free)).toEqual({ ok: true });
      expect(await table.put({ ...key('lease'), n: 2, ttl: nowSeconds() + 5 }, free)).toEqual({ ok: false });
    });

    test.each<[string, unknown]>([
      ['an empty and', allOf()],
      ['an empty or within', anyOf(exists(), anyOf())],
      ['comparison with an object', equals('a', {} as never)],
      ['comparison with undefined', equals('a', undefined as never)],
      ['order of flags', lessThan('a', true as never)],
      ['NaN', equals('a', Number.NaN)],
      ['a lone surrogate', equals('a', '\ud800')],
      ['no name', exists('')],
    ])('refused: %s', async (_name, condition) => {
      await expect(table.put({ ...key('a') }, condition as Condition)).rejects.toMatchObject(misuse);
      await expect(table.delete(key('a'), condition as Condition)).rejects.toMatchObject(misuse);
    });
  });

  describe('expiry', () => {
    test('hides an item from every read once its time has come', async () => {
      await table.put({ ...key('a'), ttl: nowSeconds() + 10, gsi1pk: pk, gsi1sk: 'x' });
      await clock.advance(9_000);
      expect(await table.get(key('a'))).toBeDefined();
      await clock.advance(1_000);
      expect(await table.get(key('a'))).toBeUndefined();
      expect(await table.batchGet([key('a')])).toEqual([undefined]);
      expect(await sortKeys()).toEqual([]);
      expect(await sortKeys({ index: 'gsi1' })).toEqual([]);
    });

    test('an update answers with the item, expired or not, and may revive it', async () => {
      await table.put({ ...key('a'), n: 1, ttl: nowSeconds() - 5 });
      const ttl = nowSeconds() - 5;
      expect(await table.update(key('a'), { add: { n: 1 } })).toEqual({ ok: true, item: { ...key('a'), n: 2, ttl } });
      expect(await table.get(key('a'))).toBeUndefined();
      await table.update(key('a'), { remove: ['ttl'] });
      expect(await table.get(key('a'))).toEqual({ ...key('a'), n: 2 });
    });
  });

  describe('query', () => {
    const fill = (keys: readonly string[]) =>
      Promise.all(keys.map((sk) => table.put({ ...key(sk), gsi1pk: pk, gsi1sk: sk })));

    test('orders by UTF-8 bytes, both ways, and keeps to its partition', async () => {
      const ascending = [
        '\u0000',
        ' ',
        'A',
        'B',
        'a',
        'a\u0000',
        'aa',
        'é',
        '\ud7ff',
        '\ue000',
        '\uffff',
        '\u{10000}',
        '\u{10ffff}',
      ];
      await fill([...ascending].reverse());
      await table.put({ pk: `${pk}x`, sk: 'other' });
      expect(await sortKeys()).toEqual(ascending);
      expect(await sortKeys({ reverse: true })).toEqual([...ascending].reverse());
      expect(await sortKeys({ index: 'gsi1' })).toEqual(ascending);
      expect(await sortKeys({ index: 'gsi1', reverse: true })).toEqual([...ascending].reverse());
      expect(await table.query({ pk: `${pk}-empty` })).toEqual({ items: [] });
    });

    test('keeps to a range of sort keys', async () => {
      await fill(['a', 'ab', 'abc', 'b', 'b\u{10ffff}', 'b\u{10ffff}c', 'c', '\ud7ff1', '\ue0001']);
      for (const index of [undefined, 'gsi1'] as const) {
        expect(await sortKeys({ index, sk: { beginsWith: 'ab' } })).toEqual(['ab', 'abc']);
        expect(await sortKeys({ index, sk: { beginsWith: 'b\u{10ffff}' } })).toEqual(['b\u{10ffff}', 'b\u{10ffff}c']);
        expect(await sortKeys({ index, sk: { beginsWith: '\ud7ff' } })).toEqual(['\ud7ff1']);
        expect(await sortKeys({ index, sk: { beginsWith: '\u{10ffff}' } })).toEqual([]);
        expect(await sortKeys({ index, sk: { between: ['ab', 'b'] } })).toEqual(['ab', 'abc', 'b']);
        expect(await sortKeys({ index, sk: { lessThan: 'abc' } })).toEqual(['a', 'ab']);
        expect(await sortKeys({ index, sk: { greaterThan: 'b\u{10ffff}c' }, reverse: true })).toEqual([
          '\ue0001',
          '\ud7ff1',
          'c',
        ]);
      }
    });

    test.each([undefined, 'gsi1'] as const)(
      'pages through %s without gap or repetition, and the last page knows it',
      async (index) => {
        const keys = Array.from({ length: 10 }, (_, n) => `k${n}`);
        await fill(keys);
        for (const reverse of [false, true]) {
          for (const limit of [1, 3, 5, 9, 10, 11]) {
            const seen: string[] = [];
            let cursor: string | undefined;
            let pages = 0;
            do {
              const page = await table.query({ pk, index, limit, reverse, cursor });
              pages += 1;
              seen.push(...page.items.map((item) => item.sk));
              cursor = page.cursor;
            } while (cursor !== undefined);
            expect(seen).toEqual(reverse ? [...keys].reverse() : keys);
            expect(pages).toBe(Math.ceil(10 / limit));
          }
        }
      },
    );

    test('pages through items of one place in an index', async () => {
      const keys = Array.from({ length: 7 }, (_, n) => `k${n}`);
      await Promise.all(keys.map((sk) => table.put({ ...key(sk), gsi2pk: pk, gsi2sk: 'same' })));
      for (const reverse of [false, true]) {
        const seen = await sortKeys({ index: 'gsi2', limit: 2, reverse });
        expect(seen.sort()).toEqual(keys);
      }
    });

    test('counts only visible items for limit and cursor', async () => {
      for (let n = 0; n < 9; n += 1) {
        await table.put({ ...key(`k${n}`), ...(n % 3 === 0 ? {} : { ttl: nowSeconds() - 1 }) });
      }
      const first = await table.query({ pk, limit: 2 });
      expect(first.items.map((item) => item.sk)).toEqual(['k0', 'k3']);
      const last = await table.query({ pk, limit: 1, cursor: first.cursor });
      expect(last.items.map((item) => item.sk)).toEqual(['k6']);
      expect(last.cursor).toBeUndefined();
    });

    test('goes on after an item that is gone, with another limit', async () => {
      await fill(['a', 'b', 'c', 'd']);
      for (const index of [undefined, 'gsi1'] as const) {
        const page = await table.query({ pk, index, limit: 2 });
        await table.delete(key('b'));
        const rest = await table.query({ pk, index, limit: 100, cursor: page.cursor });
        expect(rest.items.map((item) => item.sk)).toEqual(['c', 'd']);
        await fill(['b']);
      }
    });

    test('reads more than DynamoDB gives in one answer', async () => {
      await Promise.all(Array.from({ length: 8 }, (_, n) => table.put({ ...key(`k${n}`), text: 'x'.repeat(390_000) })));
      const page = await table.query({ pk, limit: 7 });
      expect(page.items).toHaveLength(7);
      expect((await table.query({ pk, cursor: page.cursor })).items.map((item) => item.sk)).toEqual(['k7']);
    });

    test('defaults to 100 items', async () => {
      await fill(Array.from({ length: 101 }, (_, n) => `k${n}`));
      expect((await table.query({ pk })).items).toHaveLength(100);
      expect((await table.query({ pk, limit: 1000 })).items).toHaveLength(101);
    });

    test('refuses a cursor of another query', async () => {
      await fill(['a', 'b', 'c']);
      const { cursor } = await table.query({ pk, limit: 1 });
      expect(cursor).toEqual(expect.any(String));
      const others: Partial<Query>[] = [
        { pk: 'other' },
        { index: 'gsi1' },
        { reverse: true },
        { sk: { beginsWith: 'a' } },
      ];
      for (const other of others) {
        await expect(table.query({ pk, cursor, ...other })).rejects.toMatchObject(misuse);
      }
      for (const forged of ['', 'x', '*', Buffer.from('[]').toString('base64url'), `${cursor}AA`]) {
        await expect(table.query({ pk, cursor: forged })).rejects.toMatchObject(misuse);
      }
    });

    test.each<[string, object]>([
      ['limit 0', { limit: 0 }],
      ['limit 1,001', { limit: 1001 }],
      ['limit 1.5', { limit: 1.5 }],
      ['an empty partition', { pk: '' }],
      ['an unknown index', { index: 'gsi3' }],
      ['an empty prefix', { sk: { beginsWith: '' } }],
      ['two ranges', { sk: { beginsWith: 'a', lessThan: 'b' } }],
      ['an unknown range', { sk: { endsWith: 'a' } }],
      ['bounds the wrong way round', { sk: { between: ['\u{10000}', '\uffff'] } }],
    ])('refuses %s', async (_name, part) => {
      await expect(table.query({ pk, ...part } as Query)).rejects.toMatchObject(misuse);
    });
  });

  describe('transact', () => {
    test('does all', async () => {
      await table.put({ ...key('b'), n: 1 });
      await table.put({ ...key('c') });
      const result = await table.transact([
        { op: 'put', item: { ...key('a'), made: true }, condition: absent() },
        { op: 'update', key: key('b'), changes: { add: { n: 1 } }, condition: lessThan('n', 2) },
        { op: 'delete', key: key('c') },
        { op: 'check', key: key('d'), condition: absent() },
        { op: 'update', key: key('e'), changes: {} },
      ]);
      expect(result).toEqual({ ok: true });
      const items = await table.batchGet(['a', 'b', 'c', 'd', 'e'].map(key));
      expect(items).toEqual([{ ...key('a'), made: true }, { ...key('b'), n: 2 }, undefined, undefined, key('e')]);
    });

    test('does none when a condition fails, and says which', async () => {
      await table.put({ ...key('b'), n: 1 });
      const result = await table.transact([
        { op: 'put', item: key('a') },
        { op: 'update', key: key('b'), changes: { add: { n: 1 } }, condition: lessThan('n', 1) },
        { op: 'delete', key: key('c'), condition: absent() },
        { op: 'check', key: key('d'), condition: exists() },
        { op: 'put', item: key('e'), condition: exists('x') },
      ]);
      expect(result).toEqual({ ok: false, failed: [1, 3, 4] });
      expect(await table.get(key('a'))).toBeUndefined();
      expect(await table.get(key('b'))).toEqual({ ...key('b'), n: 1 });
    });

    test('keeps a sum whole among simultaneous transfers', async () => {
      await table.put({ ...key('from'), n: 5 });
      await table.put({ ...key('to'), n: 0 });
      const transfer = () =>
        table.transact([
          {
            op: 'update',
            key: key('from'),
            changes: { add: { n: -1 } },
            condition: allOf(
              exists('n'),
              anyOf(equals('n', 1), equals('n', 2), equals('n', 3), equals('n', 4), equals('n', 5)),
            ),
          },
          { op: 'update', key: key('to'), changes: { add: { n: 1 } } },
        ]);
      const results = await Promise.all(Array.from({ length: 8 }, transfer));
      const done = results.filter((result) => result.ok).length;
      expect((await table.get(key('from')))?.n).toBe(5 - done);
      expect((await table.get(key('to')))?.n).toBe(done);
      expect(done).toBeLessThanOrEqual(5);
    });

    test('refuses misuse and changes nothing', async () => {
      await table.put({ ...key('text'), n: 'x' });
      // The read lets a caching host cache the item.
      await table.update(key('number'), { set: { n: 1, m: 1 } });
      const refused = (operations: TransactOperation[]) =>
        expect(table.transact(operations)).rejects.toMatchObject(misuse);
      await refused([]);
      await refused(Array.from({ length: 101 }, (_, n) => ({ op: 'delete', key: key(`${n}`) })));
      await refused([
        { op: 'put', item: key('a') },
        { op: 'check', key: key('a'), condition: exists() },
      ]);
      await refused([
        { op: 'put', item: key('a') },
        { op: 'delete', key: key('') },
      ]);
      await refused([
        { op: 'put', item: key('a') },
        { op: 'put', item: { ...key('b'), n: Number.NaN } },
      ]);
      await refused([
        { op: 'put', item: key('a') },
        { op: 'update', key: key('b'), changes: { set: { pk: 'x' } } },
      ]);
      await refused([
        { op: 'put', item: key('a') },
        { op: 'update', key: key('text'), changes: { add: { n: 1 } } },
      ]);
      // This also holds when another operation's condition fails; the transaction has no effect at all.
      await refused([
        { op: 'update', key: key('number'), changes: { set: { n: 2 }, remove: ['m'] } },
        { op: 'update', key: key('text'), changes: { add: { n: 1 } } },
        { op: 'check', key: key('a'), condition: exists() },
      ]);
      expect(await table.get(key('a'))).toBeUndefined();
      expect(await table.get(key('number'))).toEqual({ ...key('number'), n: 1, m: 1 });
    });
  });
}
