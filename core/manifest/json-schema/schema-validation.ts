import { type Context, createContext, Script } from 'node:vm';
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { hasCode } from '#core/base/errors.ts';
import { type FieldError, fieldName, isObject, unchecked } from '../field-error.ts';

/** Maximum length of a schema's JSON text. */
const MAX_SCHEMA_BYTES = 100 * 1024;
const MAX_ERRORS = 20;
/**
 * Schemas and values are untrusted: backtracking patterns and references that fan out must be aborted. Patterns use
 * JavaScript's engine, because engines in linear time lack features such as lookahead.
 */
const MAX_MILLISECONDS = 1000;
/** Larger values are only checked up to the first error: a million errors would be a million objects. */
const SMALL_VALUE_NODES = 10_000;
/** Maximum text length of the compiled schemas in the cache, each of which takes many times that memory. */
const CACHED_CHARACTERS = 2 * 1024 * 1024;

/**
 * Keywords that can take longer than schema size times value size. The time limit, which costs 0.5 ms, is only needed
 * for them.
 */
const CAN_RUN_AWAY = /"(pattern|patternProperties|format|uniqueItems|\$\w*[Rr]ef)"/;

type Draft = '2020-12' | '2019-09' | 'draft-07';
const AJV = { '2020-12': Ajv2020, '2019-09': Ajv2019, 'draft-07': Ajv };

interface Compiled {
  readonly canRunAway: boolean;
  /** Stops at the first error. */
  first(value: unknown): readonly ErrorObject[];
  /** Finds every error. */
  all(value: unknown): readonly ErrorObject[];
}

/** Schema text -> compiled schema. The least recently used one is first. */
const cache = new Map<string, Compiled>();
let cachedCharacters = 0;
const metaValidators = new Map<Draft, Ajv>();

/**
 * Returns the problems of a JSON Schema, in fields that begin with `field`; empty if it is valid. `$schema` selects one
 * of the drafts 2020-12, 2019-09 and 07; the default is 2020-12, or 07 if the schema is only valid there. Unknown
 * keywords and formats are accepted. References must stay within the schema.
 */
export function checkSchema(schema: unknown, field: string): FieldError[] {
  if (!isObject(schema)) return [{ field, message: 'must be a JSON Schema (an object)' }];
  try {
    compile(schema, stringify(schema), withTimeLimit);
    return [];
  } catch (error) {
    if (!isSchemaError(error)) throw error;
    return error.problems.map((problem) => ({
      field: problem.field === '' ? field : `${field}${problem.field.startsWith('[') ? '' : '.'}${problem.field}`,
      message: problem.message,
    }));
  }
}

/**
 * Returns at most 20 errors where `value` does not match `schema`, described for its sender; empty if it matches. A
 * check that takes more than a second fails, and so does a check against a schema that {@link checkSchema} refuses.
 */
export function validateAgainst(schema: Readonly<Record<string, unknown>>, value: unknown): FieldError[] {
  let compiled: Compiled;
  try {
    compiled = compile(schema, stringify(schema), withTimeLimit);
  } catch (error) {
    if (!isSchemaError(error)) throw error;
    return [unchecked(`: its schema ${error.message}`)];
  }
  const small = isSmall(value);
  const validate = () => describe(small ? compiled.all(value) : compiled.first(value), value);
  try {
    return small && !compiled.canRunAway ? validate() : withTimeLimit(validate);
  } catch (error) {
    if (hasCode(error, 'ERR_SCRIPT_EXECUTION_TIMEOUT')) {
      return [unchecked(` within ${MAX_MILLISECONDS / 1000} s`)];
    }
    if (isStackOverflow(error)) return [{ field: '', message: 'is nested too deeply to be checked' }];
    throw error;
  }
}

/**
 * Like {@link validateAgainst}, without the time limit, for a simple schema and a small enough value
 * (`simple-schema.ts`); `text` is the schema's JSON.
 */
export const validateSimple = (schema: Readonly<Record<string, unknown>>, text: string, value: unknown): FieldError[] =>
  describe(compile(schema, text, (task) => task()).all(value), value);

/** Whether the schema with this text is already compiled, so that {@link validateSimple} is fast. */
export const isCompiled = (text: string): boolean => cache.has(text);

class SchemaError extends Error {
  readonly code = 'BAD_SCHEMA';
  readonly problems: readonly FieldError[];

