import { describe, expect, test } from 'vitest';
import { Zone } from '#core/base/zone.ts';
import { momentOf } from './moment.ts';

const berlin = Zone.of('Europe/Berlin');
const textOf = (text: string, zone = berlin): string => new Date(momentOf(text, zone)).toISOString();

describe('a moment', () => {
  test.each([
    ['2026-03-29T01:30Z', '2026-03-29T01:30:00.000Z'],
    ['2026-03-29t01:30:15.25z', '2026-03-29T01:30:15.000Z'],
    ['2026-03-29T01:30-05:30', '2026-03-29T07:00:00.000Z'],
    ['2026-07-01T09:00', '2026-07-01T07:00:00.000Z'],
    ['2026-01-01 00:00', '2025-12-31T23:00:00.000Z'],
    // The hours around the clock changes.
    ['2026-03-29T01:59:59', '2026-03-29T00:59:59.000Z'],
    ['2026-03-29T03:00', '2026-03-29T01:00:00.000Z'],
    ['2026-10-25T01:59', '2026-10-24T23:59:00.000Z'],
    ['2026-10-25T03:00', '2026-10-25T02:00:00.000Z'],
    ['2026-10-25T02:30+02:00', '2026-10-25T00:30:00.000Z'],
    ['2026-10-25T02:30+01:00', '2026-10-25T01:30:00.000Z'],
  ])('%s is %s', (text, expected) => expect(textOf(text)).toBe(expected));

  test.each([
    ['Europe/Berlin', '2026-03-29T02:30', ['does not exist', '2026-03-29T03:30:00+02:00']],
    ['Europe/Berlin', '2026-03-29T02:00', ['does not exist', '2026-03-29T03:00:00+02:00']],
    ['Europe/Berlin', '2026-10-25T02:30', ['twice', '2026-10-25T02:30:00+02:00', '2026-10-25T02:30:00+01:00']],
    ['America/New_York', '2026-03-08T02:30', ['does not exist', '2026-03-08T03:30:00-04:00']],
    ['America/New_York', '2026-11-01T01:30', ['twice', '2026-11-01T01:30:00-04:00', '2026-11-01T01:30:00-05:00']],
    // A clock change of half an hour.
    ['Australia/Lord_Howe', '2026-10-04T02:15', ['does not exist', '2026-10-04T02:45:00+11:00']],
    ['Australia/Lord_Howe', '2026-04-05T01:45', ['twice', '2026-04-05T01:45:00+11:00', '2026-04-05T01:45:00+10:30']],
  ])('in %s, %s is refused, and what it names instead is a moment', (name, text, parts) => {
    const zone = Zone.of(name);
    let message = '';
    try {
      momentOf(text, zone);
    } catch (error) {
      message = (error as Error).message;
    }
    for (const part of parts) expect(message).toContain(part);
    for (const instead of parts.slice(1)) expect(zone.textOf(momentOf(instead, zone))).toBe(instead);
  });

  test.each([
    '',
    'now',
    '1774744200',
    '2026-03-29',
    '2026-02-30T10:00',
    '2026-13-01T10:00',
    '2026-03-29T24:00',
    '2026-03-29T10:60',
    '2026-03-29T10:00:60',
    '1999-12-31T23:59',
    '20260-03-29T10:00',
    '2026-03-29T10:00+24:00',
    '2026-03-29T10:00 Europe/Berlin',
    '2026-03-29T10:00\n',
  ])('%j is none', (text) => {
    expect(() => momentOf(text, berlin)).toThrow(/^query\.scheduled_at: is no time; send one such as/);
  });
});
