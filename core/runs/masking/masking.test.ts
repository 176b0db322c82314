import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import { LiveMask, SecretMask, shortenLog } from './masking.ts';

const PEM = [
  '-----BEGIN PRIVATE KEY-----',
  'MIIEvQIBADANBgkqhkiG9w0B',
  'AQEFAASCBKcwggSjAgEAAoIB',
  '-----END PRIVATE KEY-----',
].join('\n');
const TRICKY = 'p"w\\ü😀\u007f/é\tx';

describe('text', () => {
  const mask = new SecretMask({ TOKEN: 'tok-12345', LONGER: 'tok-12345-and-more', PEM, TRICKY, PIN: '123', NONE: '' });

  test('masks a value anywhere in the text', () => {
    expect(mask.text('a tok-12345 b tok-12345')).toBe('a [secret TOKEN] b [secret TOKEN]');
  });

  test('masks the longer of two values that start alike', () => {
    expect(mask.text('tok-12345-and-more')).toBe('[secret LONGER]');
  });

  test('does not mask values that are too short', () => {
    expect(mask.text('123')).toBe('123');
  });

  test.each([
    ['as it stands', TRICKY],
    ['as JavaScript writes JSON', JSON.stringify(TRICKY)],
    ['as Python writes JSON', '"p\\"w\\\\\\u00fc\\ud83d\\ude00\\u007f/\\u00e9\\tx"'],
    ['with its lines ended by CRLF', PEM.replaceAll('\n', '\r\n')],
    ['line by line', PEM.split('\n').join('\n  2026-01-01 INFO ')],
    ['as one JSON string', JSON.stringify({ key: PEM })],
    ['trimmed', PEM.trim()],
  ])('masks %s', (_, text) => {
    const masked = mask.text(text);
    expect(masked).toContain('[secret ');
    for (const line of [TRICKY, ...PEM.split('\n')]) expect(masked).not.toContain(line);
    expect(masked).not.toContain('ud83d');
  });

  describe('masks other forms of a value', () => {
    const value = `p&ss "w'rd" \\ /+é`;
    const hidden = new SecretMask({ A: value });
    test.each([
      ['hex', Buffer.from(value).toString('hex')],
      ['HEX', Buffer.from(value).toString('hex').toUpperCase()],
      ['a URL', `https://example.org/?q=${encodeURIComponent(value)}`],
      ['a form', new URLSearchParams({ q: value }).toString()],
      ['JSON in JSON', JSON.stringify(JSON.stringify(value))],
      ['a shell argument', `'${value.replaceAll("'", `'\\''`)}'`],
      ['HTML', '<p>p&amp;ss &quot;w&#39;rd&quot; \\ /+é</p>'],
      ["Python's repr", `'p&ss "w\\'rd" \\\\ /+é'`],
      // Expected texts are the output of the named functions.
      ['urllib.parse.quote', 'p%26ss%20%22w%27rd%22%20%5C%20/%2B%C3%A9'],
      ['urllib.parse.quote_plus', 'p%26ss+%22w%27rd%22+%5C+%2F%2B%C3%A9'],
      ['urlencode of PHP, in small letters', 'p%26ss+%22w%27rd%22+%5c+%2f%2b%c3%a9'],
      ['encodeURI', `https://example.org/${encodeURI(value)}`],
      ['PathEscape of Go', 'p&ss%20%22w%27rd%22%20%5C%20%2F+%C3%A9'],
      ['json_encode of PHP', '"p&ss \\"w\'rd\\" \\\\ \\/+\\u00e9"'],
      ['shlex.quote', `'p&ss "w'"'"'rd" \\ /+é'`],
      ['printf %q', `p\\&ss\\ \\"w\\'rd\\"\\ \\\\\\ /+é`],
      ['html.escape of Python', 'p&amp;ss &quot;w&#x27;rd&quot; \\ /+é'],
      ['html.EscapeString of Go', 'p&amp;ss &#34;w&#39;rd&#34; \\ /+é'],
      ...['', 'u', 'us', 'user', 'user:'].flatMap((before): [string, string][] => [
        [`Base64 behind "${before}"`, Buffer.from(`${before}${value} and more`).toString('base64')],
        [`Base64 of URLs behind "${before}"`, Buffer.from(`${before}${value}`).toString('base64url')],
      ]),
    ])('%s', (_, text) => {
      expect(hidden.text(text)).toContain('[secret A]');
      const live = new LiveMask(hidden);
      expect([...text].map((char) => live.push(char)).join('') + live.end()).toBe(hidden.text(text));
    });

    test('but no ordinary text for short values', () => {
      const short = new SecretMask({ PIN: 'abcd' });
      expect(short.text('61626364 YWJjZA==')).toBe('61626364 YWJjZA==');
    });
  });

  test('masks a value that is stored with a trailing newline', () => {
    expect(new SecretMask({ A: 'value-of-a\n' }).text('<value-of-a>')).toBe('<[secret A]>');
  });

  test('takes patterns and replacement marks literally', () => {
    expect(new SecretMask({ A: '.*.*', B: '$&$1' }).text('.*.* $&$1 abcd')).toBe('[secret A] [secret B] abcd');
  });
});

describe('json', () => {
  const mask = new SecretMask({ TOKEN: 'tok-12345', NUMBER: '12345678' });

  test('masks members and their names at any depth, and numbers', () => {
    const value: Json = { a: ['x tok-12345', 12345678, 1, null, true], 'tok-12345': { b: 'tok-12345' } };
    expect(mask.json(value)).toEqual({
      a: ['x [secret TOKEN]', '[secret NUMBER]', 1, null, true],
      '[secret TOKEN]': { b: '[secret TOKEN]' },
    });
  });

  test('keeps a member named __proto__', () => {
    const value = JSON.parse('{"__proto__":{"a":"tok-12345"}}') as Json;
    expect(JSON.stringify(mask.json(value))).toBe('{"__proto__":{"a":"[secret TOKEN]"}}');
  });

  test('leaves no secret in any JSON', () => {
    const secret = fc
      .string({ minLength: 4, maxLength: 20, unit: 'grapheme' })
      .filter((text) => text.trim().length >= 4);
    const property = fc.property(secret, fc.jsonValue(), fc.nat(), (value, other, n) => {
      const text = new SecretMask({ S: value }).json({ before: `${n}${value}`, other, [value]: value } as Json);
      // The marks themselves may contain the value of a short secret.
      expect(JSON.stringify(text).replaceAll('[secret S]', '')).not.toContain(JSON.stringify(value).slice(1, -1));
    });
    fc.assert(property);
  });

  test('returns the same object if there are no secrets', () => {
    const value = { a: [1] };
    expect(new SecretMask({}).json(value)).toBe(value);
  });
});

describe('shortenLog', () => {
  test('keeps a short log', () => {
    expect(shortenLog('x'.repeat(10_240))).toHaveLength(10_240);
  });

  test('keeps the beginning and the end of a long log, in 10 KB', () => {
    const text = `first line\n${'x'.repeat(50_000)}\nlast line`;
    const short = shortenLog(text);
    expect(Buffer.byteLength(short)).toBeLessThanOrEqual(10_240);
    expect(short).toMatch(/^first line\n.*\[\.\.\. \d+ bytes left out \.\.\.\].*\nlast line$/s);
  });

  test('counts bytes and splits no character', () => {
    for (let shift = 0; shift < 4; shift += 1) {
      const short = shortenLog('a'.repeat(shift) + '😀'.repeat(5_000));
      expect(Buffer.byteLength(short)).toBeLessThanOrEqual(10_240);
      expect(short).not.toContain('\ufffd');
    }
  });
});

describe('LiveMask', () => {
  test('masks a secret however the text is split', () => {
    const secrets = { A: 'abcabd-secret', B: 'secret-of-b', C: 'bd-se' };
    const text = 'x abcabc abcabd-secret-of-b secret-of-b abcabd-secre';
    const property = fc.property(fc.array(fc.nat(text.length)), (cuts) => {
      const live = new LiveMask(new SecretMask(secrets));
      const ends = [...new Set(cuts)].sort((a, b) => a - b);
      let shown = '';
      let from = 0;
      for (const end of [...ends, text.length]) {
        shown += live.push(Buffer.from(text.slice(from, end)));
        from = end;
      }
      shown += live.end();
      for (const value of ['abcabd-secret', 'secret-of-b']) expect(shown).not.toContain(value);
      expect(shown.startsWith('x abcabc ')).toBe(true);
    });
    fc.assert(property);
  });

  test('masks what a search for each form of each secret finds, however the text is split', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 4, maxLength: 9 });
    const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 60 });
    const property = fc.property(
      fc.array(letters, { maxLength: 4 }),
      text,
      fc.array(fc.nat(60)),
      (values, whole, cuts) => {
        const mask = new SecretMask(Object.fromEntries(values.map((value, index) => [`S${index}`, value])));
        // The other forms of these values cannot occur in this text.
        const isSecret = Array.from(whole, (_, at) =>
          values.some((value) => {
            for (let start = Math.max(0, at - value.length + 1); start <= at; start++) {
              if (whole.startsWith(value, start)) return true;
            }
            return false;
          }),
        );
        const plain = Array.from(whole, (char, at) => (isSecret[at] ? '#' : char)).join('');
        const masked = mask.text(whole);
        // Adjacent secrets have a mark each; overlapping secrets share one.
        expect(masked.replaceAll(/(\[secret S\d\])+/g, '#')).toBe(plain.replaceAll(/#+/g, '#'));
        const live = new LiveMask(mask);
        const ends = [...cuts.map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b), whole.length];
        const shown = ends.map((end, index) => live.push(whole.slice(ends[index - 1] ?? 0, end)));
        expect(shown.join('') + live.end()).toBe(masked);
      },
    );
    fc.assert(property, { numRuns: 1000 });
  });

  test('masks a long secret that others stand in', () => {
    const live = new LiveMask(new SecretMask({ X: 'abcdefghijkl', A: 'bcde', B: 'ghij' }));
    expect([...'1abcdefghijkl2'].map((char) => live.push(char)).join('') + live.end()).toBe('1[secret X]2');
    expect([...'1abcdefghijk2'].map((char) => live.push(char)).join('') + live.end()).toBe('1a[secret A]f[secret B]k2');
  });

  test('takes time in proportion to the text, and holds back no more than a secret, whatever both are', () => {
    const secrets = Object.fromEntries(Array.from({ length: 7 }, (_, i) => [`S${i}`, `${'a'.repeat(8000)}${i}`]));
    const mask = new SecretMask(secrets);
    mask.text('a'.repeat(9000));
    const cost = (length: number): number => {
      const live = new LiveMask(mask);
      let shown = 0;
      const { user, system } = process.threadCpuUsage();
      for (let sent = 0; sent < length; sent += 60_000) {
        shown += live.push('a'.repeat(60_000)).length;
        expect(sent + 60_000 - shown).toBeLessThanOrEqual(8001 * 2);
      }
      const used = process.threadCpuUsage();
      return used.user + used.system - user - system;
    };
    const least = (length: number) => Math.min(...[1, 2, 3].map(() => cost(length)));
    expect(least(2_400_000) / least(600_000)).toBeLessThan(8);
  });

  test('shows text that cannot become a secret immediately', () => {
    const live = new LiveMask(new SecretMask({ A: 'tok-12345' }));
    expect(live.push('line 1\nto')).toBe('line 1\n');
    expect(live.push('day\n')).toBe('today\n');
    expect(live.end()).toBe('');
  });

  test('joins characters that are split between pieces', () => {
    const live = new LiveMask(new SecretMask({}));
    const bytes = Buffer.from('ü');
    expect(live.push(bytes.subarray(0, 1)) + live.push(bytes.subarray(1))).toBe('ü');
  });
});
