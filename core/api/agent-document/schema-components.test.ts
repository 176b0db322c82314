import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkSchema } from '#core/manifest/json-schema/schema-validation.ts';
import { sampleOf } from './sample.ts';
import { componentsOf } from './schema-components.ts';

type Schema = Record<string, unknown>;
const documentOf = (schema: Schema) => ({ components: { schemas: componentsOf(schema, 'Input') } });

/** Whether a value matches the schema as it is in a document. */
const accepts = (schema: Schema, value: unknown): boolean => compiled(schema)(value);

function compiled(schema: Schema) {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false });
  ajv.addSchema({ $id: 'https://example.org/openapi', ...documentOf(schema) });
  return ajv.compile({ $ref: 'https://example.org/openapi#/components/schemas/Input' });
}

/** Each reference, with what it means in the document. */
function referencesIn(document: unknown): [reference: string, target: unknown][] {
  const found: [string, unknown][] = [];
  JSON.stringify(document, (_, value) => {
    if (typeof value?.$ref !== 'string') return value;
    const parts = value.$ref
      .split('/')
      .slice(1)
      .map((part: string) => decodeURIComponent(part));
    const names = parts.map((part: string) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
    found.push([value.$ref, names.reduce((at: Schema, name: string) => at?.[name] as Schema, document as Schema)]);
    return value;
  });
  return found;
}

const TREE = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'https://example.org/tree',
  type: 'object',
  properties: {
    root: { $ref: '#/$defs/a node' },
    copy: { $ref: '#/properties/root' },
    other: { $ref: 'https://example.org/tree#/definitions/a node' },
    self: { $ref: '#' },
    size: { $ref: '#/$defs/a node/properties/size' },
  },
  required: ['root'],
  $defs: {
    'a node': {
      type: 'object',
      properties: { size: { type: 'integer' }, children: { type: 'array', items: { $ref: '#/$defs/a%20node' } } },
      required: ['size'],
    },
  },
  definitions: { 'a node': { type: 'string' } },
};

test('definitions become components, with the same meaning', () => {
  const components = componentsOf(TREE, 'Input');
  expect(Object.keys(components)).toEqual(['Input', 'Input_a_node', 'Input_a_node_2']);
  expect(referencesIn(documentOf(TREE)).filter(([, target]) => target === undefined)).toEqual([]);
  const root = { size: 1, children: [{ size: 2 }] };
  expect(accepts(TREE, { root, copy: root, other: 'x', self: { root }, size: 3 })).toBe(true);
  for (const wrong of [
    {},
    { root: {} },
    { root: { size: 1, children: [{}] } },
    { root, other: 1 },
    { root, self: {} },
  ]) {
    expect(accepts(TREE, wrong), JSON.stringify(wrong)).toBe(false);
  }
});

test('the words of draft-07 become those of 2020-12', () => {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    items: [{ type: 'string' }],
    additionalItems: { type: 'number' },
    dependencies: { a: ['b'], c: { required: ['d'] } },
  };
  expect(accepts(schema, ['x', 1])).toBe(true);
  expect(accepts(schema, ['x', 'y'])).toBe(false);
  expect(accepts(schema, { a: 1 })).toBe(false);
  expect(accepts(schema, { c: 1, d: 1 })).toBe(true);
});

test.each<[string, Schema]>([
  ['a reference to itself', { $ref: '#' }],
  ['a reference to another place', { $ref: 'https://evil.example/schema.json' }],
  ['a reference to nothing', { $ref: '#/$defs/none' }],
  ['a reference to a value', { $ref: '#/title', title: 'x' }],
  ['anchors', { $defs: { a: { $anchor: 'a', type: 'string' } }, $ref: '#a' }],
  ['a name of its own below', { properties: { a: { $id: 'b', $ref: '#/$defs/x', $defs: { x: { type: 'string' } } } } }],
  [
    'references in values',
    { default: { $ref: '#/a' }, enum: [{ b: [{ $ref: 'c' }] }], 'x-y': { $ref: 'file:///etc' } },
  ],
  ['what OpenAPI means otherwise', { discriminator: 'x', xml: 1, externalDocs: [] }],
  ['a broken escape', { $ref: '#/%E0%A4%A' }],
])('%s leads nowhere, and accepts everything', (_, schema) => {
  const document = documentOf(schema);
  expect(referencesIn(document)).toEqual([]);
  expect(JSON.stringify(document)).not.toMatch(/discriminator|evil|file:|xml/);
  expect(accepts(schema, { any: ['thing'] })).toBe(true);
});

