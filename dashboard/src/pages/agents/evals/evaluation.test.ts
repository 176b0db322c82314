import { expect, test } from 'vitest';
import {
  type EvalCase,
  type Evaluation,
  inputText,
  isOpen,
  lanesOf,
  probabilityText,
  scoreOf,
  sentenceOf,
  shareText,
} from './evaluation.ts';

const run = (lane: string, version: string | null, status = 'passed') => ({ lane, version, status });
const caseOf = (...runs: readonly ReturnType<typeof run>[]) =>
  ({ suite: 'a.yaml', run: null, runs }) as unknown as EvalCase;

test('lanes are those of the runs, in their order, also if some have not begun', () => {
  const whole = caseOf(run('observed', 'v1'), run('candidate', 'v3'), run('baseline', 'v2'), run('candidate', 'v3'));
  expect(lanesOf([caseOf(run('candidate', 'v3')), caseOf(), whole])).toEqual([
    { lane: 'observed', version: 'v1' },
    { lane: 'candidate', version: 'v3' },
    { lane: 'baseline', version: 'v2' },
  ]);
  expect(lanesOf([whole, caseOf(run('observed', 'v2'))])[0]).toEqual({ lane: 'observed', version: undefined });
  expect(lanesOf([caseOf(run('observed', null))])).toEqual([{ lane: 'observed', version: undefined }]);
  expect(lanesOf([])).toEqual([]);
});

test('cases are open until all their runs have ended', () => {
  const evaluation = { suites: [{ name: 'a.yaml', repeat: 1 }], baseline: 'v2' } as unknown as Evaluation;
  const both = [run('candidate', 'v3'), run('baseline', 'v2')];
  expect(isOpen([caseOf(...both)], evaluation)).toBe(false);
  expect(isOpen([caseOf(...both), caseOf(both[0]!)], evaluation)).toBe(true);
  expect(isOpen([caseOf(both[0]!, run('baseline', 'v2', 'running'))], evaluation)).toBe(true);
  expect(isOpen([{ ...caseOf(...both), run: 'recorded' }], evaluation)).toBe(true);
  expect(isOpen([caseOf(both[0]!)], { ...evaluation, baseline: 'observed' })).toBe(false);
});

test('an input is one line, short, and hides nothing', () => {
  expect(inputText({ text: 'a\nb', list: [1, { x: null }] })).toBe('text: a b, list: [1,{"x":null}]');
  expect(inputText({ text: '\u202egnp' })).toBe('text: \\u{202e}gnp');
  expect(inputText({ text: 'x'.repeat(1000) })).toHaveLength(160);
  expect(inputText({})).toBe('');
});

test('figures are formatted', () => {
  expect(shareText({ share: 5 / 6, interval: [0.436, 0.97] })).toBe('83% (44% to 97%)');
  expect(shareText({ share: null, interval: null })).toBe('–');
  expect([probabilityText(1 / 64), probabilityText(0.0002)]).toEqual(['p = 0.016', 'p < 0.001']);
  expect(scoreOf({ status: 'failed', score: 2 / 3 })).toBe('0.67');
  expect(scoreOf({ status: 'error', score: 0 })).toBeUndefined();
});

test.each([
  ['running', null, null, '1 of 2 runs are done.'],
  ['completed', 'passed', null, 'v2 passed.'],
  ['completed', 'passed', 'v1', 'v2 passed, and is not worse than v1.'],
  ['completed', 'failed', null, 'v2 failed.'],
  ['completed', 'regressed', 'v1', 'v2 is worse than v1, and this is unlikely to be chance.'],
  ['completed', 'regressed', 'observed', 'v2 is worse than the recorded runs, and this is unlikely to be chance.'],
  ['completed', 'inconclusive', 'v1', 'These runs do not decide about v2.'],
  ['aborted', null, null, 'The evaluation was aborted, and has no verdict.'],
  ['failed', null, null, 'The evaluation could not be completed.'],
] as const)('%s, %s, %s: %s', (status, verdict, baseline, text) => {
  const counts = { done: 1, runs: 2 } as Evaluation['counts'];
  expect(sentenceOf({ status, verdict, version: 'v2', baseline, counts })).toBe(text);
});
