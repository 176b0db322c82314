import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { compileCacheVariable } from '#test/helpers/temporary-folder.ts';
import { clientOf, type LocalTarget, publishCode, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, startCommandLine, tempFolder } from './command-line.ts';

const GREET = `let text = '';
process.stdin.on('data', (chunk) => (text += chunk)).on('end', () => {
  console.log(JSON.stringify({ greeting: 'Hello ' + JSON.parse(text).name }));
});`;
const ROOT = join(import.meta.dirname, '../..');

describe('mcp', () => {
  let target: LocalTarget;
  let client: Client;
  beforeAll(async () => {
    target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
    await publishCode(clientOf(target), 'hello', { 'main.js': GREET }, { runtime: { command: 'node main.js' } });
    client = new Client({ name: 'test', version: '1' });
    const env = {
      PATH: process.env.PATH!,
      ...compileCacheVariable(),
      PLATFORM_API_URL: target.url,
      PLATFORM_API_KEY: target.key,
    };
    const args = [join(ROOT, 'cli/main.ts'), 'mcp'];
    await client.connect(new StdioClientTransport({ command: process.execPath, args, env, cwd: ROOT }));
  });
  afterAll(async () => {
    await client?.close();
    await target?.close();
  });

  /** The answer of a tool. */
  async function use(name: string, args: Record<string, unknown> = {}) {
    const { content, isError = false } = await client.callTool({ name: `platform_${name}`, arguments: args });
    const [part] = content as { text: string }[];
    return { isError, answer: JSON.parse(part!.text) };
  }

  test('has the tools that clients of the platform know, and says which of them change something', async () => {
    const { tools } = await client.listTools();
    const named = (readOnly: boolean) =>
      tools
        .filter(({ name, annotations }) => name.startsWith('platform_') && annotations?.readOnlyHint === readOnly)
        .map(({ name }) => name.slice(9));
    expect(tools.at(-1)).toMatchObject({ name: 'main__hello', annotations: { readOnlyHint: false } });
    expect(named(true)).toEqual([
      ...[
        'search_agents',
        'list_agents',
        'list_tasks',
        'list_messages',
        'list_schedules',
        'list_runs',
        'list_approvals',
      ],
      ...['get_run_logs', 'get_trace'],
    ]);
    expect(named(false)).toEqual([
      ...['run_agent', 'create_task', 'update_task', 'delete_task', 'send_message', 'create_schedule'],
      ...['decide_approval', 'trigger_schedule', 'publish'],
    ]);
    const destructive = tools
      .filter(({ annotations }) => annotations?.destructiveHint)
      .map(({ name }) => name.slice(9));
    expect(destructive).toEqual(['delete_task', 'decide_approval']);
    const create = tools.find(({ name }) => name === 'platform_create_task')!;
    expect(create.inputSchema).toMatchObject({
      required: ['title'],
      properties: { title: { type: 'string' }, workspace_id: { type: 'string' } },
    });
  });

  test('runs an agent and shows its run', async () => {
    const agents = await use('list_agents');
    expect(agents.answer).toEqual([expect.objectContaining({ org: 'main', agent: 'hello', version: 'v1' })]);
    const { answer } = await use('run_agent', { agent: 'hello', input: { name: 'Ada' } });
    expect(answer.data).toEqual({ greeting: 'Hello Ada' });
    const called = await client.callTool({ name: 'main__hello', arguments: { name: 'Eve' } });
    expect(called.structuredContent).toEqual({ greeting: 'Hello Eve' });
    expect((await use('list_runs', { limit: 5 })).answer.runs).toHaveLength(2);
    expect((await use('get_run_logs', { run: 'hello' })).answer).toMatchObject({
      agent_name: 'hello',
      output_data: { greeting: 'Hello Eve' },
    });
    expect((await use('get_trace', { run: 'hello' })).answer).toMatchObject({ trace: { status: 'completed' } });
  });

  test('keeps tasks, messages and schedules', async () => {
    const { answer: made } = await use('create_task', { title: 'Look at it' });
    const [task] = (await use('list_tasks', { status: 'open' })).answer.tasks;
    expect(JSON.stringify(made)).toContain(task.id);
    await use('update_task', { task_id: task.id, status: 'done' });
    expect((await use('list_tasks', { status: 'open' })).answer.tasks).toEqual([]);
    expect((await use('delete_task', { task_id: task.id })).isError).toBe(false);
    await use('send_message', { title: 'Done', body: 'All of it' });
    expect((await use('list_messages')).answer.messages).toEqual([expect.objectContaining({ title: 'Done' })]);
    await use('create_schedule', { agent: 'main/hello', cron_expression: '0 9 * * *', input_data: { name: 'Bob' } });
    expect((await use('list_schedules')).answer.schedules).toHaveLength(1);
    const triggered = await use('trigger_schedule', { schedule: 'hello' });
    expect(JSON.stringify(triggered.answer)).toContain('Hello Bob');
  });

  test('lists what waits for a person, and decides', async () => {
    const platform = clientOf(target);
    const params = { workspace_id: (await platform.getOrg({})).id };
    await platform.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' } });
    const submit = { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] };
    const turns = [{ toolCalls: [{ name: 'ask_human', input: { question: 'Which colour?' } }] }, submit];
    const prompt = `Ask. [[llm ${JSON.stringify(turns)}]]`;
    const loop = { type: 'agent', description: 'x', prompt, required_secrets: [], loop: { tools: ['ask_human'] } };
    await platform.createAgent({ body: { name: 'asker', ...loop } });
    await use('run_agent', { agent: 'asker' });
    const waiting = await vi.waitFor(async () => {
      const { approvals } = (await use('list_approvals', { status: 'waiting' })).answer;
      expect(approvals).toMatchObject([{ agent_name: 'asker', question: 'Which colour?' }]);
      return approvals[0] as { id: string };
    }, 20_000);
    const decide = (args: object) => use('decide_approval', { approval_id: waiting.id, ...args });
    expect(await decide({ decision: 'approve' })).toMatchObject({ isError: true, answer: { code: 'INVALID_INPUT' } });
    expect((await decide({ decision: 'answer', answer: 'blue' })).answer).toMatchObject({ status: 'answered' });
    expect((await use('list_approvals', { status: 'waiting' })).answer.approvals).toEqual([]);
  });

  test('publishes a folder', async () => {
    const folder = join(ROOT, 'examples/reply-style');
    expect((await use('publish', { folder })).answer).toMatchObject({ agent: 'main/reply-style@v1', unchanged: false });
    expect((await use('publish', { folder })).answer).toMatchObject({ agent: 'main/reply-style@v1', unchanged: true });
  });

  test('answers errors as the platform does, and goes on', async () => {
    expect(await use('run_agent', { agent: 'absent' })).toMatchObject({ isError: true, answer: { code: 'NOT_FOUND' } });
    expect(await use('publish', { folder: 'absent' })).toMatchObject({ isError: true, answer: { code: 'USAGE' } });
    const elsewhere = await use('list_agents', { workspace_id: 'not-mine' });
    expect(elsewhere).toMatchObject({ isError: true, answer: { message: expect.stringContaining('not-mine') } });
    expect((await use('list_agents')).isError).toBe(false);
  });
});

