import { execFileSync } from 'node:child_process';
import { createReadStream, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { LogLines } from './log-lines.ts';

test('lines wait for a slow reader up to a bound, and the reader is told how many were lost', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'log-lines-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const lines = new LogLines(openSync(pipe, 'r+'));
  const count = 2000;
  for (let at = 0; at < count; at++) lines.write({ at, severity: 'INFO', message: 'x'.repeat(16_000) });

  const seen: { at: number; message: string; platform?: boolean }[] = [];
  createInterface(createReadStream(pipe)).on('line', (line) => seen.push(JSON.parse(line)));
  const hasRoom = () => {
    lines.write({ at: count, severity: 'INFO', message: 'after' });
    return seen.some(({ message }) => message === 'after');
  };
  await expect.poll(hasRoom, { timeout: 30_000 }).toBe(true);
  const kept = seen.findIndex(({ platform }) => platform);
  expect(kept).toBeGreaterThan(400);
  expect(kept).toBeLessThan(count);
  expect(seen.slice(0, kept).map(({ at }) => at)).toEqual(Array.from({ length: kept }, (_, index) => index));
  const [lost] = /\d+(?= lines were lost)/.exec(seen[kept]!.message)!;
  expect(Number(lost)).toBeGreaterThanOrEqual(count - kept);
  expect(seen[kept + 1]!.message).toBe('after');
});
