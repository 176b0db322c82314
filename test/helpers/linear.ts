import { expect } from 'vitest';

/** Processor time of this thread that the fastest of three plays takes, in microseconds. */
function leastTime(play: () => void): number {
  const times = Array.from({ length: 3 }, () => {
    const before = process.threadCpuUsage();
    play();
    const { user, system } = process.threadCpuUsage(before);
    return user + system;
  });
  return Math.min(...times);
}

/** Expects that work of four times the size takes about four times as long: quadratic work takes sixteen times as long. */
export function expectLinear(play: (size: number) => void, size: number): void {
  play(size);
  const once = leastTime(() => play(size));
  expect(leastTime(() => play(4 * size)) / Math.max(once, 1000)).toBeLessThan(10);
}
