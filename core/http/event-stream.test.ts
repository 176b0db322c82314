import { expect, test } from 'vitest';
import { EventStream } from './event-stream.ts';

const read = async (stream: EventStream): Promise<string> => {
  const { value } = await stream.next();
  return value === undefined ? '' : Buffer.from(value).toString();
};

test('events of one step are sent together, the first ones at once', async () => {
  const stream = new EventStream();
  const first = read(stream);
  stream.offer('progress', { n: 1 });
  stream.offer('progress', { n: 2 });
  expect(await first).toBe('event: progress\ndata: {"n":1}\n\nevent: progress\ndata: {"n":2}\n\n');
});

test('what follows soon is sent together, and the end at once with all that waits', async () => {
  const stream = new EventStream();
  stream.offer('progress', 1);
  expect(await read(stream)).toBe('event: progress\ndata: 1\n\n');
  const rest = read(stream);
  stream.offer('progress', 2);
  await Promise.resolve();
  stream.end('result', '{}');
  expect(await rest).toBe('event: progress\ndata: 2\n\nevent: result\ndata: {}\n\n');
  expect(await stream.next()).toEqual({ done: true, value: undefined });
  expect(stream.offer('progress', 3)).toBe(false);
});

test('what waits is sent after the pause without any further event', async () => {
  const stream = new EventStream();
  stream.offer('progress', 1);
  await read(stream);
  stream.offer('progress', 2);
  expect(await read(stream)).toBe('event: progress\ndata: 2\n\n');
});

test('a reader that is slow loses events, and gets the end', async () => {
  const stream = new EventStream();
  const text = 'x'.repeat(600_000);
  expect([1, 2, 3].map(() => stream.offer('progress', text))).toEqual([true, true, false]);
  stream.end('result', '{}');
  const all = await Array.fromAsync(stream, (chunk) => Buffer.from(chunk).toString());
  expect(all.join('')).toBe(`${`event: progress\ndata: "${text}"\n\n`.repeat(2)}event: result\ndata: {}\n\n`);
});

test('a reader that leaves ends the stream', async () => {
  const stream = new EventStream();
  stream.offer('progress', 1);
  for await (const chunk of stream) {
    expect(chunk.length).toBeGreaterThan(0);
    break;
  }
  expect(stream.offer('progress', 2)).toBe(false);
  stream.end('result', '{}');
  expect(await stream.next()).toEqual({ done: true, value: undefined });
});

test('a reader that leaves while it waits gets the end', async () => {
  const stream = new EventStream();
  const waiting = stream.next();
  await stream.return();
  expect(await waiting).toEqual({ done: true, value: undefined });
});
