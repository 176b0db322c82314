import { Ajv2020 } from 'ajv/dist/2020.js';

/** Schema rules that providers enforce for structured output and tools, with their error texts. */

type Parts = Readonly<Record<string, unknown>>;

interface Place {
  /** Path to the schema, such as `properties`, `a`, `items`. */
  readonly path: readonly string[];
  readonly schema: Parts;
}

/** Returns OpenAI's error; `where` is `response_format 'output'` or `function 'submit_result'`. */
export function openaiSchemaProblem(where: string, root: unknown, isStrict: boolean): string | undefined {
  const refused = (path: readonly string[], problem: string) =>
    `Invalid schema for ${where}: In context=(${path.map((step) => `'${step}'`).join(', ')}), ${problem}`;
  if (!isObject(root) || root.type !== 'object') {
    return `Invalid schema for ${where}: schema must be a JSON Schema of 'type: "object"', got 'type: "${isObject(root) ? root.type : root}"'.`;
  }
  if (!isStrict) return undefined;
  let properties = 0;
  let enumValues = 0;
  for (const { path, schema } of placesOf(root)) {
    const types = [schema.type].flat();
    const unknown = OPENAI_REFUSES.find((keyword) => keyword in schema);
    if (unknown !== undefined) return refused(path, `'${unknown}' is not permitted.`);
    if ('$ref' in schema) {
      const more = Object.keys(schema).filter((name) => name !== '$ref' && name !== '$defs');
      if (more.length > 0) return refused(path, `$ref cannot have keywords {'${more.join("', '")}'}.`);
      if (!resolves(root, schema.$ref))
        return refused(path, `reference to component '${schema.$ref}' which was not found.`);
      continue;
    }
    if (schema.type === undefined && schema.anyOf === undefined) return refused(path, "schema must have a 'type' key.");
    if (types.includes('array') && !isObject(schema.items)) return refused(path, 'array schema missing items.');
    if (Array.isArray(schema.enum)) enumValues += schema.enum.length;
    if (typeof schema.format === 'string' && !OPENAI_FORMATS.has(schema.format)) {
      return refused(path, `'format' value '${schema.format}' is not permitted.`);
    }
    if (!types.includes('object')) continue;
    if (schema.additionalProperties !== false) {
      return refused(path, "'additionalProperties' is required to be supplied and to be false.");
    }
    const names = Object.keys((schema.properties ?? {}) as object);
    properties += names.length;
    const missing = names.find((name) => !((schema.required ?? []) as string[]).includes(name));
    if (missing !== undefined || schema.required === undefined) {
      return refused(
        path,
        `'required' is required to be supplied and to be an array including every key in properties. Missing '${missing}'.`,
      );
    }
    const extra = (schema.required as string[]).find((name) => !names.includes(name));
    if (extra !== undefined) return refused(path, `'required' has a key that is not in properties: '${extra}'.`);
    const depth = path.filter((step) => step === 'properties' || step === 'items').length;
    if (depth >= 10) return `Invalid schema for ${where}: ${depth + 1} levels of nesting exceeds limit of 10.`;
  }
  if (properties > 5000) return `Invalid schema for ${where}: ${properties} properties exceeds limit of 5000.`;
  if (enumValues > 1000) return `Invalid schema for ${where}: ${enumValues} enum values exceeds limit of 1000.`;
  return undefined;
}

/** Names of tools, in definitions and in calls. */
export const NAME = /^[a-zA-Z0-9_-]{1,128}$/;
export const namePattern = (form: RegExp): string => `String should match pattern '${form.source}'`;
const KEY = /^[a-zA-Z0-9_.-]{1,64}$/;
const COMBINATIONS = ['oneOf', 'anyOf', 'allOf'];

interface DeclaredTool {
  readonly name: string;
  readonly input_schema?: unknown;
  readonly parameters?: unknown;
}

/** Returns OpenAI's error about a function, strict or not. */
export function openaiToolProblem({ name, parameters }: DeclaredTool): string | undefined {
  if (!NAME.test(name)) return `Invalid 'tools[0].name': ${namePattern(NAME)}`;
  if (!isObject(parameters)) return undefined;
  const where = `Invalid schema for function '${name}'`;
  if ([...COMBINATIONS, 'enum', 'not'].some((keyword) => keyword in parameters)) {
    return `${where}: schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.`;
  }
  for (const { path, schema } of placesOf(parameters)) {
    if ([schema.type].flat().includes('array') && !isObject(schema.items)) {
      return `${where}: In context=(${path.map((step) => `'${step}'`).join(', ')}), array schema missing items.`;
    }
  }
  return undefined;
}

const metaSchema = new Ajv2020({ strict: false, logger: false, validateFormats: false });

/** Returns Anthropic's error about a tool, strict or not. */
export function anthropicToolProblem(where: string, { name, input_schema: schema }: DeclaredTool): string | undefined {
  if (!NAME.test(name)) return `${where}.name: ${namePattern(NAME)}`;
  if (!isObject(schema)) return `${where}.input_schema: Input should be a valid dictionary`;
  if (schema.type !== 'object') return `${where}.input_schema.type: Input should be 'object'`;
  if (COMBINATIONS.some((keyword) => keyword in schema)) {
    return `${where}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level`;
  }
  if (!metaSchema.validateSchema(schema)) {
    return `${where}.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12).`;
  }
  return keyProblem(`${where}.input_schema`, schema);
}