test('what no reader would take is left out', () => {
  const wrong = {
    type: 7,
    anyOf: [],
    required: 'a',
    minLength: -1,
    pattern: 1,
    title: {},
    uniqueItems: 1,
    multipleOf: 0,
  };
  expect(componentsOf({ type: ['string', 'null'], $defs: { a: wrong } }, 'Input')).toEqual({
    Input: { type: ['string', 'null'] },
    Input_a: {},
  });
});

test('a circle of references ends', () => {
  const $defs = { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' }, c: { $ref: '#/$defs/c' } };
  const schema = { $ref: '#/$defs/a', properties: { x: { $ref: '#/$defs/c' } }, $defs };
  expect(documentOf(schema).components.schemas).toMatchObject({
    Input_a: { $ref: expect.any(String) },
    Input_b: {},
    Input_c: {},
  });
  expect(accepts(schema, { x: 1 })).toBe(true);
});

test('a schema that refers to a reference by a long way is kept', () => {
  const $defs = Object.fromEntries(
    Array.from({ length: 2000 }, (_, n) => [`d${n}`, n === 1999 ? { type: 'string' } : { $ref: `#/$defs/d${n + 1}` }]),
  );
  const document = documentOf({ $ref: '#/$defs/d0', $defs });
  expect(referencesIn(document)).toHaveLength(2000);
});

test('names of members and definitions stay data', () => {
  const schema = JSON.parse(
    '{"properties":{"__proto__":{"type":"string"},"$ref":{"type":"integer"},"a/b~c":{"$ref":"#/$defs/__proto__"}},"$defs":{"__proto__":{"type":"boolean"},"constructor":{},"ü":{},"\\u0000":{}}}',
  );
  expect(Object.keys(componentsOf(schema, 'Input'))).toEqual([
    'Input',
    'Input__proto_',
    'Input_constructor',
    'Input__',
    'Input___4',
  ]);
  expect(accepts(schema, JSON.parse('{"__proto__":"x","$ref":1,"a/b~c":true}'))).toBe(true);
  expect(accepts(schema, { 'a/b~c': 1 })).toBe(false);
  expect(({} as Record<string, unknown>).type).toBeUndefined();
});

test('nested too deeply, the rest accepts everything', () => {
  const deep = (depth: number): string => `${'{"items":'.repeat(depth)}{}${'}'.repeat(depth)}`;
  const document = documentOf(JSON.parse(deep(3000)));
  expect(JSON.stringify(document).length).toBeLessThan(2000);
});

test('every schema that can be published gives a document whose references resolve', () => {
  const name = fc.constantFrom('a', 'b', '$ref', '__proto__', 'x/y', '%');
  const { schema } = fc.letrec<{ schema: unknown }>((tie) => ({
    schema: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom({}, true, false, { type: 'string' }),
      fc.record({
        $ref: fc.constantFrom('#', '#/$defs/a', '#/$defs/b', '#/$defs/x~1y', '#/properties/a', '#/$defs/a/items'),
      }),
      fc.record(
        {
          properties: fc.dictionary(name, tie('schema')),
          items: tie('schema'),
          allOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
          default: fc.anything({ key: name, maxDepth: 2 }),
        },
        { requiredKeys: [] },
      ),
    ),
  }));
  const whole = fc
    .tuple(schema, fc.dictionary(name, schema))
    .map(([root, $defs]) => JSON.parse(JSON.stringify({ ...(root as Schema), $defs })) as Schema);
  fc.assert(
    fc.property(whole, (given) => {
      const document = documentOf(given);
      for (const [reference, target] of referencesIn(document))
        expect(typeof target, reference).toMatch(/object|boolean/);
      if (checkSchema(given, 'schema').length === 0) compiled(given);
    }),
    { numRuns: 200 },
  );
});

test('a sample matches its schema, or there is none', () => {
  const schema = {
    type: 'object',
    properties: {
      text: { type: 'string' },
      count: { type: 'integer', minimum: 3 },
      kind: { enum: ['a', 'b'] },
      list: { type: 'array', items: { type: 'string' } },
      city: { type: 'string', pattern: '^[A-Z]', examples: ['Bern'] },
    },
    required: ['text', 'count', 'kind', 'list', 'city'],
  };
  expect(sampleOf(schema)).toEqual({ text: 'text', count: 3, kind: 'a', list: [], city: 'Bern' });
  expect(accepts(schema, sampleOf(schema))).toBe(true);
  for (const more of [{ pattern: 'x' }, { minLength: 9 }, { $ref: '#' }, { not: {} }, { format: 'date' }]) {
    expect(sampleOf({ ...schema, properties: { ...schema.properties, text: { type: 'string', ...more } } })).toBe(
      undefined,
    );
  }
});
