import { describe, expect, test } from 'vitest';
import { Zone } from '#core/base/zone.ts';
import { toAwsCrons } from './aws-cron.ts';
import { nextTime, occursAt, parseCron, previousTime } from './cron.ts';

const at = (text: string): number => Date.parse(text);
const next = (expression: string, zone: string, after: string, count = 1): string[] => {
  const found: string[] = [];
  for (let time = at(after); found.length < count; found.push(new Date(time).toISOString().slice(0, 16))) {
    time = nextTime(parseCron(expression), Zone.of(zone), time)!;
  }
  return found;
};

describe('a cron expression', () => {
  test.each([
    ['0 9 * * 1-5', '2026-11-20T10:00Z', ['2026-11-23T09:00', '2026-11-24T09:00']],
    ['*/20 * * * *', '2026-11-20T10:00Z', ['2026-11-20T10:20', '2026-11-20T10:40', '2026-11-20T11:00']],
    ['5/30 1,3-4 * * *', '2026-11-20T10:00Z', ['2026-11-21T01:05', '2026-11-21T01:35', '2026-11-21T03:05']],
    ['0 0 29 2 *', '2026-01-01T00:00Z', ['2028-02-29T00:00', '2032-02-29T00:00']],
    // Neither day field begins with a star: one match is enough.
    ['0 0 13 * 5', '2026-11-01T00:00Z', ['2026-11-06T00:00', '2026-11-13T00:00', '2026-11-20T00:00']],
    // One day field begins with a star: both must match.
    ['0 0 */2 * 5', '2026-11-01T00:00Z', ['2026-11-13T00:00', '2026-11-27T00:00']],
    ['0 0 1-31 * 5', '2026-11-01T00:00Z', ['2026-11-02T00:00', '2026-11-03T00:00']],
    ['0 0 * JAN,jul sun', '2026-11-01T00:00Z', ['2027-01-03T00:00', '2027-01-10T00:00']],
    ['0 0 * * 7', '2026-11-20T00:00Z', ['2026-11-22T00:00', '2026-11-29T00:00']],
    ['0 0 * * 5-7', '2026-11-18T00:00Z', ['2026-11-20T00:00', '2026-11-21T00:00', '2026-11-22T00:00']],
    ['0 0 29 2 */6', '2026-01-01T00:00Z', ['2032-02-29T00:00', '2048-02-29T00:00']],
  ])('%s is next at', (expression, after, expected) => {
    expect(next(expression, 'UTC', after, expected.length)).toEqual(expected);
  });

  test.each([
    // Clocks in New York jump from 2:00 to 3:00 on 8 March 2026, and go from 2:00 back to 1:00 on 1 November.
    ['30 2 * * *', '2026-03-07T12:00Z', ['2026-03-09T06:30', '2026-03-10T06:30']],
    ['*/30 * * * *', '2026-03-08T06:00Z', ['2026-03-08T06:30', '2026-03-08T07:00', '2026-03-08T07:30']],
    ['30 1 * * *', '2026-11-01T00:00Z', ['2026-11-01T05:30', '2026-11-02T06:30']],
    ['0,30 1-2 * * *', '2026-11-01T05:00Z', ['2026-11-01T05:30', '2026-11-01T07:00', '2026-11-01T07:30']],
    ['0,30 * * * *', '2026-11-01T06:15Z', ['2026-11-01T07:00', '2026-11-01T07:30']],
  ])('%s skips hours that New York has not, and takes those that it has twice once', (expression, after, expected) => {
    expect(next(expression, 'America/New_York', after, expected.length)).toEqual(expected);
  });

  test.each([
    ['0 0 * * *', 'Africa/Cairo', '2026-04-23T12:00Z', ['2026-04-24T21:00', '2026-04-25T21:00']],
    ['15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00:00Z', ['2026-10-04T15:15']],
    ['0 12 * * *', 'Asia/Kathmandu', '2026-10-03T00:00Z', ['2026-10-03T06:15']],
    ['0 12 * * *', 'Pacific/Kiritimati', '2026-10-03T00:00Z', ['2026-10-03T22:00']],
  ])('%s in %s', (expression, zone, after, expected) => {
    expect(next(expression, zone, after, expected.length)).toEqual(expected);
  });

  test('looks back as it looks ahead', () => {
    const zone = Zone.of('Europe/Berlin');
    for (const expression of ['*/7 * * * *', '30 2 * * *', '15 1-3 * * 0']) {
      const cron = parseCron(expression);
      // The days of both clock changes in 2026.
      for (const day of ['2026-03-29T00:00Z', '2026-10-25T00:00Z']) {
        for (let now = at(day); now < at(day) + 5 * 3600_000; now += 13 * 60_000) {
          const before = previousTime(cron, zone, now)!;
          expect(nextTime(cron, zone, before - 60_000)).toBe(before);
          expect(nextTime(cron, zone, before)).toBeGreaterThan(now);
          expect(occursAt(cron, zone, before)).toBe(true);
        }
      }
    }
  });

  test.each([
    ['', 'has 0 fields'],
    ['* * * *', 'has 4 fields'],
    ['0 * * * * *', 'no seconds'],
    ['@daily', 'write "0 0 * * *"'],
    ['60 * * * *', 'the minute "60" is not allowed; it may be 0-59'],
    ['* 24 * * *', 'the hour "24"'],
    ['* * 0 * *', 'the day of month "0" is not allowed; it may be 1-31'],
    ['* * * 13 *', 'may be 1-12 or JAN-DEC'],
    ['* * * * 8', 'may be 0-7 or SUN-SAT'],
    ['* * * * FRY', 'the day of week "FRY"'],
    ['* 22-6 * * *', 'runs backwards; write it as two: 22-23,0-6'],
    ['* * * * 6-1', 'write it as two: 6,0-1'],
    ['*/0 * * * *', 'must be at least 1'],
    ['1--2 * * * *', 'cannot be read'],
    ['1, * * * *', 'cannot be read'],
    ['*-5 * * * *', 'cannot be read'],
    ['1/2/3 * * * *', 'cannot be read'],
    ['-1 * * * *', 'cannot be read'],
    ['0 0 L * *', 'the day of month "L"'],
    ['0 0 31 2 *', 'it never occurs: FEB has no day 31. "0 0 29 2 *" is the last day there'],
    ['0 0 31 4,6 *', 'APR, JUN has no day 31'],
    [`${'1,'.repeat(200)}1 * * * *`, 'at most 200'],
  ])('%s is refused', (expression, message) => {
    expect(() => parseCron(expression)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining(message) }),
    );
  });

  test.each([
    ['EST', 'is an abbreviation; name the place by its IANA identifier, such as America/New_York'],
    ['gmt', 'such as UTC'],
    ['europe/berlin', 'it is written Europe/Berlin'],
    ['+02:00', 'not an IANA time zone'],
    ['Mars/Olympus', 'not an IANA time zone'],
    ['', 'not an IANA time zone'],
    ['EST5EDT', 'not an IANA time zone'],
    ['Europe/BERLIN', 'it is written Europe/Berlin'],
    ['America/New_york', 'it is written America/New_York'],
    ['US/PACIFIC', 'not an IANA time zone'],
  ])('the zone %s is refused', (zone, message) => {
    expect(() => Zone.of(zone)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining(message) }),
    );
  });

  test.each([
    ['0 9 * * 1-5', ['cron(0 9 ? * MON,TUE,WED,THU,FRI *)']],
    ['*/15 8-18/2 * * *', ['cron(0/15 8,10,12,14,16,18 * * ? *)']],
    ['0 0 13 * 5', ['cron(0 0 13 * ? *)', 'cron(0 0 ? * FRI *)']],
    ['0 0 1-31 * 5', ['cron(0 0 * * ? *)']],
    ['0 0 */2 * 5-7', ['cron(0 0 ? * SUN,FRI,SAT *)']],
    ['5/10 1,2,3,5 1 2-4 *', ['cron(5/10 1-3,5 1 2-4 ? *)']],
  ])('%s is for EventBridge', (expression, expected) => {
    expect(toAwsCrons(parseCron(expression)).map((cron) => cron.expression)).toEqual(expected);
  });
});
