import { isDeepStrictEqual } from 'node:util';
import type { Json } from '#core/base/json.ts';
import { prepareValidation, validateAgainst } from '../json-schema/schema-validation.ts';
import { selectPath } from './json-path.ts';
import { type Assert, type AssertType, rowOfAssert, shortText } from './suite.ts';

/** What a run did, as far as asserts see it. */
export interface RunFacts {
  readonly output: Json;
  /** US dollars; null if no price is known. */
  readonly costUsd: number | null;
  readonly latencyMs: number;
  /** Calls of tools in their order. Absent arguments were not recorded. */
  readonly tools: readonly { readonly name: string; readonly args?: Json }[];
  readonly turns: number;
}

/** Result of one assert. */
export interface AssertResult {
  readonly pass: boolean;
  /** From 0 to 1, unless a program says otherwise. */
  readonly score: number;
  readonly reason: string;
}

/** Asserts that others decide: a judge, and programs in a sandbox. */
export const isDecidedElsewhere = ({ type }: Pick<Assert, 'type'>): boolean => rowOfAssert(type).by !== undefined;

/** Length of the texts whose distance is computed: the time grows with the product of both. */
const MAX_DISTANCE_CHARACTERS = 20_000;
/** JSON values that `contains-json` looks at. */
const MAX_JSON_STARTS = 1000;
/** The one of promptfoo. */
const DEFAULT_DISTANCE = 5;

/**
 * Returns an output as authors of asserts think of it: the text of an answer in prose, which is stored as `{"result": text}`, and any
 * other value as it is.
 */
export function plainOutput(output: Json): Json {
  if (typeof output !== 'object' || output === null || Array.isArray(output)) return output;
  const names = Object.keys(output);
  return names.length === 1 && typeof output.result === 'string' ? output.result : output;
}

/** The text that an assert looks at; JSON for a value that is no text. */
export const textOf = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** Selects the part of the output that an assert is about; `undefined` if its path leads nowhere. */
export const partOf = ({ path }: Pick<Assert, 'path'>, output: Json): Json | undefined =>
  path === undefined ? plainOutput(output) : selectPath(output, path);

/**
 * Decides all asserts that need only the facts of the run. Runs in a thread: patterns and schemas of users may take any time. An assert that
 * throws fails with the reason.
 */
export const checkOutput = (asserts: readonly Assert[], facts: RunFacts): AssertResult[] =>
  asserts.map((assert) => {
    try {
      return decide(assert, facts);
    } catch (error) {
      return failed(`the assert cannot be decided: ${(error as Error).message}`);
    }
  });

/** Does the work that the asserts share, which counts for none of them. */
export function prepareFor(asserts: readonly Assert[]): void {
  if (asserts.some(({ type, value }) => rowOfAssert(type).value === 'schema' && value !== undefined))
    prepareValidation();
}

/** What is found out about an output, before `not-`: whether it is so, and the sentence if that is the wrong answer. */
interface Finding {
  readonly is: boolean;
  /** Completes "must ..." and "must not ...". */
  readonly must: string;
  readonly but?: string;
}

function decide(assert: Assert, facts: RunFacts): AssertResult {
  const part = partOf(assert, facts.output);
  if (part === undefined) return failed(`the output has nothing at ${assert.path}`);
  const { is, must, but } = FINDERS[assert.type as keyof typeof FINDERS](assert, part, facts);
  if (is !== assert.isNot) return { pass: true, score: 1, reason: 'passed' };
  return failed(`must ${assert.isNot ? 'not ' : ''}${must}${but === undefined ? '' : `, but ${but}`}`);
}

export const failed = (reason: string): AssertResult => ({ pass: false, score: 0, reason: shortText(reason) });

const quoted = (value: Json): string => {
  const text = JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
};

type Finder = (assert: Assert, part: Json, facts: RunFacts) => Finding;

/** Whether the output has the texts of an assert. */
const containing =
  (quantity: 'all' | 'any' | 'one', isCaseless: boolean): Finder =>
  ({ value }, part) => {
    const fold = (text: string) => (isCaseless ? text.toLowerCase() : text);
    const text = fold(textOf(part));
    const wanted = quantity === 'one' ? [String(value)] : listOf(value!);
    const missing = wanted.filter((each) => !text.includes(fold(each)));
    const is = quantity === 'any' ? missing.length < wanted.length : missing.length === 0;
    const what = quantity === 'one' ? '' : `${quantity === 'all' ? 'all' : 'one'} of `;
    const but =
      quantity === 'all' && !is && missing.length < wanted.length ? `lacks ${quoted(missing)}` : `is ${quoted(part)}`;
    return { is, must: `contain ${what}${quoted(quantity === 'one' ? wanted[0]! : wanted)}`, but };
  };

