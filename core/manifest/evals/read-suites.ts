import { parseDocument } from 'yaml';
import * as z from 'zod';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import { isJsonObject, type Json } from '#core/base/json.ts';
import { assertShape, filled, judgeShape, readAssert, type WrittenAssert } from './read-assert.ts';
import {
  type Assert,
  DEFAULT_BUDGET_USD,
  type EvalCase,
  isJudged,
  isSuiteFile,
  MAX_ASSERTS,
  MAX_BUDGET_USD,
  MAX_CASE_BYTES,
  MAX_CASES,
  MAX_EVAL_TEXT,
  MAX_REPEAT,
  MAX_SUITE_BYTES,
  MAX_SUITE_DEPTH,
  MAX_SUITE_FILES,
  MAX_YAML_ALIASES,
  PASS_RULES,
  type ReadSuites,
  type Suite,
  type SuiteFiles,
} from './suite.ts';

const text = z.string().min(1).max(MAX_EVAL_TEXT);
const json = z.json();
const vars = z.record(z.string(), json);

const asserts = z.array(assertShape);

const testShape = z.strictObject({
  description: text.optional(),
  vars: vars.optional(),
  run: z.uuid('must be the whole id of a run, as `platform runs add-case` writes it').optional(),
  must: z.boolean().optional(),
  threshold: z.number().min(0).max(1).optional(),
  assert: asserts.optional(),
});

const suiteShape = z.strictObject({
  description: z.string().max(2000).optional(),
  threshold: z.number().min(0).max(1).default(1),
  repeat: z.int().min(1).max(MAX_REPEAT).default(1),
  pass: z.enum(PASS_RULES).default('all'),
  budget_usd: z.number().positive().max(MAX_BUDGET_USD).optional(),
  judge: judgeShape.optional(),
  mocks: z.record(z.string(), json).optional(),
  defaultTest: testShape.omit({ description: true, run: true, must: true }).optional(),
  tests: z.array(z.unknown()).min(1, 'must have at least one case'),
});

type TestBody = z.output<typeof testShape>;

/**
 * Reads suites in promptfoo's words (`docs/interface/evals.md`). Runs in a thread: a file may be made to take long. Throws INVALID_INPUT that
 * names file, member, cause and fix.
 */
export function readSuites(files: SuiteFiles): ReadSuites {
  const names = Object.keys(files);
  if (names.length > MAX_SUITE_FILES) refuse('suites', `must be at most ${MAX_SUITE_FILES} files, not ${names.length}`);
  const bytes = Object.values(files).reduce((sum, content) => sum + Buffer.byteLength(content), 0);
  if (bytes > MAX_SUITE_BYTES) {
    refuse('suites', `must be at most ${MAX_SUITE_BYTES} bytes together, not ${bytes}: evaluate some of the files`);
  }
  const suites: Suite[] = [];
  const cases: EvalCase[] = [];
  for (const name of names.filter(isSuiteFile)) {
    // A schema or another value that an assert names is JSON or YAML, too.
    if (names.some((other) => other !== name && files[other]!.includes(`file://${name}`))) continue;
    const { suite, own } = readSuite(name, files, suites.length, MAX_CASES - cases.length);
    suites.push(suite);
    cases.push(...own);
  }
  if (suites.length === 0) refuse('suites', 'must have at least one file whose name ends in .yaml, .yml or .json');
  return { suites, cases };
}

function readSuite(
  file: string,
  files: SuiteFiles,
  suite: number,
  room: number,
): { readonly suite: Suite; readonly own: EvalCase[] } {
  const { data, error } = suiteShape.safeParse(objectIn(file, files[file]!));
  if (error) throw problemIn(file, error, suiteShape);
  const { tests, defaultTest, budget_usd, judge = null, mocks = null, description = null, ...rest } = data;
  if (tests.length > room) {
    refuse(file, `tests: an evaluation has at most ${MAX_CASES} cases; evaluate the files in several parts`);
  }
  const own = tests.map((body, index) => {
    const read = testShape.safeParse(body);
    const at = `tests[${index}]`;
    if (read.error) throw problemIn(file, read.error, testShape, at);
    return caseOf({ file, files, at, suite, index }, read.data, defaultTest);
  });
  const rubric = own.findIndex((each) => each.asserts.some(isJudged));
  if (rubric >= 0 && judge === null) {
    refuse(
      file,
      `judge: is missing, and tests[${rubric}] has an llm-rubric: name a model, such as judge: {model: claude-haiku-5.5}`,
    );
  }
  return {
    suite: { ...rest, name: file, description, judge, mocks, budgetUsd: budget_usd ?? DEFAULT_BUDGET_USD },
    own,
  };
}

function objectIn(file: string, content: string): Json {
  const value = parse(file, content);
  return isJsonObject(value) ? value : refuse(file, 'must be an object with the member "tests"');
}

