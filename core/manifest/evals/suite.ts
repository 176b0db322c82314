import type { Json } from '#core/base/json.ts';

/** Maximum size of all files of an evaluation together, in bytes of UTF-8. */
export const MAX_SUITE_BYTES = 1024 * 1024;
export const MAX_SUITE_FILES = 50;
/** Maximum number of cases of an evaluation, in all its suites. */
export const MAX_CASES = 500;
/** Maximum number of runs of an evaluation: cases, times repeats, times versions. Recorded runs are graded and not made. */
export const MAX_EVAL_RUNS = 2000;
/** Maximum size of one case as JSON. */
export const MAX_CASE_BYTES = 64 * 1024;
export const MAX_ASSERTS = 50;
export const MAX_REPEAT = 20;
export const MAX_BUDGET_USD = 1000;
/** Applies to a suite that names none: a forgotten limit must not become a bill. */
export const DEFAULT_BUDGET_USD = 5;
/** Aliases of a YAML file, whose expansion takes memory. */
export const MAX_YAML_ALIASES = 100;
/** Levels of nested values in a file. */
export const MAX_SUITE_DEPTH = 50;
/** Characters of one text that a case has: a description, a reason, the name of a metric. */
export const MAX_EVAL_TEXT = 500;

/** How many of the repeats of a case must pass. */
export const PASS_RULES = ['all', 'most', 'any'] as const;
export type PassRule = (typeof PASS_RULES)[number];

/** Which values an assert takes. */
type ValueKind = 'any' | 'text' | 'texts' | 'schema' | 'count' | 'none' | 'order' | 'arguments' | 'code';

export interface AssertRow {
  readonly value: ValueKind;
  /** Whether the value may be left out. @default false */
  readonly isOptional?: true;
  /** What `threshold` means, if the type has one. */
  readonly threshold?: 'required' | 'optional';
  /** Whether it reads the trace, which agents without a loop do not have. @default false */
  readonly readsTrace?: true;
  /** Who decides, besides the worker thread that decides all others. */
  readonly by?: 'judge' | 'program';
}

/**
 * All types of asserts. Those before `tool-called` have promptfoo's names and meaning (promptfoo.dev/docs/configuration/expected-outputs), except
 * `ends-with`, which it does not have; `test/cli/promptfoo.frameworks.ts` compares both.
 */
export const ASSERT_TYPES = {
  equals: { value: 'any' },
  contains: { value: 'text' },
  icontains: { value: 'text' },
  'contains-all': { value: 'texts' },
  'contains-any': { value: 'texts' },
  'icontains-all': { value: 'texts' },
  'icontains-any': { value: 'texts' },
  'starts-with': { value: 'text' },
  'ends-with': { value: 'text' },
  regex: { value: 'text' },
  'is-json': { value: 'schema', isOptional: true },
  'contains-json': { value: 'schema', isOptional: true },
  levenshtein: { value: 'text', threshold: 'optional' },
  'word-count': { value: 'count' },
  cost: { value: 'none', threshold: 'required' },
  latency: { value: 'none', threshold: 'required' },
  'llm-rubric': { value: 'text', threshold: 'optional', by: 'judge' },
  javascript: { value: 'code', threshold: 'optional', by: 'program' },
  python: { value: 'code', threshold: 'optional', by: 'program' },
  'tool-called': { value: 'text', readsTrace: true },
  'tool-args': { value: 'arguments', readsTrace: true },
  'tool-order': { value: 'order', readsTrace: true },
  'max-turns': { value: 'count', readsTrace: true },
} as const satisfies Record<string, AssertRow>;

export type AssertType = keyof typeof ASSERT_TYPES;
export const rowOfAssert = (type: AssertType): AssertRow => ASSERT_TYPES[type];
export const isJudged = ({ type }: { readonly type: AssertType }): boolean => rowOfAssert(type).by === 'judge';

/** An assert of a case, complete and with the values of `vars` in its texts. */
export interface Assert {
  readonly type: AssertType;
  /** Whether it is the opposite, as `not-contains`. */
  readonly isNot: boolean;
  readonly value?: Json;
  readonly threshold?: number;
  readonly weight: number;
  readonly metric?: string;
  /** Selects a part of the output, such as `$.label`. */
  readonly path?: string;
  /** For `tool-called`: how often exactly. */
  readonly times?: number;
}

/** The name of an assert's type as in its file. */
export const nameOfAssert = ({ type, isNot }: Pick<Assert, 'type' | 'isNot'>): string => (isNot ? `not-${type}` : type);

export interface EvalCase {
  /** Number of its suite, from 0. */
  readonly suite: number;
  readonly description: string;
  /** The input of the agent. */
  readonly vars: { readonly [name: string]: Json };
  /** The run that the case was taken from, whose output is graded beside those of the versions. */
  readonly run?: string;
  /** Whether the whole evaluation fails if it fails. */
  readonly must: boolean;
  /** The weighted mean of the scores that passes it, in place of all asserts. */
  readonly threshold?: number;
  readonly asserts: readonly Assert[];
}

/** Who judges rubrics: a model, or an agent of the workspace. */
export type Judge = { readonly model: string } | { readonly agent: string };

export interface Suite {
  readonly name: string;
  readonly description: string | null;
  /** Share of the cases that must pass. */
  readonly threshold: number;
  readonly repeat: number;
  readonly pass: PassRule;
  readonly budgetUsd: number;
  readonly judge: Judge | null;
  /** Custom tool -> its answer, a text or JSON. */
  readonly mocks: { readonly [tool: string]: Json } | null;
}

export interface ReadSuites {
  readonly suites: readonly Suite[];
  readonly cases: readonly EvalCase[];
}

/** The files of an evaluation: name -> text. Those that are neither YAML nor JSON are values of asserts (`file://`). */
export type SuiteFiles = { readonly [name: string]: string };

export const isSuiteFile = (name: string): boolean => /\.(ya?ml|json)$/i.test(name);

/** Returns the names of the files that the asserts of a suite name, by the text of the suite. */
export const filesNamedIn = (suite: string): readonly string[] =>
  [...suite.matchAll(/file:\/\/([^\s"',}\]]+)/g)].map(([, name]) => name!.replace(/^\.\//, ''));

/** Shortens a text to the length that results keep. */
export const shortText = (text: string): string =>
  text.length > MAX_EVAL_TEXT ? `${text.slice(0, MAX_EVAL_TEXT - 1)}…` : text;
