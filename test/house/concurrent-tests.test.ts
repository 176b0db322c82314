import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

/**
 * `expect.poll` takes the test that started last for its own, and fails when the test that ended last was another one
 * (Vitest 5, `setCurrentTest`): tests that run at the same time wait with `vi.waitFor`.
 */
test('no file with concurrent tests uses expect.poll', () => {
  const files = execFileSync('git', ['ls-files', '*.ts', '*.tsx'], { cwd: ROOT, encoding: 'utf8' }).trim().split('\n');
  const concurrent = files.filter((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8');
    return /\b(describe|test)\.concurrent\b|\bconcurrent: true\b/.test(text) && !file.startsWith('test/house/');
  });
  expect(concurrent.length).toBeGreaterThan(20);
  const polling = concurrent.filter((file) => readFileSync(join(ROOT, file), 'utf8').includes('expect.poll'));
  expect(polling).toEqual([]);
});
