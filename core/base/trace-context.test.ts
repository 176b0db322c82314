import { describe, expect, test } from 'vitest';
import { traceContextOf, traceparentOf } from './trace-context.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const read = (traceparent?: string, tracestate?: string) =>
  traceContextOf((name) => ({ traceparent, tracestate })[name as 'traceparent']);

describe('traceparent', () => {
  test('gives the ids and the flag, and is written back', () => {
    const context = read(`00-${TRACE}-${SPAN}-01`);
    expect(context).toEqual({ traceId: TRACE, spanId: SPAN, sampled: true });
    expect(traceparentOf(context!)).toBe(`00-${TRACE}-${SPAN}-01`);
    expect(read(`00-${TRACE}-${SPAN}-02`)?.sampled).toBe(false);
  });

  test('of a later version may be longer', () => {
    expect(read(`01-${TRACE}-${SPAN}-01-more`)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: true });
  });

  test.each([
    ['no header', undefined],
    ['an empty one', ''],
    ['version ff', `ff-${TRACE}-${SPAN}-01`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['capital letters', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ['a short id', `00-${TRACE.slice(1)}-${SPAN}-01`],
    ['more after version 00', `00-${TRACE}-${SPAN}-01-more`],
    ['more without a dash', `01-${TRACE}-${SPAN}-01more`],
    ['two values', `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`],
    ['a line break', `00-${TRACE}-${SPAN}-01\nx: y`],
    ['1 MB', `01-${TRACE}-${SPAN}-01-${'x'.repeat(1_000_000)}`],
  ])('is not taken with %s', (_, text) => {
    expect(read(text, 'a=1')).toBeUndefined();
  });
});

describe('tracestate', () => {
  const state = (text: string) => read(`00-${TRACE}-${SPAN}-01`, text)?.tracestate;

  test('is kept without spaces and empty members', () => {
    expect(state(' rojo=00f067aa0ba902b7 ,, tenant@vendor=t61rcWkgMzE')).toBe(
      'rojo=00f067aa0ba902b7,tenant@vendor=t61rcWkgMzE',
    );
  });

  test.each(['novalue', 'UPPER=1', 'a=b=c', 'a=ü', 'a=1\r\nevil: 1', '', ','])(
    'is dropped if malformed: %j',
    (text) => {
      expect(state(text)).toBeUndefined();
    },
  );

  test('keeps at most 32 members and 512 characters, also of 1 MB', () => {
    const many = Array.from({ length: 60 }, (_, index) => `k${index}=1`).join(',');
    expect(state(many)!.split(',')).toHaveLength(32);
    const huge = state(
      `a=1,${Array.from({ length: 20_000 }, (_, index) => `key${index}=${'v'.repeat(60)}`).join(',')}`,
    )!;
    expect(huge.length).toBeLessThanOrEqual(512);
    expect(huge).toMatch(/^a=1,key0=v{60},.*=v{60}$/);
    expect(state('x'.repeat(1_000_000))).toBeUndefined();
  });
});
