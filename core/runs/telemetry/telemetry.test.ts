import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { findWorkspace, newWorkspaceOperations } from '#core/accounts/workspaces/store.ts';
import type { Deps } from '#core/ports/deps.ts';
import { signingVaultOf } from '#core/ports/vault.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { emptyResult, endedWith, type NewRun, type RunResult } from '../run.ts';
import { RunStore } from '../store.ts';
import { backlogPartition } from './backlog.ts';
import { encodeSpan, tracesBody } from './otlp.ts';
import { sendTelemetry } from './send.ts';
import { parentSpanId, spanOfRun, storedTrace } from './span-ids.ts';
import { spansOf } from './spans.ts';
import { findSettings, HEADERS_SECRET, putSettings, removeSettings, tracesUrl } from './store.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';
const OTHER = '22222222-2222-4222-8222-222222222222';
const SECRET = 'made-up-key-of-a-collector';

interface Collected {
  readonly path: string;
  readonly headers: Record<string, string | string[] | undefined>;
  // biome-ignore lint/suspicious/noExplicitAny: the tests look into every part of it.
  readonly body: any;
}

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

/** A collector whose `answer` can be changed while it runs. */
async function startCollector(answer: RequestListener = (_, response) => response.end('{}')) {
  const received: Collected[] = [];
  const collector = { received, answer, url: '' };
  const server = createServer(async (request, response) => {
    const text = Buffer.concat(await request.toArray()).toString();
    received.push({ path: request.url!, headers: request.headers, body: JSON.parse(text) });
    collector.answer(request, response);
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return collector;
}

// biome-ignore lint/suspicious/noExplicitAny: as above.
const spansIn = (received: readonly Collected[]): any[] =>
  received.flatMap(({ body }) => body.resourceSpans[0].scopeSpans[0].spans);
const idsIn = (received: readonly Collected[]): string[] => spansIn(received).map(({ spanId }) => spanId);
const status =
  (code: number, headers: Record<string, string> = {}): RequestListener =>
  (_, response) => {
    response.writeHead(code, headers).end('no');
  };

async function setUp(
  endpoint: string,
  { workspaceId = WORKSPACE, deps = memoryDeps({ outboundHosts: ['127.0.0.1'] }) } = {},
) {
  const createdAt = new Date(deps.clock.now()).toISOString();
  const workspace = { id: workspaceId, slug: workspaceId.slice(0, 4), name: 'Acme', type: 'team', createdAt } as const;
  await deps.main.transact(newWorkspaceOperations(crypto.randomUUID(), workspace));
  await putSettings(deps, workspaceId, { endpoint, headers: { 'x-key': SECRET }, content: false });
  const store = new RunStore(deps, workspaceId);
  const end = async (changes: Partial<NewRun> = {}, result: Partial<RunResult> = {}): Promise<string> => {
    const run: NewRun = {
      id: crypto.randomUUID(),
      agentId: crypto.randomUUID(),
      agentWorkspaceId: workspaceId,
      agentOrg: 'acme',
      agentName: 'probe',
      agentVersion: 'v1',
      engine: 'direct_llm',
      endpoint: 'run',
      triggerSource: 'api',
      startedAt: deps.clock.now(),
      deadline: deps.clock.now() + 60_000,
      isExported: true,
      input: { question: 'why?' },
      ...changes,
    };
    await store.start(run);
    await store.finish(run, { ...emptyResult(endedWith(undefined), run.input), ...result });
    await deps.endedRuns!.settle();
    return run.id;
  };
  const backlog = async () => (await deps.runs.query({ pk: backlogPartition(workspaceId) })).items;
  return { deps, store, end, backlog };
}

const later = (deps: Deps & { clock: { advance(ms: number): Promise<void> } }) => deps.clock.advance(61_000);

describe('the export of a workspace', () => {
  test('sends the span of an ended run once, with the headers', async () => {
    const collector = await startCollector();
    const { deps, end, backlog } = await setUp(collector.url);
    const id = await end();
    await sendTelemetry(deps);
    await sendTelemetry(deps);
    expect(collector.received).toHaveLength(1);
    const [{ path, headers, body }] = collector.received as [Collected];
    expect(path).toBe('/v1/traces');
    expect(headers).toMatchObject({ 'x-key': SECRET, 'content-type': 'application/json' });
    expect(spansIn(collector.received)).toMatchObject([
      { traceId: id.replaceAll('-', ''), spanId: id.replaceAll('-', '').slice(16), name: 'invoke_agent acme/probe' },
    ]);
    expect(JSON.stringify(body)).not.toContain('why?');
    expect(await backlog()).toEqual([]);
  });

  test('is off until it is set, and again when it is removed', async () => {
    const collector = await startCollector();
    const { deps, end, backlog } = await setUp(collector.url);
    expect((await findWorkspace(deps, WORKSPACE))?.telemetry).toBe(true);
    await end({ isExported: undefined } as Partial<NewRun>);
    expect(await backlog()).toEqual([]);
    expect(await removeSettings(deps, WORKSPACE)).toBe(true);
    expect(await removeSettings(deps, WORKSPACE)).toBe(false);
    expect((await findWorkspace(deps, WORKSPACE))?.telemetry).toBeUndefined();
    expect(await deps.vault.read(signingVaultOf(WORKSPACE), [HEADERS_SECRET])).toEqual({});
    await end();
    await sendTelemetry(deps);
    expect(collector.received).toEqual([]);
  });

  test.each([
    ['fails', status(503)],
    ['asks to wait', status(429, { 'retry-after': '30' })],
    ['refuses the key', status(401)],
    ['redirects', status(307, { location: 'http://127.0.0.1:1/v1/traces' })],
    ['closes the connection', ((request) => request.socket.destroy()) satisfies RequestListener],
  ])('loses nothing while the collector %s', async (_, answer) => {
    const collector = await startCollector(answer);
    const { deps, end } = await setUp(collector.url);
    const ids: string[] = [];
    for (let minute = 0; minute < 3; minute++) {
      ids.push(await end());
      await sendTelemetry(deps);
      await later(deps);
    }
    const { health } = (await findSettings(deps, WORKSPACE))!;
    expect(health?.problem).toMatch(/^The collector (answered \d+|could not be reached)/);
    expect(health?.problem).not.toContain(SECRET);
    collector.answer = (_request, response) => response.end();
    collector.received.length = 0;
    await sendTelemetry(deps);
    expect(idsIn(collector.received)).toEqual(ids.map((id) => id.replaceAll('-', '').slice(16)));
    expect((await findSettings(deps, WORKSPACE))!.health).toBeUndefined();
  });

  test('waits longer after each failure, at most a minute', async () => {
    const collector = await startCollector(status(503));
    const { deps, end } = await setUp(collector.url);
    await end();
    for (let second = 0; second < 300; second += 5) {
      await sendTelemetry(deps);
      await deps.clock.advance(5_000);
    }
    expect(collector.received.length).toBeGreaterThan(6);
    expect(collector.received.length).toBeLessThan(12);
  });

  test('gives up spans that the collector refuses, and what it refuses in part', async () => {
    const collector = await startCollector(status(400));
    const { deps, end, backlog } = await setUp(collector.url);
    await end();
    await sendTelemetry(deps);
    expect(await backlog()).toEqual([]);
    expect((await findSettings(deps, WORKSPACE))!.health?.problem).toBe('The collector answered 400.');
    collector.answer = (_, response) => response.end('{"partialSuccess":{"rejectedSpans":"2"}}');
    await end();
    await sendTelemetry(deps);
    expect(collector.received).toHaveLength(2);
    expect(await backlog()).toEqual([]);
  });

  test('does not keep others waiting for one that hangs', async () => {
    const hanging = await startCollector(() => {});
    const quick = await startCollector();
    const first = await setUp(hanging.url);
    const second = await setUp(quick.url, { workspaceId: OTHER, deps: first.deps });
    await first.end();
    await second.end();
    const round = sendTelemetry(first.deps);
    await vi.waitFor(() => expect(quick.received).toHaveLength(1));
    // Another round neither waits for it nor asks it again.
    await second.end();
    await sendTelemetry(first.deps);
    expect(quick.received).toHaveLength(2);
    expect(hanging.received).toHaveLength(1);
    for (const server of servers) server.closeAllConnections();
    await round;
    expect(await first.backlog()).toHaveLength(1);
  });

  test('goes to no private address', async () => {
    const collector = await startCollector();
    const deps = memoryDeps();
    const { end, backlog } = await setUp(collector.url, { deps });
    await end();
    await sendTelemetry(deps);
    expect(collector.received).toEqual([]);
    expect(await backlog()).toHaveLength(1);
  });

  test('sends again with the same ids if the process dies before it notes the end', async () => {
    const collector = await startCollector();
    const { deps, end } = await setUp(collector.url);
    await end();
    const runs = new Proxy(deps.runs, {
      get(table, name) {
        if (name === 'delete') return () => Promise.reject(new Error('the process dies here'));
        const member = Reflect.get(table, name);
        return typeof member === 'function' ? member.bind(table) : member;
      },
    });
    await sendTelemetry({ ...deps, runs });
    await sendTelemetry(deps);
    await sendTelemetry(deps);
    const [first, again, ...more] = idsIn(collector.received);
    expect(again).toBe(first);
    expect(more).toEqual([]);
  });

  test('sends headers to no other endpoint than that for which they were given', async () => {
    const collector = await startCollector();
    const { deps, end } = await setUp('http://127.0.0.1:1');
    await end();
    // A process that dies between the two writes of new settings leaves this.
    await deps.main.update({ pk: `WS#${WORKSPACE}#TELEMETRY`, sk: 'META' }, { set: { endpoint: collector.url } });
    await sendTelemetry(deps);
    expect(collector.received).toEqual([]);
  });

  test('splits many runs over requests of limited size', async () => {
    const collector = await startCollector();
    const { deps, store, end } = await setUp(collector.url);
    await putSettings(deps, WORKSPACE, { endpoint: collector.url, headers: {}, content: true });
    const output = 'x'.repeat(30_000);
    for (let run = 0; run < 40; run++) await end({}, { output });
    await sendTelemetry(deps);
    expect(store).toBeDefined();
    expect(new Set(idsIn(collector.received)).size).toBe(40);
    for (const { body } of collector.received) expect(JSON.stringify(body).length).toBeLessThan(1.2 * 1024 * 1024);
    expect(collector.received[0]!.headers['x-key']).toBeUndefined();
  });
});

describe('spans', () => {
  const RUN = {
    id: 'aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee',
    workspaceId: WORKSPACE,
    ...{ agentOrg: 'acme', agentName: 'triage', agentVersion: 'v3', endpoint: 'run', engine: 'managed_loop' },
    ...{ status: 'failed', errorCode: 'LLM_ERROR', errorMessage: 'The model failed.', triggerSource: 'webhook' },
    ...{ startedAt: '2035-06-01T12:00:00.000Z', durationMs: 9_000, costUsd: 0.0125, sessionId: 'session-1' },
    ...{ parentRunId: null, rootRunId: 'aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee', tenantId: 'tenant-1' },
    ...{ scheduleId: null, replayOf: null },
  } as unknown as Parameters<typeof spansOf>[0]['run'];
  const at = (second: number): number => Date.parse('2035-06-01T12:00:00.000Z') + second * 1000;
  const trace = [
    { event_type: 'queue_succeeded', at: at(1), span: 1, duration_ms: 1000 },
    { event_type: 'llm_call_started', at: at(1), span: 2, provider: 'gemini', model: 'gemini-3-flash' },
    {
      ...{ event_type: 'llm_call_succeeded', at: at(3), span: 2, provider: 'gemini', model: 'gemini-3-flash' },
      ...{ token_input: 100, token_output: 20, cache_read_tokens: 50, cache_write_tokens: 5, cost_usd: 0.01 },
      payload: { finish_reason: 'tool_calls' },
    },
    { event_type: 'tool_call_started', at: at(3), span: 3, payload: { tool_name: 'bash', turn: 1, call_id: 'c-1' } },
    { event_type: 'sandbox_succeeded', at: at(5), span: 4, parent: 3, duration_ms: 1500 },
    { event_type: 'tool_call_failed', at: at(5), span: 3, payload: { tool_name: 'bash', turn: 1 }, duration_ms: 2000 },
    { event_type: 'fallback_transition', at: at(6), payload: { from_provider: 'gemini', to_provider: 'anthropic' } },
    {
      event_type: 'llm_call_started',
      at: at(6),
      span: 5,
      provider: 'anthropic',
      model: 'm',
      payload: { via: 'bedrock' },
    },
    {
      ...{ event_type: 'llm_call_failed', at: at(8), span: 5, provider: 'anthropic', model: 'm' },
      ...{ error_type: 'LLM_ERROR', error_message: 'The provider answered 500.' },
    },
    { event_type: 'llm_call_started', at: at(8), span: 6, provider: 'openai-compatible:groq', model: 'm2' },
  ] as const;
  const body = { trace, input: { question: 'why?' }, output: null } as unknown as Parameters<typeof spansOf>[0]['body'];
  const contents = {
    1: {
      messages: [
        { role: 'system', text: 'Be brief.', bytes: 9 },
        { role: 'user', text: 'why?', bytes: 4 },
      ],
    },
    2: { messages: [{ role: 'tool_call', tool_name: 'bash', text: '{"command":"ls"}', bytes: 16 }] },
    3: { arguments: { text: '{"command":"ls"}', bytes: 16 } },
    5: { result: { text: 'no such file', bytes: 12 } },
  } as const;

  test.each([
    ['without contents', undefined],
    ['with contents', contents],
  ])('of a loop %s are those of the golden file', async (name, given) => {
    const spans = spansOf({ run: RUN, body, contents: given as never }).map(encodeSpan);
    await expect(`${JSON.stringify(spans, undefined, 2)}\n`).toMatchFileSnapshot(
      `golden/${name.replace(' ', '-')}.json`,
    );
    const json = tracesBody(
      { 'service.name': 'x' },
      spans.map((span) => JSON.stringify(span)),
    );
    expect(JSON.parse(json).resourceSpans[0].scopeSpans[0].spans).toEqual(spans);
    if (given === undefined) expect(json).not.toMatch(/why\?|Be brief|command/);
  });

  test('take the place that the caller names, and of sub-calls that of the calling run', () => {
    const context = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', sampled: false };
    const run = { id: RUN.id, trace: storedTrace(context) };
    expect(spanOfRun(run)).toEqual({ traceId: context.traceId, spanId: '8dddeeeeeeeeeeee', sampled: false });
    expect(parentSpanId(run)).toBe(context.spanId);
    const called = { id: WORKSPACE, parentRunId: OTHER, rootRunId: RUN.id };
    expect(spanOfRun(called)).toEqual({
      traceId: RUN.id.replaceAll('-', ''),
      spanId: '8111111111111111',
      sampled: true,
    });
    expect(parentSpanId(called)).toBe('8222222222222222');
    expect(parentSpanId({ id: RUN.id })).toBeUndefined();
  });
});

test.each([
  ['https://otel.example.com', 'https://otel.example.com/v1/traces'],
  ['https://otel.example.com/v1/traces', 'https://otel.example.com/v1/traces'],
  ['https://otel.example.com/api/public/otel/', 'https://otel.example.com/api/public/otel/v1/traces'],
  ['https://otel.example.com/otlp?team=1', 'https://otel.example.com/otlp/v1/traces?team=1'],
])('the endpoint %s has its traces at %s', (endpoint, url) => {
  expect(tracesUrl(endpoint)).toBe(url);
});