/** Reads YAML 1.2, of which JSON is a part. `file` names it in errors. */
function parse(file: string, content: string): Json {
  let value: unknown;
  try {
    const document = parseDocument(content, { version: '1.2', schema: 'core', merge: false, logLevel: 'silent' });
    const [problem] = document.errors;
    if (problem && /call stack/i.test(problem.message)) throw new RangeError();
    if (problem) refuse(file, `is not valid YAML: ${problem.message.split('\n')[0]!.slice(0, 300)}`);
    value = document.toJS({ maxAliasCount: MAX_YAML_ALIASES });
  } catch (error) {
    if (isPlatformError(error)) throw error;
    if (error instanceof RangeError) refuse(file, `is nested more than ${MAX_SUITE_DEPTH} levels deep`);
    const why = (error as Error).message.slice(0, 200);
    refuse(
      file,
      /alias/i.test(why) ? `has more than ${MAX_YAML_ALIASES} aliases: write the values out` : `cannot be read: ${why}`,
    );
  }
  if (isDeeper(value, MAX_SUITE_DEPTH)) refuse(file, `is nested more than ${MAX_SUITE_DEPTH} levels deep`);
  return value as Json;
}

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some((member) => isDeeper(member, levels - 1)));

interface Place {
  readonly file: string;
  readonly files: SuiteFiles;
  readonly at: string;
  readonly suite: number;
  readonly index: number;
}

function caseOf(place: Place, own: TestBody, defaults: Pick<TestBody, 'vars' | 'assert' | 'threshold'> = {}): EvalCase {
  const { file, at, suite, index } = place;
  const given = { ...defaults.vars, ...own.vars };
  const bodies = [...(defaults.assert ?? []), ...(own.assert ?? [])];
  if (bodies.length > MAX_ASSERTS)
    refuse(file, `${at}.assert: must have at most ${MAX_ASSERTS} asserts, not ${bodies.length}`);
  if (own.run !== undefined && own.vars === undefined) {
    refuse(
      file,
      `${at}.run: needs "vars", the input of the run: copy it, or let \`platform runs add-case\` write both`,
    );
  }
  const threshold = own.threshold ?? defaults.threshold;
  const room = { bytes: MAX_CASE_BYTES };
  const inherited = defaults.assert?.length ?? 0;
  const made: EvalCase = {
    suite,
    description: own.description ?? `case ${index + 1}`,
    vars: given as EvalCase['vars'],
    ...(own.run !== undefined && { run: own.run }),
    must: own.must ?? false,
    ...(threshold !== undefined && { threshold }),
    asserts: bodies.map((body, number) => {
      const where = number < inherited ? `defaultTest.assert[${number}]` : `${at}.assert[${number - inherited}]`;
      return assertOf({ ...place, at: where }, body, given as EvalCase['vars'], room);
    }),
  };
  if (room.bytes < 0 || Buffer.byteLength(JSON.stringify(made)) > MAX_CASE_BYTES) {
    refuse(file, `${at}: must be at most ${MAX_CASE_BYTES} bytes with its asserts: shorten its vars or values`);
  }
  return made;
}

function assertOf(place: Place, body: WrittenAssert, given: EvalCase['vars'], room: { bytes: number }): Assert {
  const read = readAssert(body, (written, kind) => {
    const value = filled(fromFile(place, written), given, room);
    // A schema may be written as a text, in YAML or JSON.
    return kind === 'schema' && typeof value === 'string' ? parse(`${place.file}: ${place.at}.value`, value) : value;
  });
  if ('why' in read) refuse(place.file, `${place.at}.${read.member}: ${read.why}`);
  return read;
}

/** Returns the text of the file that a value names, which must be among those that were sent; JSON and YAML are read. */
function fromFile({ file, files, at }: Place, value: Json): Json {
  if (typeof value !== 'string' || !value.startsWith('file://')) return value;
  const name = value.slice('file://'.length).replace(/^\.\//, '');
  if (!Object.hasOwn(files, name)) {
    refuse(file, `${at}.value: the file ${name.slice(0, 100)} was not sent. Send it with the suites, under this name`);
  }
  return isSuiteFile(name) ? parse(name, files[name]!) : files[name]!;
}

/** Returns the first problem of a shape as an error. Unknown members are named with the known ones. */
function problemIn(file: string, { issues }: z.ZodError, shape: z.ZodObject, at = ''): PlatformError {
  const issue = issues[0]!;
  const path = issue.path.reduce<string>(
    (text, part) =>
      typeof part === 'number' ? `${text}[${part}]` : text === '' ? String(part) : `${text}.${String(part)}`,
    at,
  );
  if (issue.code === 'unrecognized_keys') {
    const [name] = issue.keys as [string];
    const known = issue.path.length === 0 ? ` Known members: ${Object.keys(shape.shape).join(', ')}.` : '';
    const member = path === '' ? name : `${path}.${name}`;
    return inputError(file, `${member.slice(0, 200)}: is not a member here.${known}`);
  }
  return inputError(file, `${path.slice(0, 200)}: ${issue.message.slice(0, 300)}`);
}

const inputError = (file: string, why: string): PlatformError =>
  new PlatformError('INVALID_INPUT', `${file.slice(0, 200)}: ${why}${/[.!?]$/.test(why) ? '' : '.'}`, {
    hint: 'docs/evals.md describes the files.',
  });

function refuse(file: string, why: string): never {
  throw inputError(file, why);
}
