import { afterAll, expect, test } from 'vitest';
import { startAwsTarget } from '#test/helpers/aws-platform.ts';
import { platformSuite } from './suite.ts';

const target = await startAwsTarget();

platformSuite(() => target, { python: false, node: false });

test('no function needed what its policy does not allow', () => {
  expect([...target.refused]).toEqual([]);
});

afterAll(() => target.close());
