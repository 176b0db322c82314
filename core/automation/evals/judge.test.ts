import { expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import { readVerdict } from './judge.ts';
import { JUDGE_PROMPT, JUDGE_PROMPT_HASH } from './judge-prompt.ts';
import { readResult } from './scripts.ts';

const good = { reason: 'Fine.', score: 0.5, pass: true };

test.each<[string, Json, object | undefined]>([
  ['the object', good, good],
  ['a text around it', { result: `Here: ${JSON.stringify(good)} Bye.` }, good],
  ['further members', { ...good, more: 1 }, good],
  ['prose', { result: 'It is fine.' }, undefined],
  ['no score', { reason: 'Fine.', pass: true }, undefined],
  ['a score beyond 1', { ...good, score: 7 }, undefined],
  ['a score as a text', { ...good, score: '0.5' }, undefined],
  ['no reason', { score: 1, pass: true }, undefined],
  ['a list', [good], undefined],
  ['nothing', null, undefined],
])('the answer of a judge: %s', (_, answer, verdict) => {
  expect(readVerdict(answer)).toEqual(verdict);
});

test('the prompt of judges changes with its hash, so that series of scores are told apart', () => {
  expect(JUDGE_PROMPT.indexOf('"reason"')).toBeLessThan(JUDGE_PROMPT.indexOf('"score":'));
  expect(JUDGE_PROMPT_HASH).toBe('ee571b162ad7326d');
});

const line = (value: Json) => `printed before\n#result ${JSON.stringify(value)}\n`;
const assert = { type: 'javascript', isNot: false, weight: 1 } as const;

test.each<[string, object, string, object]>([
  ['true', {}, line({ value: true }), { pass: true, score: 1 }],
  ['false', {}, line({ value: false }), { pass: false, score: 0, reason: 'the program returned false' }],
  ['true with not-', { isNot: true }, line({ value: true }), { pass: false, score: 0 }],
  ['a number', {}, line({ value: 0.2 }), { pass: true, score: 0.2 }],
  ['zero', {}, line({ value: 0 }), { pass: false, score: 0 }],
  ['a number below the threshold', { threshold: 0.5 }, line({ value: 0.2 }), { pass: false, score: 0.2 }],
  [
    'an object',
    {},
    line({ value: { pass: true, score: 0.9, reason: 'ok' } }),
    { pass: true, score: 0.9, reason: 'ok' },
  ],
  [
    'an object below the threshold',
    { threshold: 1 },
    line({ value: { pass: true, score: 0.9, reason: 'ok' } }),
    { pass: true, reason: 'ok' },
  ],
  [
    'an object of Python below the threshold',
    { type: 'python', threshold: 1 },
    line({ value: { pass_: true, score: 0.9, reason: 'ok' } }),
    { pass: false, reason: 'score 0.9 is less than 1: ok' },
  ],
  ['an object without a reason', {}, line({ value: { pass: true, score: 1 } }), { pass: false, score: 0 }],
  [
    'a text of Python',
    { type: 'python' },
    line({ value: 'False' }),
    { pass: false, reason: 'the program returned false' },
  ],
  ['a number as text of Python', { type: 'python' }, line({ value: '0.5' }), { pass: true, score: 0.5 }],
  ['another text of Python', { type: 'python' }, line({ value: 'yes' }), { pass: false, score: 0 }],
  ['a text', {}, line({ value: 'yes' }), { pass: false, reason: expect.stringContaining('must return a boolean') }],
  [
    'an error',
    {},
    line({ error: 'x is not defined' }),
    { pass: false, reason: 'the program failed: x is not defined' },
  ],
  ['an error with not-', { isNot: true }, line({ error: 'x' }), { pass: false }],
  ['nothing', {}, 'hello', { pass: false, reason: 'the program ended with status 3 and returned nothing' }],
])('the value of a program: %s', (_, more, printed, result) => {
  expect(readResult({ ...assert, ...more }, printed, 3)).toMatchObject(result);
});
