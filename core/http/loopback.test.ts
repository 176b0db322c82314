import { expect, test } from 'vitest';
import { isFromLoopback, isLoopbackName } from './loopback.ts';

const from = (address: string, ...headers: string[]) => isFromLoopback(address, (name) => headers.includes(name));

test.each(['127.0.0.1', '127.9.8.7', '::1', '::ffff:127.0.0.1'])('%s is an address of this machine', (address) => {
  expect(from(address)).toBe(true);
  for (const header of ['forwarded', 'via', 'x-forwarded-for', 'x-real-ip']) expect(from(address, header)).toBe(false);
});

test.each(['', '1127.0.0.1', '192.0.2.7', '::2', '::1%eth0', '::ffff:10.0.0.1', 'localhost'])(
  '"%s" is no address of this machine',
  (address) => expect(from(address)).toBe(false),
);

test('names of this machine are three', () => {
  for (const name of ['127.0.0.1', 'localhost', 'LOCALHOST', '[::1]']) expect(isLoopbackName(name)).toBe(true);
  for (const name of ['', '127.0.0.1.example.com', 'a.localhost', '0.0.0.0']) expect(isLoopbackName(name)).toBe(false);
});
