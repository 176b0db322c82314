import { describe, expect, test } from 'vitest';
import { newWorkspace, withThreads } from '#test/helpers/checks.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { readEvalSuites } from '../worker-pool/checks.ts';
import { readSuites } from './read-suites.ts';
import {
  ASSERT_TYPES,
  DEFAULT_BUDGET_USD,
  MAX_CASE_BYTES,
  MAX_CASES,
  MAX_SUITE_BYTES,
  MAX_SUITE_DEPTH,
  MAX_YAML_ALIASES,
} from './suite.ts';

const read = (text: string, more = {}) => readSuites({ 'evals/a.yaml': text, ...more });

test('a suite in YAML has its defaults, and the values of vars in its texts', () => {
  const { suites, cases } = read(`
# Refunds.
judge: { model: claude-haiku-5.5 }
defaultTest:
  vars: { tone: kind, order: { id: 7 } }
  assert:
    - { type: not-contains, value: "{{tone}} regards" }
tests:
  - description: refuses
    must: true
    vars: { text: Give it back }
    assert:
      - { type: equals, path: $.label, value: refund, weight: 2, metric: label }
      - { type: contains, value: "order {{order.id}} for {{ nobody }}" }
      - { type: llm-rubric, value: "{{text}} politely", threshold: 0.7 }
  - { vars: { tone: rude } }
`);
  expect(suites).toEqual([
    {
      ...{ name: 'evals/a.yaml', description: null, threshold: 1, repeat: 1, pass: 'all' },
      ...{ budgetUsd: DEFAULT_BUDGET_USD, judge: { model: 'claude-haiku-5.5' }, mocks: null },
    },
  ]);
  expect(cases).toEqual([
    {
      ...{ suite: 0, description: 'refuses', must: true },
      vars: { tone: 'kind', order: { id: 7 }, text: 'Give it back' },
      asserts: [
        { type: 'contains', isNot: true, value: 'kind regards', weight: 1 },
        { type: 'equals', isNot: false, value: 'refund', path: '$.label', weight: 2, metric: 'label' },
        { type: 'contains', isNot: false, value: 'order 7 for {{ nobody }}', weight: 1 },
        { type: 'llm-rubric', isNot: false, value: 'Give it back politely', threshold: 0.7, weight: 1 },
      ],
    },
    {
      ...{ suite: 0, description: 'case 2', must: false, vars: { tone: 'rude', order: { id: 7 } } },
      asserts: [{ type: 'contains', isNot: true, value: 'rude regards', weight: 1 }],
    },
  ]);
});

test('schemas and counts may be texts', () => {
  const { cases } = read(`
tests:
  - vars: { words: "3" }
    assert:
      - { type: is-json, value: "required: [name]" }
      - { type: contains-json, value: '{"type": "object"}' }
      - { type: word-count, value: "{{words}}" }
`);
  expect(cases[0]!.asserts.map(({ value }) => value)).toEqual([{ required: ['name'] }, { type: 'object' }, 3]);
  const wrong = (assert: string) => () => read(`tests: [{ assert: [${assert}] }]`);
  expect(wrong('{ type: is-json, value: "a: [" }')).toThrow('tests[0].assert[0].value: is not valid YAML');
  expect(wrong('{ type: is-json, value: "object" }')).toThrow('is-json needs a JSON Schema, or no value');
  expect(wrong('{ type: word-count, value: { min: 2, max: 1 } }')).toThrow('a min that is at most its max');
});

test('several files are several suites, and files that asserts name are their values', () => {
  const assert = (name: string, type: string) => ({ tests: [{ assert: [{ type, value: `file://${name}` }] }] });
  const { suites, cases } = readSuites({
    'b.json': JSON.stringify(assert('schema.json', 'is-json')),
    'a.yaml': JSON.stringify(assert('checks/a.py', 'python')),
    'schema.json': '{"type": "object"}',
    'checks/a.py': 'True',
  });
  expect(suites.map(({ name }) => name)).toEqual(['b.json', 'a.yaml']);
  expect(cases.map(({ suite, asserts: [assert] }) => [suite, assert!.value])).toEqual([
    [0, { type: 'object' }],
    [1, 'True'],
  ]);
});

