import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { LogSeverity, ServiceLogLine } from '#core/ports/service-host.ts';
import { LogFile } from './log-file.ts';

const newFolder = () => join(mkdtempSync(join(tmpdir(), 'service-log-')), 'service');
const line = (at: number, message = `line ${at}`, severity: LogSeverity = 'INFO'): ServiceLogLine => ({
  at,
  severity,
  message,
});

test('the newest lines are read, oldest first', async () => {
  const log = new LogFile(newFolder());
  expect(await log.read({ limit: 10 })).toEqual([]);
  for (let at = 1; at <= 1000; at++) log.write(line(at));
  const read = await log.read({ limit: 500 });
  expect(read).toEqual(Array.from({ length: 500 }, (_, index) => line(501 + index)));
  expect(await log.read({ limit: 3, since: 999 })).toEqual([line(999), line(1000)]);
});

test('lines are told apart by severity', async () => {
  const log = new LogFile(newFolder());
  for (const [index, severity] of (['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'] as const).entries()) {
    log.write(line(index, severity, severity));
  }
  const read = await log.read({ limit: 500, severity: 'WARNING' });
  expect(read.map(({ message }) => message)).toEqual(['WARNING', 'ERROR', 'CRITICAL']);
});

test('three files of 10 MB take turns, and all of them are read', async () => {
  const folder = newFolder();
  const log = new LogFile(folder);
  const long = 'é'.repeat(8000);
  for (let at = 1; at <= 3000; at++) {
    log.write(line(at, long));
    if (at % 100 === 0) await log.flush();
  }
  expect(readdirSync(folder).sort()).toEqual(['log.1.jsonl', 'log.2.jsonl', 'log.jsonl']);
  for (const name of readdirSync(folder)) {
    expect(readFileSync(join(folder, name)).byteLength).toBeLessThan(12 * 1024 * 1024);
  }
  const read = await log.read({ limit: 10_000 });
  expect(read.at(-1)!.at).toBe(3000);
  expect(read.map(({ at }) => at)).toEqual(read.map((_, index) => 3000 - read.length + 1 + index));
  expect(read.length).toBeGreaterThan(1200);
  expect(read.every(({ message }) => message === long)).toBe(true);
});

test('a log goes on after a start, past a line that a crash cut', async () => {
  const folder = newFolder();
  const first = new LogFile(folder);
  first.write(line(1));
  await first.flush();
  writeFileSync(join(folder, 'log.jsonl'), '{"at":2,"sev', { flag: 'a' });
  const second = new LogFile(folder);
  second.write(line(3));
  second.write(line(4));
  // The first line after the cut shares its line.
  expect((await second.read({ limit: 10 })).map(({ at }) => at)).toEqual([1, 4]);
  await second.remove();
  expect(await second.read({ limit: 10 })).toEqual([]);
});

test('more lines than the disk takes are counted, not kept', async () => {
  const log = new LogFile(newFolder());
  for (let at = 1; at <= 2000; at++) log.write(line(at, 'x'.repeat(8000)));
  await log.flush();
  log.write(line(2001));
  const messages = (await log.read({ limit: 500 })).map(({ message }) => message);
  expect(messages.at(-2)).toMatch(/^\[platform\] \d+ lines were lost/);
  expect(messages.at(-1)).toBe('line 2001');
});
