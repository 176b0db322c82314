import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ResponseEvents } from './response-events.ts';
import type { ResponseHead } from './response-object.ts';

const head: ResponseHead = {
  runId: 'r',
  id: 'resp_r',
  model: 'acme/a@v1',
  createdAt: 0,
  isBackground: false,
  isStored: true,
};

type Step = readonly ['text' | 'reasoning', string] | readonly ['end'];
interface Sent {
  readonly type: string;
  readonly sequence_number: number;
  readonly delta?: string;
}

function play(steps: readonly Step[], after?: number): Sent[] {
  const sent: Sent[] = [];
  const write = (records: string) => sent.push(JSON.parse(records.slice(records.indexOf('data: ') + 6)));
  const events = new ResponseEvents(head, write, after);
  events.begin();
  for (const [kind, text] of steps) {
    if (kind === 'end') events.endText();
    else events[kind](text);
  }
  events.end({ status: 'completed' });
  return sent;
}

/** Joins neighbouring pieces, as events are stored. */
const joined = (steps: readonly Step[]): Step[] => {
  const all: Step[] = [];
  for (const step of steps) {
    const last = all.at(-1);
    if (last !== undefined && step[0] !== 'end' && last[0] === step[0])
      all[all.length - 1] = [step[0], last[1] + step[1]];
    else all.push(step);
  }
  return all;
};

const step = fc.oneof(
  fc.tuple(fc.constantFrom('text' as const, 'reasoning' as const), fc.string({ minLength: 1, maxLength: 5 })),
  fc.constant(['end'] as const),
);

test('a stream that broke after any event continues with what was missing, whatever its pieces', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), fc.nat(), (steps, place) => {
      const whole = play(steps);
      const numbers = whole.map(({ sequence_number }) => sequence_number);
      expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
      const at = place % whole.length;
      const rest = play(joined(steps), numbers[at]);
      const text = (events: readonly Sent[]) => events.map(({ delta = '' }) => delta).join('');
      expect(text(whole.slice(0, at + 1)) + text(rest)).toBe(text(whole));
      const others = (events: readonly Sent[]) => events.filter(({ delta }) => delta === undefined);
      expect(others(rest)).toEqual(others(whole.slice(at + 1)));
    }),
  );
});

test('an answer without any text still has a message', () => {
  expect(play([]).map(({ type }) => type)).toContain('response.output_item.done');
});
