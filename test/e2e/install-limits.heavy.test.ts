import { afterAll, beforeAll, expect, test } from 'vitest';
import { clientOf, type LocalTarget, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';
import { expectError } from './expect.ts';

/** Returns a bundle with a package of Node, whose script runs during the installation, without a network. */
const withScript = (script: string) => ({
  'main.js': '1',
  'package.json': JSON.stringify({
    dependencies: { slow: 'file:./slow' },
    scripts: { postinstall: 'node slow/run.js' },
  }),
  'slow/package.json': JSON.stringify({ name: 'slow', version: '1.0.0' }),
  'slow/run.js': script,
});

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({
    PLATFORM_INSTALL_TIMEOUT_SECONDS: '10',
    PLATFORM_PLANS: JSON.stringify({ enterprise: { layer_bytes: 64 * 1024 ** 2 } }),
  });
});
afterAll(() => target?.close());

async function install(name: string, script: string) {
  const client = clientOf(target);
  const { agent } = await publishCode(client, name, withScript(script));
  const version = () => client.getAgent({ params: { id: agent.id } });
  await expect.poll(async () => (await version()).environment_status, { timeout: 60_000 }).not.toBe('building');
  const [log] = await client.listAgentLogs({ params: { id: agent.id } });
  return { agent: await version(), log: log! };
}

test('an installation that never ends says which step, how long, what to do and its last lines', {
  timeout: 120_000,
}, async ({ skip }) => {
  skip(!target.interpreters.node, 'no Node in the sandbox');
  const { agent, log } = await install('endless', `console.error('downloading 7 of 9'); setInterval(() => {}, 1000);`);
  expect(agent).toMatchObject({ environment_status: 'failed', runnable: false });
  const [reason, , ...lines] = agent.environment_error!.split('\n');
  expect(reason).toMatch(
    /^Not finished within 10 s: the step "npm install" was stopped after \d+ s\. Pin exact versions/,
  );
  expect(reason).toContain('PLATFORM_INSTALL_TIMEOUT_SECONDS');
  expect(lines.join('\n')).toContain('downloading 7 of 9');
  expect(log).toMatchObject({ status: 'error', error_message: expect.stringContaining('Not finished within 10 s') });
  const run = await request(target, 'POST', '/acme/endless/v1/run', { key: target.key, json: {} });
  expectError(run, 500, 'SANDBOX_ERROR', 'Not finished within 10 s');
});

test('an installation that fills the disk says how much it may write', { timeout: 120_000 }, async ({ skip }) => {
  skip(!target.interpreters.node, 'no Node in the sandbox');
  const fill = `const fs = require('node:fs');
    for (let n = 0; n < 200; n++) fs.writeFileSync('node_modules/' + n, require('node:crypto').randomBytes(1 << 20));`;
  const { agent } = await install('full', fill);
  expect(agent.environment_error).toMatch(
    /^No space left: the files of the step "npm install" took more than the 96 MB /,
  );
});

test('a layer is as large as the plan allows', { timeout: 120_000 }, async ({ skip }) => {
  skip(!target.interpreters.node, 'no Node in the sandbox');
  const write = (mb: number) =>
    `for (let n = 0; n < ${mb}; n++) require('node:fs').writeFileSync('node_modules/' + n, Buffer.alloc(1 << 20, n + 'x'));`;
  expect((await install('fits', write(40))).agent).toMatchObject({ environment_status: 'ready' });
  const { agent } = await install('large', write(70));
  expect(agent.environment_error).toMatch(/^The installed dependencies cannot be used: .* more than 64 MB/);
});