function keyProblem(where: string, root: Parts): string | undefined {
  const keys = placesOf(root).flatMap(({ schema }) =>
    isObject(schema.properties) ? Object.keys(schema.properties) : [],
  );
  if (keys.every((key) => KEY.test(key))) return undefined;
  return `${where}.properties: Property keys should match pattern '${KEY.source}'`;
}

/** Returns Anthropic's error; `where` is `output_config.format.schema` or `tools.0.custom`. */
export function anthropicSchemaProblem(where: string, root: unknown): string | undefined {
  if (!isObject(root)) return `${where}: Input should be a valid dictionary`;
  const wrongKey = keyProblem(where, root);
  if (wrongKey !== undefined) return wrongKey;
  let optional = 0;
  let unions = 0;
  for (const { schema } of placesOf(root)) {
    const types = [schema.type].flat();
    if ('oneOf' in schema) return `${where}: Schema type 'oneOf' is not supported`;
    if ('$ref' in schema) {
      if (!resolves(root, schema.$ref)) return `${where}: Could not resolve reference '${schema.$ref}'`;
      continue;
    }
    const unknown = ANTHROPIC_REFUSES.filter((keyword) => keyword in schema);
    if (unknown.length > 0)
      return `${where}: For '${types[0]}' type, properties ${unknown.join(', ')} are not supported`;
    if (((schema.minItems as number | undefined) ?? 0) > 1) {
      return `${where}: For 'array' type, 'minItems' values other than 0 or 1 are not supported`;
    }
    if (Array.isArray(schema.enum) && schema.enum.some((value) => typeof value === 'object' && value !== null)) {
      return `${where}: Enum values must be strings, numbers, booleans, or nulls`;
    }
    if (types.length > 1 || 'anyOf' in schema) unions++;
    if (!types.includes('object')) continue;
    if (schema.additionalProperties !== false) {
      return `${where}: For 'object' type, 'additionalProperties' must be explicitly set to false`;
    }
    const required = (schema.required ?? []) as string[];
    optional += Object.keys((schema.properties ?? {}) as object).filter((name) => !required.includes(name)).length;
  }
  if (isCyclic(root)) return `${where}: Circular reference detected in schema definitions`;
  if (optional > 24) {
    return `Schemas contains too many optional parameters (${optional}), which would make grammar compilation inefficient. Reduce the number of optional parameters in your tool schemas (limit: 24).`;
  }
  if (unions > 16) {
    return `Schemas contains too many parameters with union types (${unions}), which would make grammar compilation inefficient. Reduce the number of parameters with union types in your tool schemas (limit: 16).`;
  }
  return undefined;
}

/** Google. */
export function geminiSchemaProblem(root: unknown): string | undefined {
  if (!isObject(root)) return 'Invalid value at generation_config.response_json_schema';
  for (const { path, schema } of placesOf(root)) {
    if (path.length > 60) {
      return 'A schema in GenerationConfig in the request exceeds the maximum allowed nesting depth.';
    }
    if ('const' in schema) {
      return `Invalid JSON payload received. Unknown name "const" at 'generation_config.response_json_schema': Cannot find field.`;
    }
  }
  return undefined;
}

const OPENAI_REFUSES = [
  'oneOf',
  'allOf',
  'not',
  'if',
  'then',
  'else',
  'default',
  'dependentRequired',
  'dependentSchemas',
  'patternProperties',
  'propertyNames',
  'unevaluatedProperties',
  'unevaluatedItems',
  'contains',
  'prefixItems',
  'uniqueItems',
  'minLength',
  'maxLength',
  'minProperties',
  'maxProperties',
];
const OPENAI_FORMATS = new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid']);
const ANTHROPIC_REFUSES = [
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
  'patternProperties',
  'propertyNames',
  'not',
  'if',
  'then',
  'else',
  'contains',
  'prefixItems',
];

const isObject = (value: unknown): value is Parts =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns all schemas within a schema, itself first. */
function placesOf(root: Parts): Place[] {
  const places: Place[] = [];
  const open: Place[] = [{ path: [], schema: root }];
  while (open.length > 0) {
    const place = open.shift()!;
    places.push(place);
    const add = (schema: unknown, ...steps: string[]) => {
      if (isObject(schema)) open.push({ path: [...place.path, ...steps], schema });
    };
    for (const name of ['properties', '$defs', 'definitions', 'patternProperties', 'dependentSchemas']) {
      const map = place.schema[name];
      if (isObject(map)) for (const [key, schema] of Object.entries(map)) add(schema, name, key);
    }
    for (const name of ['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains'])
      add(place.schema[name], name);
    for (const name of ['anyOf', 'oneOf', 'allOf', 'prefixItems']) {
      const list = place.schema[name];
      if (Array.isArray(list)) for (const [index, schema] of list.entries()) add(schema, name, String(index));
    }
  }
  return places;
}

function resolves(root: Parts, reference: unknown): unknown {
  let node: unknown = typeof reference === 'string' && reference.startsWith('#') ? root : undefined;
  for (const step of String(reference).split('/').slice(1)) node = (node as Parts | undefined)?.[step];
  return node;
}

function isCyclic(root: Parts): boolean {
  const open = new Set<unknown>();
  const done = new Set<unknown>();
  const visit = (schema: unknown): boolean => {
    if (open.has(schema)) return true;
    if (done.has(schema) || !isObject(schema)) return false;
    open.add(schema);
    const { $defs, definitions, ...body } = schema;
    const isRound = placesOf(body).some((place) => '$ref' in place.schema && visit(resolves(root, place.schema.$ref)));
    open.delete(schema);
    done.add(schema);
    return isRound;
  };
  return visit(root);
}
