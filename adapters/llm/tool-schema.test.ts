import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonSchema } from '#core/ports/llm.ts';
import { keyAliases, looseToolSchema, withAliases, withoutAliases } from './tool-schema.ts';

const ajv = new Ajv2020({ strict: false, logger: false, validateFormats: false });
const PLAIN = /^[\w.-]{1,64}$/;

describe('the schema of a tool', () => {
  test.each<[string, JsonSchema, object]>([
    [
      'with alternatives has the properties of all',
      { anyOf: [{ properties: { a: { type: 'string' } }, required: ['a'] }, { properties: { b: {} } }] },
      { type: 'object', properties: { a: { type: 'string' }, b: {} } },
    ],
    [
      'with a combination requires what all of it require',
      { properties: { a: {} }, required: ['a'], allOf: [{ properties: { b: {} }, required: ['b'] }] },
      { type: 'object', properties: { a: {}, b: {} }, required: ['a', 'b'] },
    ],
    [
      'that is a reference is its target',
      { $ref: '#/$defs/t', $defs: { t: { properties: { a: {} }, required: ['a'] } } },
      {
        type: 'object',
        properties: { a: {} },
        required: ['a'],
        $defs: { t: { properties: { a: {} }, required: ['a'] } },
      },
    ],
    [
      'has tuples of draft 2020-12',
      { type: 'object', properties: { a: { type: 'array', items: [{ type: 'string' }], additionalItems: false } } },
      {
        type: 'object',
        properties: { a: { type: 'array', prefixItems: [{ type: 'string' }], items: { anyOf: [{ type: 'string' }] } } },
      },
    ],
    [
      'has the bounds of draft 2020-12',
      { type: 'object', properties: { a: { type: 'number', minimum: 1, exclusiveMinimum: true, required: true } } },
      { type: 'object', properties: { a: { type: 'number', exclusiveMinimum: 1 } } },
    ],
    [
      'has no reference that leads nowhere',
      { type: 'object', properties: { a: { $ref: '#/anyOf/0', description: 'x' } }, anyOf: [{}] },
      { type: 'object', properties: { a: { description: 'x' } } },
    ],
    [
      'that refers to itself at its top stays finite',
      { $ref: '#', properties: { a: {} } },
      { type: 'object', properties: { a: {} } },
    ],
  ])('%s', (_, schema, expected) => {
    expect(looseToolSchema(schema)).toEqual(expected);
  });

  test('is valid in draft 2020-12 and has no combination at its top, whatever it was', () => {
    const schema = fc.letrec((tie) => ({
      schema: fc.oneof({ maxDepth: 3 }, fc.constant({}), tie('parts')),
      parts: fc.record(
        {
          type: fc.constantFrom('object', 'array', 'string', 'any', ['array', 'null'], 7),
          properties: fc.dictionary(fc.constantFrom('a', 'b', '__proto__', 'x y'), tie('schema'), { maxKeys: 2 }),
          items: fc.oneof(tie('schema'), fc.array(tie('schema'), { maxLength: 2 }), fc.boolean()),
          additionalItems: fc.oneof(tie('schema'), fc.boolean()),
          required: fc.oneof(fc.boolean(), fc.uniqueArray(fc.constantFrom('a', 'b'))),
          exclusiveMaximum: fc.oneof(fc.boolean(), fc.integer()),
          maximum: fc.integer(),
          $id: fc.constantFrom('#x', 'https://example.com/s'),
          $ref: fc.constantFrom('#', '#/properties/a', '#/$defs/none', '#/anyOf/0'),
          anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
          not: tie('schema'),
        },
        { requiredKeys: [], noNullPrototype: true },
      ),
    })).schema as fc.Arbitrary<JsonSchema>;
    fc.assert(
      fc.property(schema, (given) => {
        const sent = looseToolSchema(given);
        expect(sent.type).toBe('object');
        for (const keyword of ['anyOf', 'oneOf', 'allOf', 'not', '$ref']) expect(sent).not.toHaveProperty([keyword]);
        expect(ajv.validateSchema(sent), JSON.stringify([sent, ajv.errors])).toBe(true);
      }),
    );
  });
});

describe('aliases of properties', () => {
  const schema = {
    type: 'object',
    properties: {
      'Total (EUR)': { type: 'number' },
      Total_EUR: { type: 'number' },
      'straße nr': { type: 'object', properties: { '€': { type: 'string' } }, required: ['€'] },
      list: { type: 'array', items: { properties: { 'a b': {} } } },
    },
    required: ['Total (EUR)', 'list'],
  };
  const aliases = keyAliases(PLAIN)(schema);

  test('stand for the names that are refused, each for one', () => {
    expect(Object.fromEntries(aliases)).toEqual({
      'Total (EUR)': 'Total_EUR_2',
      'straße nr': 'stra_e_nr',
      '€': 'key',
      'a b': 'a_b',
    });
    expect(withAliases(schema, aliases)).toMatchObject({
      properties: {
        Total_EUR_2: { title: 'Total (EUR)', type: 'number' },
        Total_EUR: { type: 'number' },
        stra_e_nr: { properties: { key: { title: '€' } }, required: ['key'] },
      },
      required: ['Total_EUR_2', 'list'],
    });
  });

  test('are undone in the parameters of a call', () => {
    const input = { Total_EUR_2: 1, Total_EUR: 2, stra_e_nr: { key: 'x' }, list: [{ a_b: [] }] };
    const original = { 'Total (EUR)': 1, Total_EUR: 2, 'straße nr': { '€': 'x' }, list: [{ 'a b': [] }] };
    expect(withoutAliases(input, aliases)).toEqual(original);
  });

  test('match the pattern and do not collide, whatever the names are', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string({ unit: 'grapheme' }), { minLength: 1 }), (names) => {
        const properties = Object.fromEntries(names.map((name) => [name, {}]));
        const made = keyAliases(PLAIN)({ properties });
        const sent = names.map((name) => made.get(name) ?? name);
        expect(new Set(sent).size).toBe(names.length);
        for (const name of sent) expect(name).toMatch(PLAIN);
      }),
    );
  });
});
