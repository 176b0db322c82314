import { expect, test } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { wayToServices } from './own-way.ts';

test.each([
  ['127.0.0.1', 'http://localhost:4280/services/s1'],
  ['0.0.0.0', 'http://localhost:4280/services/s1'],
  ['::', 'http://localhost:4280/services/s1'],
  ['10.0.0.5', 'http://docs-1a2b3c.apps.example:4280'],
])('a platform that listens at %s reaches a service at %s', (host, url) => {
  const way = wayToServices(new SystemClock(), { host, port: 4280 }, 'apps.example');
  expect(way({ id: 's1', label: 'docs-1a2b3c' }).url).toBe(url);
});
