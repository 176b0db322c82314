import { expect } from 'vitest';

/** Returns the CPU time of this thread for the fastest of five runs, in microseconds. */
function minTime(play: () => void): number {
  const times = Array.from({ length: 5 }, () => {
    const before = process.threadCpuUsage();
    play();
    const { user, system } = process.threadCpuUsage(before);
    return user + system;
  });
  return Math.min(...times);
}

/** Below this time, garbage collection and the compiler dominate the measurement. */
const MIN_MICROSECONDS = 10_000;

/**
 * Expects that four times the input takes about four times as long; quadratic work would take sixteen times as long.
 */
export function expectLinear(play: (size: number) => void, size: number): void {
  play(size);
  const once = minTime(() => play(size));
  expect(minTime(() => play(4 * size)) / Math.max(once, MIN_MICROSECONDS)).toBeLessThan(10);
}
