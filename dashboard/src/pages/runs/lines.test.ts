import { describe, expect, test } from 'vitest';
import {
  criticalPath,
  isBad,
  type Line,
  linesOf,
  ticksOf,
  unfolded,
  type WaterfallRun,
  windowOf,
  windowText,
  withParents,
  zoomed,
} from './lines.ts';
import { logLines } from './log-lines.ts';

type Part = readonly [id: string, parent: string | null, from: number, to: number, status?: string];

/** Builds the lines of a run `a` with these steps. */
function linesFrom(...[first, ...steps]: readonly [Part, ...Part[]]): Line[] {
  const at = (ms: number) => new Date(ms).toISOString();
  const [span_id, parent_span_id, from, to, status = 'completed'] = first;
  const run = {
    span_id,
    parent_span_id,
    agent_name: 'a',
    agent_version: 'v1',
    status,
    started_at: at(from),
    completed_at: at(to),
  };
  return linesOf(
    [
      {
        ...run,
        steps: steps.map(([id, parent, begin, end, state = 'succeeded']) => ({
          ...{ span_id: id, parent_span_id: parent, kind: 'tool_call', status: state, payload: {} },
          ...{ started_at: at(begin), ended_at: at(end) },
        })),
      } as unknown as WaterfallRun,
    ],
    0,
  );
}
const ids = (lines: readonly Line[]) => lines.map(({ id }) => id).join('');

describe('a call that waits', () => {
  const at = (ms: number) => new Date(ms).toISOString();
  const event = (kind: string, ms: number, payload: object) => ({
    ...{ kind, status: 'event', parent_span_id: 'a', started_at: at(ms), ended_at: at(ms) },
    payload: { approval_id: 'r.1.1', ...payload },
  });
  const asked = (kind = 'approve') => event('approval_requested', 10, { tool_name: 'pay', turn: 1, kind });
  const decided = (decision: string) => event('approval_decided', 50, { tool_name: 'pay', turn: 1, decision });
  const lineOf = (completed_at: string | null, ...steps: readonly object[]) => {
    const run = { span_id: 'a', parent_span_id: null, started_at: at(0), completed_at, status: 'completed', steps };
    const lines = linesOf([run as never], 70);
    expect(lines).toHaveLength(2);
    const { name, from, to, status } = lines[1]!;
    return `${name}: ${from} to ${to}, ${status}`;
  };

  test.each([
    ['is drawn until its decision', at(99), [asked(), decided('deny')], 'approval of pay: 10 to 50, denied'],
    ['grows while nobody has decided', null, [asked()], 'approval of pay: 10 to 70, waiting'],
    ['ends with its run', at(60), [asked('answer')], 'answer to a question: 10 to 60, cancelled'],
    ['has waited for its time', at(99), [asked('time'), decided('expired')], 'wait for a time: 10 to 50, completed'],
  ])('%s', (_, completed_at, steps, text) => {
    expect(lineOf(completed_at, ...steps)).toBe(text);
  });
});

describe('lines of a waterfall', () => {
  const lines = linesFrom(
    ['a', null, 0, 100],
    ['b', 'a', 0, 40],
    ['c', 'b', 10, 30, 'failed'],
    ['d', 'a', 40, 95],
    ['e', 'd', 40, 60],
    ['f', 'd', 42, 90],
    ['g', 'x', 5, 6],
  );

  test('each stands below its parent, in the order of beginnings; without one, at the top', () => {
    expect(lines.map(({ id, depth, isParent }) => `${id}${depth}${isParent ? '+' : ''}`).join(' ')).toBe(
      'a0+ b1+ c2 d1+ e2 f2 g0',
    );
  });

  test('what failed keeps its parents, and what is folded hides what is below it', () => {
    expect(ids(withParents(lines, isBad))).toBe('abc');
    expect(ids(withParents(lines, ({ id }) => 'cf'.includes(id)))).toBe('abcdf');
    expect(ids(unfolded(lines, new Set(['b', 'd'])))).toBe('abdg');
    expect(ids(unfolded(lines, new Set(['a'])))).toBe('ag');
  });

  test('the critical path is what the end waited for', () => {
    expect([...criticalPath(lines)].sort().join('')).toBe('abcdf');
    // The longer of two parallel steps is on the path.
    expect([...criticalPath(linesFrom(['a', null, 0, 10], ['b', 'a', 0, 9], ['c', 'a', 0, 5]))].join('')).toBe('ab');
    expect(criticalPath([]).size).toBe(0);
  });

  test('windows stay within the whole, and say themselves', () => {
    expect(windowOf('250-1000', 800)).toEqual({ from: 250, to: 800 });
    for (const text of [undefined, 'x', '5', '9-3', '900-1000', '-1-4'])
      expect(windowOf(text, 800)).toEqual({ from: 0, to: 800 });
    expect(windowText({ from: 1.4, to: 9.6 })).toBe('1-10');
    expect(zoomed({ from: 0, to: 100 }, 0.5, 100)).toEqual({ from: 25, to: 75 });
    expect(zoomed({ from: 60, to: 100 }, 2, 100)).toEqual({ from: 20, to: 100 });
    expect(zoomed({ from: 60, to: 100 }, 9, 100)).toEqual({ from: 0, to: 100 });
  });

  test('ticks are round', () => {
    expect(ticksOf({ from: 0, to: 1000 }, 5)).toEqual([0, 200, 400, 600, 800, 1000]);
    expect(ticksOf({ from: 130, to: 171 }, 5)).toEqual([130, 140, 150, 160, 170]);
    expect(ticksOf({ from: 0, to: 1 }, 5)).toEqual([0, 1]);
  });
});

test('lines of a log are whole, each with the colours that are on', () => {
  const pieces = [
    { stream: 'stdout', text: 'one\n\u001b[31mtw' },
    { stream: 'stderr', text: 'warning\n' },
    { stream: 'stdout', text: 'o\nthree\u001b[0m\nfour' },
  ] as const;
  expect(logLines(pieces).map(({ text }) => text)).toEqual([
    'one',
    'warning',
    '\u001b[31mtwo',
    '\u001b[31mthree\u001b[0m',
    'four',
  ]);
  expect(logLines(pieces, 'stderr')).toEqual([{ key: 0, stream: 'stderr', text: 'warning' }]);
});