  constructor(problems: readonly FieldError[]) {
    super(problems.map(({ field, message }) => `${field} ${message}`.trim()).join('; '));
    this.name = 'SchemaError';
    this.problems = problems;
  }
}

const isSchemaError = (error: unknown): error is SchemaError => hasCode(error, 'BAD_SCHEMA');
const isStackOverflow = (error: unknown): boolean => (error as Error | undefined)?.name === 'RangeError';

function compile(schema: Readonly<Record<string, unknown>>, text: string, limited: typeof withTimeLimit): Compiled {
  const known = cache.get(text);
  const compiled = known ?? compileNew(schema, text, limited);
  cache.delete(text);
  cache.set(text, compiled);
  if (known === undefined) cachedCharacters += text.length;
  while (cachedCharacters > CACHED_CHARACTERS) {
    const oldest: string = cache.keys().next().value!;
    cache.delete(oldest);
    cachedCharacters -= oldest.length;
  }
  return compiled;
}

function stringify(schema: unknown): string {
  try {
    const text = JSON.stringify(schema);
    if (Buffer.byteLength(text) <= MAX_SCHEMA_BYTES) return text;
  } catch (error) {
    if (!isStackOverflow(error)) throw error;
    throw new SchemaError([{ field: '', message: 'is nested too deeply' }]);
  }
  throw new SchemaError([{ field: '', message: `is larger than ${MAX_SCHEMA_BYTES / 1024} KB` }]);
}

function compileNew(schema: Readonly<Record<string, unknown>>, text: string, limited: typeof withTimeLimit): Compiled {
  const { $schema: dialect, ...body } = schema;
  const drafts = draftsOf(dialect);
  // The meta-schema validators are shared and compiled on first use. Compiling under the time limit could leave one
  // half compiled.
  const checks = drafts.map((draft) => [draft, metaValidator(draft)] as const);
  try {
    return limited(() => {
      const draft = checks.find(([, ajv]) => ajv.validateSchema(body))?.[0];
      if (draft === undefined) {
        const [, ajv] = checks[0]!;
        ajv.validateSchema(body);
        throw new SchemaError(describe(ajv.errors ?? [], body));
      }
      const all = compileWith(draft, body, true);
      let first: Compiled['first'] | undefined;
      return {
        canRunAway: CAN_RUN_AWAY.test(text),
        all,
        first(value) {
          first ??= compileWith(draft, body, false);
          return first(value);
        },
      };
    });
  } catch (error) {
    if (isSchemaError(error)) throw error;
    if (hasCode(error, 'ERR_SCRIPT_EXECUTION_TIMEOUT')) {
      throw new SchemaError([{ field: '', message: 'takes too long to be read: make it simpler' }]);
    }
    if (isStackOverflow(error)) throw new SchemaError([{ field: '', message: 'is nested too deeply' }]);
    throw new SchemaError([{ field: '', message: compileProblem(error as Error) }]);
  }
}

function compileProblem(error: Error): string {
  const reference = (error as { missingRef?: unknown }).missingRef;
  if (typeof reference !== 'string') return `is not a usable JSON Schema (${error.message.slice(0, 200)})`;
  return `has the reference ${JSON.stringify(reference.slice(0, 100))}, which leads out of it; use "$defs" and "#/$defs/..."`;
}

function draftsOf(dialect: unknown): Draft[] {
  const text = typeof dialect === 'string' ? dialect : '';
  if (text.includes('2020-12')) return ['2020-12'];
  if (text.includes('2019-09')) return ['2019-09'];
  if (/draft-0[467]/.test(text)) return ['draft-07'];
  return ['2020-12', 'draft-07'];
}

/**
 * Compiles a pattern as Unicode, as JSON Schema requires, and else in the older syntax, which many patterns need, such
 * as `\-`.
 */
function toRegExp(pattern: string): RegExp {
  try {
    return new RegExp(pattern, 'u');
  } catch {
    return new RegExp(pattern);
  }
}

const regExp = Object.assign((pattern: string) => toRegExp(pattern), { code: 'toRegExp' });

const BASE_OPTIONS: Options = { strict: false, logger: false, code: { regExp } };

/** Makes what all checks of schemas share, which takes a tenth of a second. Otherwise the first one is charged with it. */
export const prepareValidation = (): void => draftsOf(undefined).forEach(metaValidator);

