import { expect, test } from 'vitest';
import { branchHistory, checkBranch } from '#test/helpers/branch-histories.ts';

const TIMEOUT_MS = 600_000;

test('a process leaves a whole branch, or none, at each call of a port', { timeout: TIMEOUT_MS }, async () => {
  const { calls } = await branchHistory([]);
  expect(calls).toBeGreaterThan(30);
  for (let lifetime = 1; lifetime <= calls; lifetime++) {
    for (const lastOneHappens of [false, true]) {
      const where = `dies ${lastOneHappens ? 'after' : 'before'} call ${lifetime}`;
      await checkBranch(await branchHistory([{ lifetime, lastOneHappens }]), where);
    }
  }
});

test('so do two processes that die one after another', { timeout: TIMEOUT_MS }, async () => {
  const { calls } = await branchHistory([]);
  for (let first = 5; first <= calls; first += 7) {
    for (let second = 3; second <= 40; second += 9) {
      const lives = [first, second].map((lifetime) => ({ lifetime, lastOneHappens: lifetime % 2 === 0 }));
      await checkBranch(await branchHistory(lives), `die at calls ${first} and ${second}`);
    }
  }
});
