import { expect, test } from 'vitest';
import { targetOf } from './message.ts';

test.each([
  ['/agents?x=1&y=a%20b', '/agents', 'x=1&y=a%20b'],
  ['https://platform.test/agents?x=1', '/agents', 'x=1'],
  ['https://platform.test', '/', ''],
  ['/a?', '/a', ''],
  ['/a#b?c', '/a', ''],
  ['/a?b#c', '/a', 'b'],
  ['//evil.example/run', '//evil.example/run', ''],
  ['/a/../agents', '/agents', ''],
  ['/a/%2e%2E/agents?x=/../', '/agents', 'x=/../'],
  ['/a/./b/..', '/a/', ''],
  ['/a/...', '/a/...', ''],
  ['/a\\b', '/a/b', ''],
  ['/A%2fb%C3%BC', '/A%2fb%C3%BC', ''],
  ['/ü', '/%C3%BC', ''],
  ['/a?x=/..', '/a', 'x=/..'],
  ["/it's?x='", "/it's", 'x=%27'],
])('%s', (url, path, query) => {
  expect(targetOf(url)).toEqual({ path, query });
});

test.each(['*', '', 'agents', 'host:443', 'http://', 'ftp://host/agents', '?x'])('%o is no address', (url) => {
  expect(targetOf(url)).toBeUndefined();
});
