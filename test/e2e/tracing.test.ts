import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type LocalTarget, request, startLocalTarget } from '#test/helpers/platform.ts';
import { type ScriptedMcp, startScriptedMcp } from '#test/helpers/scripted-mcp.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectOk } from './expect.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
/** Spans are sent every five seconds. */
const WAIT = { timeout: 60_000, interval: 200 };
const SECRETS = { ANTHROPIC_API_KEY: 'sk-ant-tracing-made-up-0123456789', SHOP_TOKEN: 'made-up-shop-token-9f8e7d' };

interface Collector {
  readonly url: string;
  /** Bodies of all requests. */
  readonly texts: string[];
  /** Whether it takes requests and never answers. */
  hangs: boolean;
  asked: number;
  close(): void;
}

let target: LocalTarget;
let mcp: ScriptedMcp;
let user: TestUser;
const collectors: Collector[] = [];

beforeAll(async () => {
  target = await startLocalTarget();
  mcp = await startScriptedMcp({ tools: [{ name: 'search', inputSchema: { type: 'object' } }] });
  user = await target.addUser('tracer');
  for (const [name, value] of Object.entries(SECRETS)) {
    const json = { name, value };
    expectOk(await request(target, 'PUT', `/workspaces/${user.workspaceId}/secrets`, { key: user.key, json }));
  }
});
afterAll(async () => {
  await target?.close();
  mcp?.close();
  for (const collector of collectors) collector.close();
});

