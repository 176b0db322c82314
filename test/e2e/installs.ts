import { describe, expect, test } from 'vitest';
import { bundleForm, clientOf, request, type Target, zipOf } from '#test/helpers/platform.ts';
import type { Languages } from './calls.ts';
import { expectError, expectOk } from './expect.ts';

const TOOL = { type: 'tool', description: 'has dependencies', required_secrets: [] };
/** Node finds this package without a network. */
const LOCAL_PACKAGE = {
  'main.js': `console.log(JSON.stringify(require('greeter')))`,
  'package.json': JSON.stringify({ name: 'agent', dependencies: { greeter: 'file:./greeter' } }),
  'greeter/package.json': JSON.stringify({ name: 'greeter', version: '1.0.0', main: 'index.js' }),
  'greeter/index.js': `module.exports = { greeting: 'hello' }`,
};

/** Dependencies of uploaded bundles, without a network. */
export function installsSuite(target: () => Target, has: Languages): void {
  const call = (method: string, path: string, options?: Parameters<typeof request>[3]) =>
    request(target(), method, path, { key: target().key, ...options });

  async function publish(name: string, files: Readonly<Record<string, string>>) {
    const { agent } = await clientOf(target()).createAgent({ body: { ...TOOL, name } });
    return { agent, upload: () => upload(agent.id, files) };
  }
  /** The answer of an upload, and the version after its installation. */
  async function upload(id: string, files: Readonly<Record<string, string>>) {
    const client = clientOf(target());
    const answer = await client.uploadBundle({ params: { id }, body: bundleForm(zipOf(files)) });
    const ended = async () => (await client.getAgent({ params: { id } })).environment_status;
    await expect.poll(ended, { timeout: 60_000, interval: 250 }).not.toBe('building');
    const [log] = await client.listAgentLogs({ params: { id } });
    return { answer, agent: await client.getAgent({ params: { id } }), log };
  }

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
      expect(error).toMatchObject({ category: 'setup_error', is_retryable: false });

      // The version never ran, so it takes new code.
      const repaired = await clientOf(target()).uploadBundle({
        params: { id: version.id },
        body: bundleForm(zipOf({ 'main.py': 'print(7)' })),
      });
      expect(repaired).toMatchObject({ status: 'active', environment_status: null, environment_error: null });
      expect(expectOk(await call('POST', '/acme/pip-broken/v1/run', { json: {} })).data).toBe(7);
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
      expect(log).toMatchObject({ status: 'error', error_message: expect.stringContaining('not-there') });
    });
  });
}
