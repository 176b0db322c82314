import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { expect, test } from 'vitest';
import type { Route } from '#core/http/route.ts';
import { openApiDocument } from './openapi.ts';
import { PROPERTY_TEXTS } from './property-texts.ts';
import { routes } from './routes.ts';
import { type Example, WRITTEN_EXAMPLES } from './written-examples.ts';

interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
}
interface Content {
  readonly schema: Schema;
  readonly example?: unknown;
}
interface Operation {
  readonly operationId: string;
  readonly description?: string;
  readonly parameters: readonly { readonly in: string; readonly name: string; readonly description?: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Content>> };
  /** Answers without a body have no content. */
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Content>> }>>;
}

const document = openApiDocument() as {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};
const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
const JSON_TYPE = 'application/json';

/** JSON bodies: of requests, and of answers that are successes. */
const bodies = operations.flatMap(({ operationId, requestBody, responses }) => [
  ...(requestBody?.content[JSON_TYPE] ? [{ where: `${operationId}.request`, ...requestBody.content[JSON_TYPE] }] : []),
  ...Object.entries(responses)
    .filter(([status, { content }]) => status < '300' && content?.[JSON_TYPE] !== undefined)
    .map(([status, { content }]) => ({ where: `${operationId}.${status}`, ...content![JSON_TYPE]! })),
]);

/** Path -> text of each member of a schema, at any depth. */
function membersOf(schema: unknown, path: string): [path: string, text: string | undefined][] {
  if (typeof schema !== 'object' || schema === null) return [];
  if (Array.isArray(schema)) return schema.flatMap((each) => membersOf(each, path));
  const { properties = {}, ...rest } = schema as Schema;
  return [
    ...Object.entries(properties).flatMap(([name, member]): [string, string | undefined][] => [
      [`${path}.${name}`, member.description],
      ...membersOf(member, `${path}.${name}`),
    ]),
    // An example and a default hold values, not schemas.
    ...Object.entries(rest).flatMap(([keyword, each]) =>
      ['example', 'default', 'enum', 'const'].includes(keyword) ? [] : membersOf(each, path),
    ),
  ];
}

const texts = [
  ...Object.entries(document.components.schemas).flatMap(([name, schema]) => membersOf(schema, name)),
  ...operations.flatMap(({ operationId, parameters, requestBody, responses }) => [
    ...parameters.map(({ in: place, name, description }) => [`${operationId}.${place}.${name}`, description] as const),
    ...membersOf(requestBody, `${operationId}.request`),
    ...membersOf(responses, operationId),
  ]),
];

const wordsOf = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, ' ')
    .replaceAll(/\b(the|a|an|of|its?)\b/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();

test('each operation, parameter and member has a description that says more than its name', () => {
  expect(texts.length).toBeGreaterThan(2000);
  expect(operations.filter(({ description }) => !description).map(({ operationId }) => operationId)).toEqual([]);
  expect(texts.filter(([, text]) => !text).map(([path]) => path)).toEqual([]);
  expect(texts.filter(([path, text]) => wordsOf(text!) === wordsOf(path.split('.').at(-1)!))).toEqual([]);
  expect(texts.filter(([, text]) => !/[.`]$/.test(text!)).map(([path, text]) => `${path}: ${text}`)).toEqual([]);
});

test('each text of the table is of a member', () => {
  const paths = texts.map(([path]) => `.${path}`);
  const unused = Object.keys(PROPERTY_TEXTS).filter((key) => {
    const text = PROPERTY_TEXTS[key];
    return !texts.some(([, each], i) => each === text && paths[i]!.endsWith(`.${key}`));
  });
  expect(unused).toEqual([]);
});

test('each JSON body has an example that its schema accepts', () => {
  expect(bodies.length).toBeGreaterThan(180);
  expect(bodies.filter(({ example }) => example === undefined).map(({ where }) => where)).toEqual([]);
  const ajv = addFormats.default(new Ajv2020({ strict: false, allErrors: true }));
  ajv.addSchema({ $id: 'https://example.org/openapi', components: document.components });
  const wrong = bodies.flatMap(({ where, schema, example }) => {
    const atDocument = JSON.stringify(schema).replaceAll('"#/components', '"https://example.org/openapi#/components');
    const accepts = ajv.compile(JSON.parse(atDocument));
    return accepts(example) ? [] : [`${where}: ${ajv.errorsText(accepts.errors)}`];
  });
  expect(wrong).toEqual([]);
});

test('examples hold no secret and nothing of the machine that recorded them', () => {
  const text = readFileSync(new URL('examples.json', import.meta.url), 'utf8');
  const keys = [...text.matchAll(/\bsk_\w+|\bwhsec_\S+?(?=")/g)].map(([key]) => key);
  expect(new Set(keys)).toEqual(new Set(['sk_live_example', 'sk_agent_example', 'whsec_example']));
  expect(text).not.toMatch(/127\.0\.0\.1|localhost:|\/(tmp|home|root|work)\/|[0-9a-f]{40}(?<!0{30}[0-9a-f]{10})/);
});

test('examples are of operations that are there, and written ones of those that were not recorded', () => {
  const recorded = JSON.parse(readFileSync(new URL('examples.json', import.meta.url), 'utf8')) as Record<
    string,
    Example
  >;
  const known = (routes as readonly Route[]).map(({ operationId }) => operationId);
  expect(Object.keys({ ...recorded, ...WRITTEN_EXAMPLES }).filter((name) => !known.includes(name))).toEqual([]);
  for (const [name, { request, responses = {} }] of Object.entries(WRITTEN_EXAMPLES)) {
    expect(request !== undefined && recorded[name]?.request !== undefined, name).toBe(false);
    for (const status of Object.keys(responses)) expect(recorded[name]?.responses?.[status], name).toBeUndefined();
  }
});