describe('mcp --http', () => {
  let target: LocalTarget;
  let started: ReturnType<typeof startCommandLine>;
  let server: { readonly url: string; readonly token: string };
  beforeAll(async () => {
    target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
    await publishCode(clientOf(target), 'hello', { 'main.js': GREET }, { runtime: { command: 'node main.js' } });
    const env = { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: target.key };
    started = startCommandLine(['mcp', '--http', '--port', '0'], { env });
    await vi.waitUntil(() => started.written.stdout.includes('\n'), { timeout: 20_000 });
    server = JSON.parse(started.written.stdout);
  });
  afterAll(async () => {
    started?.interrupt();
    expect(await started?.ended).toBe(0);
    await target?.close();
  });

  /** Returns the answer to a request with headers that `fetch` would not send. */
  const send = (headers: Record<string, string>, path = '/mcp') =>
    new Promise<number>((resolve, reject) => {
      const { port } = new URL(server.url);
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
      const common = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
      request({ host: '127.0.0.1', port, path, method: 'POST', headers: { ...common, ...headers } }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode!));
      })
        .on('error', reject)
        .end(body);
    });

  test('serves a client that has the token, for several sessions', async () => {
    for (const name of ['Ada', 'Bob']) {
      const client = new Client({ name: 'test', version: '1' });
      const headers = { authorization: `Bearer ${server.token}` };
      await client.connect(new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers } }));
      expect((await client.listTools()).tools).toHaveLength(19);
      const { content } = await client.callTool({
        name: 'platform_run_agent',
        arguments: { agent: 'hello', input: { name } },
      });
      expect(JSON.parse((content as { text: string }[])[0]!.text).data).toEqual({ greeting: `Hello ${name}` });
      await client.close();
    }
  });

  test('refuses whoever has no token, other names of this machine, and pages from elsewhere', async () => {
    const { host } = new URL(server.url);
    const authorization = `Bearer ${server.token}`;
    expect(await send({ authorization })).toBe(200);
    expect(await send({ authorization, origin: `http://${host}` })).toBe(200);
    expect(await send({})).toBe(401);
    expect(await send({ authorization: `Bearer ${server.token.slice(1)}` })).toBe(401);
    expect(await send({ authorization: server.token })).toBe(401);
    expect(await send({ authorization, host: 'attacker.example.com' })).toBe(403);
    expect(await send({ authorization, origin: 'https://attacker.example.com' })).toBe(403);
    expect(await send({ authorization, origin: 'null' })).toBe(403);
    expect(await send({ authorization }, '/')).toBe(404);
    const client = new Client({ name: 'test', version: '1' });
    await expect(client.connect(new StreamableHTTPClientTransport(new URL(server.url)))).rejects.toThrow(
      'Send the token',
    );
  });

  test('keeps the token that it is given, and refuses a short one or a port that is taken', async () => {
    const { port } = new URL(server.url);
    const http = (env: Record<string, string>, ...more: string[]) => commandLine(['mcp', '--http', ...more], { env });
    expect(await http({ PLATFORM_MCP_TOKEN: 'short' }, '--port', '0')).toMatchObject({ status: 5, stdout: '' });
    expect(await http({}, '--port', port)).toMatchObject({ status: 5, stderr: expect.stringContaining('EADDRINUSE') });
    expect(await http({}, '--port', 'any')).toMatchObject({ status: 5, stdout: '' });
    const token = 'made-up-'.repeat(4);
    const kept = startCommandLine(['mcp', '--http', '--port', '0'], { env: { PLATFORM_MCP_TOKEN: token } });
    await expect.poll(() => kept.written.stdout).toContain(token);
    kept.interrupt();
    expect(await kept.ended).toBe(0);
  });
});

