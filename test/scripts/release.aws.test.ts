import { execFileSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { VERSION } from '#core/base/version.ts';
import { temporaryFolder } from '#test/helpers/temporary-folder.ts';
import { fetchPythonBuild } from '../../scripts/fetch-test-tools.ts';

const ROOT = join(import.meta.dirname, '../..');

/** Prints the paths in a zip, such as a wheel. */
const LIST_ZIP = 'import sys, zipfile; print("\\n".join(zipfile.ZipFile(sys.argv[1]).namelist()))';
const MODULES = [
  '__init__',
  '_access',
  '_body',
  '_context',
  '_environment',
  '_follow',
  '_http',
  '_local',
  '_serve',
  '_steps',
  '_threads',
  '_upload',
  '_workspace',
  'agent_client',
  'async_platform',
  'call_context',
  'durable',
  'errors',
  'message',
  'platform',
  'session',
  'storage',
  'task',
];

test('the Python SDK is packed as a wheel, which pip installs, and as sources', { timeout: 600_000 }, () => {
  const folder = temporaryFolder('release-python-');
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const out = join(folder, 'out');
  const args = [join(ROOT, 'scripts/release.ts'), 'pack', '--out', out, '--only', 'sdk-python'];
  const env = { ...process.env, PATH: `${fetchPythonBuild()}:${process.env.PATH}` };
  execFileSync(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'inherit'] });
  const wheel = `agent_platform_sdk-${VERSION}-py3-none-any.whl`;
  const sources = `agent_platform_sdk-${VERSION}.tar.gz`;
  expect(readdirSync(out).sort()).toEqual(['SHA256SUMS', wheel, sources, 'manifest.json'].sort());

  const filesOf = (program: string, ...options: string[]) =>
    execFileSync(program, [...options], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .sort();
  const code = MODULES.map((name) => `agent_platform/${name}.py`);
  const info = `agent_platform_sdk-${VERSION}.dist-info`;
  expect(filesOf('python3', '-c', LIST_ZIP, join(out, wheel))).toEqual(
    [
      ...code,
      'agent_platform/py.typed',
      ...['METADATA', 'RECORD', 'WHEEL', 'licenses/LICENSE', 'top_level.txt'].map((file) => `${info}/${file}`),
    ].sort(),
  );
  const metadata = ['PKG-INFO', 'SOURCES.txt', 'dependency_links.txt', 'top_level.txt'];
  const inSources = filesOf('tar', '-tzf', join(out, sources)).filter((file) => !file.endsWith('/'));
  expect(inSources.map((file) => file.slice(file.indexOf('/') + 1)).sort()).toEqual(
    [
      ...code,
      ...['LICENSE', 'PKG-INFO', 'README.md', 'agent_platform/py.typed', 'pyproject.toml', 'setup.cfg'],
      ...metadata.map((file) => `agent_platform_sdk.egg-info/${file}`),
    ].sort(),
  );

  const installed = join(folder, 'installed');
  const python = (...options: string[]) =>
    execFileSync('python3', options, { cwd: folder, env: { ...env, PYTHONPATH: installed }, encoding: 'utf8' });
  python('-m', 'pip', 'install', '--quiet', '--no-index', '--target', installed, join(out, wheel));
  const program = `import importlib.metadata as metadata, importlib.resources as resources, agent_platform
print(metadata.version('agent-platform-sdk'), resources.files('agent_platform').joinpath('py.typed').is_file(), hasattr(agent_platform, 'Platform'))
print([str(file) for file in metadata.files('agent-platform-sdk') if file.name == 'LICENSE'] != [])`;
  expect(python('-c', program)).toBe(`${VERSION} True True\nTrue\n`);
});