/**
 * Reads texts with commas between them, as promptfoo does. In double quotes they may have commas, spaces at their ends, and quotes as `\\"` or `""`.
 */
function listOf(value: Json): string[] {
  if (Array.isArray(value)) return value.map(String);
  const text = String(value);
  const found: string[] = [];
  let at = 0;
  const skip = (characters: RegExp) => {
    while (at < text.length && characters.test(text[at]!)) at++;
  };
  for (skip(/[\s,]/); at < text.length; skip(/[\s,]/)) {
    if (text[at] !== '"') {
      const end = text.indexOf(',', at);
      found.push(text.slice(at, end < 0 ? text.length : end).trim());
      at = end < 0 ? text.length : end;
      continue;
    }
    let part = '';
    for (at++; at < text.length; at++) {
      const isEscape = (text[at] === '\\' && /["\\]/.test(text[at + 1] ?? '')) || text.startsWith('""', at);
      if (isEscape) at++;
      else if (text[at] === '"') break;
      part += text[at];
    }
    const isClosed = text[at++] === '"';
    skip(/\s/);
    if (!isClosed || (at < text.length && text[at] !== ',')) {
      throw new Error('in a list, a text that begins with a double quote must end with one, before a comma');
    }
    found.push(part);
  }
  return found;
}

const FINDERS = {
  equals: ({ value }, part) => {
    const is = typeof value === 'object' ? isDeepStrictEqual(value, jsonOf(part)) : String(value) === textOf(part);
    return { is, must: `be ${quoted(value!)}`, but: `is ${quoted(part)}` };
  },
  contains: containing('one', false),
  icontains: containing('one', true),
  'contains-all': containing('all', false),
  'contains-any': containing('any', false),
  'icontains-all': containing('all', true),
  'icontains-any': containing('any', true),
  'starts-with': ({ value }, part) => ({
    is: textOf(part).startsWith(String(value)),
    must: `start with ${quoted(value!)}`,
    but: `is ${quoted(part)}`,
  }),
  'ends-with': ({ value }, part) => ({
    is: textOf(part).endsWith(String(value)),
    must: `end with ${quoted(value!)}`,
    but: `is ${quoted(part)}`,
  }),
  regex: ({ value }, part) => ({
    is: new RegExp(String(value)).test(textOf(part)),
    must: `match the pattern ${quoted(value!)}`,
    but: `is ${quoted(part)}`,
  }),
  'is-json': ({ value }, part) => {
    const parsed = jsonOf(part);
    if (parsed === undefined) return { is: false, must: 'be JSON', but: `is ${quoted(part)}` };
    const problem = schemaProblem(value, parsed);
    return { is: problem === undefined, must: value === undefined ? 'be JSON' : 'match the schema', but: problem };
  },
  'contains-json': ({ value }, part) => {
    let problem: string | undefined = 'has none';
    for (const found of jsonValuesIn(textOf(part))) {
      problem = schemaProblem(value, found);
      if (problem === undefined) break;
    }
    return {
      is: problem === undefined,
      must: value === undefined ? 'contain JSON' : 'contain JSON that matches the schema',
      but: problem,
    };
  },
  levenshtein: ({ value, threshold }, part) => {
    const text = textOf(part);
    const most = threshold ?? DEFAULT_DISTANCE;
    if (Math.max(text.length, String(value).length) > MAX_DISTANCE_CHARACTERS) {
      throw new Error(`a text has more than ${MAX_DISTANCE_CHARACTERS} characters`);
    }
    const distance = distanceOf(text, String(value));
    return { is: distance <= most, must: `be within a distance of ${most}`, but: `the distance is ${distance}` };
  },
  'word-count': ({ value }, part) => {
    const count = textOf(part)
      .split(/\s+/)
      .filter((word) => word !== '').length;
    return { is: isWithin(count, value!), must: `have ${rangeText(value!)} words`, but: `has ${count}` };
  },
  cost: ({ threshold }, _, { costUsd }) => {
    if (costUsd === null) throw new Error('no price is known for the model');
    return { is: costUsd <= threshold!, must: `cost at most $${threshold}`, but: `cost $${costUsd}` };
  },
  latency: ({ threshold }, _, { latencyMs }) => ({
    is: latencyMs <= threshold!,
    must: `take at most ${threshold} ms`,
    but: `took ${latencyMs} ms`,
  }),
  'tool-called': ({ value, times }, _, { tools }) => {
    const count = tools.filter(({ name }) => name === value).length;
    return {
      is: times === undefined ? count > 0 : count === times,
      must: `call ${value}${times === undefined ? '' : ` ${times} times`}`,
      but: `called it ${count} times`,
    };
  },
  'tool-args': ({ value }, _, { tools }) => {
    const { tool, args } = value as { tool: string; args: { [name: string]: Json } };
    const calls = tools.filter(({ name }) => name === tool);
    if (calls.some((call) => call.args === undefined)) throw new Error('the arguments of the call were not recorded');
    return {
      is: calls.some((call) => includes(call.args!, args)),
      must: `call ${tool} with ${quoted(args)}`,
      but: calls.length === 0 ? 'did not call it' : `called it with ${quoted(calls.map((call) => call.args!))}`,
    };
  },
  'tool-order': ({ value }, _, { tools }) => {
    const left = [...(value as string[])];
    for (const { name } of tools) if (name === left[0]) left.shift();
    return {
      is: left.length === 0,
      must: `call ${(value as string[]).join(', ')} in this order`,
      but: `called ${tools.map(({ name }) => name).join(', ') || 'none'}`,
    };
  },
  'max-turns': ({ value }, _, { turns }) => {
    const range = typeof value === 'number' ? { max: value } : value!;
    return { is: isWithin(turns, range), must: `take ${rangeText(range)} turns`, but: `took ${turns}` };
  },
} as const satisfies Record<Exclude<AssertType, 'llm-rubric' | 'javascript' | 'python'>, Finder>;

type Range = { readonly min?: number; readonly max?: number };

function isWithin(count: number, value: Json): boolean {
  if (typeof value !== 'object') return count === Number(value);
  const { min = 0, max = Number.POSITIVE_INFINITY } = value as Range;
  return count >= min && count <= max;
}

function rangeText(value: Json): string {
  if (typeof value !== 'object') return String(value);
  const { min, max } = value as Range;
  if (min === undefined) return `at most ${max}`;
  return max === undefined ? `at least ${min}` : `${min} to ${max}`;
}

/** Whether `found` has all that `wanted` names: members of objects may be more, lists must be equal. */
function includes(found: Json, wanted: Json): boolean {
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted)) return isDeepStrictEqual(found, wanted);
  if (typeof found !== 'object' || found === null || Array.isArray(found)) return false;
  return Object.entries(wanted).every(([name, each]) => Object.hasOwn(found, name) && includes(found[name]!, each));
}

