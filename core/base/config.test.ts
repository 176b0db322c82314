import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { settingsPage } from '../../scripts/write-docs.ts';
import { parseConfig, SETTINGS } from './config.ts';

describe('parseConfig', () => {
  test('has a default for everything', () => {
    expect(parseConfig({})).toMatchObject({
      workspaceSlug: 'main',
      host: '127.0.0.1',
      port: 4280,
      maxBundleBytes: 25 * 1024 ** 2,
      installTimeoutMs: 240_000,
      sandboxEgress: 'open',
      baseUrl: undefined,
    });
  });

  test('reads text, as an environment has it, and takes an empty variable for an unset one', () => {
    const config = parseConfig({
      PLATFORM_PORT: '0',
      PLATFORM_MAX_BUNDLE_MB: '0.5',
      PLATFORM_SANDBOX_EGRESS: ' api.example.org, *.example.com ,',
      PLATFORM_HOST: '',
    });
    expect(config).toMatchObject({ port: 0, maxBundleBytes: 512 * 1024, host: '127.0.0.1' });
    expect(config.sandboxEgress).toEqual(['api.example.org', '*.example.com']);
  });

  test('names every wrong variable at once', () => {
    const wrong = { PLATFORM_PORT: 'eighty', PLATFORM_LOG_LEVEL: 'loud', PLATFORM_WORKSPACE: 'My Team' };
    expect(() => parseConfig(wrong)).toThrow(
      /PLATFORM_WORKSPACE="My Team": must be lower-case.*PLATFORM_LOG_LEVEL="loud".*"debug".*PLATFORM_PORT="eighty"/s,
    );
  });

  test.each(['agents', 'public', 'workspaces', 'billing', 'v2'])(
    'refuses the workspace %s, whose agents could not be called',
    (slug) => {
      expect(() => parseConfig({ PLATFORM_WORKSPACE: slug })).toThrow(`PLATFORM_WORKSPACE="${slug}": is reserved`);
    },
  );

  test('a base URL loses the slash at its end', () => {
    expect(parseConfig({ PLATFORM_BASE_URL: 'https://agents.example.org/' }).baseUrl).toBe(
      'https://agents.example.org',
    );
  });
});

describe('SETTINGS', () => {
  test('have variables of one form, each once', () => {
    const variables = Object.values(SETTINGS).map(({ variable }) => variable);
    expect(new Set(variables).size).toBe(variables.length);
    for (const variable of variables) expect(variable).toMatch(/^PLATFORM_[A-Z_]+$/);
  });

  test('docs/settings.md lists them; npm run docs writes it', () => {
    const file = new URL('../../docs/settings.md', import.meta.url);
    expect(existsSync(file) && readFileSync(file, 'utf8')).toBe(settingsPage());
  });
});
