import { describe, expect, test } from 'vitest';
import { checkSchema, validateAgainst } from './schema-validation.ts';

const errorsOf = (schema: Record<string, unknown>, value: unknown) =>
  validateAgainst(schema, value).map(({ field, message }) => `${field}: ${message}`);

describe('validateAgainst', () => {
  test.each<[schema: Record<string, unknown>, value: unknown, errors: string[]]>([
    [{}, { anything: 1 }, []],
    [{ type: 'object' }, [], [': must be object, but is array']],
    [{ type: ['string', 'null'] }, 1, [': must be string or null, but is number']],
    [{ required: ['a', 'b c'] }, {}, ['a: is required', '["b c"]: is required']],
    [{ properties: { a: { type: 'integer' } } }, { a: 1.5 }, ['a: must be integer, but is number']],
    [
      { properties: { a: { items: { properties: { b: { minimum: 3 } } } } } },
      { a: [{ b: 3 }, { b: 2 }] },
      ['a[1].b: must be >= 3, but is 2'],
    ],
    [{ properties: { 0: { type: 'string' } } }, { 0: 1 }, ['["0"]: must be string, but is number']],
    [{ properties: { 'a/b~c': { type: 'string' } } }, { 'a/b~c': 1 }, ['["a/b~c"]: must be string, but is number']],
    [{ additionalProperties: false }, { x: 'secret' }, ['x: is not allowed']],
    [{ unevaluatedProperties: false }, { x: 1 }, ['x: is not allowed']],
    [{ dependentRequired: { a: ['b'] } }, { a: 1 }, ['b: is required with a']],
    [{ enum: ['a', 'b'] }, 'c', [': must be one of "a", "b"']],
    [{ enum: Array.from({ length: 12 }, (_, i) => i) }, -1, [': must be one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …']],
    [{ const: 4 }, 5, [': must be 4']],
    [{ maxLength: 2 }, 'abc', [': must NOT have more than 2 characters, but has 3']],
    [{ minItems: 1 }, [], [': must NOT have fewer than 1 items, but has 0']],
    [{ pattern: '^a' }, 'sk_live_1', [': must match pattern "^a"']],
    [{ format: 'date' }, '2024-13-01', [': must match format "date"']],
    [{ format: 'no-such-format' }, 'x', []],
    [{ uniqueItems: true }, [1, 1], [': must not have the same element twice']],
    [JSON.parse('{"if":{"minimum":1},"then":{"maximum":2}}'), 3, [': must be <= 2, but is 3']],
    [{ properties: { file: { type: 'string', accepts_files: true, accept: '.pdf', max_files: 2 } } }, { file: '' }, []],
  ])('%j with %j', (schema, value, errors) => {
    expect(errorsOf(schema, value)).toEqual(errors);
  });

  test('names at most 20 errors', () => {
    const value = Array.from({ length: 50 }, () => 'x');
    expect(validateAgainst({ items: { type: 'number' } }, value)).toHaveLength(20);
  });

  test('names only the first error of a large value', () => {
    const value = Array.from({ length: 200_000 }, () => 'x');
    expect(errorsOf({ items: { type: 'number' } }, value)).toEqual(['[0]: must be number, but is string']);
  });

  test('never shows the text of a value', () => {
    const schema = { properties: { key: { enum: ['a'], pattern: '^a', maxLength: 3, format: 'date', const: 'a' } } };
    expect(JSON.stringify(validateAgainst(schema, { key: 'hunter2-hunter2' }))).not.toContain('hunter2');
  });

  test('does not change the value', () => {
    const value = {};
    validateAgainst({ properties: { a: { default: 1 } } }, value);
    expect(value).toEqual({});
  });
});

