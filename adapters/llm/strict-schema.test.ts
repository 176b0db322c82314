import { describe, expect, test } from 'vitest';
import type { JsonSchema } from '#core/ports/llm.ts';
import { anthropicSchemaProblem, openaiSchemaProblem } from '#test/helpers/scripted-llm/schema-rules.ts';
import type { SchemaForm } from './providers/api.ts';
import { apiOf } from './providers.ts';
import { strictToolFor } from './schema-for.ts';

const settings = { ollamaSchemas: false };
const openai = (schema: JsonSchema) => apiOf('openai').answerForms('gpt-6.2-sol', schema, settings);
const anthropic = (schema: JsonSchema, model = 'claude-haiku-5-5') =>
  apiOf('anthropic').answerForms(model, schema, settings);
const kinds = (forms: readonly SchemaForm[]) => forms.map(({ kind }) => kind);
const native = ([form]: readonly SchemaForm[]) => (form as { schema: JsonSchema }).schema;
const object = (properties: JsonSchema, required: string[] = [], more: JsonSchema = {}): JsonSchema => ({
  type: 'object',
  properties,
  required,
  ...more,
});

describe('OpenAI', () => {
  test('an optional member becomes a required one that may be null, and objects are closed', () => {
    const schema = object(
      {
        name: { type: 'string', description: 'Of the person.' },
        age: { type: 'integer', minimum: 0 },
        kind: { enum: ['a', 'b'] },
        is: { const: 'x' },
        note: { type: ['string', 'null'] },
        many: { type: ['number', 'string'] },
        either: { anyOf: [{ type: 'string' }, object({ a: { type: 'string' } })] },
        at: { $ref: '#/definitions/place' },
      },
      ['name'],
      { definitions: { place: object({ city: { type: 'string', minLength: 2 } }, ['city']) } },
    );
    expect(kinds(openai(schema))).toEqual(['native', 'guide', 'message']);
    expect(native(openai(schema))).toEqual({
      type: 'object',
      properties: {
        name: { type: 'string', description: 'Of the person.' },
        age: { type: ['integer', 'null'], minimum: 0 },
        kind: { type: ['string', 'null'], enum: ['a', 'b', null] },
        is: { type: ['string', 'null'], enum: ['x', null] },
        note: { type: ['string', 'null'] },
        many: { type: ['number', 'string', 'null'] },
        either: {
          anyOf: [
            { type: 'string' },
            {
              type: 'object',
              properties: { a: { type: ['string', 'null'] } },
              required: ['a'],
              additionalProperties: false,
            },
            { type: 'null' },
          ],
        },
        at: { anyOf: [{ $ref: '#/$defs/place' }, { type: 'null' }] },
      },
      required: ['name', 'age', 'kind', 'is', 'note', 'many', 'either', 'at'],
      additionalProperties: false,
      $defs: {
        place: {
          type: 'object',
          properties: { city: { type: 'string', description: '(minLength 2)' } },
          required: ['city'],
          additionalProperties: false,
        },
      },
    });
  });

  test('circles of references stay', () => {
    const node = object({ name: { type: 'string' }, children: { type: 'array', items: { $ref: '#/$defs/node' } } }, [
      'name',
    ]);
    const schema = object({ tree: { $ref: '#/$defs/node' } }, ['tree'], { $defs: { node } });
    expect(openaiSchemaProblem('x', native(openai(schema)), true)).toBeUndefined();
    const itself = object({ children: { type: 'array', items: { $ref: '#' } } });
    expect(native(openai(itself)).properties).toEqual({ children: { type: ['array', 'null'], items: { $ref: '#' } } });
  });
});

