import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { claimClientRun } from '#core/wires/ag-ui/client-runs.ts';
import { type LocalTarget, request, startLocalTarget } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { installPackages } from '../../scripts/install-packages.ts';
import { resumingFetch } from './resuming-fetch.ts';

/*
 * The official client of AG-UI against a real platform: it checks each event against the schemas of the protocol, and the
 * order of events, and fails on what does not fit.
 */

/** The part of `HttpAgent` that is used here: its packages are installed by this test. */
interface HttpAgent {
  // biome-ignore lint/suspicious/noExplicitAny: messages of every role.
  readonly messages: any[];
  // biome-ignore lint/suspicious/noExplicitAny: interrupts as the client has them.
  readonly pendingInterrupts: any[];
  addMessage(message: object): void;
  abortRun(): void;
  // biome-ignore lint/suspicious/noExplicitAny: events of every type.
  runAgent(parameters?: object, subscriber?: any): Promise<{ readonly result: any; readonly newMessages: any[] }>;
}

const limit = 120_000;
let target: LocalTarget;
let workspaceId: string;
let client: { readonly HttpAgent: new (config: object) => HttpAgent };

const calls = (...toolCalls: NonNullable<ScriptedTurn['toolCalls']>): ScriptedTurn => ({ toolCalls });
const submit = calls({ name: 'submit_result', input: { result: 'It is done.' } });
const REFUND = {
  name: 'refund',
  description: 'Refunds an amount',
  command: 'echo refunded {{amount}}',
  input_schema: { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] },
  approval: 'always',
};

async function publish(name: string, prompt: string, turns: readonly ScriptedTurn[], manifest: object = {}) {
  const json = { name, type: 'prompt', description: 'x', required_secrets: [], ...manifest };
  const scripted = `${prompt} [[llm ${JSON.stringify(turns)}]]`;
  const answer = await request(target, 'POST', '/agents', { key: target.key, json: { ...json, prompt: scripted } });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
}

const agentFor = (name: string, threadId: string, more: object = {}): HttpAgent =>
  new client.HttpAgent({
    url: `${target.url}/acme/${name}/ag-ui`,
    headers: { Authorization: `Bearer ${target.key}` },
    threadId,
    ...more,
  });
const say = (agent: HttpAgent, content: string) => agent.addMessage({ id: crypto.randomUUID(), role: 'user', content });
/** Runs an agent, and returns the types of its events, each only once in a row. */
async function typesOf(agent: HttpAgent, parameters: object = {}) {
  const types: string[] = [];
  // biome-ignore lint/suspicious/noExplicitAny: events of every type.
  const events: any[] = [];
  const done = await agent.runAgent(parameters, {
    // biome-ignore lint/suspicious/noExplicitAny: events of every type.
    onEvent({ event }: any) {
      events.push(event);
      if (types.at(-1) !== event.type) types.push(event.type);
    },
  });
  return { types, events, ...done };
}

beforeAll(async () => {
  const folder = join(import.meta.dirname, 'ag-ui-client');
  installPackages(folder);
  const path = `${folder}/node_modules/@ag-ui/client/dist/index.mjs`;
  client = await import(pathToFileURL(path).href);
  target = await startLocalTarget();
  const { body } = await request(target, 'GET', '/workspaces', { key: target.key });
  workspaceId = body.workspaces.find(({ slug }: { readonly slug: string }) => slug === 'acme').id;
  const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-ag-ui-client-0123456789' };
  await request(target, 'PUT', `/workspaces/${workspaceId}/secrets`, { key: target.key, json: secret });
}, limit);

afterAll(() => target?.close());

