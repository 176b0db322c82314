import { expect } from 'vitest';

/** Processor time of this thread that the fastest of five plays takes, in microseconds. */
function leastTime(play: () => void): number {
  const times = Array.from({ length: 5 }, () => {
    const before = process.threadCpuUsage();
    play();
    const { user, system } = process.threadCpuUsage(before);
    return user + system;
  });
  return Math.min(...times);
}

/** Below this, collections of garbage and the compiler count for more than the work. */
const LEAST_MICROSECONDS = 10_000;

/** Expects that work of four times the size takes about four times as long: quadratic work takes sixteen times as long. */
export function expectLinear(play: (size: number) => void, size: number): void {
  play(size);
  const once = leastTime(() => play(size));
  expect(leastTime(() => play(4 * size)) / Math.max(once, LEAST_MICROSECONDS)).toBeLessThan(10);
}
