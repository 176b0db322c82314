import fc from 'fast-check';
import '../helpers/fast-check-seed.ts';

const HOSTILE = [
  '*/ pwned(); /*',
  '"""\npwned()\n"""',
  '"; pwned(); "',
  "'); pwned(); ('",
  '\\"; pwned() #',
  '\u2028pwned()\u2029',
  '\r\npwned()',
  `\`\${pwned()}\``,
  '\0\u0007\u001b[2J',
  '\u202epwned',
  '\ud800',
  '__proto__',
  'constructor',
  '',
  '$defs',
  '😀é',
];
const textOf = fc.oneof(fc.constantFrom(...HOSTILE), fc.string({ unit: 'binary', maxLength: 12 }));
const reference = fc.oneof(
  fc.constantFrom(
    '#',
    '#/$defs/a',
    '#/$defs/b',
    '#/$defs/c',
    '#/definitions/a',
    '#/$defs/%',
    'https://x.test/',
    '#/x/y',
  ),
  textOf,
);
const { schema: anySchema } = fc.letrec((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.anything({ maxDepth: 1 }),
    fc.record({ $ref: reference }),
    fc.record({ enum: fc.array(fc.oneof(textOf, fc.double(), fc.boolean(), fc.constant(null))) }),
    fc.record(
      {
        type: fc.constantFrom(
          'string',
          'object',
          'array',
          'integer',
          'null',
          'wrong',
          ['string', 'null'],
          7,
          undefined,
        ),
        title: textOf,
        description: textOf,
        properties: fc.dictionary(textOf, tie('schema'), { maxKeys: 4 }),
        required: fc.array(textOf, { maxLength: 3 }),
        items: tie('schema'),
        additionalProperties: fc.oneof(fc.boolean(), tie('schema')),
        anyOf: fc.array(tie('schema'), { maxLength: 3 }),
        oneOf: fc.array(tie('schema'), { maxLength: 3 }),
        allOf: fc.array(tie('schema'), { maxLength: 3 }),
        const: textOf,
        nullable: fc.boolean(),
        $ref: reference,
      },
      { requiredKeys: [] },
    ),
  ),
}));
/** Schemas, and what should be none, whose texts try to become code: it would name `pwned`. */
export const hostileSchemas = fc
  .tuple(anySchema, fc.dictionary(fc.constantFrom('a', 'b', 'c'), anySchema))
  .map(([schema, $defs]) => (typeof schema === 'object' && schema !== null ? { ...schema, $defs } : schema));
