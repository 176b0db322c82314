import { describe, expect, test } from 'vitest';
import { readSuites } from '#core/manifest/evals/read-suites.ts';
import { fromOpenAi } from './import-openai.ts';

const OUTPUT = '{{ sample.output_text }}';
const item = { ticket: 'My invoice', answer: { label: 'billing' } };

/** Takes over one criterion for one item. */
function taken(criterion: object, options: { judge?: string } = {}) {
  const lines = [{ item }, { testing_criteria: [criterion] }];
  const { suite, left } = fromOpenAi(lines, { judge: options.judge, members: ['ticket'] });
  const [{ assert = [] }] = suite.tests as [{ assert?: Record<string, unknown>[] }];
  // What is written can be read.
  readSuites({ 'evals/a.yaml': JSON.stringify(suite) });
  return { assert: assert[0], judge: suite.judge, left };
}
const message = (content: unknown, role = 'developer') => ({ role, content });

describe('string_check', () => {
  const check = (more: object) => taken({ type: 'string_check', name: 'Right', input: OUTPUT, ...more });

  test.each([
    ['eq', 'equals'],
    ['ne', 'not-equals'],
    ['like', 'contains'],
    ['ilike', 'icontains'],
  ])('%s is %s', (operation, type) => {
    const { assert, left } = check({ operation, reference: '{{ item.answer.label }}' });
    expect([assert, left]).toEqual([{ type, value: 'billing', metric: 'Right' }, []]);
  });

  test('a member of the output is a path', () => {
    const { assert } = check({ operation: 'eq', input: '{{sample.output_json.answer.label}}', reference: 'billing' });
    expect(assert).toMatchObject({ type: 'equals', path: '$.answer.label', value: 'billing' });
  });

  test('both sides may be the output, where that is the same', () => {
    const swapped = { input: '{{ item.answer.label }}', reference: OUTPUT };
    expect(check({ operation: 'eq', ...swapped }).assert).toMatchObject({ type: 'equals', value: 'billing' });
    expect(check({ operation: 'like', ...swapped })).toMatchObject({
      assert: undefined,
      left: [
        'testing_criteria[0] (string_check): only checks of {{ sample.output_text }} or {{ sample.output_json.NAME }} against the item or a text are taken over',
      ],
    });
  });

  test('others are named', () => {
    expect(check({ operation: 'regex', reference: 'x' }).left).toEqual([
      'testing_criteria[0] (string_check): the operation regex is not known',
    ]);
    expect(check({ operation: 'eq', input: 'It is {{ sample.output_text }}', reference: 'x' }).left).toHaveLength(1);
  });
});

describe('text_similarity', () => {
  const similar = (evaluation_metric: string, more = {}) =>
    taken({
      ...{ type: 'text_similarity', input: OUTPUT, reference: '{{ item.answer.label }}', evaluation_metric },
      ...{ pass_threshold: 0.5, ...more },
    });

  test('a fuzzy match is a distance', () => {
    const { assert, left } = similar('fuzzy_match');
    expect(assert).toEqual({ type: 'levenshtein', value: 'billing', threshold: 4 });
    expect(left).toEqual([expect.stringContaining('the distance of Levenshtein, which is stricter')]);
    expect(similar('fuzzy_match', { pass_threshold: 1 }).assert).toMatchObject({ threshold: 0 });
  });

  test.each(['bleu', 'gleu', 'meteor', 'cosine', 'rouge_1', 'rouge_l'])('%s is named', (metric) => {
    expect(similar(metric).left).toEqual([
      `testing_criteria[0] (text_similarity): the platform has no asserts with the measure ${metric}`,
    ]);
  });
});

