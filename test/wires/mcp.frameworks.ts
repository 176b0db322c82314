import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type LocalTarget, request, startLocalTarget } from '#test/helpers/platform.ts';
import { installPackages } from '../../scripts/install-packages.ts';
import { fixtureProxy, publish, publishFixtures } from './mcp-fixtures.ts';

/*
 * The endpoint `/mcp` of a real platform, as the programs of others see it: the conformance suite and the inspector of MCP, its
 * SDKs for TypeScript and Python of this and the former line, and MCPorter, a client from the registry.
 */

const FOLDER = join(import.meta.dirname, 'mcp-clients');
const BIN = join(FOLDER, 'node_modules/.bin');
const LIMIT = 240_000;
const run = promisify(execFile);

let target: LocalTarget;
let workspaceId: string;
/** An empty home folder for programs that store what they know of servers. */
let home: string;

beforeAll(async () => {
  installPackages(FOLDER);
  home = mkdtempSync(join(tmpdir(), 'mcp-clients-'));
  target = await startLocalTarget();
  const { body } = await request(target, 'GET', '/workspaces', { key: target.key });
  workspaceId = body.workspaces.find(({ slug }: { readonly slug: string }) => slug === 'acme').id;
  const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-mcp-clients-0123456789' };
  await request(target, 'PUT', `/workspaces/${workspaceId}/secrets`, { key: target.key, json: secret });
  await publishClientAgents();
}, LIMIT);

afterAll(async () => {
  target?.llm.release('never: client');
  await target?.close();
  rmSync(home, { recursive: true, force: true });
});

async function publishClientAgents(): Promise<void> {
  const scripted = (turns: readonly object[]) => `Do it. [[llm ${JSON.stringify(turns)}]]`;
  const submit = { toolCalls: [{ name: 'submit_result', input: { result: 'It is blue.' } }] };
  const works = { toolCalls: [{ name: 'work', input: {} }] };
  const loop = (turns: readonly object[], more: object) => ({ type: 'agent', prompt: scripted(turns), ...more });
  const name = { type: 'string', description: 'Who is greeted' };
  const schema = (properties: object) => ({ type: 'object', properties, required: Object.keys(properties) });
  await publish(target, 'greeter', {
    type: 'prompt',
    prompt:
      'Greet {{name}}. [[llm {"toolCalls": [], "forcedInput": {"greeting": "Hello"}, "text": "{\\"greeting\\": \\"Hello\\"}"}]]',
    input_schema: schema({ name }),
    output_schema: schema({ greeting: { type: 'string' } }),
  });
  await publish(target, 'failing', { type: 'prompt', prompt: scripted([{ status: 400, message: 'no such thing' }]) });
  const tools = [{ name: 'work', description: 'Works', command: 'true', input_schema: { type: 'object' } }];
  await publish(target, 'worker', loop([works, works, submit], { custom_tools: tools }));
  const question = { name: 'ask_human', input: { question: 'Which color?', options: ['red', 'blue'] } };
  await publish(target, 'asker', loop([{ toolCalls: [question] }, submit], { loop: { tools: ['ask_human'] } }));
  await publish(target, 'slow', { type: 'prompt', prompt: scripted([{ text: 'late', waitFor: 'never: client' }]) });
}

/** Runs a program of the folder. Resolves with what it printed, also if it failed. */
async function play(command: string, args: readonly string[], env: Record<string, string> = {}) {
  const options = { env: { ...process.env, HOME: home, ...env }, cwd: home, timeout: LIMIT, maxBuffer: 32 * 1024 ** 2 };
  const done = await run(command, args, options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }) => ({ code: code as number, stdout: stdout as string, stderr: stderr as string }),
  );
  return done;
}
const node = (program: string, args: readonly string[], env?: Record<string, string>) =>
  play(process.execPath, [join(BIN, program), ...args], env);

/** Waits until the newest run of an agent is cancelled. */
const expectCancelled = (agent: string) =>
  expect
    .poll(async () => {
      const path = `/workspaces/${workspaceId}/runs?agent_name=${agent}&limit=1`;
      return (await request(target, 'GET', path, { key: target.key })).body.runs[0]?.status;
    })
    .toBe('cancelled');

