import { afterAll, beforeAll, expect, test } from 'vitest';
import { tarOf } from '#test/conformance/sandbox.ts';
import { clientOf, type LocalTarget, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';
import { expectError, expectOk } from './expect.ts';

const FILES = {
  'main.js': `console.log(JSON.stringify(require('greeter')))`,
  'package.json': JSON.stringify({ name: 'agent', dependencies: { greeter: 'file:./greeter' } }),
  'greeter/package.json': JSON.stringify({ name: 'greeter', version: '1.0.0', main: 'index.js' }),
  'greeter/index.js': `module.exports = 'installed'`,
};

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget();
});
afterAll(() => target?.close());

test('a layer that was swapped after its installation runs for nobody', { timeout: 120_000 }, async ({ skip }) => {
  skip(!target.interpreters.node, 'no Node in the sandbox');
  const client = clientOf(target);
  const { agent } = await publishCode(client, 'swapped', FILES);
  const status = async () => (await client.getAgent({ params: { id: agent.id } })).environment_status;
  await expect.poll(status, { timeout: 60_000 }).toBe('ready');

  const [layer] = await Array.fromAsync(target.deps.blobs.list('layers/'));
  const installed = Buffer.from((await target.deps.blobs.get(layer!))!);
  await target.deps.blobs.put(layer!, tarOf({ 'node_modules/greeter/index.js': `module.exports = 'swapped'` }));
  const run = () => request(target, 'POST', '/acme/swapped/v1/run', { key: target.key, json: {} });
  expectError(await run(), 500, 'SANDBOX_ERROR', 'changed since they were installed');

  await target.deps.blobs.put(layer!, installed);
  expect(expectOk(await run()).data).toBe('installed');
});
