import { expect, test } from 'vitest';
import { VERSION } from '#core/base/version.ts';
import { versionsInPlaces } from './release-version.ts';

test('everything that is released has the version of package.json', () => {
  const places = versionsInPlaces();
  expect(places.filter(({ version }) => version !== VERSION)).toEqual([]);
  const counts = Object.entries(Object.groupBy(places, ({ file }) => file)).map(([file, found]) => [
    file,
    found!.length,
  ]);
  expect(Object.fromEntries(counts)).toEqual({
    'package.json': 1,
    // The lock file contains the root twice.
    'package-lock.json': 4,
    'cli/package/package.json': 1,
    'dashboard/package.json': 1,
    'docs/site/package.json': 1,
    'docs/site/package-lock.json': 2,
    'lib/package/package.json': 1,
    'sdk/js/package.json': 1,
    'sdk/python/pyproject.toml': 1,
    'action/action.yml': 1,
    Dockerfile: 1,
    'examples/cdk/package.json': 1,
    'examples/cdk/README.md': 1,
    'docs/cdk.md': 2,
    'docs/ci.md': 2,
    'docs/self-host.md': 3,
    'README.md': 1,
  });
});