describe('agent-setup', () => {
  const setup = (cwd: string, line = 'agent-setup') => commandLine(line.split(' '), { cwd });
  const read = (cwd: string, path: string) => readFileSync(join(cwd, path), 'utf8');

  test('adds the server and the lines to what is there, and changes nothing a second time', async () => {
    const cwd = tempFolder();
    const other = { command: 'other' };
    writeFileSync(join(cwd, '.mcp.json'), JSON.stringify({ mcpServers: { other }, more: 1 }));
    writeFileSync(join(cwd, 'AGENTS.md'), '# Mine\r\nKeep $& this.');
    const { json } = await setup(cwd, 'agent-setup --client claude,vscode --profile staging');
    expect(json.files).toEqual([
      { path: '.mcp.json', change: 'updated' },
      { path: '.vscode/mcp.json', change: 'written' },
      { path: 'AGENTS.md', change: 'updated' },
    ]);
    const platform = { type: 'stdio', command: 'npx', args: ['--no', 'platform', '--profile', 'staging', 'mcp'] };
    expect(JSON.parse(read(cwd, '.mcp.json'))).toEqual({ mcpServers: { other, platform }, more: 1 });
    expect(JSON.parse(read(cwd, '.vscode/mcp.json'))).toEqual({ servers: { platform } });
    const guide = read(cwd, 'AGENTS.md');
    expect(guide.startsWith('# Mine\r\nKeep $& this.\r\n\r\n<!-- platform')).toBe(true);
    expect(guide.replaceAll('\r\n', '')).not.toContain('\n');

    const again = await setup(cwd, 'agent-setup --client claude,vscode --profile staging');
    expect(again.json.files.map(({ change }: { change: string }) => change)).toEqual(Array(3).fill('unchanged'));
    expect(read(cwd, 'AGENTS.md')).toBe(guide);
  });

  test('replaces its own lines, and only these', async () => {
    const cwd = tempFolder();
    await setup(cwd);
    const text = read(cwd, 'AGENTS.md');
    writeFileSync(join(cwd, 'AGENTS.md'), `before\n${text.replace('## Agents', '## Old')}after\n`);
    expect((await setup(cwd)).json.files[1]).toEqual({ path: 'AGENTS.md', change: 'updated' });
    expect(read(cwd, 'AGENTS.md')).toBe(`before\n${text}after\n`);
  });

  test('changes nothing where a file is not as it expects', async () => {
    const cwd = tempFolder();
    mkdirSync(join(cwd, '.vscode'));
    writeFileSync(join(cwd, '.vscode/mcp.json'), '// mine\n{}');
    const refused = await setup(cwd, 'agent-setup --client claude,vscode');
    expect(refused).toMatchObject({ status: 5, stderr: expect.stringContaining('.vscode/mcp.json') });
    expect(() => read(cwd, '.mcp.json')).toThrow('ENOENT');
    expect(await setup(cwd, 'agent-setup --client emacs')).toMatchObject({ status: 5 });
  });
});