/** Returns a shared instance, which only validates schemas. */
function metaValidator(draft: Draft): Ajv {
  const known = metaValidators.get(draft);
  if (known) return known;
  const ajv: Ajv = new AJV[draft]({ ...BASE_OPTIONS, allErrors: true, verbose: true });
  ajv.validateSchema({});
  metaValidators.set(draft, ajv);
  return ajv;
}

/**
 * Compiles with a new Ajv for each schema: an instance remembers the `$id`s of its schemas, which could clash with
 * others.
 */
function compileWith(draft: Draft, schema: Record<string, unknown>, allErrors: boolean): Compiled['all'] {
  const options: Options = { ...BASE_OPTIONS, allErrors, verbose: true, validateSchema: false, meta: false };
  // Inlining references to a large definition would multiply the code.
  const ajv: Ajv = new AJV[draft]({ ...options, inlineRefs: false });
  ajvFormats.default(ajv);
  const validate: ValidateFunction = ajv.compile(schema);
  return (value) => (validate(value) ? [] : (validate.errors ?? []));
}

let limited: { readonly context: Context; readonly script: Script } | undefined;

/** Runs a synchronous task. Throws ERR_SCRIPT_EXECUTION_TIMEOUT if it takes too long. */
function withTimeLimit<T>(task: () => T): T {
  // Created lazily, because simple schemas never need it.
  limited ??= { context: createContext({}), script: new Script('task()') };
  const { context, script } = limited;
  context.task = task;
  try {
    return script.runInContext(context, { timeout: MAX_MILLISECONDS }) as T;
  } finally {
    context.task = undefined;
  }
}

function isSmall(value: unknown): boolean {
  const open = [value];
  for (let nodes = 0; open.length > 0; nodes++) {
    if (nodes + open.length > SMALL_VALUE_NODES) return false;
    const node = open.pop();
    if (typeof node !== 'object' || node === null) continue;
    const members = Array.isArray(node) ? node : Object.values(node);
    if (members.length > SMALL_VALUE_NODES) return false;
    for (const member of members) open.push(member);
  }
  return true;
}

function describe(errors: readonly ErrorObject[], value: unknown): FieldError[] {
  const found = new Map<string, FieldError>();
  for (const error of errors) {
    // This error only repeats that the schema under "then" or "else" failed.
    if (error.keyword === 'if') continue;
    const [extraPath, message] = explain(error);
    const field = fieldName([...pathOf(error.instancePath, value), ...extraPath]);
    found.set(`${field}\n${message}`, { field, message });
    if (found.size === MAX_ERRORS) break;
  }
  return [...found.values()];
}

/** Converts a JSON pointer to names and, in arrays of the value, numbers. */
function pathOf(pointer: string, value: unknown): PropertyKey[] {
  let node = value;
  return pointer
    .split('/')
    .slice(1)
    .map((part) => {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
      const key = Array.isArray(node) ? Number(name) : name;
      node = (node as Record<PropertyKey, unknown> | undefined)?.[key];
      return key;
    });
}

/** Returns the rest of the path and the message, which may contain numbers of the value but never its text. */
function explain({ keyword, params, message, data }: ErrorObject): [path: PropertyKey[], message: string] {
  switch (keyword) {
    case 'required':
      return [[params.missingProperty], 'is required'];
    case 'dependencies':
    case 'dependentRequired':
      return [[params.missingProperty], `is required with ${fieldName([params.property])}`];
    case 'additionalProperties':
      return [[params.additionalProperty], 'is not allowed'];
    case 'unevaluatedProperties':
      return [[params.unevaluatedProperty], 'is not allowed'];
    case 'false schema':
      return [[], 'is not allowed'];
    case 'type':
      return [[], `must be ${[params.type].flat().join(' or ')}, but is ${kindOf(data)}`];
    case 'uniqueItems':
      return [[], 'must not have the same element twice'];
    case 'enum':
      return [[], `must be one of ${listOf(params.allowedValues)}`];
    case 'const':
      return [[], `must be ${listOf([params.allowedValue])}`];
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
    case 'multipleOf':
      return [[], `${message}, but is ${data}`];
    case 'minLength':
    case 'maxLength':
    case 'minItems':
    case 'maxItems':
      return [[], `${message}, but has ${(data as string | unknown[]).length}`];
    default:
      return [[], message ?? `does not match "${keyword}"`];
  }
}

const kindOf = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);

function listOf(values: readonly unknown[]): string {
  const shown = values.slice(0, 10).map((value) => (JSON.stringify(value) ?? '').slice(0, 60));
  return shown.join(', ') + (values.length > 10 ? ', …' : '');
}
