import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { parseConfig, parseSettings, setting } from './config.ts';

describe('parseConfig', () => {
  test('has a default for every setting', () => {
    expect(parseConfig({})).toMatchObject({
      workspaceSlug: 'main',
      maxBundleBytes: 25 * 1024 ** 2,
      installTimeoutMs: 900_000,
      sandboxEgress: 'open',
      baseUrl: undefined,
    });
  });

  test('transforms text, and treats an empty variable as unset', () => {
    const config = parseConfig({
      PLATFORM_MAX_BUNDLE_MB: '0.5',
      PLATFORM_SANDBOX_EGRESS: ' api.example.org, *.example.com ,',
      PLATFORM_LOG_LEVEL: '',
    });
    expect(config).toMatchObject({ maxBundleBytes: 512 * 1024, logLevel: 'info' });
    expect(config.sandboxEgress).toEqual(['api.example.org', '*.example.com']);
  });

  test('reads ports and private ranges of egress', () => {
    expect(parseConfig({})).toMatchObject({ egressPorts: [{ from: 1, to: 65_535 }], egressPrivateRanges: [] });
    expect(parseConfig({ PLATFORM_EGRESS_PORTS: 'none' }).egressPorts).toEqual([]);
    expect(
      parseConfig({
        PLATFORM_EGRESS_PORTS: '5432, 27017-27019',
        PLATFORM_EGRESS_PRIVATE_RANGES: '10.0.0.0/8, fd00::/8',
      }),
    ).toMatchObject({
      egressPorts: [
        { from: 5432, to: 5432 },
        { from: 27_017, to: 27_019 },
      ],
      egressPrivateRanges: ['10.0.0.0/8', 'fd00::/8'],
    });
    for (const wrong of ['0', '65536', '9-8', 'all', '5432/tcp']) {
      expect(() => parseConfig({ PLATFORM_EGRESS_PORTS: wrong })).toThrow('must be a port or a range of ports');
    }
    for (const wrong of ['127.0.0.0/8', '0.0.0.0/0', '169.254.0.0/16', '10.0.0.1']) {
      expect(() => parseConfig({ PLATFORM_EGRESS_PRIVATE_RANGES: wrong })).toThrow(`${wrong} must be`);
    }
  });

  test('names every wrong variable at once', () => {
    const wrong = { PLATFORM_LOG_LEVEL: 'loud', PLATFORM_WORKSPACE: 'My Team' };
    expect(() => parseConfig(wrong)).toThrow(
      /PLATFORM_WORKSPACE="My Team": must be lower-case.*PLATFORM_LOG_LEVEL="loud".*"debug"/s,
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

test('parseSettings builds the schema of a default on first use only', () => {
  let built = 0;
  const settings = {
    size: setting(
      'PLATFORM_SIZE',
      () => {
        built += 1;
        return z.coerce.number().default(7);
      },
      'A size.',
    ),
  };
  const config = parseSettings(settings, {});
  expect(built).toBe(0);
  expect([config.size, config.size]).toEqual([7, 7]);
  expect(built).toBe(1);
});
