import { describe, expect, test } from 'vitest';
import { callTree } from './call-tree.ts';
import type { WaterfallRun } from './lines.ts';

const run = (run_id: string, parent_run_id: string | null, cost_usd: number | null) =>
  ({ run_id, parent_run_id, cost_usd }) as WaterfallRun;
const shown = (runs: readonly WaterfallRun[]) =>
  callTree(runs).map(({ run: { run_id }, depth, costWithCalls }) => [run_id, depth, costWithCalls]);

describe('the tree of calls', () => {
  test('has each run below its caller, and its cost with all that it called', () => {
    const runs = [run('a', null, 1), run('b', 'a', null), run('c', 'a', 4), run('d', 'b', 2), run('e', 'd', null)];
    expect(shown(runs)).toEqual([
      ['a', 0, 7],
      ['b', 1, 2],
      ['d', 2, 2],
      ['e', 3, null],
      ['c', 1, 4],
    ]);
  });

  test('has runs whose caller is gone at its top, and an end however deep it is', () => {
    expect(shown([run('b', 'gone', 1), run('c', 'b', 1)])).toEqual([
      ['b', 0, 2],
      ['c', 1, 1],
    ]);
    const deep = Array.from({ length: 20_000 }, (_, index) =>
      run(`r${index}`, index === 0 ? null : `r${index - 1}`, 1),
    );
    expect(callTree(deep)[0]?.costWithCalls).toBe(20_000);
  });
});