describe('drafts', () => {
  const tuple07 = { items: [{ type: 'number' }], additionalItems: false };
  test.each<[string, Record<string, unknown>, unknown, boolean]>([
    ['2020-12 without $schema', { prefixItems: [{ type: 'number' }], items: false }, [1, 2], false],
    ['07 without $schema where only that fits', tuple07, [1, 2], false],
    ['07', { $schema: 'http://json-schema.org/draft-07/schema#', ...tuple07 }, [1], true],
    ['04 read as 07', { $schema: 'http://json-schema.org/draft-04/schema#', type: 'string' }, 1, false],
    ['2019-09', { $schema: 'https://json-schema.org/draft/2019-09/schema', ...tuple07 }, [1, 2], false],
    ['unknown dialect', { $schema: 'https://example.org/my-dialect', type: 'string' }, 1, false],
    ['definitions', { definitions: { a: { type: 'string' } }, $ref: '#/definitions/a' }, 1, false],
    ['own $id', { $id: 'https://x.example/a', properties: { a: { $ref: 'https://x.example/a' } } }, { a: {} }, true],
    ['recursion', { properties: { a: { $ref: '#' } }, additionalProperties: false }, { a: { a: { b: 1 } } }, false],
    ['pattern of the older syntax', { pattern: '^[\\w\\-]+\\_$' }, 'a-b_', true],
    ['look-ahead', { pattern: '^(?!x)' }, 'x', false],
  ])('%s', (_, schema, value, valid) => {
    expect(checkSchema(schema, 's')).toEqual([]);
    expect(validateAgainst(schema, value).length === 0).toBe(valid);
  });
});

describe('checkSchema', () => {
  const nested = (depth: number): Record<string, unknown> => {
    let schema = {};
    for (let level = 0; level < depth; level++) schema = { not: schema };
    return schema;
  };

  test.each<[unknown, string, string]>([
    [true, 's', 'must be a JSON Schema'],
    [null, 's', 'must be a JSON Schema'],
    [{ type: 'text' }, 's.type', 'must be one of "array"'],
    [{ properties: { a: { minimum: '1' } } }, 's.properties.a.minimum', 'must be number, but is string'],
    [{ required: 'a' }, 's.required', 'must be array, but is string'],
    [{ pattern: '(' }, 's', 'Unterminated group'],
    [{ $ref: 'https://example.org/other.json' }, 's', 'leads out of it'],
    [{ $ref: '#/$defs/absent' }, 's', 'leads out of it'],
    [{ $ref: 'file:///etc/passwd' }, 's', 'leads out of it'],
    [{ description: 'x'.repeat(101 * 1024) }, 's', 'larger than 100 KB'],
    [nested(5_000), 's', 'nested too deeply'],
  ])('refuses (%#)', (schema, field, message) => {
    expect(checkSchema(schema, 's')).toContainEqual({ field, message: expect.stringContaining(message) });
  });

  test('schemas with the same $id do not clash', () => {
    const inner = (type: string) => ({ properties: { a: { $id: 'https://x.example/inner', type } } });
    expect(checkSchema(inner('string'), 's')).toEqual([]);
    expect(checkSchema(inner('number'), 's')).toEqual([]);
    expect(checkSchema({ $ref: 'https://x.example/inner' }, 's')).toHaveLength(1);
    expect(errorsOf(inner('string'), { a: 1 })).toEqual(['a: must be string, but is number']);
  });

  test('code in a schema is not run', () => {
    const evil = '"];globalThis.pwned=1;//';
    const schema = {
      $id: evil,
      properties: { [evil]: { enum: [evil], pattern: evil.replace('[', ''), const: evil } },
      required: [evil],
      [evil]: evil,
      format: evil,
    };
    checkSchema(schema, 's');
    try {
      validateAgainst(schema, { [evil]: 1 });
    } catch {}
    expect(globalThis).not.toHaveProperty('pwned');
  });
});

describe('every check ends within its time limit', () => {
  const fanOut = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [
      `d${i}`,
      i === 39 ? { type: 'number' } : { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
    ]),
  );
  const deep = JSON.parse(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`);

  test.each<[string, Record<string, unknown>, unknown, string]>([
    ['pattern', { pattern: '^(a+)+$' }, `${'a'.repeat(60)}!`, 'could not be checked within 1 s'],
    ['patternProperties', { patternProperties: { '^(a+)+$': {} } }, { [`${'a'.repeat(60)}!`]: 1 }, 'within 1 s'],
    ['references', { $defs: fanOut, $ref: '#/$defs/d0' }, 1, 'within 1 s'],
    ['uniqueItems', { uniqueItems: true }, Array.from({ length: 300_000 }, (_, i) => ({ i })), 'within 1 s'],
    ['depth', { properties: { a: { $ref: '#' } } }, deep, 'nested too deeply'],
  ])('%s', (_, schema, value, message) => {
    expect(validateAgainst(schema, value)).toEqual([{ field: '', message: expect.stringContaining(message) }]);
    // The next check is not affected.
    expect(validateAgainst(schema, {})).toEqual(schema.$defs ? [expect.anything()] : []);
  });
});
