import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { isOwnerAlive, ownerName } from './owner-process.ts';

test('what another process left that had the number of a living one is not taken for its own', async () => {
  const other = spawn('sleep', ['60']);
  onTestFinished(() => void other.kill('SIGKILL'));
  await once(other, 'spawn');
  const name = ownerName(other.pid);
  expect([ownerName(), name, `${other.pid}`].map((owner) => isOwnerAlive(`${owner}-a1`))).toEqual([true, true, true]);
  // In a container the platform has the same pid after each start.
  expect(isOwnerAlive(`${process.pid}.1-a1`)).toBe(false);
  other.kill('SIGKILL');
  await once(other, 'exit');
  expect(isOwnerAlive(`${name}-a1`)).toBe(false);
});
