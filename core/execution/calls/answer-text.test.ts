import { expect, test } from 'vitest';
import { textOfAnswer } from './answer-text.ts';

test.each([
  ['Hi', 'Hi'],
  [{ result: 'Hi' }, 'Hi'],
  [{ greeting: 'Hi', score: 0.5 }, 'Hi'],
  [{ note: 'x', reply: 'Hi' }, 'Hi'],
  [{ text: 'second', answer: 'first' }, 'first'],
  [{ a: 'x', b: 'y' }, '{"a":"x","b":"y"}'],
  [{ reply: 4, other: true }, '{"reply":4,"other":true}'],
  [['Hi'], '["Hi"]'],
  [null, 'null'],
  [4, '4'],
])('reads %j as %j', (data, text) => {
  expect(textOfAnswer(data)).toBe(text);
});
