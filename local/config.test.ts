import { expect, test } from 'vitest';
import { parseLocalConfig } from './config.ts';

test("has defaults for core's settings and its own", () => {
  expect(parseLocalConfig({ PLATFORM_HOST: '' })).toMatchObject({
    workspaceSlug: 'main',
    host: '127.0.0.1',
    port: 4280,
  });
  expect(parseLocalConfig({ PLATFORM_PORT: '0' }).port).toBe(0);
});

test('one error names the wrong variables of both tables', () => {
  const wrong = { PLATFORM_PORT: 'eighty', PLATFORM_LOG_LEVEL: 'loud' };
  expect(() => parseLocalConfig(wrong)).toThrow(/PLATFORM_LOG_LEVEL="loud".*"debug".*PLATFORM_PORT="eighty"/s);
});
