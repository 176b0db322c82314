import { expect, test } from 'vitest';
import { routes } from '#core/api/routes.ts';
import { isChannelName } from './channel-name.ts';
import { parseVersion } from './references.ts';

test.each(['prod', 'staging', 'p', 'eu-west-1', 'v1-next', 'version', 'a'.repeat(32), 'latest-2', 'x1'])(
  '%s is a name',
  (name) => {
    expect(isChannelName(name)).toBe(true);
    expect(parseVersion(name)).toBeUndefined();
  },
);

test.each([
  ...['', 'Prod', '1st', '-a', 'a_b', 'a.b', 'a b', 'é', 'a'.repeat(33), 'prod\n', 'prod@1', 'a/b'],
  ...['latest', 'dev', 'v', 'v1', 'v20', 'v0', 'v123456', 'mcp', 'a2a', 'ag-ui', '__proto__', 'constructor '],
])('%j is none', (name) => {
  expect(isChannelName(name)).toBe(false);
});

test('no word at the place of a version in the route table is a name', () => {
  const atVersion = routes
    .map(({ path }) => path.split('/').slice(1))
    .flatMap((segments) => {
      const agent = segments.indexOf('{agent}');
      const word = agent < 0 ? undefined : segments[agent + 1];
      // A2A has no version at this place, and its own words behind the agent.
      return word === undefined || word.startsWith('{') || segments[0] === 'a2a' ? [] : [word];
    });
  expect(atVersion.sort()).toEqual(['ag-ui', 'mcp']);
  expect(atVersion.filter(isChannelName)).toEqual([]);
});
