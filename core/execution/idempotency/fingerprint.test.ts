import { describe, expect, test } from 'vitest';
import type { CallInput } from '../input/call-input.ts';
import { fingerprintOf } from './fingerprint.ts';

describe('fingerprintOf', () => {
  const URL = 'http://a/acme/echo/v1/run?verbose=true';
  const input = (changes: Partial<CallInput> = {}): CallInput => ({
    document: { a: 1 },
    uploads: [],
    isMultipart: false,
    ...changes,
  });
  const upload = (text: string) => [
    { name: 'a', contentType: 'text/plain', path: '/tmp/uploads/0_a.txt', content: Buffer.from(text) },
  ];

  test.each([
    ['another path', 'http://a/acme/echo/v2/run?verbose=true', input()],
    ['another query', 'http://a/acme/echo/v1/run', input()],
    ['another body', URL, input({ document: { a: 2 } })],
    ['files', URL, input({ uploads: upload('x') })],
    ['another model', URL, input({ llmCredentials: { model: 'm' } })],
  ])('%s makes another request', (_, url, other) => {
    expect(fingerprintOf(url, other)).not.toBe(fingerprintOf(URL, input()));
  });

  test('another host or provider key makes the same request', () => {
    const same = input({ llmCredentials: { api_key: 'secret' } });
    expect(fingerprintOf(URL.replace('//a', '//b'), same)).toBe(fingerprintOf(URL, input()));
  });

  test('compares files by their content', () => {
    const of = (text: string) => fingerprintOf(URL, input({ uploads: upload(text) }));
    const [one, same, other] = [of('x'), of('x'), of('y')];
    expect([one === same, one === other]).toEqual([true, false]);
  });
});
