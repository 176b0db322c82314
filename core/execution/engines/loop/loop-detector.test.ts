import { expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import type { LlmToolCall } from '#core/ports/llm.ts';
import { LoopDetector } from './loop-detector.ts';
import { outcomeOf } from './tool-outcome.ts';
import type { BoundOutcome } from './tool-output.ts';

let ids = 0;
const call = (name: string, input: Json = {}): LlmToolCall => ({ id: String(ids++), name, input });

/** Plays turns of one call each, given as `name result`; returns the warning after each. */
function play(...turns: string[]): (string | undefined)[] {
  const repeats = new LoopDetector();
  return turns.map((turn) => {
    const [name, result] = turn.split(' ');
    const [told] = repeats.count([call(name!)], [outcomeOf(result!)]);
    return told && /called this with the same result (\w+)/.exec(told)![1];
  });
}

test('the third and the fourth time are told, the fifth ends the run', () => {
  expect(play('a x', 'a x', 'a x', 'a x')).toEqual([undefined, undefined, 'twice', '3']);
  expect(() => play(...Array<string>(5).fill('a x'))).toThrow(
    expect.objectContaining({ code: 'UNPROCESSABLE', extra: expect.objectContaining({ cause: 'stuck' }) }),
  );
});

test('a round of several calls is one, too', () => {
  const round = ['a x', 'b y', 'c z'];
  expect(play(...round, ...round, ...round)).toEqual([...Array(6).fill(undefined), 'twice', 'twice', 'twice']);
  expect(() => play(...round, ...round, ...round, ...round, 'a x')).toThrow(/called a 5 times/);
});

test('another result, or a new call between them, is none', () => {
  const results = Array.from({ length: 10 }, (_, n) => `poll waiting-${n}`);
  expect(play(...results)).toEqual(Array(10).fill(undefined));
  const edits = Array.from({ length: 10 }, (_, n) => ['test failed', `edit-${n} ok`]).flat();
  expect(play(...edits)).toEqual(Array(20).fill(undefined));
});

test('equal calls of one turn count once', () => {
  const repeats = new LoopDetector();
  const turn = () => repeats.count([call('a'), call('a'), call('a')], Array(3).fill(outcomeOf('x')));
  expect(turn()).toEqual([undefined, undefined, undefined]);
  expect(turn()).toEqual([undefined, undefined, undefined]);
  expect(turn()).toEqual(Array(3).fill(expect.stringContaining('twice')));
});

test('parameters are compared whatever the order of their members; parameters that are no JSON are a call, too', () => {
  const repeats = new LoopDetector();
  const inputs: Json[] = [
    { a: 1, b: { c: [{ x: 1, y: 2 }], d: 2 } },
    { b: { d: 2, c: [{ y: 2, x: 1 }] }, a: 1 },
    { a: 1, b: { d: 2, c: [{ y: 2, x: 1 }] } },
  ];
  const told = inputs.map((input) => repeats.count([call('a', input)], [outcomeOf('x')])[0]);
  expect(told).toEqual([undefined, undefined, expect.stringContaining('twice')]);
  expect(repeats.count([call('a', { a: 1, b: 2 })], [outcomeOf('x')])).toEqual([undefined]);
  expect(repeats.count([{ id: 'z', name: 'a', input: undefined }], [outcomeOf('x')])).toEqual([undefined]);
});

test('results that are cut are compared by what is left of them, not by the names of their files', () => {
  const repeats = new LoopDetector();
  const cut = (turn: number, tail: string): BoundOutcome => ({
    text: `head [... all of it: /tmp/tool_output/${turn}-1.txt ...] ${tail}`,
    isError: false,
    cut: { head: Buffer.from('head'), tail: Buffer.from(tail), totalBytes: 50_000 },
  });
  const told = [1, 2, 3].map((turn) => repeats.count([call('a')], [cut(turn, 'tail')])[0]);
  expect(told).toEqual([undefined, undefined, expect.stringContaining('twice')]);
  expect(repeats.count([call('a')], [cut(4, 'other')])).toEqual([undefined]);
});

test('an image that has changed is another result', () => {
  const repeats = new LoopDetector();
  const image = (byte: number): BoundOutcome => ({
    ...outcomeOf('an image, 1x1'),
    files: [{ name: 'a.png', mediaType: 'image/png', bytes: Buffer.from([byte]) }],
  });
  expect([1, 2, 3, 4, 5, 6].map((byte) => repeats.count([call('look')], [image(byte)])[0])).toEqual(
    Array(6).fill(undefined),
  );
  expect([6, 6].map((byte) => repeats.count([call('look')], [image(byte)])[0])).toEqual([
    undefined,
    expect.stringContaining('twice'),
  ]);
});
