import { ASSERT_TYPES, MAX_REPEAT } from '#core/manifest/evals/suite.ts';

/** A suite to write, and sentences about what could not be taken over. */
export interface Imported {
  readonly suite: { readonly [member: string]: unknown };
  readonly left: readonly string[];
}

type Body = { readonly [member: string]: unknown };

export const isBody = (value: unknown): value is Body =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The judge of imported rubrics whose file names none. */
export const USUAL_JUDGE = 'anthropic/claude-haiku-4-5';

const ASSERT_MEMBERS = ['type', 'value', 'threshold', 'weight', 'metric'];
/** What Nunjucks fills in and suites do not. */
const OTHER_TEMPLATES = /\{%|\{\{[^{}]*[|([]|\{\{\s*env\./;
/** Members that say how promptfoo calls models, for which the platform has the agent itself. */
const WITHOUT_LOSS = [
  'prompts',
  'providers',
  'targets',
  'description',
  'tests',
  'defaultTest',
  'evaluateOptions',
  'sharing',
  'outputPath',
  '$schema',
];

/** Takes over a configuration of promptfoo (promptfoo.dev/docs/configuration/reference). */
export function fromPromptfoo(config: Body, judge: string | undefined): Imported {
  const left: string[] = [];
  for (const name of Object.keys(config)) {
    if (!WITHOUT_LOSS.includes(name)) left.push(`${name}: the platform has no such member`);
  }
  if (config.prompts !== undefined || config.providers !== undefined || config.targets !== undefined) {
    left.push('prompts and providers: the agent has them; its input is vars');
  }
  const tests = Array.isArray(config.tests) ? config.tests : [];
  if (!Array.isArray(config.tests)) left.push('tests: only a list in the file itself is taken over');
  const defaults = isBody(config.defaultTest) ? testFrom(config.defaultTest, 'defaultTest', left) : undefined;
  const own = tests.flatMap((each, index) => {
    const at = `tests[${index}]`;
    if (isBody(each)) return [testFrom(each, at, left)];
    left.push(`${at}: only cases in the file itself are taken over`);
    return [];
  });
  const options = isBody(config.evaluateOptions) ? config.evaluateOptions : {};
  const repeat = typeof options.repeat === 'number' ? Math.min(options.repeat, MAX_REPEAT) : undefined;
  const hasRubric = [defaults, ...own].some((each) =>
    each?.assert?.some(({ type }) => /^(not-)?llm-rubric$/.test(String(type))),
  );
  return {
    suite: {
      ...(typeof config.description === 'string' && { description: config.description }),
      ...(repeat !== undefined && { repeat }),
      ...(hasRubric && { judge: { model: judge ?? judgeIn(config, left) } }),
      ...(defaults && Object.keys(defaults).length > 0 && { defaultTest: defaults }),
      tests: own,
    },
    left,
  };
}

interface ImportedTest {
  readonly description?: unknown;
  readonly vars?: unknown;
  readonly threshold?: unknown;
  readonly assert?: readonly Body[];
}

function testFrom(test: Body, at: string, left: string[]): ImportedTest {
  const { description, vars, threshold, assert, options: _, ...rest } = test;
  for (const name of Object.keys(rest)) left.push(`${at}.${name}: the platform has no such member`);
  if (isBody(vars) && Object.values(vars).some(Array.isArray)) {
    left.push(`${at}.vars: promptfoo makes a case of each value of a list; here the list is the value`);
  }
  const asserts = Array.isArray(assert)
    ? assert.flatMap((each, index) => assertFrom(each, `${at}.assert[${index}]`, left))
    : [];
  return {
    ...(typeof description === 'string' && at !== 'defaultTest' && { description: description.slice(0, 500) }),
    ...(isBody(vars) && { vars }),
    ...(typeof threshold === 'number' && { threshold }),
    ...(asserts.length > 0 && { assert: asserts }),
  };
}

function assertFrom(assert: unknown, at: string, left: string[]): Body[] {
  if (!isBody(assert)) {
    left.push(`${at}: only asserts in the file itself are taken over`);
    return [];
  }
  const type = String(assert.type);
  if (!Object.hasOwn(ASSERT_TYPES, type.replace(/^not-/, ''))) {
    left.push(`${at}: the platform has no asserts of the type ${type}`);
    return [];
  }
  for (const name of Object.keys(assert)) {
    if (!ASSERT_MEMBERS.includes(name) && name !== 'provider')
      left.push(`${at}.${name}: the platform has no such member`);
  }
  if (OTHER_TEMPLATES.test(JSON.stringify(assert.value ?? ''))) {
    left.push(`${at}.value: filters, calls and blocks of templates stay as they are`);
  }
  return [
    Object.fromEntries(ASSERT_MEMBERS.flatMap((name) => (assert[name] === undefined ? [] : [[name, assert[name]]]))),
  ];
}

/** Finds the model that grades in promptfoo: the last part of `anthropic:messages:MODEL`. */
function judgeIn({ defaultTest }: Body, left: string[]): string {
  const options = isBody(defaultTest) && isBody(defaultTest.options) ? defaultTest.options : {};
  const [provider, ...parts] = typeof options.provider === 'string' ? options.provider.split(':') : [];
  const model = parts.at(-1);
  if (provider !== undefined && model !== undefined) return `${provider}/${model}`;
  left.push(`the model that grades: judge is now ${USUAL_JUDGE}; --judge chooses another one`);
  return USUAL_JUDGE;
}
