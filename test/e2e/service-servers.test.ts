// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the form of manifests.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { clientOf, type LocalTarget, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';
import { expectError, expectOk } from './expect.ts';

const SERVER = readFileSync(new URL('../fixtures/mcp/http-server.js', import.meta.url), 'utf8');
const ACCESS_KEY = 'access-key-of-the-service-71';

const target: LocalTarget = await startLocalTarget();
afterAll(() => target.close());

describe.skipIf(target.services === undefined)('an MCP server that is a service of the workspace', () => {
  let workspaceId: string;
  const api = (method: string, path: string, json?: unknown, key = target.key) =>
    request(target, method, path, { key, json });

  beforeAll(async () => {
    const client = clientOf(target);
    ({ id: workspaceId } = await client.getOrg({}));
    await target.setPlan(workspaceId, 'pro');
    for (const [name, value] of Object.entries({ ACCESS_KEY, ANTHROPIC_API_KEY: 'sk-ant-services-0123456789' })) {
      expectOk(await api('PUT', `/workspaces/${workspaceId}/secrets`, { name, value }));
    }
    await publishCode(
      client,
      'shouter',
      { 'server.js': SERVER },
      { run_mode: 'always_on', runtime: { command: 'node server.js' }, required_secrets: ['ACCESS_KEY'] },
    );
    const body = { agent: `${target.slug}/shouter`, service_name: 'my shouter' };
    const { service } = expectOk(await api('POST', `/workspaces/${workspaceId}/services`, body), 201);
    const health = async () =>
      expectOk(await api('GET', `/workspaces/${workspaceId}/services/${service.id}`)).service.health_status;
    await vi.waitFor(async () => expect(await health()).toBe('healthy'), { timeout: 30_000, interval: 200 });
  });

  async function publish(name: string, change: Record<string, unknown> = {}, more: Record<string, unknown> = {}) {
    const turns = [{ toolCalls: [{ name: 'mcp__docs__shout', input: { text: 'hello' } }] }, { echo: true }];
    const headers = { Authorization: 'Bearer ${ACCESS_KEY}' };
    const body = {
      name,
      type: 'agent',
      description: name,
      prompt: `Do it. [[llm ${JSON.stringify(turns)}]]`,
      required_secrets: ['ACCESS_KEY'],
      loop: { max_turns: 4, mcp_servers: [{ name: 'docs', service: 'my shouter', headers, ...change }] },
      ...more,
    };
    expectOk(await api('POST', '/agents', body), 201);
  }
  const run = (name: string, key = target.key) =>
    api('POST', `/${target.slug}/${name}/latest/run?verbose=true`, {}, key);

  test('is named, and reached as the machine itself', async () => {
    await publish('shouts');
    const { data, metadata } = expectOk(await run('shouts'));
    expect(data).toEqual({ result: 'HELLO' });
    expect(metadata.stderr).toMatch(/^mcp docs: 1 tool\n/);
  });

  test.each([
    ['unknown', { service: 'other' }, 'the workspace has no service "other"'],
    ['without-key', { headers: {} }, 'it answered 401: it refuses the headers'],
    ['elsewhere', { path: '/other', transport: 'streamable-http' }, 'it answered 405'],
  ])('%s ends the run', async (name, change, problem) => {
    await publish(name, change);
    expectError(await run(name), 500, 'SANDBOX_ERROR', `The MCP server "docs" cannot be used: ${problem}.`);
  });

  test('of another workspace is not reached, nor one of the caller by an agent of others', async () => {
    await publish('public-one', { headers: {} }, { is_public: true, required_secrets: [] });
    const stranger = await target.addUser('service-stranger');
    const json = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-stranger-0123456789' };
    expectOk(await api('PUT', `/workspaces/${stranger.workspaceId}/secrets`, json, stranger.key));
    const message = 'it is a service, which only agents of the same workspace use';
    expectError(await run('public-one', stranger.key), 500, 'SANDBOX_ERROR', message);
  });

  test('that is paused, or has its name twice, says so', async () => {
    const { services } = expectOk(await api('GET', `/workspaces/${workspaceId}/services`));
    expectOk(await api('PATCH', `/workspaces/${workspaceId}/services/${services[0].id}`, { desired_state: 'stopped' }));
    expectError(await run('shouts'), 500, 'SANDBOX_ERROR', 'the service "my shouter" is paused');
    const body = { agent: `${target.slug}/shouter`, service_name: 'my shouter' };
    expectOk(await api('POST', `/workspaces/${workspaceId}/services`, body), 201);
    const message = 'the workspace has 2 services named "my shouter": name it by its id';
    expectError(await run('shouts'), 500, 'SANDBOX_ERROR', message);
  });
});
