import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { VERSION } from '#core/base/version.ts';
import { temporaryFolder } from '#test/helpers/temporary-folder.ts';

const ROOT = join(import.meta.dirname, '../..');

/** That it deploys is proved in `test/stacks/package.aws.test.ts`. */
test('the packed construct has everything that it deploys, and no more', { timeout: 600_000 }, () => {
  const folder = temporaryFolder('release-construct-');
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const out = join(folder, 'out');
  const script = join(ROOT, 'scripts/release.ts');
  execFileSync(process.execPath, [script, 'pack', '--out', out, '--only', 'construct'], { stdio: 'ignore' });
  const { artifacts } = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'));
  expect(artifacts).toMatchObject([{ name: 'agent-platform-cdk', version: VERSION, part: 'construct' }]);
  const tarball = join(out, artifacts[0].file);
  const files = execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8', maxBuffer: 16 * 1024 ** 2 })
    .trim()
    .split('\n');
  expect(files).toEqual(
    expect.arrayContaining(
      [
        'LICENSE',
        'package.json',
        'dist/platform.js',
        'dist/types/lib/platform.d.ts',
        'dist/owner-key.mjs',
        'dist/writers.mjs',
        'dist/dashboard/index.html',
        'dist/runner/Dockerfile',
      ].map((file) => `package/${file}`),
    ),
  );
  expect(files.filter((file) => /^package\/dist\/functions\/[^/]+\/index\.mjs$/.test(file)).length).toBeGreaterThan(20);
  expect(files.filter((file) => /\.test\.|\.(br|gz)$|\.vite/.test(file))).toEqual([]);
  // Paths of the machine that packs would get into source maps.
  execFileSync('tar', ['-xzf', tarball, '-C', folder]);
  const named = spawnSync('grep', ['-rlF', '-e', `${ROOT.slice(1)}/`, join(folder, 'package')]);
  expect(named.stdout.toString()).toBe('');
});
