import { expect, test } from 'vitest';
import { Router } from './router.ts';
import { routes } from './routes.ts';

const router = new Router([
  { method: 'GET', path: '/agents' },
  { method: 'POST', path: '/agents' },
  { method: 'GET', path: '/agents/{id}' },
  { method: 'POST', path: '/agents/validate' },
  { method: 'GET', path: '/agents/{id}/tree' },
  { method: 'GET', path: '/agents/validate/{what}/deep' },
  { method: 'GET', path: '/agents/{id}/{what}/flat' },
  { method: 'POST', path: '/{org}/{agent}' },
] as const);

const at = (path: string) => {
  const found = router.find(path);
  return found && [[...found.rows.keys()].join(), [...found.rows.values()][0]!.path, found.params];
};

test.each([
  ['/agents', 'GET,POST', '/agents', {}],
  ['/agents/1', 'GET', '/agents/{id}', { id: '1' }],
  // Does not match the row of /agents/{id}, although that has the method.
  ['/agents/validate', 'POST', '/agents/validate', {}],
  ['/agents/validate/tree', 'GET', '/agents/{id}/tree', { id: 'validate' }],
  ['/agents/validate/x/deep', 'GET', '/agents/validate/{what}/deep', { what: 'x' }],
  ['/agents/validate/x/flat', 'GET', '/agents/{id}/{what}/flat', { id: 'validate', what: 'x' }],
  ['/acme/bot', 'POST', '/{org}/{agent}', { org: 'acme', agent: 'bot' }],
  ['/%61gents/a%2Fb%2520%C3%BC', 'GET', '/agents/{id}', { id: 'a/b%20ü' }],
  ['/agents/100%-%FF%20x', 'GET', '/agents/{id}', { id: '100%-%FF%20x' }],
  ['/agents/%zz%20', 'GET', '/agents/{id}', { id: '%zz ' }],
  ['/__proto__/constructor', 'POST', '/{org}/{agent}', { org: '__proto__', agent: 'constructor' }],
  [`/agents/${'x'.repeat(256)}`, 'GET', '/agents/{id}', { id: 'x'.repeat(256) }],
])('%s', (path, methods, address, params) => {
  expect(at(path)).toEqual([methods, address, params]);
});

test.each([
  '/',
  '//',
  '/agents/',
  '/agents//',
  '/agents/1/nothing',
  '/agents/validate/x/other',
  '/acme',
  '/acme/',
  '//bot',
  '/acme/bot/more',
  `/agents/${'x'.repeat(257)}`,
  '',
])('%o is nowhere', (path) => {
  expect(at(path)).toBeUndefined();
});

test('every row of the table is found at its path, whatever the order of the table', () => {
  const backwards = new Router(routes.toReversed());
  const forwards = new Router(routes);
  for (const row of routes) {
    const path = row.path.replaceAll(/\{\w+\}/g, 'x');
    expect(forwards.find(path)!.rows.get(row.method)).toBe(row);
    expect(backwards.find(path)!.rows.get(row.method)).toBe(row);
  }
});
