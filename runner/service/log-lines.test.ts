import { execFileSync } from 'node:child_process';
import { createReadStream, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { LogLines } from './log-lines.ts';

test('a line is JSON of at most 16 KB, so that no log driver takes it apart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'log-lines-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'log');
  const lines = new LogLines(openSync(file, 'w'));
  const messages = ['x', 'é', '\u001b', '"'].map((character) => character.repeat(16 * 1024));
  for (const message of messages) lines.write({ at: 1, severity: 'INFO', message, source: 'app' });
  await lines.end();
  const written = readFileSync(file, 'utf8').trimEnd().split('\n');
  expect(written.map((line) => Buffer.byteLength(line) <= 16 * 1024)).toEqual(messages.map(() => true));
  for (const line of written)
    expect(JSON.parse(line)).toMatchObject({ source: 'app', message: expect.stringMatching(/cut\]$/) });
});

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
