// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the form of manifests.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { PlatformError } from '#core/base/errors.ts';
import type { McpServer } from '#core/manifest/definition.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { Sandbox, SandboxSession } from '#core/ports/sandbox.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { specOf } from '#test/conformance/sandbox.ts';
import { loopRun } from '#test/helpers/loop-run.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { EngineRun } from '../engine.ts';
import { runLoop } from '../managed-loop.ts';
import { prepareStdioServers, StdioServer } from './stdio-servers.ts';

const SERVER = readFileSync(new URL('../../../../test/fixtures/mcp/stdio-server.js', import.meta.url));
const ENV = { KEY: 'very-secret-key', OTHER: 'other-secret' };

const folder = mkdtempSync(join(tmpdir(), 'stdio-servers-'));
const blobs = new FolderBlobs(join(folder, 'blobs'));
const sandbox = await createLocalSandbox({ cacheFolder: join(folder, 'cache'), blobs, kind: 'auto', prestart: 2 });
const { problem } = await sandbox.status();

const open = new Set<SandboxSession>();
const counted: Sandbox = {
  status: () => sandbox.status(),
  close: () => sandbox.close(),
  async open(spec) {
    const session = await sandbox.open(spec);
    open.add(session);
    const close = session.close.bind(session);
    session.close = () => close().then(() => void open.delete(session));
    return session;
  },
};

let llm: ScriptedLlm;
beforeAll(async () => {
  llm = await startScriptedLlm();
});
afterEach(async () => {
  llm.reset();
  await expect.poll(() => open.size).toBe(0);
});
afterAll(async () => {
  await Promise.all([llm.close(), sandbox.close()]);
  rmSync(folder, { recursive: true, force: true });
});

const entry = (kind: string, change: Partial<McpServer> = {}): McpServer => ({
  name: 'own',
  command: 'node',
  args: ['server.js', kind],
  env: {},
  read_only: false,
  optional: false,
  ...change,
});

interface Change extends Partial<EngineRun> {
  readonly tools?: string[];
  readonly sandbox?: Sandbox;
}

function start(servers: readonly McpServer[], { tools, sandbox = counted, ...change }: Change = {}) {
  const clock = new SystemClock();
  const deps = {
    ...memoryDeps({ anthropicUrl: `${llm.url}/anthropic/v1`, sandboxEgress: 'none' }),
    sandbox,
    clock,
  };
  const { run } = loopRun({
    clock,
    maxTurns: 8,
    change: {
      models: [{ provider: 'anthropic', model: 'claude-haiku-4-5', apiKey: 'key-of-anthropic' }],
      env: ENV,
      mask: new SecretMask(ENV),
      files: [{ path: '/home/user/server.js', content: SERVER }],
      deadline: Date.now() + 30_000,
      ...change,
    },
  });
  const { definition } = run.agent;
  const agent = { definition: { ...definition, loop: { max_turns: 8, tools, mcp_servers: servers } } };
  return { result: runLoop(deps, { ...run, agent: agent as unknown as AgentVersion }), run };
}

const call = (name: string, input: Record<string, unknown> = {}) => ({ name: `mcp__own__${name}`, input });
const SUBMIT: ScriptedTurn = { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] };
// biome-ignore lint/suspicious/noExplicitAny: the provider's own form.
const asked = (index = -1): any => llm.requests.at(index)!.body;
const offered = (): string[] =>
  asked()
    .tools.map(({ name }: { name: string }) => name)
    .filter((name: string) => name.startsWith('mcp__'));
const results = (index = -1): string[] =>
  asked(index)
    .messages.at(-1)
    .content.filter(({ type }: { type: string }) => type === 'tool_result')
    // biome-ignore lint/suspicious/noExplicitAny: the provider's own form.
    .map(({ content }: any) => (typeof content === 'string' ? content : content[0].text));

/** Plays one turn with these calls, and returns their results. */
async function played(
  kind: string,
  calls: ReturnType<typeof call>[],
  change: Partial<McpServer> = {},
  more: Change = {},
) {
  llm.queue({ toolCalls: calls }, SUBMIT);
  const { data, error, stderr } = await start([entry(kind, change)], more).result;
  expect({ data, error }).toEqual({ data: { result: 'done' }, error: undefined });
  return { results: results(), stderr };
}