/** Why checks failed, a line each. */
function failuresIn(results: string): string {
  const scenarios = readdirSync(results, { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('checks.json'),
  );
  const checks = scenarios.flatMap((path) => JSON.parse(readFileSync(join(results, path), 'utf8')));
  return checks
    .filter(({ status }) => status === 'FAILURE' || status === 'WARNING')
    .map(({ id, status, errorMessage }) => `${status} ${id}: ${errorMessage}`)
    .join('\n');
}

describe('the conformance suite of MCP', () => {
  test.each(['2026-07-28', '2025-11-25'])('%s', { timeout: LIMIT }, async (revision) => {
    await publishFixturesOnce();
    const { url, server } = await fixtureProxy(target, '/mcp');
    try {
      const expected = join(FOLDER, `expected-failures-${revision}.yaml`);
      const results = join(home, `conformance-${revision}`);
      const args = ['--url', url, '--requirements', revision, '--expected-failures', expected, '-o', results];
      const { code, stdout } = await node('conformance', ['server', ...args]);
      expect(code, `${stdout.split('=== SUMMARY ===')[1]}\n${failuresIn(results)}`).toBe(0);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});

let published: Promise<void> | undefined;
const publishFixturesOnce = (): Promise<void> => (published ??= publishFixtures(target));

describe('the inspector', () => {
  const inspect = async (era: string, method: string, args: readonly string[] = []) => {
    const { code, stdout, stderr } = await node('mcp-inspector', [
      ...['--cli', '--server-url', `${target.url}/mcp`, '--transport', 'http', '--protocol-era', era],
      ...['--header', `Authorization: Bearer ${target.key}`, '--format', 'json', '--quiet', '--method', method],
      ...args,
    ]);
    const printed = stdout === '' ? {} : JSON.parse(stdout);
    return { code, stderr, output: printed.result ?? printed };
  };

  test.each(['modern', 'legacy'])('%s', { timeout: LIMIT }, async (era) => {
    const listed = await inspect(era, 'tools/list', ['--strict']);
    expect(listed.code, listed.stderr).toBe(0);
    expect(listed.stderr).toContain('0 errors');
    expect(listed.output.tools.map(({ name }: { readonly name: string }) => name)).toContain('acme__greeter');
    const call = (name: string, args: object) =>
      inspect(era, 'tools/call', ['--tool-name', name, '--tool-args-json', JSON.stringify(args)]);
    const called = await call('acme__greeter', { name: 'Ada' });
    expect(called.output).toMatchObject({ structuredContent: { greeting: 'Hello' } });
    const failed = await call('acme__failing', {});
    expect(failed.code).not.toBe(0);
  });

  test('finds skills as the extension wants them', { timeout: LIMIT }, async () => {
    await publishFixturesOnce();
    const { code, stderr, output } = await inspect('modern', 'skills/list', ['--verify', '--require-digests']);
    expect(code, stderr).toBe(0);
    expect(JSON.stringify(output)).toContain('skill://acme/v1/static/SKILL.md');
  });
});

// biome-ignore lint/suspicious/noExplicitAny: the client of either SDK.
type AnyClient = any;

/** Plays the same with the client of either SDK. */
async function playClient(
  client: AnyClient,
  call: (name: string, args?: object, options?: object) => Promise<AnyClient>,
) {
  const { tools } = await client.listTools();
  expect(tools.map(({ name }: { readonly name: string }) => name)).toContain('acme__greeter');
  expect(await call('acme__greeter', { name: 'Ada' })).toMatchObject({ structuredContent: { greeting: 'Hello' } });
  expect(await call('acme__failing')).toMatchObject({ isError: true });
  await expect(call('acme__nobody')).rejects.toMatchObject({ code: -32602 });
  const progress: number[] = [];
  await call(
    'acme__worker',
    {},
    { onprogress: (event: { readonly progress: number }) => progress.push(event.progress) },
  );
  expect(progress.length).toBeGreaterThan(1);
  expect(progress).toEqual([...progress].sort((a, b) => a - b));
  const stop = new AbortController();
  const slow = call('acme__slow', {}, { signal: stop.signal });
  slow.catch(() => {});
  await expect.poll(() => target.llm.requests.some(({ text }) => text.includes('never: client'))).toBe(true);
  stop.abort();
  await expect(slow).rejects.toThrow();
  await client.close();
}

describe('the SDK for TypeScript', () => {
  const requestInit = () => ({ headers: { Authorization: `Bearer ${target.key}` } });

  test('2, of this revision', { timeout: LIMIT }, async () => {
    const client = new Client(
      { name: 'test', version: '1' },
      { capabilities: { elicitation: {} }, versionNegotiation: { mode: 'auto' } },
    );
    client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { answer: 'blue' } }));
    await client.connect(
      new StreamableHTTPClientTransport(new URL(`${target.url}/mcp`), { requestInit: requestInit() }),
    );
    expect(client.getNegotiatedProtocolVersion()).toBe('2026-07-28');
    expect(await client.callTool({ name: 'acme__asker', arguments: {} })).toMatchObject({
      content: [{ text: expect.stringContaining('It is blue.') }],
    });
    await playClient(client, (name, args = {}, options = {}) =>
      client.callTool({ name, arguments: args as never }, options),
    );
    await expectCancelled('slow');
  });

  test('1, of the former revision', { timeout: LIMIT }, async () => {
    const load = (file: string) =>
      import(pathToFileURL(join(FOLDER, 'node_modules/@modelcontextprotocol/sdk/dist/esm/client', file)).href);
    const [sdk, http] = await Promise.all([load('index.js'), load('streamableHttp.js')]);
    const client = new sdk.Client({ name: 'test', version: '1' });
    await client.connect(
      new http.StreamableHTTPClientTransport(new URL(`${target.url}/mcp`), { requestInit: requestInit() }),
    );
    await playClient(client, (name, args = {}, options = {}) =>
      client.callTool({ name, arguments: args }, undefined, options),
    );
  });
});

/** Returns the interpreter of an environment with this version of PyPI's `mcp`. */
async function pythonWith(version: string): Promise<string> {
  const folder = join(FOLDER, `node_modules/.mcp-${version}`);
  const python = join(folder, 'bin/python');
  const installed = join(folder, '.installed');
  if (existsSync(installed)) return python;
  await run('python3', ['-m', 'venv', folder]);
  await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', `mcp==${version}`]);
  writeFileSync(installed, version);
  return python;
}

describe('the SDK for Python', () => {
  test.each([
    { version: '2.3.0', program: 'client_2.py', args: ['auto'], revision: '2026-07-28' },
    { version: '2.3.0', program: 'client_2.py', args: ['legacy'], revision: '2025-11-25' },
    { version: '1.30.0', program: 'client_1.py', args: [], revision: '2025-11-25' },
  ])('$version $args', { timeout: LIMIT }, async ({ version, program, args, revision }) => {
    const python = await pythonWith(version);
    const { code, stdout, stderr } = await play(python, [join(FOLDER, program), `${target.url}/mcp`, ...args], {
      MCP_KEY: target.key,
    });
    expect(code, stderr).toBe(0);
    const found = JSON.parse(stdout);
    expect(found).toMatchObject({
      version: revision,
      tools: expect.arrayContaining(['acme__greeter']),
      greeting: [expect.any(String), { greeting: 'Hello' }],
      failed: [true, expect.any(String)],
      cancelled: true,
      ...(revision === '2026-07-28' && { asked: expect.stringContaining('It is blue.') }),
    });
    expect(found.progress.length).toBeGreaterThan(1);
    if (revision === '2026-07-28') await expectCancelled('slow');
  });
});

test('MCPorter, a client from the registry', { timeout: LIMIT }, async () => {
  const server = ['--http-url', `${target.url}/mcp`, '--allow-http', '--name', 'acme', '--no-oauth'];
  const header = ['--header', `Authorization=Bearer ${target.key}`];
  const listed = await node('mcporter', ['list', ...server, ...header, '--json']);
  expect(listed.code, listed.stderr).toBe(0);
  expect(listed.stdout).toContain('acme__greeter');
  const call = ['call', 'acme.acme__greeter', ...server, ...header, '--output', 'json', 'name=Ada'];
  const called = await node('mcporter', call);
  expect(called.code, called.stdout + called.stderr).toBe(0);
  expect(called.stdout).toContain('Hello');
});
