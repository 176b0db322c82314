import { expect, test } from 'vitest';
import { estimateCost, isSmallCheck } from './simple-schema.ts';

const isSimple = (schema: Record<string, unknown>) => estimateCost(schema, JSON.stringify(schema)) !== undefined;
const person = { type: 'object', properties: { name: { type: 'string', maxLength: 5 } }, required: ['name'] };

test.each<[Record<string, unknown>]>([
  [{}],
  [person],
  [{ ...person, additionalProperties: false, title: 'x', description: 'y', examples: [{}] }],
  [{ type: 'array', items: person, minItems: 1, maxItems: 3 }],
  [{ anyOf: [person, { type: 'null' }] }],
  [{ $defs: { person }, properties: { a: { $ref: '#/$defs/person' }, b: { $ref: '#/$defs/person' } } }],
  [{ type: 'array', items: { type: 'string' }, uniqueItems: true }],
  [{ format: 'date-time' }],
  [{ properties: { pattern: { type: 'string' } } }],
  [{ properties: { file: { type: 'string', accepts_files: true, accept: '.pdf', max_files: 2 } } }],
])('%j is simple', (schema) => {
  expect(isSimple(schema)).toBe(true);
});

test.each<[string, Record<string, unknown>]>([
  ['a pattern', { properties: { a: { pattern: '^a$' } } }],
  ['names by patterns', { patternProperties: { a: {} } }],
  ['a format of many forms', { format: 'email' }],
  ['a format that we do not know', { format: 'x' }],
  ['unique items of any kind', { uniqueItems: true }],
  ['unique objects', { uniqueItems: true, items: { type: ['string', 'object'] } }],
  ['a keyword that we do not know', { minContains: 2 }],
  ['a circle', { properties: { a: { $ref: '#' } } }],
  ['a circle of definitions', { $defs: { a: { items: { $ref: '#/$defs/a' } } }, $ref: '#/$defs/a' }],
  [
    'a reference that is written in another way',
    { $defs: { 'a~1b': {}, 'a/b': { pattern: 'a' } }, $ref: '#/$defs/a~1b' },
  ],
  [
    'a definition that another name hides',
    { $defs: { a: {}, b: { $id: '#/$defs/a', pattern: 'a' } }, $ref: '#/$defs/a' },
  ],
  ['many parts', { enum: Array.from({ length: 200 }, (_, i) => i) }],
  ['a long text', { description: 'x'.repeat(20_000) }],
  ['a list of items', { items: [{ type: 'string' }] }],
])('%s is not simple', (_, schema) => {
  expect(isSimple(schema)).toBe(false);
});

// 2 to the power of 59 references would be followed.
test('references that fan out are not followed to their end', () => {
  const level = (i: number) => ({ allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] });
  const $defs = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`d${i}`, i === 59 ? {} : level(i)]));
  expect(isSimple({ $defs, $ref: '#/$defs/d0' })).toBe(false);
});

test('a check is small by the parts of the schema and the places of the value', () => {
  const weightOf = (schema: Record<string, unknown>) => estimateCost(schema, JSON.stringify(schema))!;
  const list = weightOf({ items: { type: 'string' } });
  expect(isSmallCheck(list, Array(1_000).fill('x'))).toBe(true);
  expect(isSmallCheck(list, Array(100_000).fill('x'))).toBe(false);
  expect(isSmallCheck(list, ['x'.repeat(10_000_000)])).toBe(true);
  expect(isSmallCheck(weightOf({ items: { maxLength: 5 } }), ['x'.repeat(10_000_000)])).toBe(false);
  expect(isSmallCheck(list, Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [i, i])))).toBe(false);
});