describe('label_model', () => {
  const labels = { type: 'label_model', model: 'gpt-5', labels: ['good', 'bad'], passing_labels: ['good'] };

  test('is a rubric with its labels', () => {
    const input = [message(`Is it polite? ${OUTPUT}`), message('{{ item.ticket }}', 'user')];
    expect(taken({ ...labels, input })).toEqual({
      assert: {
        type: 'llm-rubric',
        value:
          'Is it polite? (the output)\n\nMy invoice\n\nThe labels are: good, bad. It passes if the label is one of: good.',
      },
      judge: { model: 'openai/gpt-5' },
      left: [],
    });
  });

  test('parts of its messages, templates and files are taken over or named', () => {
    const parts = [
      { type: 'input_text', text: 'About {{ item.answer }}: {{ sample.output_json.label }}' },
      { type: 'input_image', image_url: 'https://example.com/a.png' },
      '{{ sample.output_tools }}',
    ];
    const { assert, left } = taken({ ...labels, input: [message(parts)] }, { judge: 'claude-haiku-4-5' });
    expect(assert?.value).toContain('About {"label":"billing"}: (label of the output)\n\n{{ sample.output_tools }}');
    expect(left).toEqual([
      expect.stringContaining('images, sounds and files of its messages are left out'),
      expect.stringContaining('templates other than'),
    ]);
  });

  test('without labels that pass it is named', () => {
    expect(taken({ ...labels, passing_labels: [], input: [message('x')] }).left).toEqual([
      'testing_criteria[0] (label_model): it has no labels, or none of them passes',
    ]);
  });
});

describe('score_model', () => {
  const score = {
    type: 'score_model',
    model: 'gpt-5',
    input: [message({ type: 'input_text', text: 'Rate it.' }, 'user')],
  };

  test('is a rubric with a threshold as a share', () => {
    const { assert, left } = taken({ ...score, range: [0, 10], pass_threshold: 7 });
    expect(assert).toEqual({
      type: 'llm-rubric',
      value: 'Rate it.\n\nWhere this says a score from 0 to 10, give it as a share from 0 to 1.',
      threshold: 0.7,
    });
    expect(left).toEqual([]);
    expect(taken({ ...score, range: [-1, 1], pass_threshold: 0 }).assert).toMatchObject({ threshold: 0.5 });
  });

  test('what it loses is named', () => {
    expect(taken({ ...score, sampling_params: { temperature: 0 } }).left).toEqual([
      'testing_criteria[0] (score_model): sampling_params: the judge has its own settings',
      'testing_criteria[0] (score_model): it has no pass_threshold: the judge decides what passes',
    ]);
    expect(taken({ ...score, range: [1, 1] }).left).toEqual([
      'testing_criteria[0] (score_model): the range from 1 to 1 is empty',
    ]);
  });
});

describe('python', () => {
  test('a grader becomes a program that gets the output and the item', () => {
    const source =
      'def grade(sample, item):\n    return 1.0 if sample["output_text"] == item["answer"]["label"] else 0.0\n';
    const { assert, left } = taken({
      type: 'python',
      name: 'Same',
      source,
      pass_threshold: 0.5,
      image_tag: '2026-01-01',
    });
    expect(assert).toMatchObject({ type: 'python', threshold: 0.5, metric: 'Same' });
    expect(assert?.value).toContain(source.trimEnd());
    expect(assert?.value).toContain('def get_assert(output, context):');
    expect(left).toEqual([]);
  });

  test('what it loses, and a source without the function, is named', () => {
    expect(taken({ type: 'python', source: 'import numpy\ndef grade(sample, item): return 1' }).left).toEqual([
      'testing_criteria[0] (python): it has no pass_threshold: a score greater than 0 passes',
      "testing_criteria[0] (python): its imports find Python's own library alone",
    ]);
    expect(taken({ type: 'python', source: 'x = 1' }).left).toEqual([
      'testing_criteria[0] (python): its source has no function grade(sample, item)',
    ]);
  });
});

test('what has no counterpart is named, and so is what is missing', () => {
  expect(taken({ type: 'multi', graders: {}, calculate_output: 'a' }).left).toEqual([
    'testing_criteria[0] (multi): the platform has no such criteria',
  ]);
  const rubric = (model: string) => ({ type: 'score_model', model, input: [message('x')], pass_threshold: 1 });
  const lines = [
    { datasource_item: { ticket: 'a' }, sample: { output: [] }, results: [] },
    { testing_criteria: [rubric('gpt-5'), rubric('o3')] },
    { other: 1 },
  ];
  const { suite, left } = fromOpenAi(lines, { judge: undefined, members: undefined });
  expect(suite).toMatchObject({ judge: { model: 'openai/gpt-5' }, tests: [{ vars: { ticket: 'a' } }] });
  expect(left).toEqual([
    'line 3: it has neither "item" nor "testing_criteria"',
    'testing_criteria[1] (score_model): a suite has one judge: openai/gpt-5 in place of openai/o3',
    'input: the agent gets the whole item, with its expected answer; --input chooses its members',
  ]);
});