describe('Anthropic', () => {
  test('bounds become words, oneOf becomes anyOf, and optional members stay', () => {
    const schema = object({
      n: { type: 'integer', minimum: 1, maximum: 5, description: 'Stars.' },
      list: { type: 'array', minItems: 2, items: { oneOf: [{ const: 1 }, { type: 'string', format: 'iri' }] } },
      day: { type: 'string', format: 'date' },
    });
    expect(native(anthropic(schema))).toEqual({
      type: 'object',
      properties: {
        n: { type: 'integer', description: 'Stars. (minimum 1, maximum 5)' },
        list: {
          type: 'array',
          description: '(minItems 2)',
          items: {
            anyOf: [
              { type: 'number', const: 1 },
              { type: 'string', description: '(format iri)' },
            ],
          },
        },
        day: { type: 'string', format: 'date' },
      },
      required: [],
      additionalProperties: false,
    });
  });

  test('more optional members, or more alternatives, than compile are told by a tool', () => {
    const members = (count: number, schema: JsonSchema) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`m${index}`, schema]));
    const text = { type: 'string' };
    expect(kinds(anthropic(object(members(10, text))))).toEqual(['native', 'tool', 'message']);
    expect(kinds(anthropic(object(members(11, text))))).toEqual(['tool', 'message']);
    const all = Object.keys(members(17, text));
    expect(kinds(anthropic(object(members(17, { type: ['string', 'null'] }), all)))).toEqual(['tool', 'message']);
    // Each use of a definition counts.
    const $defs = { four: object(members(4, text)) };
    const uses = (count: number) => object(members(count, { $ref: '#/$defs/four' }), all.slice(0, count), { $defs });
    expect(kinds(anthropic(uses(2)))[0]).toBe('native');
    expect(kinds(anthropic(uses(3)))[0]).toBe('tool');
  });

  test('a model that cannot be made to call a tool gets the message after the native form', () => {
    expect(kinds(anthropic(object({ a: { type: 'string' } }), 'claude-sonnet-5-5'))).toEqual(['native', 'message']);
    expect(kinds(anthropic(object({ a: { type: 'object' } }), 'claude-sonnet-5-5'))).toEqual(['tool', 'message']);
  });
});

describe('neither says the same of', () => {
  test.each<[string, JsonSchema]>([
    ['a map', object({ a: { type: 'object', additionalProperties: { type: 'number' } } })],
    ['an open object', object({ a: { type: 'object' } })],
    ['names by patterns', object({ a: { type: 'object', patternProperties: { '^x': {} } } })],
    ['any value', object({ a: {} })],
    ['an array of any values', object({ a: { type: 'array' } })],
    ['a condition', object({ a: { type: 'string' } }, [], { if: {}, else: {} })],
    ['alternatives of required members', object({ a: { type: 'string' } }, [], { oneOf: [{ required: ['a'] }] })],
    ['a combination', object({ a: { allOf: [object({}), object({})] } })],
    ['a tuple', object({ a: { type: 'array', prefixItems: [{ type: 'string' }] } })],
    ['a required member that is not described', object({ a: { type: 'string' } }, ['b'])],
    ['a reference that leads nowhere', object({ a: { $ref: '#/$defs/none' } })],
    ['a reference into the schema', object({ a: { type: 'string' }, b: { $ref: '#/properties/a' } })],
    ['values that are objects', object({ a: { enum: [{}] } })],
  ])('%s', (_, schema) => {
    expect(kinds(openai(schema))).toEqual(['guide', 'message']);
    expect(kinds(anthropic(schema))).toEqual(['tool', 'message']);
    expect(kinds(strictToolFor('openai', schema))).toEqual(['loose']);
    expect(kinds(strictToolFor('anthropic', schema))).toEqual(['loose']);
  });

  test('circles, for Anthropic', () => {
    const schema = object({ a: { $ref: '#/$defs/a' } }, [], { $defs: { a: object({ a: { $ref: '#/$defs/a' } }) } });
    expect(kinds(anthropic(schema))).toEqual(['tool', 'message']);
    expect(kinds(openai(schema))[0]).toBe('native');
  });
});

