import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ServiceLogLine } from '#core/ports/service-host.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { AppLog, severityOf } from './app-log.ts';

const SECRET = 'made-up-secret-value';

function logOf(pieces: readonly (string | Uint8Array)[]): ServiceLogLine[] {
  const lines: ServiceLogLine[] = [];
  const log = new AppLog(new SecretMask({ TOKEN: SECRET }), {
    otherwise: 'INFO',
    now: () => 7,
    write: (line) => lines.push(line),
  });
  for (const piece of pieces) log.push(Buffer.from(piece));
  log.end();
  return lines;
}

test.each([
  ['INFO started', 'INFO'],
  ['[debug] x', 'DEBUG'],
  ['WARNING:root:disk', 'WARNING'],
  ['warn: low', 'WARNING'],
  ['Error: no such thing', 'ERROR'],
  ['fatal error', 'CRITICAL'],
  ['errors were none', 'INFO'],
  ['information', 'INFO'],
  ['{"level":"error","msg":"x"}', 'ERROR'],
  ['{"severity":"CRITICAL"}', 'CRITICAL'],
  ['{"level":20}', 'DEBUG'],
  ['{"level":40}', 'WARNING'],
  ['{"level":60}', 'CRITICAL'],
  ['{"level":{}}', 'INFO'],
  ['{broken', 'INFO'],
  ['{"level":"loud"}', 'INFO'],
])('%s is %s', (line, severity) => {
  expect(severityOf(line, 'INFO')).toBe(severity);
});

test('lines are the same however the output was cut, and hide secrets', () => {
  const text = `first\n\nERROR: ${SECRET} and é\r\nlast ${SECRET}`;
  const bytes = Buffer.from(text);
  fc.assert(
    fc.property(fc.array(fc.nat(bytes.length), { maxLength: 6 }), (cuts) => {
      const ends = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
      const pieces = ends.slice(1).map((end, index) => bytes.subarray(ends[index], end));
      expect(logOf(pieces)).toEqual([
        { at: 7, severity: 'INFO', message: 'first', source: 'app' },
        { at: 7, severity: 'ERROR', message: 'ERROR: [secret TOKEN] and é', source: 'app' },
        { at: 7, severity: 'INFO', message: 'last [secret TOKEN]', source: 'app' },
      ]);
    }),
  );
});

test('a long line is cut, and the next one is whole', () => {
  const lines = logOf([
    ...Array.from({ length: 100 }, () => 'é'.repeat(1000)),
    '\nnext\n',
    `${'x'.repeat(20_000)}\nlast`,
  ]);
  expect(lines.map(({ message }) => Buffer.byteLength(message))).toEqual([16 * 1024 + 10, 4, 16 * 1024 + 10, 4]);
  expect(lines[0]!.message).toMatch(/^é+ \[\.\.\. cut\]$/);
});
