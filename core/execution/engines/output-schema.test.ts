import { describe, expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import { validateAgainst } from '#core/manifest/json-schema/schema-validation.ts';
import type { JsonSchema } from '#core/ports/llm.ts';
import { constrainsShape, objectSchema, withoutForbiddenNulls } from './output-schema.ts';

describe('objectSchema', () => {
  test('leaves an object, and makes any other schema the member `result` of one', () => {
    const object = { type: 'object', properties: { a: { type: 'string' } }, $defs: { b: {} } };
    expect(objectSchema(object)).toEqual(object);
    const { type, ...untyped } = object;
    expect(objectSchema(untyped)).toEqual(object);
    const list = { type: 'array', items: { $ref: '#/$defs/row' } };
    expect(objectSchema({ ...list, $schema: 'x', $defs: { row: {} } })).toEqual({
      $schema: 'x',
      $defs: { row: {} },
      type: 'object',
      properties: { result: list },
      required: ['result'],
    });
  });

  test.each<[JsonSchema, Json, Json]>([
    [{ type: 'array', items: { anyOf: [{ type: 'integer' }, { $ref: '#' }] } }, [1, [2, [3]]], [1, ['x']]],
    [
      { anyOf: [{ type: 'null' }, { type: 'object', properties: { next: { $ref: '#' } } }] },
      { next: null },
      { next: 1 },
    ],
    [
      { $ref: '#/$defs/result', $defs: { result: { type: 'array', items: { $ref: '#/$defs/result' } } } },
      [[], [[]]],
      [1],
    ],
    [
      {
        type: 'array',
        items: { $ref: '#/$defs/result' },
        contains: { $ref: '#/items' },
        $defs: { result: { type: 'string' } },
      },
      ['a'],
      [1],
    ],
  ])('references to the root lead to it: %j', (schema, right, wrong) => {
    const wrapped = objectSchema(schema);
    for (const [value, isRight] of [
      [right, true],
      [wrong, false],
    ] as const) {
      expect(validateAgainst(schema, value).length === 0).toBe(isRight);
      expect(validateAgainst(wrapped, { result: value }).length === 0).toBe(isRight);
    }
  });
});

test.each<[boolean, JsonSchema]>([
  [true, { properties: { a: {} } }],
  [true, { type: 'array', items: { type: 'string' } }],
  [true, { oneOf: [{ properties: { a: {} } }] }],
  [false, {}],
  [false, { type: 'object' }],
  [false, { type: 'object', properties: {} }],
  [false, { type: 'object', additionalProperties: { type: 'number' } }],
  [false, { type: 'string' }],
  [false, { type: 'array' }],
])('a model is told: %s, %j', (isTold, schema) => {
  expect(constrainsShape(schema)).toBe(isTold);
});

describe('withoutForbiddenNulls', () => {
  const text = { type: 'string' };
  const person = { type: 'object', properties: { name: text, nick: text }, required: ['name'] };

  test.each<[string, JsonSchema, Json, Json]>([
    ['an optional member', person, { name: 'a', nick: null }, { name: 'a' }],
    ['not a required one', person, { name: null, nick: null }, { name: null }],
    [
      'not one that is allowed',
      { properties: { a: { type: ['string', 'null'] }, b: {} } },
      { a: null, b: null },
      { a: null, b: null },
    ],
    ['not one that is not described', person, { name: 'a', x: null }, { name: 'a', x: null }],
    ['in arrays', { type: 'array', items: person }, [{ name: 'a', nick: null }, 1], [{ name: 'a' }, 1]],
    [
      'behind references',
      { $defs: { person }, items: { $ref: '#/$defs/person' } },
      [{ name: 'a', nick: null }],
      [{ name: 'a' }],
    ],
    [
      'of a member that is a reference, an enumeration or a constant',
      { $defs: { text }, properties: { a: { $ref: '#/$defs/text' }, b: { enum: ['x'] }, c: { const: 1 } } },
      { a: null, b: null, c: null },
      {},
    ],
    [
      'in alternatives',
      {
        oneOf: [
          { properties: { kind: { const: 'p' }, who: person } },
          { properties: { kind: { const: 'q' }, n: { type: 'null' } } },
        ],
      },
      { kind: 'p', who: { name: 'a', nick: null }, n: null },
      { kind: 'p', who: { name: 'a' }, n: null },
    ],
    [
      'in maps',
      { properties: { all: { additionalProperties: person } } },
      { all: { x: { name: 'a', nick: null } } },
      { all: { x: { name: 'a' } } },
    ],
    [
      'in circles',
      { type: 'object', properties: { next: { $ref: '#' } } },
      { next: { next: { next: null } } },
      { next: { next: {} } },
    ],
  ])('%s', (_, schema, value, clean) => {
    expect(withoutForbiddenNulls(schema, value)).toEqual(clean);
  });

  test('gives up on values that take too many steps', () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 60 }, (_, index) => [
        `d${index}`,
        { anyOf: [{ $ref: `#/$defs/d${index + 1}` }, { $ref: `#/$defs/d${index + 1}` }] },
      ]),
    );
    const schema = { $defs, properties: { a: { $ref: '#/$defs/d0' } } };
    expect(withoutForbiddenNulls(schema, { a: null })).toEqual({ a: null });
    const many = Array.from({ length: 20_000 }, () => ({ a: null }));
    expect(withoutForbiddenNulls({ $defs, items: schema }, many)).toHaveLength(20_000);
  });
});
