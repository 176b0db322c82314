import * as z from 'zod';
import { isJsonObject, type Json } from '#core/base/json.ts';
import { JSON_PATH } from './json-path.ts';
import {
  ASSERT_TYPES,
  type Assert,
  type AssertRow,
  type AssertType,
  type EvalCase,
  MAX_EVAL_TEXT,
  rowOfAssert,
} from './suite.ts';

const text = z.string().min(1).max(MAX_EVAL_TEXT);

/** An assert as files and manifests write it. {@link readAssert} checks what depends on its type. */
export const assertShape = z.strictObject({
  type: z.string(),
  value: z.json().optional(),
  threshold: z.number().optional(),
  weight: z.number().min(0).max(1000).optional(),
  metric: text.optional(),
  path: z.string().max(MAX_EVAL_TEXT).regex(JSON_PATH, 'must be a path such as $.label or $.items[0].name').optional(),
  times: z.int().min(0).max(1000).optional(),
});
export type WrittenAssert = z.output<typeof assertShape>;

export const judgeShape = z.union([z.strictObject({ model: text }), z.strictObject({ agent: text })], {
  error: 'must have either "model", such as claude-haiku-5.5, or "agent", such as main/my-judge@v3',
});

/** A member of an assert that is wrong: `why` is a sentence about it. */
export interface AssertProblem {
  readonly member: keyof WrittenAssert;
  readonly why: string;
}

/**
 * Reads an assert. Returns its problem if it has one.
 *
 * @param complete Completes its value: with the content of files, or with the input of a run. @default - it is complete
 */
export function readAssert(
  { type: name, value: written, weight = 1, ...rest }: WrittenAssert,
  complete: (value: Json, kind: AssertRow['value']) => Json = (value) => value,
): Assert | AssertProblem {
  const isNot = name.startsWith('not-');
  const type = (isNot ? name.slice('not-'.length) : name) as AssertType;
  if (!Object.hasOwn(ASSERT_TYPES, type)) {
    const known = Object.keys(ASSERT_TYPES).join(', ');
    const why = `"${name.slice(0, 64)}" is not a type of assert. The types are ${known}; each may have not- before it`;
    return { member: 'type', why };
  }
  const row = rowOfAssert(type);
  const value = written === undefined ? undefined : numberIn(row, complete(written as Json, row.value));
  const problem = valueProblem(row, value);
  if (problem !== undefined) return { member: 'value', why: `${name} ${problem}` };
  if (row.threshold === 'required' && rest.threshold === undefined) {
    const unit = type === 'cost' ? 'in US dollars' : 'in milliseconds';
    return { member: 'threshold', why: `is missing; ${name} needs a number, ${unit}` };
  }
  if (row.threshold === undefined && rest.threshold !== undefined)
    return { member: 'threshold', why: `${name} has none` };
  if (rest.times !== undefined && type !== 'tool-called') return { member: 'times', why: 'only tool-called has it' };
  return { type, isNot, weight, ...(value !== undefined && { value }), ...rest };
}

/** Reads a number that is written as a text. */
const numberIn = ({ value: kind }: AssertRow, value: Json): Json =>
  kind === 'count' && typeof value === 'string' && /^\s*\d+\s*$/.test(value) ? Number(value) : value;

const isText = (value: unknown): boolean => (typeof value === 'string' && value !== '') || typeof value === 'number';

/** Returns why an assert cannot have this value, as the predicate of a sentence. */
function valueProblem({ value: kind, isOptional }: AssertRow, value: Json | undefined): string | undefined {
  if (kind === 'none') return value === undefined ? undefined : 'has no value: write a threshold';
  if (value === undefined) return isOptional ? undefined : 'needs a value';
  switch (kind) {
    case 'any':
      return undefined;
    case 'text':
    case 'code':
      return isText(value) ? undefined : 'needs a text';
    case 'texts': {
      const isList = Array.isArray(value) && value.length > 0 && value.every(isText);
      return isList || isText(value) ? undefined : 'needs a list of texts, or texts with commas between them';
    }
    case 'schema':
      return isJsonObject(value) || typeof value === 'boolean' ? undefined : 'needs a JSON Schema, or no value';
    case 'count': {
      const isRange =
        isJsonObject(value) &&
        Object.entries(value).every(([name, bound]) => /^(min|max)$/.test(name) && isCount(bound));
      if (isRange && Number(value.min) > Number(value.max)) return 'needs a min that is at most its max';
      return isCount(value) || (isRange && Object.keys(value as object).length > 0)
        ? undefined
        : 'needs a whole number, or {min, max}';
    }
    case 'order':
      return Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string')
        ? undefined
        : 'needs a list of names of tools';
    case 'arguments': {
      const isFine = isJsonObject(value) && typeof value.tool === 'string' && isJsonObject(value.args);
      return isFine ? undefined : 'needs {tool: NAME, args: {...}}';
    }
  }
}

const isCount = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 0;

const PLACEHOLDER = /\{\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*\}\}/g;

/**
 * Puts members of the input in the place of `{{name}}` and `{{name.member}}`, until `room` is used up. Texts with other names stay.
 */
export function filled(value: Json, given: EvalCase['vars'], room: { bytes: number }): Json {
  if (typeof value === 'string') {
    return value.replace(PLACEHOLDER, (whole, path: string) => {
      let found: Json | undefined = given;
      for (const name of path.split('.')) {
        found = isJsonObject(found) && Object.hasOwn(found, name) ? found[name] : undefined;
      }
      if (found === undefined) return whole;
      const put = typeof found === 'string' ? found : JSON.stringify(found);
      room.bytes -= put.length;
      return room.bytes < 0 ? '' : put;
    });
  }
  if (Array.isArray(value)) return value.map((each) => filled(each, given, room));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, filled(each, given, room)]));
}
