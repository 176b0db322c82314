import { expect, test } from 'vitest';
import { routes } from '#core/api/routes.ts';
import { isReservedSlug } from './reserved-slugs.ts';
import routeSegments from './route-segments.json' with { type: 'json' };

test('every fixed first segment of the route table is reserved; `npm run docs` writes the list', () => {
  const fixed = routes.map((route) => route.path.split('/')[1]!).filter((segment) => !segment.startsWith('{'));
  expect(fixed.length).toBeGreaterThan(50);
  expect(routeSegments).toEqual([...new Set(fixed)].sort());
  expect(routeSegments.filter((segment) => !isReservedSlug(segment))).toEqual([]);
});

test.each([
  ...['services', 'docs', 'schemas', 'metrics', 'runner', 'r', 'catalog', 'schedules', 'dashboard', 'auth', 'mcp'],
  ...['a2a', 'operator', 'grants', 'budgets', 'share', 'chat'],
])('%s is reserved for routes and pages', (slug) => {
  expect(isReservedSlug(slug)).toBe(true);
});

test('versions are reserved; other names are free', () => {
  expect(['v1', 'v20'].map(isReservedSlug)).toEqual([true, true]);
  expect(['main', 'acme', 'v1-team', 'runners', 'doc'].map(isReservedSlug)).toEqual([
    false,
    false,
    false,
    false,
    false,
  ]);
});