describe.skipIf(problem !== undefined)('a stdio server', () => {
  test('has all its tools offered and called, with its own variables, in the home folder of the sandbox', async () => {
    const { results, stderr } = await played(
      'good',
      [
        call('echo', { a: 'é\n"1483920175"' }),
        call('env', { name: 'API_KEY' }),
        call('env', { name: 'MODE' }),
        call('files'),
      ],
      { env: { API_KEY: '${KEY}', MODE: 'fast', GONE: '${ABSENT}' } },
    );
    expect(results).toEqual([
      '{"a":"é\\n\\"1483920175\\""}',
      'API_KEY=[secret KEY] in /home/user',
      'MODE=fast in /home/user',
      'server.js',
    ]);
    expect(offered()).toContain('mcp__own__twice');
    expect(stderr).toMatch(/^mcp own: 11 tools\nturn 1: mcp__own__\w+ ok, \d+ ms\n/);
  });

  test('keeps its state between calls, and answers calls of one turn at the same time', async () => {
    const started = Date.now();
    const { results } = await played(
      'good',
      Array.from({ length: 8 }, (_, n) => call('wait', { ms: 1000 + n })),
    );
    expect(results).toEqual(Array.from({ length: 8 }, (_, n) => `waited ${1000 + n}`));
    expect(Date.now() - started).toBeLessThan(7000);
  });

  test.each(['old', 'modern', 'greets'])('of the kind "%s" works as well', async (kind) => {
    expect((await played(kind, [call('echo', { n: 1 })])).results).toEqual(['{"n":1}']);
  });

  test('has only the tools that the manifest or the loop names', async () => {
    await played('good', [call('echo')], { tools: ['echo', 'wait'] });
    expect(offered()).toEqual(['mcp__own__echo', 'mcp__own__wait']);
    await played('good', [call('echo')], {}, { tools: ['mcp__own__echo'] });
    expect(offered()).toEqual(['mcp__own__echo']);
  });

  test('shares the sandbox with the other tools', async () => {
    llm.queue(
      { toolCalls: [{ name: 'write_file', input: { path: 'note.txt', content: 'x' } }] },
      { toolCalls: [call('files')] },
      SUBMIT,
    );
    await start([entry('good')]).result;
    expect(results()).toEqual(['note.txt server.js']);
  });

  test('with many tools has a note in the log, and with far too many cannot be used', async () => {
    const { stderr } = await played('hundred', [call('tool_1')]);
    expect(stderr).toContain(
      'mcp own: 60 tools. Models choose badly among more than 40: name those that the agent needs',
    );
    const { error } = await start([entry('many')]).result;
    expect(error?.message).toBe(
      'The MCP server "own" cannot be used: it has 10,000 tools, more than 128: name those that the agent needs in its "tools".',
    );
  });

  test('with names that are invalid or taken loses those tools', async () => {
    const { stderr } = await played('names', [call('good')]);
    expect(offered()).toEqual(['mcp__own__good', 'mcp__own__a_b']);
    expect(stderr).toContain('mcp own: 2 tools. 4 left out, whose names are invalid or taken\n');
  });

  test('that asks for a model is told that there is none', async () => {
    expect((await played('good', [call('ask')])).results).toEqual(['the client said: Method not found']);
  });

  test('that answers twice, floods, or answers too much does no harm', async () => {
    llm.queue(
      { toolCalls: [call('twice')] },
      { toolCalls: [call('echo', { n: 1 })] },
      { toolCalls: [call('big', { bytes: 5_000_000 })] },
      { toolCalls: [call('big', { bytes: 7_000_000 })] },
      { toolCalls: [call('flood')] },
      { toolCalls: [call('echo', { n: 2 })] },
      SUBMIT,
    );
    await start([entry('good')]).result;
    expect(results(1)).toEqual(['first']);
    expect(results(2)).toEqual(['{"n":1}']);
    expect(results(3)[0]).toMatch(/^y+\n\[\.\.\./);
    expect(results(4)[0]).toContain('it answered more than 6,291,456 bytes. The call was not repeated.');
    expect(results(5)[0]).toContain('it sent more than 10,000 messages in an answer');
    expect(results(6)[0]).toContain('it sent more than 10,000 messages in an answer');
  });

  test.each([
    ['crash', 'its process was ended by signal 11. The end of its stderr: fatal: it crashed in the midst of a call'],
    ['exit', 'its process has ended with the exit code 0, and printed nothing to stderr'],
    ['endless', 'it printed a line of more than 8 MB, and was stopped, and printed nothing to stderr'],
  ])('that ends in a call (%s) is an error for the model, also in later calls', async (name, text) => {
    llm.queue({ toolCalls: [call(name), call('wait', { ms: 20_000 })] }, { toolCalls: [call('echo')] }, SUBMIT);
    await start([entry('good')]).result;
    const message = `[ERROR] The MCP server "own" failed: ${text}. The call was not repeated.`;
    expect(results(1)).toEqual([message, message]);
    expect(results(2)).toEqual([message]);
  });

  test.each([
    [
      'exits',
      /^its process has ended with the exit code 7\. The end of its stderr: line 1 \| cannot open the database \| the key is \[secret KEY\]$/,
    ],
    ['endless', /^it printed a line of more than 8 MB, and was stopped/],
    ['closes', /^its process has (closed its stdout|ended with the exit code)/],
    ['text-ids', /^its answer ended without the result/],
  ])('that cannot be opened (%s) ends the run with the reason', async (kind, message) => {
    const { error } = await start([entry(kind, { env: { API_KEY: '${KEY}' } })]).result;
    expect(error).toMatchObject({ code: 'SANDBOX_ERROR', extra: { category: 'setup_error' } });
    expect(/cannot be used: (.*)\.$/.exec(error!.message)![1]).toMatch(message);
    expect(llm.requests).toEqual([]);
  });

  test('that does not exist ends the run; one that is optional is left out', async () => {
    const gone = entry('good', { command: 'mcp-server-gone' });
    const { error } = await start([gone]).result;
    expect(error?.message).toContain(
      'its process has ended with the exit code 127. The end of its stderr: cannot start mcp-server-gone: No such file or directory',
    );
    llm.queue(SUBMIT);
    const { data, stderr } = await start([{ ...gone, name: 'gone', optional: true }, entry('good')]).result;
    expect(data).toEqual({ result: 'done' });
    expect(stderr).toMatch(/^mcp gone: skipped\. .*\nmcp own: 11 tools\n/);
  });

  test.each(['silent', 'wrong-ids'])('that never answers (%s) ends with the run', async (kind) => {
    const { error } = await start([entry(kind)], { deadline: Date.now() + 1500 }).result;
    expect(error?.code).toBe('TIMEOUT');
  });

  test('that ignores a cancellation ends with the run', async () => {
    const cancel = new AbortController();
    llm.queue({ toolCalls: [call('wait', { ms: 60_000 })] });
    const { result } = start([entry('good')], { signal: cancel.signal });
    await expect.poll(() => llm.requests.length).toBe(1);
    setTimeout(() => cancel.abort(new PlatformError('RUN_CANCELLED', 'stop')), 500);
    expect((await result).error?.code).toBe('RUN_CANCELLED');
  });

  test('is told of a call that is given up, and answers the next ones', async () => {
    const session = await counted.open(specOf());
    await session.writeFile('/home/user/server.js', SERVER);
    await prepareStdioServers(session);
    const run = new AbortController();
    const options = { session, secrets: {}, mask: new SecretMask({}), seconds: 60, signal: run.signal };
    const process = new StdioServer({ ...options, server: entry('good') });
    await process.start();
    const opened = await memoryDeps().toolServers.open(process, run.signal);
    const asks = (name: string, input: Record<string, number>, signal = run.signal) =>
      opened.call(opened.tools.find((tool) => tool.name === name)!, input, signal);
    const [giveUp, other] = [new AbortController(), asks('wait', { ms: 1500 })];
    const given = asks('wait', { ms: 1000 }, giveUp.signal);
    setTimeout(() => giveUp.abort(new Error('enough')), 300);
    await expect(given).rejects.toThrow('enough');
    expect((await asks('echo', { n: 1 })).parts).toEqual([{ type: 'text', text: '{"n":1}' }]);
    // The answer to the canceled call comes late, and no other call gets it.
    expect((await other).parts).toEqual([{ type: 'text', text: 'waited 1500' }]);
    expect(await process.ending()).toBeUndefined();
    await opened.close();
    await session.close();
  });

  test('gets the trace of the run in its environment and with each call', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const env = { ...ENV, TRACEPARENT: traceparent };
    const calls = [call('env', { name: 'TRACEPARENT' }), call('meta')];
    await played('traced', calls, {}, { env, traceHeaders: () => ({ traceparent }) });
    expect(results()).toEqual([
      expect.stringContaining(`TRACEPARENT=${traceparent} in`),
      JSON.stringify({ traceparent }),
    ]);
  });

  test('that a command of the model kills is named as such', async () => {
    llm.queue(
      { toolCalls: [{ name: 'bash', input: { command: 'pkill -9 -f bridge.pl; sleep 0.2' } }] },
      { toolCalls: [call('echo')] },
      SUBMIT,
    );
    await start([entry('good')]).result;
    expect(results()[0]).toContain('its process was ended by another program');
  });
});

test('without isolation, a server works and ends with the run, too', async () => {
  const sandbox = await createLocalSandbox({ cacheFolder: join(folder, 'none'), blobs, kind: 'unsandboxed' });
  const words = () => spawnSync('ps', ['-eo', 'args'], { encoding: 'utf8' }).stdout;
  llm.queue({ toolCalls: [call('files')] }, { toolCalls: [call('echo', { n: 1 })] }, SUBMIT);
  const mark = `unsandboxed-${process.pid}`;
  const { result } = start([entry('good', { args: ['server.js', 'good', mark] })], { sandbox });
  await expect.poll(words, { timeout: 10_000 }).toContain(mark);
  expect((await result).data).toEqual({ result: 'done' });
  expect(results()).toEqual(['{"n":1}']);
  await expect.poll(words, { timeout: 10_000 }).not.toContain(mark);
  await sandbox.close();
});