test('two threads, each with messages that follow each other', { timeout: limit }, async () => {
  await publish('chat', 'Be kind. {{message}}', [{ text: 'Hello there.' }]);
  const [one, two] = [agentFor('chat', 'one'), agentFor('chat', 'two')];
  for (const agent of [one, two, one]) {
    say(agent, 'Hi');
    const { types, newMessages } = await typesOf(agent);
    expect(types).toEqual([
      'RUN_STARTED',
      'TEXT_MESSAGE_START',
      'TEXT_MESSAGE_CONTENT',
      'TEXT_MESSAGE_END',
      'RUN_FINISHED',
    ]);
    expect(newMessages).toMatchObject([{ role: 'assistant', content: 'Hello there.' }]);
  }
  expect(one.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  expect(two.messages).toHaveLength(2);
});

test('an interrupt, and the run that goes on with its answer', { timeout: limit }, async () => {
  const question = { name: 'ask_human', input: { question: 'Which colour?', options: ['red', 'blue'] } };
  const turns = [
    { text: 'I refund and ask.', ...calls({ name: 'refund', input: { amount: 5 } }, question) },
    { text: 'They said: [[last]]', ...submit },
  ];
  await publish('teller', 'Refund.', turns, {
    type: 'agent',
    custom_tools: [REFUND],
    loop: { tools: ['ask_human'] },
  });
  const agent = agentFor('teller', 'till');
  say(agent, 'Refund 5');
  const asked = await typesOf(agent);
  expect(asked.types.at(-1)).toBe('RUN_FINISHED');
  expect(agent.pendingInterrupts).toMatchObject([
    { reason: 'approval', responseSchema: { type: 'object' } },
    { reason: 'question', message: 'Which colour?', responseSchema: { enum: ['red', 'blue'] } },
  ]);
  const [approval, asking] = agent.pendingInterrupts;
  const { types, events } = await typesOf(agent, {
    resume: [
      { interruptId: approval.id, status: 'resolved', payload: { approved: true } },
      { interruptId: asking.id, status: 'resolved', payload: 'blue' },
    ],
  });
  expect(types.slice(0, 2)).toEqual(['RUN_STARTED', 'TOOL_CALL_RESULT']);
  const results = events.filter(({ type }) => type === 'TOOL_CALL_RESULT').map(({ toolCallId }) => toolCallId);
  expect(results.sort()).toEqual([approval.id, asking.id].sort());
  expect(agent.pendingInterrupts).toEqual([]);
  expect(agent.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'It is done.' });
  expect(agent.messages.filter(({ role }) => role === 'tool')).toHaveLength(2);
});

test('a question that is closed without an answer', { timeout: limit }, async () => {
  const question = { name: 'ask_human', input: { question: 'Which colour?' } };
  await publish('asker', 'Ask.', [calls(question), submit], { type: 'agent', loop: { tools: ['ask_human'] } });
  const agent = agentFor('asker', 'closed');
  say(agent, 'Ask me');
  await agent.runAgent();
  const [{ id }] = agent.pendingInterrupts;
  const { types } = await typesOf(agent, { resume: [{ interruptId: id, status: 'cancelled' }] });
  expect(types.at(-1)).toBe('RUN_FINISHED');
  const run = target.llm.requests.findLast(({ text }) => text.includes('Nobody answered in time.'));
  expect(run).toBeDefined();
});

test('a stale answer is an error of the run', { timeout: limit }, async () => {
  const agent = agentFor('chat', 'stale');
  say(agent, 'Hi');
  await agent.runAgent();
  const errors: string[] = [];
  const resume = [{ interruptId: 'made-up', status: 'resolved', payload: true }];
  await agent
    .runAgent({ resume }, { onRunErrorEvent: ({ event }: { event: { code: string } }) => void errors.push(event.code) })
    .catch(() => {});
  expect(errors).toEqual(['NOT_FOUND']);
});

test('a run that is cancelled, whose reader stays', { timeout: limit }, async () => {
  await publish('slow', 'Wait. {{message}}', [{ text: 'late', waitFor: 'never: client' }]);
  const agent = agentFor('slow', 'cancelled');
  say(agent, 'Hi');
  const outcomes: string[] = [];
  await agent.runAgent(
    {},
    {
      // biome-ignore lint/suspicious/noExplicitAny: an event with our metadata.
      async onRunStartedEvent({ event }: any) {
        const path = `/workspaces/${workspaceId}/runs/${event.metadata.platform.run_id}`;
        await request(target, 'DELETE', path, { key: target.key });
      },
      // biome-ignore lint/suspicious/noExplicitAny: the outcome.
      onRunFinishedEvent: ({ outcome }: any) => void outcomes.push(outcome),
    },
  );
  expect(outcomes).toEqual(['cancelled']);
  target.llm.release('never: client');
});

