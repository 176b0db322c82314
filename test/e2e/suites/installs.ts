import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { bundleForm, clientOf, request, type Target, zipOf } from '#test/helpers/platform.ts';
import { expectError, expectOk } from '../expect.ts';
import type { Languages } from '../languages.ts';

const TOOL = { type: 'tool', description: 'has dependencies', required_secrets: [] };
/** Node finds this package without a network. */
const LOCAL_PACKAGE = {
  'main.js': `console.log(JSON.stringify(require('greeter')))`,
  'package.json': JSON.stringify({ name: 'agent', dependencies: { greeter: 'file:./greeter' } }),
  'greeter/package.json': JSON.stringify({ name: 'greeter', version: '1.0.0', main: 'index.js' }),
  'greeter/index.js': `module.exports = { greeting: 'hello' }`,
};

/** Returns a package whose build backend, which pip runs without a network, executes `attack` first. */
const packageWithBackend = (name: string, attack: string) => ({
  [`${name}/pyproject.toml`]: `[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "${name}"
version = "1"
`,
  [`${name}/backend.py`]: `import os, zipfile
LAYER = '/home/user/layer'
def build_wheel(folder, config_settings=None, metadata_directory=None):
    os.makedirs(LAYER, exist_ok=True)
    ${attack || 'pass'}
    info = '${name}-1.dist-info/'
    with zipfile.ZipFile(os.path.join(folder, '${name}-1-py3-none-any.whl'), 'w') as wheel:
        wheel.writestr('${name}.py', 'text = "installed"\\n')
        wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: ${name}\\nVersion: 1\\n')
        wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        wheel.writestr(info + 'RECORD', '')
    return '${name}-1-py3-none-any.whl'
`,
});

