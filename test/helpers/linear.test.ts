import { expect, test } from 'vitest';
import { expectLinear } from './linear.ts';

test('linear work is told from quadratic work', () => {
  let sum = 0;
  const linear = (size: number) => {
    for (let n = 0; n < size; n++) sum += Math.sqrt(n);
  };
  const quadratic = (size: number) => {
    for (let n = 0; n < size; n++) linear(size);
  };
  expectLinear(linear, 1_000_000);
  expect(() => expectLinear(quadratic, 2000)).toThrow();
  expect(sum).toBeGreaterThan(0);
});
