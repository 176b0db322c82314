import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { callsInUse } from '#core/accounts/limits/admission.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { addMember, addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { tenantOf } from './link.ts';

const BASE = 'https://platform.example';
const GONE = 'This chat does not exist or has expired.';
const NO_SESSION = 'This conversation does not exist or has expired.';
const DAY = 24 * 3_600_000;
const TOKEN = /^[a-z][\w-]{43}$/;

let llm: ScriptedLlm;
beforeAll(async () => {
  llm = await startScriptedLlm();
});
beforeEach(() => llm.reset());
afterAll(() => llm.close());

interface Asked {
  readonly key?: string;
  readonly json?: unknown;
  readonly visitor?: string;
  readonly address?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Chat links over the API, with real engines and a scripted model. */
async function world(
  turns: readonly object[] = [{ text: 'Bonjour.' }],
  settings: Parameters<typeof memoryDeps>[0] = {},
) {
  const deps = memoryDeps({
    baseUrl: BASE,
    dashboardUrl: `${BASE}/dashboard`,
    anthropicUrl: `${llm.url}/anthropic/v1`,
    ...settings,
  });
  const app = createWebApp(deps, routes, allHandlers(deps));
  const owner = await addUser(deps, 'acme');
  const raw = (method: string, path: string, { key, json, visitor, address, headers }: Asked = {}) =>
    app(
      new Request(`${BASE}${path}`, {
        method,
        headers: {
          'content-type': 'application/json',
          ...(key && { authorization: `Bearer ${key}` }),
          ...(visitor && { 'x-platform-visitor': visitor }),
          ...headers,
        },
        ...(json !== undefined && { body: JSON.stringify(json) }),
      }),
      address,
    );
  const send = async (method: string, path: string, asked: Asked = {}) => {
    const answer = await raw(method, path, asked);
    const text = await answer.text();
    const isJson = answer.headers.get('content-type')?.includes('json') ?? false;
    const { status, headers } = answer;
    // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
    return { status, headers, text, body: (isJson ? JSON.parse(text) : undefined) as any };
  };
  const own = async (method: string, path: string, json?: unknown) => {
    const answer = await send(method, path, { key: owner.key, json });
    expect(answer.status, answer.text).toBeLessThan(300);
    return answer.body;
  };
  const links = `/workspaces/${owner.workspaceId}/chat-links`;
  await own('PUT', `/workspaces/${owner.workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' });
  const agent = await own('POST', '/agents', {
    name: 'translator',
    type: 'prompt',
    description: 'Translates.',
    prompt: `Translate {{message}}. [[llm ${JSON.stringify(turns)}]]`,
    supported_providers: ['anthropic'],
    input_schema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
  });
  const link = async (json: object = {}) => {
    const made = await own('POST', links, { agent: 'acme/translator', kind: 'form', ...json });
    return { ...made, token: made.url.split('/').at(-1) as string };
  };
  const visit = async (token: string, visitor?: string) => {
    const opened = await send('POST', `/public/chats/${token}/sessions`, { visitor });
    expect(opened.status, opened.text).toBe(201);
    const session = `/public/chats/${token}/sessions/${opened.body.session_id}`;
    const secret = opened.body.visitor as string;
    return {
      session,
      visitor: secret,
      say: (text: string, kind: 'form' | 'chat' = 'form') =>
        send('POST', `${session}/messages`, {
          visitor: secret,
          json: kind === 'form' ? { input: { message: text } } : { text },
        }),
      messages: async () => (await send('GET', `${session}/messages`, { visitor: secret })).body.messages,
      stop: () => send('POST', `${session}/stop`, { visitor: secret }),
    };
  };
  const runs = async () => {
    const { runs: listed } = await own('GET', `/workspaces/${owner.workspaceId}/runs?limit=100`);
    const store = new RunStore(deps, owner.workspaceId);
    return Promise.all(listed.map(async ({ id }: { id: string }) => (await store.find(id))!)) as Promise<Run[]>;
  };
  return { deps, owner, agent, send, raw, own, link, links, visit, runs };
}

/** The events of a stream. */
const eventsOf = (text: string): { readonly event: string; readonly data: Record<string, unknown> }[] =>
  text
    .split('\n\n')
    .filter((each) => each !== '')
    .map((each) => {
      const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(each)!;
      return { event: event!, data: JSON.parse(data!) };
    });
const endOf = (text: string) => eventsOf(text).at(-1)!;

describe('a link', () => {
  test('is made, listed, changed and revoked by owners, and shown once', async () => {
    const { links, own, link, send, deps, owner } = await world();
    const { token, url, ...made } = await link({ title: 'Ask us', suggestions: ['Hello?'], daily_budget_usd: 2.5 });
    expect(url).toBe(`${BASE}/dashboard/chat/${token}`);
    expect(token).toMatch(TOKEN);
    expect(made).toMatchObject({
      agent: 'acme/translator',
      version: null,
      kind: 'form',
      title: 'Ask us',
      welcome: null,
      suggestions: ['Hello?'],
      max_messages_per_day: 200,
      max_messages_per_visitor: 50,
      daily_budget_usd: 2.5,
      messages_today: 0,
      cost_today_usd: 0,
      created_by: owner.userId,
    });
    expect(await own('GET', links)).toEqual({ chat_links: [made] });
    expect(await own('GET', `${links}?agent=acme/other`)).toEqual({ chat_links: [] });

    const changed = await own('PATCH', `${links}/${made.id}`, { title: null, max_messages_per_day: 3, version: 'v1' });
    expect(changed).toEqual({ ...made, title: null, max_messages_per_day: 3, version: 'v1' });
    expect((await send('GET', `/public/chats/${token}`)).body).toMatchObject({ title: 'translator' });

    const member = await addUser(deps, 'member');
    await addMember(deps, member, owner.workspaceId);
    const stranger = await addUser(deps, 'stranger');
    for (const { key } of [member, stranger]) {
      const body = { agent: 'acme/translator' };
      expect((await send('POST', links, { key, json: body })).body.error.code).toBe('FORBIDDEN');
      expect((await send('PATCH', `${links}/${made.id}`, { key, json: {} })).body.error.code).toBe('FORBIDDEN');
      expect((await send('DELETE', `${links}/${made.id}`, { key })).body.error.code).toBe('FORBIDDEN');
    }
    expect((await send('GET', links, { key: member.key })).body.chat_links).toHaveLength(1);
    expect((await send('GET', links, { key: stranger.key })).status).toBe(403);

    expect(await own('DELETE', `${links}/${made.id}`)).toEqual({ deleted: true, id: made.id });
    expect((await send('GET', `/public/chats/${token}`)).body.error.message).toBe(GONE);
    expect((await send('DELETE', `${links}/${made.id}`, { key: owner.key })).status).toBe(404);
    expect((await send('PATCH', `${links}/${made.id}`, { key: owner.key, json: {} })).status).toBe(404);
    const { entries } = await own('GET', `/workspaces/${owner.workspaceId}/audit`);
    const operations = entries.map((entry: { operation: string }) => entry.operation);
    expect(operations).toEqual(expect.arrayContaining(['createChatLink', 'updateChatLink', 'revokeChatLink']));
    expect(JSON.stringify(entries)).not.toContain(token);
  });

  test('leads to no agent of another workspace that is private, to no skill, and to no version that is not there', async () => {
    const { links, send, deps, owner } = await world();
    const other = await addUser(deps, 'other');
    const publish = (json: object) => send('POST', '/agents', { key: other.key, json });
    const agent = { type: 'prompt', description: 'x', prompt: 'x' };
    await publish({ ...agent, name: 'hidden' });
    await publish({ ...agent, name: 'open', is_public: true });
    const make = async (json: object) => {
      const { body, status } = await send('POST', links, { key: owner.key, json });
      return status === 201 ? 'made' : body.error.code;
    };
    expect(await make({ agent: 'other/hidden' })).toBe('NOT_FOUND');
    expect(await make({ agent: 'other/open' })).toBe('made');
    expect(await make({ agent: 'acme/none' })).toBe('NOT_FOUND');
    expect(await make({ agent: 'acme/translator', version: 'v7' })).toBe('NOT_FOUND');
    expect(await make({ agent: 'acme/translator', daily_budget_usd: 0.001 })).toBe('INVALID_INPUT');
    expect(await make({ agent: 'acme/translator', expires_in_days: 366 })).toBe('INVALID_INPUT');
  });

  test('shows nobody what it is when it is unknown, expired, revoked, or its agent is gone', async () => {
    const { link, send, deps, own, links, agent } = await world();
    const told = async (token: string) => {
      const { status, body, headers } = await send('GET', `/public/chats/${token}`);
      return [status, body.error?.message, headers.get('cache-control'), headers.get('x-robots-tag')];
    };
    const gone = [404, GONE, 'no-store', 'noindex'];
    const expiring = await link({ expires_in_days: 1 });
    const revoked = await link();
    await own('DELETE', `${links}/${revoked.id}`);
    expect(await told(expiring.token)).toEqual([200, undefined, 'no-store', 'noindex']);
    expect(await told(revoked.token)).toEqual(gone);
    expect(await told('a'.repeat(44))).toEqual(gone);
    expect(await told('%00')).toEqual(gone);
    await deps.clock.advance(DAY + 1000);
    expect(await told(expiring.token)).toEqual(gone);
    const fresh = await link();
    await own('DELETE', `/agents/${agent.agent.id}`);
    expect(await told(fresh.token)).toEqual(gone);
  });

  test('costs who guesses tokens: an address has its number of requests', async () => {
    const { send } = await world([], { addressRequestsPerMinute: 5 });
    const codes = [];
    for (let i = 0; i < 7; i++) {
      const { body } = await send('GET', `/public/chats/${'b'.repeat(43)}${i}`, { address: '203.0.113.9' });
      codes.push(body.error.code);
    }
    expect(codes).toEqual([...Array(5).fill('NOT_FOUND'), 'RATE_LIMITED', 'RATE_LIMITED']);
  });
});

describe('a form', () => {
  test('shows its fields and gives one answer, and nothing of the run behind it', async () => {
    const { link, send, visit, runs, owner, own, links } = await world();
    const { token, id } = await link({ welcome: 'Say it.' });
    const shown = await send('GET', `/public/chats/${token}`);
    expect(shown.body).toMatchObject({
      kind: 'form',
      title: 'translator',
      welcome: 'Say it.',
      input_schema: { properties: { message: { type: 'string' } } },
    });
    const visitor = await visit(token);
    expect(visitor.visitor).toMatch(TOKEN);
    expect(await visitor.messages()).toEqual([]);
    const answer = await visitor.say('Hello.');
    expect(answer.headers.get('content-type')).toBe('text/event-stream');
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(endOf(answer.text)).toEqual({
      event: 'result',
      data: { status: 'completed', answer: 'Bonjour.', output: expect.anything() },
    });
    expect(await visitor.messages()).toMatchObject([
      { number: 1, status: 'completed', answer: 'Bonjour.', error: null },
    ]);
    const [run] = await runs();
    expect(run).toMatchObject({ triggerSource: 'chat', tenantId: tenantOf({ id }), status: 'completed' });
    const said = answer.text + JSON.stringify(await visitor.messages()) + shown.text;
    for (const word of [run!.id, owner.workspaceId, owner.userId, 'Translate', 'anthropic', 'cost', 'tokens']) {
      expect(said).not.toContain(word);
    }
    const [listed] = (await own('GET', links)).chat_links;
    expect(listed.messages_today).toBe(1);
    expect(listed.cost_today_usd).toBeCloseTo(run!.costUsd!, 6);
    expect(listed.cost_today_usd).toBeGreaterThan(0);
  });

  test('names fields that are wrong, and counts no message for it', async () => {
    const { link, visit, send, own, links } = await world();
    const { token } = await link();
    const { session, visitor } = await visit(token);
    const post = (json: object) => send('POST', `${session}/messages`, { visitor, json });
    expect((await post({ input: {} })).body.error).toMatchObject({ message: expect.stringContaining('message') });
    expect((await post({ text: 'x' })).body.error).toMatchObject({ code: 'INVALID_INPUT' });
    expect((await post({ input: { message: 'x'.repeat(70_000) } })).body.error.code).toBe('DOCUMENT_TOO_LARGE');
    const [listed] = (await own('GET', links)).chat_links;
    expect(listed).toMatchObject({ messages_today: 0, cost_today_usd: 0 });
  });

  test('takes no models, keys or settings of visitors', async () => {
    const { link, visit, send, runs } = await world();
    const { session, visitor } = await visit((await link()).token);
    const input = { message: 'x', llm_credentials: { api_key: 'sk-of-a-visitor', model: 'claude-opus-4' } };
    const answer = await send('POST', `${session}/messages`, { visitor, json: { input } });
    expect(endOf(answer.text).event).toBe('result');
    expect((await runs())[0]!.llmModel).not.toContain('opus');
  });

  test('says in plain words that no answer came, and counts what it cost', async () => {
    const { link, visit } = await world([{ status: 401, message: 'the key sk-made-up is refused' }]);
    const visitor = await visit((await link()).token);
    const answer = await visitor.say('x');
    expect(endOf(answer.text)).toEqual({
      event: 'error',
      data: { status: 'failed', message: 'No answer could be given to this message.' },
    });
    expect(await visitor.messages()).toMatchObject([
      { status: 'failed', answer: null, output: null, error: 'No answer could be given to this message.' },
    ]);
  });
});

describe('a visitor', () => {
  test('reads, writes and stops nothing of another one, or through another link', async () => {
    const { link, visit, send } = await world();
    const [first, second] = [await link(), await link()];
    const ann = await visit(first.token);
    await ann.say('A secret of Ann.');
    const bob = await visit(first.token);
    const id = ann.session.split('/').at(-1);
    const tries = [
      [ann.session, bob.visitor],
      [ann.session, `a${'A'.repeat(43)}`],
      [`/public/chats/${second.token}/sessions/${id}`, ann.visitor],
      [`/public/chats/${first.token}/sessions/${crypto.randomUUID()}`, ann.visitor],
      [`/public/chats/${first.token}/sessions/USE`, ann.visitor],
    ] as const;
    for (const [session, visitor] of tries) {
      for (const [method, part, json] of [
        ['GET', 'messages', undefined],
        ['POST', 'messages', { input: { message: 'x' } }],
        ['POST', 'stop', undefined],
      ] as const) {
        const { status, body } = await send(method, `${session}/${part}`, { visitor, json });
        expect([status, body.error.message]).toEqual([404, NO_SESSION]);
      }
    }
    expect((await send('GET', `${ann.session}/messages`)).body.error.message).toBe(NO_SESSION);
  });

  test('keeps its secret for further sessions, and a made-up one of another form is replaced', async () => {
    const { link, visit } = await world();
    const { token } = await link();
    const one = await visit(token);
    expect((await visit(token, one.visitor)).visitor).toBe(one.visitor);
    expect((await visit(token, 'guess')).visitor).toMatch(TOKEN);
  });

  test('has one message under way, and a number a day', async () => {
    const { link, visit, deps, send } = await world([{ text: 'ok', waitFor: 'go' }, { text: 'ok' }, { text: 'ok' }]);
    const { token } = await link({ max_messages_per_visitor: 2 });
    const { say, session, visitor } = await visit(token);
    const first = say('x');
    await expect
      .poll(async () => (await send('GET', `${session}/messages`, { visitor })).body.messages)
      .toMatchObject([{ status: 'running', answer: null, error: null }]);
    expect((await say('y')).body.error).toMatchObject({ code: 'CONFLICT' });
    llm.release('go');
    expect(endOf((await first).text).event).toBe('result');
    expect(endOf((await say('z')).text).event).toBe('result');
    const refused = await say('too much');
    expect(refused.body.error).toMatchObject({ code: 'RATE_LIMITED', message: expect.stringContaining('tomorrow') });
    await deps.clock.advance(DAY);
    expect(endOf((await say('next day')).text).event).toBe('result');
  });

  test('stops an answer', async () => {
    const { visit, link, runs } = await world([{ text: 'ok', waitFor: 'never' }]);
    const { say, stop, messages } = await visit((await link()).token);
    expect((await stop()).body).toEqual({ stopped: false });
    const answer = say('x');
    await expect.poll(async () => (await runs()).length).toBe(1);
    expect((await stop()).body).toEqual({ stopped: true });
    expect(endOf((await answer).text)).toEqual({
      event: 'error',
      data: { status: 'stopped', message: 'The answer was stopped.' },
    });
    expect(await messages()).toMatchObject([{ status: 'stopped', error: 'The answer was stopped.' }]);
    expect((await stop()).body).toEqual({ stopped: false });
  });

  test('opens a bounded number of sessions from one address', async () => {
    const { link, send } = await world([], { addressRequestsPerMinute: 1000 });
    const { token } = await link();
    const open = async (address: string) => (await send('POST', `/public/chats/${token}/sessions`, { address })).status;
    for (let i = 0; i < 50; i++) expect(await open('198.51.100.4')).toBe(201);
    expect(await open('198.51.100.4')).toBe(429);
    expect(await open('198.51.100.5')).toBe(201);
  });
});

describe('a chat', () => {
  const two = [{ text: 'Hello, Ann.' }, { text: 'You are Ann.' }];

  test('is a conversation of one visitor: the agent knows what was said before', async () => {
    const { link, visit, own, owner } = await world(two);
    const { token, id } = await link({ kind: 'chat' });
    const { say, messages } = await visit(token);
    const first = eventsOf((await say('I am Ann.', 'chat')).text);
    expect(first[0]).toEqual({ event: 'started', data: { number: 1 } });
    const said = first.filter(({ event }) => event === 'text').map(({ data }) => data.text);
    expect(said.join('')).toContain('Hello, Ann.');
    expect(first.at(-1)).toEqual({
      event: 'result',
      data: { status: 'completed', answer: 'Hello, Ann.', output: null },
    });
    const second = eventsOf((await say('Who am I?', 'chat')).text);
    expect(second[0]!.data).toEqual({ number: 2 });
    expect(JSON.stringify(llm.requests.at(-1)!.body)).toContain('I am Ann.');
    expect(await messages()).toMatchObject([
      { number: 1, status: 'completed', text: 'I am Ann.', answer: 'Hello, Ann.', output: null, error: null },
      { number: 2, status: 'completed', text: 'Who am I?' },
    ]);
    const other = await visit(token);
    expect(await other.messages()).toEqual([]);
    await other.say('I am Bob.', 'chat');
    expect(JSON.stringify(llm.requests.at(-1)!.body)).not.toContain('I am Ann');
    const { sessions } = await own('GET', `/workspaces/${owner.workspaceId}/sessions`);
    expect(sessions).toHaveLength(2);
    expect(sessions[0]).toMatchObject({ tenant_id: tenantOf({ id }), agent: 'acme/translator' });
  });

  test('shows its messages in pages', async () => {
    const { link, visit, send } = await world(two);
    const { session, visitor, say } = await visit((await link({ kind: 'chat' })).token);
    for (const text of ['one', 'two', 'three']) await say(text, 'chat');
    const page = async (query: string) => (await send('GET', `${session}/messages?${query}`, { visitor })).body;
    const texts = ({ messages, has_older }: { messages: { text: string }[]; has_older: boolean }) => [
      messages.map(({ text }) => text),
      has_older,
    ];
    expect(texts(await page('limit=2'))).toEqual([['two', 'three'], true]);
    expect(texts(await page('limit=2&before=2'))).toEqual([['one'], false]);
    expect(texts(await page('before=1'))).toEqual([[], false]);
  });

  test('takes a lost stream up: the answer goes on, and is listed as far as it is known', async () => {
    const { link, visit, raw, deps, send } = await world([{ text: 'A long answer.', waitFor: 'lost' }]);
    const { session, visitor, messages, say } = await visit((await link({ kind: 'chat' })).token);
    const answer = await raw('POST', `${session}/messages`, { visitor, json: { text: 'x' } });
    await answer.body!.cancel();
    expect(await messages()).toMatchObject([{ status: 'running', text: 'x', answer: null }]);
    llm.release('lost');
    await expect.poll(async () => (await messages())[0].status).toBe('completed');
    expect(await messages()).toMatchObject([{ answer: 'A long answer.' }]);
    await deps.clock.advance(1000);
    await expect.poll(async () => (await say('next', 'chat')).status).toBe(200);
    expect((await send('GET', `${session}/messages`, { visitor })).body.messages).toHaveLength(2);
  });

  test('needs an agent that a text suffices for', async () => {
    const { own, send, links, owner } = await world();
    const agent = { type: 'prompt', description: 'x', prompt: 'x' };
    const input_schema = {
      type: 'object',
      properties: { from: { type: 'string' }, to: { type: 'string' } },
      required: ['from', 'to'],
    };
    await own('POST', '/agents', { ...agent, name: 'pair', input_schema });
    await own('POST', '/agents', { ...agent, name: 'single', sessions: false });
    for (const name of ['pair', 'single']) {
      const json = { agent: `acme/${name}` };
      expect((await send('POST', links, { key: owner.key, json })).body.error.code).toBe('UNPROCESSABLE');
      expect((await send('POST', links, { key: owner.key, json: { ...json, kind: 'form' } })).status).toBe(201);
    }
  });

  test('refuses messages that are empty, too long, or of a form', async () => {
    const { link, visit, send } = await world();
    const { session, visitor } = await visit((await link({ kind: 'chat' })).token);
    for (const json of [{}, { text: '' }, { text: '  ' }, { text: 'x'.repeat(8001) }, { input: { message: 'x' } }]) {
      const { body } = await send('POST', `${session}/messages`, { visitor, json });
      expect(body.error.code).toBe('INVALID_INPUT');
    }
  });

  test('is no session that callers of the workspace could join', async () => {
    const { link, visit, send, own, owner } = await world(two);
    const { token, id } = await link({ kind: 'chat' });
    await (await visit(token)).say('I am Ann.', 'chat');
    const { sessions } = await own('GET', `/workspaces/${owner.workspaceId}/sessions`);
    const path = `/workspaces/${owner.workspaceId}/sessions/${sessions[0].id}/messages`;
    const tenant = { 'x-platform-tenant': tenantOf({ id }) };
    const answer = await send('POST', '/acme/translator/v1/run', {
      key: owner.key,
      json: { message: 'x' },
      headers: tenant,
    });
    expect(answer.body.error).toMatchObject({ code: 'INVALID_INPUT' });
    expect((await send('GET', path, { key: owner.key, headers: { 'x-platform-tenant': 'other' } })).status).toBe(404);
  });
});

describe('limits', () => {
  test('a link has its messages a day, and its share of the calls of the plan', async () => {
    const { link, visit, owner, deps, send } = await world(Array(8).fill({ text: 'ok' }));
    const { token } = await link({ max_messages_per_day: 3 });
    const codes = [];
    for (let i = 0; i < 5; i++) {
      const { say } = await visit(token);
      const answer = await say('x');
      codes.push(answer.status);
    }
    expect(codes).toEqual([200, 200, 200, 429, 429]);
    const call = await send('POST', '/acme/translator/v1/run', { key: owner.key, json: { message: 'own' } });
    expect(call.status).toBe(200);
    await deps.clock.advance(DAY);
    expect((await (await visit(token)).say('x')).status).toBe(200);
  });

  test('a flood leaves the workspace its own calls', async () => {
    const { link, visit, owner, send, deps, raw } = await world([{ text: 'ok', waitFor: 'flood' }], {
      defaultPlan: 'free',
    });
    const { token } = await link({ max_messages_per_day: 100_000, daily_budget_usd: 1000 });
    const other = await link({ max_messages_per_day: 100_000, daily_budget_usd: 1000 });
    const workspace = (await findWorkspace(deps, owner.workspaceId))!;
    const answers: Response[] = [];
    for (let i = 0; i < 40; i++) {
      const { session, visitor } = await visit(i % 2 === 0 ? token : other.token);
      answers.push(await raw('POST', `${session}/messages`, { visitor, json: { input: { message: 'flood' } } }));
    }
    const begun = answers.filter(({ status }) => status === 200);
    // The free plan allows ten calls at a time.
    expect(begun).toHaveLength(5);
    expect((await callsInUse(deps, workspace)).concurrent_calls).toBe(5);
    const refused = answers.find(({ status }) => status !== 200)!;
    expect(refused.status).toBe(429);
    expect(await refused.text()).toContain('This chat is busy');
    const call = send('POST', '/acme/translator/v1/run', { key: owner.key, json: { message: 'own' } });
    llm.release('flood');
    expect((await call).status).toBe(200);
    await Promise.all(begun.map((answer) => answer.text()));
    expect((await (await visit(token)).say('x')).status).toBe(200);
  });

  test('the budget of a link is never passed, whatever is under way', async () => {
    const usage = { input: 1000, output: 1000 };
    const { link, visit, own, links, runs, deps } = await world(Array(60).fill({ text: 'ok', usage }));
    const { token } = await link({ daily_budget_usd: 0.05 });
    for (let round = 0; round < 12; round++) {
      const visitors = await Promise.all([visit(token), visit(token), visit(token)]);
      await Promise.all(visitors.map(({ say }) => say('x')));
    }
    const spent = (await runs()).reduce((sum, run) => sum + run.costUsd!, 0);
    const [listed] = (await own('GET', links)).chat_links;
    expect(listed.cost_today_usd).toBeCloseTo(spent, 6);
    expect(spent).toBeLessThanOrEqual(0.05);
    expect(spent).toBeGreaterThan(0.02);
    const refused = await (await visit(token)).say('x');
    expect(refused.body.error).toMatchObject({ code: 'RATE_LIMITED' });
    expect(JSON.stringify(refused.body)).not.toMatch(/budget|\$|usd/i);
    await deps.clock.advance(DAY);
    expect((await (await visit(token)).say('x')).status).toBe(200);
  });

  test('a budget of the workspace blocks visitors, too, who do not learn of it', async () => {
    const { link, visit, own, owner } = await world(
      Array(3).fill({ text: 'ok', usage: { input: 1000, output: 1000 } }),
    );
    await own('POST', `/workspaces/${owner.workspaceId}/budgets`, {
      scope_type: 'workspace',
      window: 'daily',
      hard_limit_usd: 0.01,
      action_on_hard_limit: 'block_new_runs',
    });
    const { token } = await link();
    let last = await (await visit(token)).say('x');
    for (let i = 0; i < 4 && last.status === 200; i++) last = await (await visit(token)).say('x');
    expect(last.body.error).toMatchObject({
      code: 'RATE_LIMITED',
      message: expect.stringContaining('limit for today'),
    });
    expect(JSON.stringify(last.body)).not.toMatch(/budget|\$|acme/i);
  });
});