describe('a wrong file is refused, by file, member, cause and fix', () => {
  const withAssert = (assert: object) => JSON.stringify({ tests: [{}, { assert: [assert] }] });
  test.each<[string, string, string]>([
    ['no case', '{}', 'evals/a.yaml: tests: '],
    ['a list', '[]', 'must be an object with the member "tests"'],
    ['an unknown member', 'tests: [{}]\nprompts: []', 'prompts: is not a member here. Known members: description,'],
    ['an unknown member of a case', 'tests: [{input: 1}]', 'tests[0].input: is not a member here'],
    ['a wrong value', 'tests: [{}]\nrepeat: 21', 'repeat: '],
    ['a member twice', 'tests: [{}]\ntests: [{}]', 'is not valid YAML'],
    [
      'an unknown type',
      withAssert({ type: 'similar' }),
      `"similar" is not a type of assert. The types are ${Object.keys(ASSERT_TYPES).join(', ')};`,
    ],
    ['no value', withAssert({ type: 'contains' }), 'tests[1].assert[0].value: contains needs a value'],
    ['a wrong list', withAssert({ type: 'tool-order', value: 'x' }), 'needs a list of names of tools'],
    ['no limit', withAssert({ type: 'cost' }), 'threshold: is missing; cost needs a number, in US dollars'],
    ['a limit where there is none', withAssert({ type: 'equals', value: 1, threshold: 1 }), 'equals has none'],
    ['a wrong path', withAssert({ type: 'equals', value: 1, path: 'label' }), 'must be a path such as $.label'],
    ['a file that was not sent', withAssert({ type: 'python', value: 'file://a.py' }), 'the file a.py was not sent'],
    [
      'no judge',
      withAssert({ type: 'not-llm-rubric', value: 'kind' }),
      'judge: is missing, and tests[1] has an llm-rubric',
    ],
    ['half a judge', 'tests: [{}]\njudge: {}', 'judge: must have either "model"'],
  ])('%s', (_, text, words) => {
    expect(() => read(text)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining(words) }),
    );
  });

  test('files without a suite', () => {
    expect(() => readSuites({ 'a.py': 'x' })).toThrow('at least one file whose name ends in .yaml');
  });
});

describe('a hostile file is refused', () => {
  const aliases = ['a: &a [x, x, x, x, x, x, x, x, x]'];
  for (let level = 1; level < 9; level++)
    aliases.push(
      `${'abcdefghij'[level]}: &${'abcdefghij'[level]} [${Array(9)
        .fill(`*${'abcdefghij'[level - 1]}`)
        .join(', ')}]`,
    );
  test.each<[string, string, string]>([
    ['aliases of aliases', aliases.join('\n'), `more than ${MAX_YAML_ALIASES} aliases`],
    ['deep lists', `tests: ${'['.repeat(5_000)}${']'.repeat(5_000)}`, `more than ${MAX_SUITE_DEPTH} levels deep`],
    ['a circle', 'tests: &t [{ vars: { a: *t } }]', 'levels deep'],
    ['many cases', JSON.stringify({ tests: Array.from({ length: 10_000 }, () => ({})) }), `at most ${MAX_CASES} cases`],
    ['a large file', `# ${'x'.repeat(2 * 1024 * 1024)}`, `at most ${MAX_SUITE_BYTES} bytes`],
    [
      'a large case',
      JSON.stringify({ tests: [{ vars: { a: 'x'.repeat(MAX_CASE_BYTES) } }] }),
      `at most ${MAX_CASE_BYTES} bytes`,
    ],
    [
      'values that grow',
      JSON.stringify({
        tests: [{ vars: { a: 'x'.repeat(20_000) }, assert: [{ type: 'equals', value: '{{a}}'.repeat(5_000) }] }],
      }),
      `at most ${MAX_CASE_BYTES} bytes`,
    ],
  ])('%s', async (_, text, words) => {
    const deps = memoryDeps();
    const { tasks, result } = await withThreads(() =>
      readEvalSuites(deps, newWorkspace(), { 'a.yaml': text }).then(
        () => 'read',
        (error: Error) => error.message,
      ),
    );
    expect(result).toContain(words);
    expect(tasks).toEqual(['readSuites']);
  });
});