/** Forwards requests, and cuts each answer: the first after `bytes`, each later one after as many more. */
async function cuttingProxy(bytes: number): Promise<{ readonly url: string; readonly server: Server; cuts(): number }> {
  let cuts = 0;
  const server = createServer((incoming, outgoing) => {
    const { method, headers } = incoming;
    const upstream = httpRequest(target.url + incoming.url!, { method: method!, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers);
      outgoing.flushHeaders();
      let left = bytes * (cuts + 1);
      answer.on('data', (chunk: Buffer) => {
        outgoing.write(chunk.subarray(0, left));
        left -= chunk.length;
        if (left > 0) return;
        cuts++;
        upstream.destroy();
        outgoing.destroy();
      });
      answer.on('end', () => outgoing.end());
      answer.on('error', () => outgoing.destroy());
    });
    upstream.on('error', () => outgoing.destroy());
    incoming.pipe(upstream);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server, cuts: () => cuts };
}

test('a stream that breaks again and again is one answer, of one run', { timeout: limit }, async () => {
  const words = Array.from({ length: 60 }, (_, index) => `word-${index}`).join(' ');
  await publish('teller-of-tales', 'Tell. {{message}}', [{ text: words, chunkDelayMs: 40 }]);
  const { url, server, cuts } = await cuttingProxy(450);
  try {
    const agent = agentFor('teller-of-tales', 'broken', {
      url: `${url}/acme/teller-of-tales/ag-ui`,
      fetch: resumingFetch(),
    });
    say(agent, 'Hi');
    const { newMessages, types } = await typesOf(agent);
    expect(cuts()).toBeGreaterThan(1);
    expect(newMessages).toMatchObject([{ role: 'assistant', content: words }]);
    expect(types.filter((type) => type === 'RUN_STARTED')).toHaveLength(1);
    const runs = await request(target, 'GET', `/workspaces/${workspaceId}/runs?agent_name=teller-of-tales`, {
      key: target.key,
    });
    expect(runs.body.runs).toHaveLength(1);
  } finally {
    server.close();
  }
});

test('a client without that fetch sends its run again, and reads all of it', { timeout: limit }, async () => {
  await publish('once', 'Tell. {{message}}', [{ text: 'Only once.' }]);
  const agent = agentFor('once', 'again');
  const message = { id: 'm1', role: 'user', content: 'Hi' };
  agent.addMessage(message);
  await agent.runAgent({ runId: 'client-run' });
  const again = agentFor('once', 'again');
  again.addMessage(message);
  await again.runAgent({ runId: 'client-run' });
  expect(again.messages).toEqual(agent.messages);
  const runs = await request(target, 'GET', `/workspaces/${workspaceId}/runs?agent_name=once`, { key: target.key });
  expect(runs.body.runs).toHaveLength(1);
});

test('a run whose process died before it was recorded is begun by the next request', { timeout: limit }, async () => {
  const first = agentFor('once', 'crashed');
  say(first, 'Hi');
  const { events } = await typesOf(first);
  const { session_id: sessionId } = events[0].metadata.platform;
  const lost = { runId: crypto.randomUUID(), after: 0, answered: [], asked: 'message m2', text: 'answer' as const };
  const before = { now: () => Date.now() - 61_000 } as LocalTarget['deps']['clock'];
  const place = { workspaceId, sessionId, clientRunId: 'lost-run' };
  expect(await claimClientRun({ runs: target.deps.runs, clock: before }, place, lost)).toBe(true);
  const agent = agentFor('once', 'crashed');
  agent.addMessage({ id: 'm2', role: 'user', content: 'Hi' });
  const { newMessages, events: seen } = await typesOf(agent, { runId: 'lost-run' });
  expect(newMessages).toMatchObject([{ content: 'Only once.' }]);
  expect(seen[0].metadata.platform.run_id).not.toBe(lost.runId);
});
