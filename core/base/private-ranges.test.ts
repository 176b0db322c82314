import { describe, expect, test } from 'vitest';
import { isAllowedPrivate, privateRangeProblem } from './private-ranges.ts';

describe('a range', () => {
  test.each([
    '10.0.0.0/8',
    '10.20.0.0/16',
    '172.16.5.4/32',
    '192.168.0.0/24',
    '100.64.0.0/10',
    'fc00::/7',
    'fd12:3456::/48',
  ])('may be %s', (range) => expect(privateRangeProblem(range)).toBeUndefined());

  test.each([
    ...['10.0.0.0', '10.0.0.0/', '10.0.0.0/33', 'fd00::/129', '10.0.0/8', 'db.example.com/8', '0x0a.0.0.0/8', ''],
    ...['0.0.0.0/0', '::/0', '10.0.0.0/7', '127.0.0.0/8', '127.0.0.1/32', '169.254.0.0/16', '8.8.8.8/32'],
    ...['::1/128', 'fe80::/10', '::ffff:10.0.0.0/104', 'fd00::1%eth0/64', '2001:db8::/32', '224.0.0.0/4'],
  ])('must not be %o', (range) => expect(privateRangeProblem(range)).toMatch(/^must be/));
});

test.each([
  ['10.20.3.4', true],
  ['10.21.0.1', false],
  ['fd12:3456::1', true],
  ['fd12:3457::1', false],
  // Other spellings and embedded addresses are none of the range.
  ['::ffff:10.20.3.4', false],
  ['::ffff:a14:304', false],
  ['64:ff9b::a14:304', false],
  ['fd12:3456::1%eth0', false],
  ['10.20.3', false],
  ['0x0a.20.3.4', false],
  ['db.example.com', false],
  ['', false],
])('%o is in the ranges of an operator: %o', (address, isIn) => {
  expect(isAllowedPrivate(address, ['10.20.0.0/16', 'fd12:3456::/48'])).toBe(isIn);
});

test('metadata services are never allowed, nor loopback and link-local addresses', () => {
  const all = ['10.0.0.0/8', '100.64.0.0/10', 'fc00::/7'];
  for (const address of [
    'fd00:ec2::254',
    '100.100.100.200',
    'fd20:ce::254',
    'fd00:c1::a9fe:a9fe',
    '127.0.0.1',
    '169.254.169.254',
    '::1',
    'fe80::1',
  ]) {
    expect(isAllowedPrivate(address, all)).toBe(false);
  }
  expect(isAllowedPrivate('100.100.100.201', all)).toBe(true);
  expect(isAllowedPrivate('10.0.0.1', [])).toBe(false);
});