/** Installation of dependencies of uploaded bundles, without a network. */
export function installsSuite(target: () => Target, has: Languages): void {
  const call = (method: string, path: string, options?: Parameters<typeof request>[3]) =>
    request(target(), method, path, { key: target().key, ...options });

  async function publish(name: string, files: Readonly<Record<string, string>>) {
    const { agent } = await clientOf(target()).createAgent({ body: { ...TOOL, name } });
    return { agent, upload: () => upload(agent.id, files) };
  }
  /** Uploads a bundle; returns the answer, and the version after its installation. */
  async function upload(id: string, files: Readonly<Record<string, string>>) {
    const client = clientOf(target());
    const answer = await client.uploadBundle({ params: { id }, body: bundleForm(zipOf(files)) });
    const ended = async () => (await client.getAgent({ params: { id } })).environment_status;
    await expect.poll(ended, { timeout: 60_000, interval: 250 }).not.toBe('building');
    const [log] = await client.listAgentLogs({ params: { id } });
    return { answer, agent: await client.getAgent({ params: { id } }), log };
  }

  test('dependencies from elsewhere than the registries are refused at upload, with their line', async () => {
    const wrong: readonly Readonly<Record<string, string>>[] = [
      { 'main.py': '1', 'requirements.txt': 'six\ngit+https://github.com/o/r\n' },
      { 'main.js': '1', 'package.json': '{\n"dependencies": {"r": "github:o/r"}}' },
    ];
    for (const [index, files] of wrong.entries()) {
      const { agent } = await publish(`elsewhere-${index}`, files);
      const answer = await call('POST', `/agents/${agent.id}/upload`, { body: bundleForm(zipOf(files)) });
      const file = Object.keys(files)[1]!;
      const error = expectError(answer, 400, 'INVALID_INPUT', `${file}, line 2`);
      expect(error.message).toContain('names a version control repository');
      expect(await clientOf(target()).getAgent({ params: { id: agent.id } })).toMatchObject({
        code_bundle_url: null,
        environment_status: null,
      });
    }
  });

  describe.skipIf(!has.python)('dependencies of Python (skipped without Python on this machine)', () => {
    test('that cannot be installed: the answer and the log show the output of pip', { timeout: 90_000 }, async () => {
      const { agent: version, upload } = await publish('pip-broken', {
        'main.py': 'print(1)',
        'requirements.txt': './not-there\n',
      });
      const { answer, agent, log } = await upload();
      expect(agent).toMatchObject({ environment_status: 'failed', runnable: false });
      if (answer.environment_status === 'failed') {
        expect(answer).toMatchObject({
          success: true,
          status: 'error',
          environment_error: expect.stringContaining('not-there'),
        });
      }
      expect(agent.environment_error).toMatch(/^ERROR: .*not-there/);
      expect(log).toMatchObject({
        trigger_source: 'install',
        status: 'error',
        stderr: expect.stringContaining('not-there'),
      });
      const error = expectError(
        await call('POST', '/acme/pip-broken/v1/run', { json: {} }),
        500,
        'SANDBOX_ERROR',
        'not-there',
      );
      expect(error).toMatchObject({
        category: 'setup_error',
        is_retryable: false,
        details: { stderr: agent.environment_error, log: `/agents/${version.id}/logs` },
      });
      expect(error.message).toMatch(/could not be installed: ERROR: .*not-there[^\n]*$/);

      // The version never ran, so it takes new code.
      const repaired = await clientOf(target()).uploadBundle({
        params: { id: version.id },
        body: bundleForm(zipOf({ 'main.py': 'print(7)' })),
      });
      expect(repaired).toMatchObject({ status: 'active', environment_status: null, environment_error: null });
      expect(expectOk(await call('POST', '/acme/pip-broken/v1/run', { json: {} })).data).toBe(7);
    });

    test('that leave more than packages are refused, and only their agent fails', { timeout: 120_000 }, async () => {
      const outside = mkdtempSync(join(tmpdir(), 'outside-'));
      onTestFinished(() => rmSync(outside, { recursive: true, force: true }));
      const attacks = {
        'link-of-the-platform': [`os.symlink(${JSON.stringify(outside)}, LAYER + '/node_modules')`, 'node_modules'],
        'sparse-bomb': [`open(f'{LAYER}/venv/lib/a', 'w').truncate(5 << 30)`, 'more than 4096 MB'],
      } as const;
      const attacking = Object.entries(attacks).map(async ([name, [attack, message]]) => {
        const { upload } = await publish(`pip-${name}`, {
          'main.py': 'print(1)',
          'requirements.txt': './evil\n',
          ...packageWithBackend('evil', attack),
        });
        const { agent } = await upload();
        expect(agent).toMatchObject({ environment_status: 'failed', runnable: false });
        const run = await call('POST', `/acme/pip-${name}/v1/run`, { json: {} });
        expectError(run, 500, 'SANDBOX_ERROR', message);
      });
      await Promise.all(attacking);
      expect(readdirSync(outside)).toEqual([]);
      const { upload } = await publish('pip-good', {
        // A child that inherits nothing finds the packages, too.
        'main.py': `import json, subprocess, sys
code = 'import good; print(good.text, "site-packages" in good.__file__)'
print(json.dumps(subprocess.run([sys.executable, '-I', '-c', code], env={}, capture_output=True, text=True).stdout))`,
        'requirements.txt': './good\n',
        ...packageWithBackend('good', ''),
      });
      expect((await upload()).agent).toMatchObject({ environment_status: 'ready' });
      expect(expectOk(await call('POST', '/acme/pip-good/v1/run', { json: {} })).data).toBe('installed True\n');
    });

    test('are those of pyproject.toml where there is no requirements.txt', { timeout: 90_000 }, async () => {
      const project = (text: string) => `[project]\nname = "agent"\nversion = "1"\n${text}`;
      const code = { 'main.py': 'import good, json; print(json.dumps(good.text))', ...packageWithBackend('good', '') };
      const named = project('dependencies = ["agent-platform-sdk", "good @ file:///home/user/agent/good"]\n');
      const { upload } = await publish('pip-project', { ...code, 'pyproject.toml': named });
      const { answer, agent } = await upload();
      expect(answer.warnings).toEqual([]);
      expect(agent).toMatchObject({ environment_status: 'ready' });
      expect(expectOk(await call('POST', '/acme/pip-project/v1/run', { json: {} })).data).toBe('installed');

      // The lock file names a member of the workspace, which no index has.
      const lock =
        '[[package]]\nname = "agent"\nsource = { virtual = "." }\ndependencies = [\n    { name = "good" },\n]\n';
      const member = '[[package]]\nname = "good"\nversion = "1"\nsource = { editable = "good" }\n';
      const sources = '[tool.uv.sources]\ngood = { workspace = true }\n';
      const locked = await publish('pip-uv', {
        ...code,
        'pyproject.toml': project(`dependencies = ["good"]\n${sources}`),
        'uv.lock': `${lock}\n${member}`,
      });
      expect((await locked.upload()).agent).toMatchObject({ environment_status: 'ready' });
      expect(expectOk(await call('POST', '/acme/pip-uv/v1/run', { json: {} })).data).toBe('installed');

      const both = await publish('pip-both', { ...code, 'pyproject.toml': named, 'requirements.txt': '# none\n' });
      expect((await both.upload()).answer).toMatchObject({
        environment_status: null,
        warnings: [expect.stringContaining('Only the dependencies of requirements.txt are installed')],
      });
      const dynamic = { ...code, 'pyproject.toml': project('dynamic = ["dependencies"]\n') };
      const unknown = await publish('pip-dynamic', dynamic);
      expect((await unknown.upload()).answer).toMatchObject({
        environment_status: null,
        warnings: [expect.stringContaining('dynamic')],
      });
    });

    test("that are only the platform's own package need no installation", async () => {
      const { upload } = await publish('pip-sdk', {
        'main.py': 'import agent_platform, json; print(json.dumps(agent_platform.AgentClient.__name__))',
        'requirements.txt': 'agent-platform-sdk>=0.1\n',
      });
      expect((await upload()).answer).toMatchObject({ status: 'active', environment_status: null });
      expect(expectOk(await call('POST', '/acme/pip-sdk/v1/run', { json: {} })).data).toBe('AgentClient');
    });

    test('that are only comments need no installation', async () => {
      const { upload } = await publish('pip-nothing', { 'main.py': 'print(1)', 'requirements.txt': '# none\n\n' });
      expect((await upload()).answer).toMatchObject({ status: 'active', environment_status: null });
    });
  });

  describe.skipIf(!has.node)('dependencies of Node (skipped without Node on this machine)', () => {
    test('are installed once, and found by every run', { timeout: 90_000 }, async () => {
      const { upload } = await publish('npm-local', LOCAL_PACKAGE);
      const { agent, answer } = await upload();
      expect(answer.environment_error).toBeNull();
      expect(agent).toMatchObject({ environment_status: 'ready', runnable: true });
      const run = async () => expectOk(await call('POST', '/acme/npm-local/v1/run', { json: {} })).data;
      expect(await Promise.all([run(), run()])).toEqual([{ greeting: 'hello' }, { greeting: 'hello' }]);
      // The same bundle in a new version uses the existing layer.
      const again = await publish('npm-local', LOCAL_PACKAGE);
      expect((await again.upload()).answer).toMatchObject({ status: 'active', environment_status: 'ready' });
    });

    test('are the members of a workspace, too', { timeout: 90_000 }, async () => {
      const { upload } = await publish('npm-workspace', {
        'main.js': `console.log(JSON.stringify(require('@x/lib')))`,
        'package.json': JSON.stringify({ name: 'agent', workspaces: ['packages/*'] }),
        'packages/lib/package.json': JSON.stringify({
          name: '@x/lib',
          version: '1.0.0',
          dependencies: { '@x/base': '1' },
        }),
        'packages/lib/index.js': `module.exports = { ...require('@x/base'), from: 'lib' }`,
        'packages/base/package.json': JSON.stringify({ name: '@x/base', version: '1.0.0' }),
        'packages/base/index.js': `module.exports = { base: true }`,
      });
      expect((await upload()).agent).toMatchObject({ environment_status: 'ready', environment_error: null });
      const run = await call('POST', '/acme/npm-workspace/v1/run', { json: {} });
      expect(expectOk(run).data).toEqual({ base: true, from: 'lib' });
    });

    test("beside the platform's own package are installed without it", { timeout: 90_000 }, async () => {
      const { upload } = await publish('npm-sdk', {
        ...LOCAL_PACKAGE,
        'main.js': `import greeter from 'greeter'; import { AgentClient } from 'agent-platform-sdk';
          console.log(JSON.stringify([greeter.greeting, AgentClient.name]))`,
        'package.json': JSON.stringify({
          type: 'module',
          dependencies: { greeter: 'file:./greeter', 'agent-platform-sdk': '^0.1.0' },
        }),
      });
      const { agent, log } = await upload();
      expect(agent).toMatchObject({ environment_status: 'ready', runnable: true });
      expect(log!.stdout).toContain('agent-platform-sdk is part of every sandbox');
      expect(expectOk(await call('POST', '/acme/npm-sdk/v1/run', { json: {} })).data).toEqual(['hello', 'AgentClient']);
    });

    test('that cannot be installed: the answer and the log show the output of npm', { timeout: 90_000 }, async () => {
      const broken = { ...LOCAL_PACKAGE, 'package.json': '{"dependencies":{"greeter":"file:./not-there"}}' };
      const { upload } = await publish('npm-broken', broken);
      const { agent, log } = await upload();
      expect(agent).toMatchObject({ environment_status: 'failed', runnable: false });
      expect(agent.environment_error).toMatch(/^greeter: .* folder that is not in the bundle: .*not-there/);
      expect(log).toMatchObject({ status: 'error', error_message: expect.stringContaining('not-there') });
    });
  });
}
