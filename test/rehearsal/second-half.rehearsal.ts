import { afterAll, expect, inject, test } from 'vitest';
import { platformSuite } from '#test/e2e/suite.ts';
import { startRehearsal } from './platform.ts';
import { neverNeeded } from './rights.ts';

/** The other half of the suite of platform.rehearsal.ts, on a stage like that. */
const target = await startRehearsal(inject('awsEndpoints'), { name: 'second' });
const { python, node } = target.interpreters;

platformSuite(() => target, { python: python !== undefined, node: node !== undefined }, 1);

test('no function needed what its policy does not allow', () => {
  expect([...target.gate.refused]).toEqual([]);
});

test('no function may do what it never needs', () => {
  expect(neverNeeded('second-half', target)).toEqual([]);
});

afterAll(() => target.close());