async function startCollector(hangs = false): Promise<Collector> {
  const server = createServer(async (incoming, response) => {
    collector.asked++;
    const text = Buffer.concat(await incoming.toArray()).toString();
    if (collector.hangs) return;
    collector.texts.push(text);
    response.end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const collector: Collector = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    texts: [],
    hangs,
    asked: 0,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
  collectors.push(collector);
  return collector;
}

// biome-ignore lint/suspicious/noExplicitAny: the tests look into every part of a span.
const spansIn = ({ texts }: Collector): any[] =>
  texts.flatMap((text) => JSON.parse(text).resourceSpans[0].scopeSpans[0].spans);

const exportTo = async ({ url }: Collector, content = false): Promise<void> => {
  const json = { endpoint: url, headers: { 'x-key': 'made-up-collector-key' }, content };
  expectOk(await request(target, 'PUT', `/workspaces/${user.workspaceId}/telemetry`, { key: user.key, json }));
};

async function publish(name: string, turns: readonly object[], more: object = {}): Promise<void> {
  const prompt = `${name} [[llm ${JSON.stringify(turns)}]]`;
  const loop = { tools: ['bash'], max_turns: 5, ...more };
  const json = { name, type: 'agent', description: name, prompt, required_secrets: Object.keys(SECRETS), loop };
  expectOk(await request(target, 'POST', '/agents', { key: user.key, json }), 201);
}

const run = (agent: string, headers: Record<string, string> = {}, json: object = {}) =>
  request(target, 'POST', `/tracer/${agent}/v1/run`, { key: user.key, headers, json });

test('the trace of a caller arrives at the model, at an MCP server and in the sandbox', async ({ skip }) => {
  skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox');
  const server = { name: 'docs', url: mcp.url, tools: ['search'] };
  const calls = [
    { name: 'bash', input: { command: 'echo "seen $TRACEPARENT $TRACESTATE"' } },
    { name: 'mcp__docs__search', input: { q: 'x' } },
  ];
  await publish('traced', [{ toolCalls: calls }, { echo: true }], { mcp_servers: [server] });
  const collector = await startCollector();
  await exportTo(collector);
  const answer = await run('traced', { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'shop=1' });
  const { data } = expectOk(answer);
  const own = `00-${TRACE}-${answer.headers.get('x-run-id')!.replaceAll('-', '').slice(16)}-01`;
  expect(data.result).toContain(`seen ${own} shop=1`);
  const toModel = target.llm.requests
    .filter(({ text }) => text.includes('traced ['))
    .map(({ headers }) => headers.traceparent as string);
  expect(toModel).toHaveLength(2);
  expect(new Set(toModel).size).toBe(2);
  for (const sent of toModel) expect(sent).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
  for (const { headers } of mcp.requests) expect(headers).toMatchObject({ traceparent: own, tracestate: 'shop=1' });
  const called = mcp.requests.filter(({ rpc }) => rpc === 'tools/call');
  expect(called.map(({ body }) => body.params._meta)).toMatchObject([{ traceparent: own, tracestate: 'shop=1' }]);

  // What was sent are the spans that the collector gets.
  await vi.waitFor(() => expect(spansIn(collector)).not.toEqual([]), WAIT);
  const chats = spansIn(collector).filter(({ name }) => name.startsWith('chat '));
  expect(chats.map(({ spanId }) => `00-${TRACE}-${spanId}-01`)).toEqual(toModel);
  const tools = spansIn(collector).filter(({ name }) => name.startsWith('execute_tool '));
  const attribute = (span: (typeof tools)[number], name: string) =>
    span.attributes.find(({ key }: { key: string }) => key === name)?.value;
  expect(tools.map((span) => attribute(span, 'gen_ai.tool.call.id')?.stringValue)).toEqual([
    expect.stringMatching(/./),
    expect.stringMatching(/./),
  ]);
  expect(attribute(chats[0], 'gen_ai.response.finish_reasons')).toEqual({
    arrayValue: { values: [{ stringValue: 'tool_call' }] },
  });
});

test('a run that nobody traces sends and keeps nothing of it', async () => {
  await request(target, 'DELETE', `/workspaces/${user.workspaceId}/telemetry`, { key: user.key });
  await publish('untraced', [{ toolCalls: [{ name: 'nothing', input: {} }] }, { echo: true }]);
  const answer = await run('untraced');
  expectOk(answer);
  const asked = target.llm.requests.filter(({ text }) => text.includes('untraced ['));
  expect(asked.map(({ headers }) => headers.traceparent)).toEqual([undefined, undefined]);
  const path = `/workspaces/${user.workspaceId}/traces/${answer.headers.get('x-run-id')}/events`;
  const trace = JSON.stringify(expectOk(await request(target, 'GET', path, { key: user.key })));
  expect(trace).toContain('tool_call_started');
  expect(trace).not.toMatch(/finish_reason|call_id/);
});

test('no secret is in what is sent, wherever a run has its value', async ({ skip }) => {
  skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox');
  const token = SECRETS.SHOP_TOKEN;
  const json = { trace_content: 'all' };
  expectOk(await request(target, 'PATCH', '/org', { key: user.key, json }));
  const collector = await startCollector();
  await exportTo(collector, true);
  const calls = [
    // As an argument, as a result, encoded, and as an error.
    { name: 'bash', input: { command: `echo ${token}` } },
    { name: 'bash', input: { command: 'echo "$SHOP_TOKEN" | base64; echo "$SHOP_TOKEN" >&2; exit 3' } },
    { name: `tool_${token}`, input: { [token]: token } },
  ];
  const turns = [{ text: `I use ${token}.`, toolCalls: calls }, { text: token }];
  await publish('leaky', turns);
  await run('leaky', {}, { question: `Is ${token} right?` });
  await publish('refused', [{ status: 400, message: `The key ${SECRETS.ANTHROPIC_API_KEY} and ${token} are wrong.` }]);
  await run('refused', { tracestate: `shop=${token}` });
  await vi.waitFor(
    () => expect(spansIn(collector).filter(({ name }) => /^invoke_agent/.test(name))).toHaveLength(2),
    WAIT,
  );
  const sent = collector.texts.join('\n');
  // The contents are there, masked.
  expect(sent).toContain('gen_ai.tool.call.arguments');
  expect(sent).toContain('gen_ai.input.messages');
  expect(sent).toContain('execute_tool tool_[secret SHOP_TOKEN]');
  for (const value of [...Object.values(SECRETS), 'made-up-collector-key']) {
    expect(sent).not.toContain(value);
    expect(sent).not.toContain(encodeURIComponent(value));
    expect(sent).not.toContain(Buffer.from(value).toString('base64').replace(/=+$/, ''));
  }
});

test('runs end while the collector hangs, and nothing of them is lost', async () => {
  const collector = await startCollector(true);
  await exportTo(collector);
  await publish('patient', [{ echo: true }]);
  expectOk(await run('patient'));
  // It hangs with the spans of the first run in its hands.
  await vi.waitFor(() => expect(collector.asked).toBeGreaterThan(0), WAIT);
  for (let more = 0; more < 3; more++) expectOk(await run('patient'));
  expect(collector.texts).toEqual([]);
  collector.hangs = false;
  const ids = (): Set<string> => new Set(spansIn(collector).map(({ spanId }) => spanId));
  const runs = () => spansIn(collector).filter(({ name }) => name === 'invoke_agent tracer/patient');
  await vi.waitFor(() => expect(new Set(runs().map(({ spanId }) => spanId)).size).toBe(4), WAIT);
  expect(ids().size).toBeGreaterThanOrEqual(8);
});
