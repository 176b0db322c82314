import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bundleForm, clientOf, type LocalTarget, request, startLocalTarget, zipOf } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { expectOk } from './expect.ts';

/** Servers that others have published, as dependencies of a loop. */
const FILES = {
  'requirements.txt': 'mcp-server-time\nmcp-server-fetch\n',
  'package.json': JSON.stringify({
    dependencies: {
      '@modelcontextprotocol/server-everything': '2026.8.31',
      '@modelcontextprotocol/server-filesystem': '2026.8.31',
      '@modelcontextprotocol/server-memory': '2026.8.31',
    },
  }),
};
const SERVERS = [
  { name: 'time', command: 'mcp-server-time', args: ['--local-timezone', 'Europe/Berlin'] },
  { name: 'fetch', command: 'mcp-server-fetch' },
  { name: 'files', command: 'mcp-server-filesystem', args: ['/home/user'] },
  { name: 'memory', command: 'mcp-server-memory', env: { MEMORY_FILE_PATH: '/tmp/memory.jsonl' } },
  { name: 'all', command: 'mcp-server-everything', args: ['stdio'], tools: ['echo', 'get-sum', 'get-tiny-image'] },
];
const noRegistry =
  spawnSync('npm', ['view', 'is-number', 'name', '--fetch-timeout=5000', '--fetch-retries=0'], {
    encoding: 'utf8',
  }).stdout?.trim() === 'is-number'
    ? undefined
    : 'no npm registry answers';

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_SANDBOX_MEMORY_MB: '1024' });
});
afterAll(() => target?.close());

const call = (name: string, input: Record<string, unknown> = {}) => ({ name: `mcp__${name}`, input });

test('servers from npm and PyPI work as tools of a loop', { timeout: 400_000 }, async ({ skip }) => {
  skip(noRegistry !== undefined, noRegistry);
  const turns: ScriptedTurn[] = [
    {
      toolCalls: [
        call('time__convert_time', { source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo' }),
        call('files__write_file', { path: '/home/user/note.txt', content: 'written by a server' }),
        call('memory__create_entities', {
          entities: [{ name: 'Ada', entityType: 'person', observations: ['likes tea'] }],
        }),
        call('all__get-sum', { a: 20, b: 22 }),
        call('all__get-tiny-image'),
      ],
    },
    {
      toolCalls: [
        { name: 'bash', input: { command: 'cat note.txt /tmp/memory.jsonl' } },
        call('memory__search_nodes', { query: 'tea' }),
        call('files__read_text_file', { path: '/etc/passwd' }),
        call('fetch__fetch', { url: 'http://127.0.0.1:1/' }),
      ],
    },
    { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] },
  ];
  const client = clientOf(target);
  const { id: workspaceId } = await client.getOrg({});
  const json = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-servers-0123456789' };
  expectOk(await request(target, 'PUT', `/workspaces/${workspaceId}/secrets`, { key: target.key, json }));
  const { agent } = await client.createAgent({
    body: {
      name: 'with-servers',
      type: 'agent',
      description: 'uses servers of others',
      prompt: `Do it. [[llm ${JSON.stringify(turns)}]]`,
      required_secrets: [],
      bundle: {},
      loop: { max_turns: 5, mcp_servers: SERVERS },
    },
  });
  await client.uploadBundle({ params: { id: agent.id }, body: bundleForm(zipOf(FILES)) });
  const version = () => client.getAgent({ params: { id: agent.id } });
  await expect.poll(async () => (await version()).environment_status, { timeout: 240_000 }).not.toBe('building');
  expect(await version()).toMatchObject({ environment_error: null, environment_status: 'ready', runnable: true });

  const answer = await request(target, 'POST', '/acme/with-servers/latest/run?verbose=true', {
    key: target.key,
    json: {},
  });
  const { data, metadata } = expectOk(answer);
  expect(data).toEqual({ result: 'done' });
  const log = metadata.stderr as string;
  for (const line of ['time: 2 tools', 'fetch: 1 tool', 'all: 3 tools']) expect(log).toContain(`mcp ${line}\n`);
  expect(log).toMatch(/mcp files: \d+ tools\nmcp memory: \d+ tools\n/);
  const resultsOf = (body: { messages: { content: { type: string; content: unknown }[] }[] }) =>
    JSON.stringify(body.messages.at(-1)!.content);
  const [, second, third] = target.llm.requests.map(({ body }) => resultsOf(body));
  expect(second).toContain('+9.0h');
  expect(second).toContain('The sum of 20 and 22 is 42');
  expect(second).toContain('"media_type":"image/png"');
  expect(third).toContain('written by a server');
  expect(third).toContain('likes tea');
  expect(third).toContain('Access denied');
  expect(third).toContain('[ERROR]');
});
