import { describe, expect, test } from 'vitest';
import { readableOf, restOfSchema, textOfInput } from './message-text.ts';

describe('what a person wrote', () => {
  test.each([
    ['Hi', 'Hi'],
    [{ message: 'Hi' }, 'Hi'],
    [{ message: 'Hi', days: 2 }, undefined],
    [{ days: 2 }, undefined],
    [['Hi'], undefined],
    [null, undefined],
  ])('%j', (input, text) => {
    expect(textOfInput(input)).toBe(text);
  });
});

describe('an answer as people read it', () => {
  test.each([
    [null, {}],
    [undefined, {}],
    ['Hi', { text: 'Hi' }],
    [{ reply: 'Hi' }, { text: 'Hi' }],
    [
      { reply: 'Hi', mood: 'good' },
      { text: 'Hi', whole: { reply: 'Hi', mood: 'good' } },
    ],
    [[1, 2], { whole: [1, 2] }],
    [{ count: 2 }, { whole: { count: 2 } }],
    [0, { whole: 0 }],
    [false, { whole: false }],
  ])('%j', (output, readable) => {
    expect(readableOf(output)).toEqual(readable);
  });
});

test('the rest of a schema has neither the text nor its requirement', () => {
  const schema = { type: 'object', required: ['city', 'days'], properties: { city: {}, days: {} } };
  expect(restOfSchema(schema, 'city')).toEqual({ type: 'object', required: ['days'], properties: { days: {} } });
  expect(restOfSchema({ properties: { city: {} } }, 'city')).toBeUndefined();
  expect(restOfSchema(null, 'message')).toBeUndefined();
  expect(restOfSchema({ properties: { city: {} } }, undefined)).toEqual({ properties: { city: {} }, required: [] });
});