test('Gemini gets the schema as it is, a local server only if it takes one', () => {
  const schema = object({ a: { type: 'object', additionalProperties: { type: 'number' } } });
  expect(apiOf('gemini').answerForms('m', schema, settings)).toEqual([{ kind: 'native', schema }, { kind: 'message' }]);
  const local = (ollamaSchemas: boolean) => kinds(apiOf('ollama').answerForms('m', schema, { ollamaSchemas }));
  expect(local(false)).toEqual(['message']);
  expect(local(true)).toEqual(['native', 'message']);
});

describe('of 2000 schemas made at random', () => {
  /** Park-Miller random number generator. */
  let state = 7;
  const random = (below: number): number => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
  const pick = <T>(...choices: (() => T)[]): T => choices[random(choices.length)]!();
  const schemaOf = (depth: number): JsonSchema =>
    pick<JsonSchema>(
      () => ({ type: 'string', maxLength: random(9) }),
      () => ({
        type: pick<unknown>(
          () => 'integer',
          () => ['number', 'null'],
        ),
        minimum: 0,
      }),
      () => ({ enum: ['a', 'b', ...(random(2) === 0 ? [null] : [])] }),
      () => ({ const: random(3), default: 1 }),
      () => ({
        type: 'string',
        format: pick(
          () => 'uri',
          () => 'date',
          () => 'x',
        ),
      }),
      () => ({ $ref: `#/$defs/d${random(2)}` }),
      () => (depth > 4 ? { type: 'boolean' } : { type: 'array', items: schemaOf(depth + 1), uniqueItems: true }),
      () =>
        depth > 4
          ? { type: 'null' }
          : {
              [pick(
                () => 'anyOf',
                () => 'oneOf',
              )]: [schemaOf(depth + 1), schemaOf(depth + 1)],
            },
      () => (depth > 4 ? { type: 'object' } : objectOf(depth + 1)),
      () => ({ type: 'object', additionalProperties: random(2) === 0 }),
    );
  const objectOf = (depth: number): JsonSchema => {
    const names = ['a', 'b', 'c'].slice(0, 1 + random(3));
    const properties = Object.fromEntries(names.map((name) => [name, schemaOf(depth)]));
    return object(
      properties,
      names.filter(() => random(2) === 0),
      random(2) === 0 ? {} : { additionalProperties: false },
    );
  };
  const schemas = Array.from({ length: 2000 }, () => ({
    ...objectOf(0),
    $defs: { d0: { type: 'string', pattern: '^a' }, d1: random(3) === 0 ? objectOf(3) : { type: 'integer' } },
  }));

  test.each([
    ['OpenAI', openai, (schema: unknown) => openaiSchemaProblem('x', schema, true)],
    ['Anthropic', anthropic, (schema: unknown) => anthropicSchemaProblem('x', schema)],
  ])('%s takes every one that is native', (_, formsOf, problemOf) => {
    const forms = schemas.map((schema) => formsOf(schema));
    const natives = forms.filter(([form]) => form!.kind === 'native');
    expect(natives.length).toBeGreaterThan(200);
    expect(natives.length).toBeLessThan(1900);
    for (const form of natives) expect(problemOf(native(form)), JSON.stringify(native(form))).toBeUndefined();
  });
});

test('references that fan out are counted, not followed', () => {
  const level = (index: number) =>
    object({ a: { $ref: `#/$defs/d${index + 1}` }, b: { $ref: `#/$defs/d${index + 1}` } });
  const $defs = Object.fromEntries(
    Array.from({ length: 60 }, (_, index) => [`d${index}`, index === 59 ? { type: 'string' } : level(index)]),
  );
  const schema = object({ a: { $ref: '#/$defs/d0' } }, [], { $defs });
  expect(kinds(openai(schema))).toEqual(['guide', 'message']);
  expect(kinds(anthropic(schema))).toEqual(['tool', 'message']);
});
