import { expect, test } from 'vitest';
import type { WorkspaceMove } from '#core/base/workspace.ts';
import { checkStays, keepParked, type Use } from './moving.ts';

/** What each state allows. */
const ALLOWED: Readonly<Record<WorkspaceMove['state'], readonly Use[]>> = {
  draining: ['read', 'run'],
  frozen: ['read'],
  moved: [],
  arriving: [],
};
const USES: readonly Use[] = ['read', 'change', 'run'];

test.each(Object.entries(ALLOWED))('a workspace that is %s allows %j', (state, allowed) => {
  const move = { state: state as WorkspaceMove['state'], cell: 'b', id: 'm' };
  for (const use of USES) {
    const check = () => checkStays({ slug: 'acme', move }, use);
    if (allowed.includes(use)) check();
    else
      expect(check, use).toThrow(expect.objectContaining({ code: state === 'moved' ? 'FORBIDDEN' : 'RATE_LIMITED' }));
  }
});

test('a workspace that stays allows everything', () => {
  for (const use of USES) checkStays({ slug: 'acme' }, use);
});

test('an item that replaces a parked one is in no index', () => {
  const after = { pk: 'p', sk: 's', n: 2, gsi2pk: 'DUE#1', gsi2sk: 'x' };
  expect(keepParked({ pk: 'p', sk: 's' }, after)).toBe(after);
  expect(keepParked({ pk: 'p', sk: 's', moving: true, parked: {} }, after)).toEqual({
    ...{ pk: 'p', sk: 's', n: 2, moving: true },
    parked: { gsi2pk: 'DUE#1', gsi2sk: 'x' },
  });
});