function jsonOf(part: Json): Json | undefined {
  if (typeof part !== 'string') return part;
  try {
    return JSON.parse(part) as Json;
  } catch {
    return undefined;
  }
}

function schemaProblem(schema: Json | undefined, value: Json): string | undefined {
  if (schema === undefined || schema === true) return undefined;
  if (schema === false) return 'the schema is false';
  const [problem] = validateAgainst(schema as Record<string, unknown>, value);
  return problem && `${problem.field} ${problem.message}`.trim();
}

/** Yields the outermost objects and lists of JSON in a text. */
function* jsonValuesIn(text: string): Generator<Json> {
  let starts = 0;
  for (let at = 0; at < text.length && starts < MAX_JSON_STARTS; at++) {
    if (text[at] !== '{' && text[at] !== '[') continue;
    starts++;
    const end = endOfJson(text, at);
    const value = end === undefined ? undefined : jsonOf(text.slice(at, end));
    if (value === undefined) continue;
    yield value;
    at = end! - 1;
  }
}

/** Returns the place after the bracket that closes the one at `from`, outside of strings. */
function endOfJson(text: string, from: number): number | undefined {
  let depth = 0;
  let isInString = false;
  for (let at = from; at < text.length; at++) {
    const character = text[at];
    if (isInString) {
      if (character === '\\') at++;
      else if (character === '"') isInString = false;
    } else if (character === '"') isInString = true;
    else if (character === '{' || character === '[') depth++;
    else if ((character === '}' || character === ']') && --depth === 0) return at + 1;
  }
  return undefined;
}

/** Levenshtein's distance in UTF-16 code units, with one row of the table. */
function distanceOf(a: string, b: string): number {
  const row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    let diagonal = row[0]!;
    row[0] = i;
    for (let j = 1; j <= b.length; j++) {
      const above = row[j]!;
      const changed = diagonal + (a[i - 1] === b[j - 1] ? 0 : 1);
      row[j] = Math.min(above + 1, row[j - 1]! + 1, changed);
      diagonal = above;
    }
  }
  return row[b.length]!;
}
