import { describe, expect, test } from 'vitest';
import { changesOf, fieldProblemOf, formOf } from './approval.ts';

describe('the difference between what was asked and what was approved', () => {
  test.each([
    ['nothing', { a: 1 }, { a: 1 }, []],
    ['a member', { a: 1, b: 2 }, { a: 1, b: 3 }, [{ path: 'b', before: 2, after: 3 }]],
    ['a member within', { a: { b: 1, c: 2 } }, { a: { b: 1, c: 3 } }, [{ path: 'a.c', before: 2, after: 3 }]],
    ['what was added', {}, { a: null }, [{ path: 'a', before: undefined, after: null }]],
    ['what was left out', { a: 1 }, {}, [{ path: 'a', before: 1, after: undefined }]],
    ['a list as a whole', { a: [1, 2] }, { a: [1] }, [{ path: 'a', before: [1, 2], after: [1] }]],
    ['another type', { a: { b: 1 } }, { a: 'b' }, [{ path: 'a', before: { b: 1 }, after: 'b' }]],
    ['a name of every object', {}, { toString: 1 }, [{ path: 'toString', before: undefined, after: 1 }]],
  ])('%s', (_, before, after, changes) => {
    expect(changesOf(before, after)).toEqual(changes);
  });
});

describe('the form of a schema', () => {
  test('an object has its members', () => {
    const schema = { type: 'object', properties: { amount: { type: 'number' } } };
    expect(formOf(schema)).toEqual({ schema, isWrapped: false });
  });

  test('another value is a member of one, with the definitions that it names', () => {
    const schema = { type: 'array', items: { $ref: '#/$defs/item' }, $defs: { item: { type: 'string' } } };
    expect(formOf(schema)).toMatchObject({
      isWrapped: true,
      schema: { properties: { answer: { type: 'array', items: { $ref: '#/$defs/item' } } }, $defs: schema.$defs },
    });
  });

  test.each([[null], [{}], [{ type: 'object' }], [{ anyOf: [{ type: 'string' }] }], [{ type: ['string', 'null'] }]])(
    'there is none for %j',
    (schema) => {
      expect(formOf(schema)).toBeUndefined();
    },
  );
});

test.each([
  ['body.arguments.amount: must be <= 80.', { field: 'arguments', path: 'amount', message: 'must be <= 80.' }],
  ['body.answer: must be a text.', { field: 'answer', path: '', message: 'must be a text.' }],
  ['body.answer[2].name: is long.', { field: 'answer', path: '2.name', message: 'is long.' }],
  ['body.reason: has: two colons.', { field: 'reason', path: '', message: 'has: two colons.' }],
  ['body.decision: must be "answer" here.', undefined],
  ['There is no approval.', undefined],
])('the problem %s belongs to its field', (message, problem) => {
  expect(fieldProblemOf(message)).toEqual(problem);
});
