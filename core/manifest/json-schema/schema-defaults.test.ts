import { expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import { expectLinear } from '#test/helpers/linear.ts';
import { withDefaults } from './schema-defaults.ts';

const object = (properties: Record<string, unknown>, more = {}) => ({ type: 'object', properties, ...more });
const language = { type: 'string', default: 'en' };

test.each<[string, Record<string, unknown>, { [name: string]: Json }, Json]>([
  ['a member that is absent', object({ language }), { text: 'x' }, { text: 'x', language: 'en' }],
  ['no member that is there', object({ language }), { language: 'de' }, { language: 'de' }],
  [
    'no member that is null or empty',
    object({ language, n: { default: 1 } }),
    { language: '', n: null },
    { language: '', n: null },
  ],
  [
    'false, 0, null and lists',
    object({ a: { default: false }, b: { default: 0 }, c: { default: null }, d: { default: [1] } }),
    {},
    { a: false, b: 0, c: null, d: [1] },
  ],
  [
    'members of an object that is there',
    object({ o: object({ language }) }),
    { o: { a: 1 } },
    { o: { a: 1, language: 'en' } },
  ],
  ['nothing in an object that is absent', object({ o: object({ language }) }), {}, {}],
  [
    'members of an object that is a default itself',
    object({ o: object({ language }, { default: {} }) }),
    {},
    { o: { language: 'en' } },
  ],
  ['no elements of arrays', object({ list: { items: object({ language }) } }), { list: [{}] }, { list: [{}] }],
  [
    'nothing from alternatives and references',
    { anyOf: [object({ language })], $ref: '#/$defs/a', $defs: { a: object({ language }) } },
    {},
    {},
  ],
  ['nothing where the schema is no object', object({ a: true, b: object({ language }) }), { b: 'text' }, { b: 'text' }],
  [
    'an own member, whatever its name',
    object(JSON.parse('{"__proto__": {"default": {"x": 1}}}')),
    {},
    JSON.parse('{"__proto__": {"x": 1}}'),
  ],
])('fills %s', (_, schema, document, filled) => {
  const before = JSON.stringify([schema, document]);
  const result = withDefaults(schema, document);
  expect(JSON.stringify(result)).toBe(JSON.stringify(filled));
  expect(JSON.stringify([schema, document])).toBe(before);
  expect(({} as { x?: unknown }).x).toBeUndefined();
  if (JSON.stringify(document) === JSON.stringify(filled)) expect(result).toBe(document);
});

test('takes linear time for a schema of many members', () => {
  const schemaOf = (size: number) =>
    object(Object.fromEntries(Array.from({ length: size }, (_, n) => [`m${n}`, { default: 1 }])));
  const schemas = new Map([10_000, 40_000].map((size) => [size, schemaOf(size)]));
  expectLinear((size) => expect(Object.keys(withDefaults(schemas.get(size)!, {}))).toHaveLength(size), 10_000);
});
