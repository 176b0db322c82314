import { expect, test } from 'vitest';
import { isAudited } from '#core/accounts/audit/rule.ts';
import { routes } from '#core/api/routes.ts';
import type { Route } from '#core/http/route.ts';
import { FUNCTIONS } from './functions.ts';

test('each function that serves audited rows may write their entries', () => {
  const audited = new Set((routes as readonly Route[]).filter(isAudited).map(({ fn }) => fn));
  expect(audited.size).toBeGreaterThan(5);
  for (const fn of audited) {
    expect(FUNCTIONS[fn].tables?.main?.items, fn).toEqual(expect.arrayContaining(['PutItem', 'UpdateItem']));
  }
});
