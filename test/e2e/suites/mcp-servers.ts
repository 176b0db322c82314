// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the form of manifests.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { bundleForm, needsModel, request, type Target, zipOf } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { type ScriptedMcp, startScriptedMcp } from '#test/helpers/scripted-mcp.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';
import type { Languages } from '../languages.ts';

const TOKEN = 'tok-mcp-servers-40c1';
const STDIO_SERVER = readFileSync(new URL('../../fixtures/mcp/stdio-server.js', import.meta.url), 'utf8');
const PAGE = {
  name: 'read_page',
  result: { content: [{ type: 'text', text: `token ${TOKEN}, ${'page '.repeat(8000)}` }] },
};

const call = (name: string, input: Record<string, unknown> = {}) => ({ name, input });

/** Loops that use tools of MCP servers (`docs/interface/mcp-servers.md`). */
export function mcpServersSuite(target: () => Target, has: Languages): void {
  describe('MCP servers', () => {
    let user: TestUser;
    let server: ScriptedMcp;

    beforeAll(async () => {
      // A target that reaches a model on this machine also reaches a server here.
      needsModel(target());
      server = await startScriptedMcp({
        revision: 'session',
        answers: 'sse',
        authorization: `Bearer ${TOKEN}`,
        tools: [{ name: 'search', description: 'Finds pages.' }, PAGE],
      });
      user = await target().addUser('mcp-servers');
      for (const [name, value] of Object.entries({ TOKEN, ANTHROPIC_API_KEY: 'sk-ant-mcp-0123456789' })) {
        const json = { name, value };
        expectOk(await request(target(), 'PUT', `/workspaces/${user.workspaceId}/secrets`, { key: user.key, json }));
      }
    });
    afterAll(() => server?.close());

    async function publish(
      name: string,
      turns: readonly ScriptedTurn[],
      change: Record<string, unknown> = {},
      more = {},
    ) {
      const headers = { Authorization: 'Bearer ${TOKEN}' };
      const mcp = { name: 'docs', url: server.url, headers, tools: ['search', 'read_page'], ...change };
      const json = {
        name,
        type: 'agent',
        description: `tests ${name}`,
        prompt: `Do it. [[llm ${JSON.stringify(turns)}]]`,
        required_secrets: ['TOKEN'],
        loop: { max_turns: 5, mcp_servers: [mcp] },
        ...more,
      };
      return request(target(), 'POST', '/agents', { key: user.key, json });
    }
    const run = (name: string, key = user.key) =>
      request(target(), 'POST', `/mcp-servers/${name}/v1/run?verbose=true`, { key, json: {} });

    test('give a loop tools', async () => {
      const turns = [
        { toolCalls: [call('mcp__docs__search', { q: 'cats' })] },
        { echo: true, toolCalls: [call('submit_result', { result: 'done' })] },
      ];
      expectOk(await publish('searches', turns), 201);
      const { data, metadata } = expectOk(await run('searches'));
      expect(data).toEqual({ result: 'done' });
      expect(metadata.stderr).toMatch(/^mcp docs: 2 tools\nturn 1: mcp__docs__search ok, \d+ ms\n/);
      expect(server.requests.find(({ rpc }) => rpc === 'tools/call')!.body.params).toMatchObject({
        name: 'search',
        arguments: { q: 'cats' },
      });
      await expect.poll(() => server.methods).toContain('DELETE');
    });

    test('that cannot be used end the run with their name', async () => {
      expectOk(await publish('lacks', [], { tools: ['write_page'] }), 201);
      const message = 'The MCP server "docs" cannot be used: it has no tool "write_page"; it has search, read_page.';
      expect(expectError(await run('lacks'), 500, 'SANDBOX_ERROR', message)).toMatchObject({ category: 'setup_error' });
    });

    test('at addresses that are not public are refused when the agent is published', async () => {
      const answer = await publish('inside', [], { url: 'https://169.254.169.254/mcp' });
      expectError(answer, 400, 'INVALID_INPUT', 'mcp_servers[0].url: cannot be used: 169.254.169.254 is not');
    });

    test('of an agent of another workspace get no secret that was not granted', async () => {
      expectOk(await publish('public-one', [], {}, { is_public: true }), 201);
      const stranger = await target().addUser('mcp-stranger');
      const json = { name: 'TOKEN', value: 'of-the-stranger' };
      const path = `/workspaces/${stranger.workspaceId}/secrets`;
      expectOk(await request(target(), 'PUT', path, { key: stranger.key, json }));
      const seen = server.requests.length;
      expectError(await run('public-one', stranger.key), 400, 'MISSING_SECRETS', 'TOKEN');
      const given = server.requests.slice(seen).map(({ headers }) => headers.authorization);
      expect(given).not.toContain('Bearer of-the-stranger');
    });

    test('of the older transport over SSE are found, and all their tools offered', async () => {
      const old = await startScriptedMcp({ revision: 'sse', tools: [{ name: 'search' }, { name: 'list' }] });
      onTestFinished(() => old.close());
      const turns = [{ toolCalls: [call('mcp__docs__list', { q: 'dogs' })] }, { echo: true }];
      const place = { url: old.url, headers: undefined, tools: undefined };
      expectOk(await publish('old-server', turns, place), 201);
      const { data, metadata } = expectOk(await run('old-server'));
      expect(data).toEqual({ q: 'dogs' });
      expect(metadata.stderr).toMatch(/^mcp docs: 2 tools\n/);
    });

    test.skipIf(!has.node)('run as processes in the sandbox, from the bundle and with secrets', async () => {
      const turns = [
        { toolCalls: [call('mcp__docs__wait', { ms: 50 }), call('mcp__docs__env', { name: 'API_TOKEN' })] },
        { toolCalls: [call('bash', { command: 'cat agent/package.json' }), call('mcp__docs__crash')] },
        { echo: true },
      ];
      const process = { command: 'node', args: ['agent/server.js'], env: { API_TOKEN: 'Bearer ${TOKEN}' } };
      const place = { url: undefined, headers: undefined, tools: undefined, ...process };
      const { agent } = expectOk(await publish('own-process', turns, place, { bundle: {} }), 201);
      expect(agent.runnable).toBe(false);
      const body = bundleForm(zipOf({ 'server.js': STDIO_SERVER, 'package.json': '{"type": "commonjs"}' }));
      expectError(await run('own-process'), 422, 'UNPROCESSABLE', 'has no code bundle yet');
      const { agent: other } = expectOk(await publish('without-code', turns, place), 201);
      const refused = await request(target(), 'POST', `/agents/${other.id}/upload`, { key: user.key, body });
      expect(expectError(refused, 400, 'INVALID_INPUT', 'has no member "bundle"').hint).toContain('"bundle": {}');
      expectOk(await request(target(), 'POST', `/agents/${agent.id}/upload`, { key: user.key, body }));
      const { data, metadata } = expectOk(await run('own-process'));
      expect(metadata.stderr).toMatch(/^mcp docs: 11 tools\n/);
      expect(data.result).toContain('{"type": "commonjs"}');
      expect(data.result).toContain('its process was ended by signal 11. The end of its stderr: fatal: it crashed');
      expect(JSON.stringify([data, metadata])).not.toContain(TOKEN);
    });

    test.skipIf(!has.node)('that exit at once end the run with what they say', async () => {
      const process = { command: 'node', args: ['-e', 'console.error("no database"); process.exit(3)'] };
      const place = { url: undefined, headers: undefined, tools: undefined, ...process };
      expectOk(await publish('exits-at-once', [], place), 201);
      const message =
        'The MCP server "docs" cannot be used: its process has ended with the exit code 3. The end of its stderr: no database.';
      expect(expectError(await run('exits-at-once'), 500, 'SANDBOX_ERROR', message)).toMatchObject({
        category: 'setup_error',
      });
    });

    test.skipIf(!(has.python || has.node))(
      'have long results in a file of the sandbox, which does not know the secret of the header',
      async () => {
        const turns = [
          { toolCalls: [call('mcp__docs__read_page')] },
          { toolCalls: [call('bash', { command: 'echo "[$TOKEN]"; head -c 40 /tmp/tool_output/1-1.txt' })] },
          { echo: true },
        ];
        expectOk(await publish('reads', turns, {}, { output_schema: null }), 201);
        const { data } = expectOk(await run('reads'));
        expect(data.result).toMatch(/^\[\]\ntoken \[secret TOKEN\], page page/);
      },
    );
  });
}
