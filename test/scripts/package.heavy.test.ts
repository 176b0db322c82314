import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { VERSION } from '#core/base/version.ts';
import { packPlatform, startFromPackage } from '#test/helpers/package.ts';
import { temporaryFolder } from '#test/helpers/temporary-folder.ts';

/** The package `agent-platform`, as a newcomer gets it: packed, and started in an empty folder by npx. */

const MINUTES = 60_000;

let folder: string;
let archive: string;
beforeAll(() => {
  folder = temporaryFolder('package-');
  archive = packPlatform(folder);
}, 10 * MINUTES);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('has what the platform reads, and nothing that only its development needs', () => {
  const files = execFileSync('tar', ['-tzf', archive], { encoding: 'utf8', maxBuffer: 16 * 1024 ** 2 })
    .trim()
    .split('\n')
    .map((file) => file.replace(/^package\//, ''));
  expect(files).toEqual(
    expect.arrayContaining([
      'README.md',
      'package.json',
      'platform.js',
      'dist/cli.mjs',
      'dist/start.mjs',
      'dist/third-party-licenses.txt',
      'dist/core/api/examples.json',
      'dist/dashboard/dist/index.html',
      'dist/dist/docs-site/index.html',
      'dist/docs/calls.md',
      'dist/examples/csv-insights/agent.json',
      'dist/runner/perl/launcher.pl',
      'dist/sdk/js/index.js',
      'dist/sdk/python/agent_platform/__init__.py',
    ]),
  );
  const shapes = [
    /^(README\.md|package\.json|platform\.js)$/,
    /^dist\/[\w-]+\.mjs$/,
    /^dist\/(third-party-licenses\.txt|core\/api\/examples\.json)$/,
    /^dist\/dashboard\/dist\/[^.][^/]*(\/[^/]+)?$/,
    /^dist\/dist\/docs-site\//,
    /^dist\/docs\/(interface\/)?[\w-]+\.md$/,
    /^dist\/examples\//,
    /^dist\/runner\/perl\/[\w-]+\.pl$/,
    /^dist\/sdk\/(js|python|helpers)\//,
  ];
  expect(files.filter((file) => !shapes.some((shape) => shape.test(file)))).toEqual([]);
  const unwanted = /(^|\/)(\.(?!nojekyll)[^/]+|node_modules|__pycache__|.*\.(key|pem|sqlite|map|gz))(\/|$)/;
  expect(files.filter((file) => unwanted.test(file))).toEqual([]);
  // The examples have tests, which `platform init --example` copies.
  expect(files.filter((file) => /\.(test|heavy)\.|test_/.test(file) && !file.startsWith('dist/examples/'))).toEqual([]);
  expect(statSync(archive).size).toBeLessThan(60e6);
});

test('starts the demo in an empty folder, for whom has no cache, on the Node of the machine', {
  timeout: 9 * MINUTES,
}, async () => {
  const { url, key, said, app, installed, example, platform, stop } = await startFromPackage(archive, folder);
  try {
    expect(said).not.toContain('not published');
    expect(said).toContain('Signed in: platform agents');
    expect(said).toContain(`Data:      ${join(app, '.data')}\n`);
    const answer = await fetch(`${url}/main/${example.agent}/latest/run`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: readFileSync(example.input),
    });
    expect(await answer.json()).toMatchObject({ data: expect.anything(), metadata: { version: 'v1' } });

    const page = async (path: string) => {
      const response = await fetch(url + path);
      expect(response.status, path).toBe(200);
      return response.text();
    };
    expect(await page('/docs')).toContain('<title>');
    expect(await page('/docs/calls.md')).toContain('# ');
    expect(await page('/docs/pagefind/pagefind.js')).not.toBe('');
    expect(await page('/dashboard')).toContain('<div id="root"></div>');
    expect(await page('/dashboard')).toContain('<meta name="platform-command" content="platform"');

    // The installation has code only: an upgrade may delete it.
    expect(existsSync(join(installed, 'agent-platform/.data'))).toBe(false);
    expect(platform('--version').trim()).toBe(VERSION);
    expect(platform('--help')).toContain('Usage: platform');
    expect(JSON.parse(platform('status', '--json'))).toMatchObject({ running: true, data_folder: join(app, '.data') });
    platform('init', 'hello', '--template', 'hello-node');
    platform('publish', 'hello');
    expect(JSON.parse(platform('run', 'hello', 'hello/sample-input.json'))).toMatchObject({
      data: { greeting: 'Hello, Ada!' },
    });
    // Starts another platform, from the package.
    platform('test', 'hello');
  } finally {
    await stop();
  }
});
