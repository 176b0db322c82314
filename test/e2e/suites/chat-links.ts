import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, UUID } from '../expect.ts';

const GONE = 'This chat does not exist or has expired.';
const NO_SESSION = 'This conversation does not exist or has expired.';

/** The events of a stream, as `[name, data]`. */
const eventsOf = (text: string): [string, Record<string, unknown>][] =>
  text
    .trimEnd()
    .split('\n\n')
    .map((each) => {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(each)!;
      return [name!, JSON.parse(data!)];
    });

/** Links by which people without an account talk to an agent (`docs/interface/chat-links.md`). */
export function chatLinksSuite(target: () => Target): void {
  describe('chat links', () => {
    let owner: TestUser;
    const send = (method: string, path: string, options: Parameters<typeof request>[3] = {}) =>
      request(target(), method, path, { key: owner.key, ...options });
    const links = () => `/workspaces/${owner.workspaceId}/chat-links`;
    const visit = (method: string, path: string, options: { json?: unknown; visitor?: string } = {}) =>
      request(target(), method, `/public/chats/${path}`, {
        ...(options.json !== undefined && { json: options.json }),
        ...(options.visitor !== undefined && { headers: { 'x-platform-visitor': options.visitor } }),
      });
    async function link(json: object) {
      const made = expectOk(await send('POST', links(), { json: { agent: `${owner.slug}/greeter`, ...json } }), 201);
      return { ...made, token: made.url.split('/').at(-1) as string };
    }
    async function open(token: string) {
      const { session_id, visitor } = expectOk(await visit('POST', `${token}/sessions`), 201);
      const session = `${token}/sessions/${session_id}`;
      return {
        session,
        visitor,
        say: async (json: object) => {
          const answer = await visit('POST', `${session}/messages`, { visitor, json });
          expect(answer.status, JSON.stringify(answer.body)).toBe(200);
          return eventsOf(answer.body);
        },
        messages: async () => expectOk(await visit('GET', `${session}/messages`, { visitor })).messages,
      };
    }

    beforeAll(async () => {
      needsModel(target());
      owner = await target().addUser('chat-links');
      const key = { name: 'ANTHROPIC_API_KEY', value: 'sk-chat-links' };
      expectOk(await send('PUT', `/workspaces/${owner.workspaceId}/secrets`, { json: key }));
      const agent = {
        name: 'greeter',
        type: 'prompt',
        description: 'Greets.',
        prompt: 'Greet {{message}}.',
        supported_providers: ['anthropic'],
        input_schema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
      };
      expectOk(await send('POST', '/agents', { json: agent }), 201);
    });

    test('open a form to everyone who has the link, until it is revoked', async () => {
      const { token, ...made } = await link({ kind: 'form', title: 'Greetings', welcome: 'Who?' });
      expect(made).toMatchObject({
        id: expect.stringMatching(UUID),
        agent: 'chat-links/greeter',
        kind: 'form',
        title: 'Greetings',
        max_messages_per_day: 200,
        daily_budget_usd: 1,
        url: expect.stringMatching(/\/[a-z][\w-]{43}$/),
      });
      const shown = await visit('GET', token);
      expect(expectOk(shown)).toMatchObject({
        kind: 'form',
        title: 'Greetings',
        welcome: 'Who?',
        input_schema: { required: ['message'] },
      });
      expect(shown.headers.get('x-robots-tag')).toBe('noindex');
      const { say, messages, session, visitor } = await open(token);
      const [, data] = (await say({ input: { message: 'Ann' } })).at(-1)!;
      expect(data).toMatchObject({ status: 'completed', answer: expect.any(String) });
      expect(await messages()).toMatchObject([{ number: 1, status: 'completed', answer: data.answer, error: null }]);
      expect(expectOk(await visit('POST', `${session}/stop`, { visitor }))).toEqual({ stopped: false });
      const { runs } = expectOk(await send('GET', `/workspaces/${owner.workspaceId}/runs?trigger_source=chat`));
      expect(runs).toMatchObject([{ trigger_source: 'chat', status: 'completed' }]);
      const [listed] = expectOk(await send('GET', `${links()}?agent=chat-links/greeter`)).chat_links;
      expect(listed).toMatchObject({ id: made.id, messages_today: 1 });

      const stranger = await open(token);
      expectError(await visit('GET', `${session}/messages`, stranger), 404, 'NOT_FOUND', NO_SESSION);
      const changed = expectOk(await send('PATCH', `${links()}/${made.id}`, { json: { max_messages_per_day: 1 } }));
      expect(changed.max_messages_per_day).toBe(1);
      const refused = await visit('POST', `${stranger.session}/messages`, {
        visitor: stranger.visitor,
        json: { input: { message: 'Bob' } },
      });
      expectError(refused, 429, 'RATE_LIMITED', 'tomorrow');
      expect(expectOk(await send('DELETE', `${links()}/${made.id}`))).toEqual({ deleted: true, id: made.id });
      for (const [method, path, json] of [
        ['GET', token, undefined],
        ['POST', `${token}/sessions`, {}],
        ['GET', `${session}/messages`, undefined],
        ['POST', `${session}/messages`, { input: { message: 'x' } }],
      ] as const) {
        expectError(await visit(method, path, { visitor, json }), 404, 'NOT_FOUND', GONE);
      }
    });

    test('hold a conversation in a session of its own', async () => {
      const { token, tenant_id } = await link({ kind: 'chat', suggestions: ['Hello'] });
      const { say, messages } = await open(token);
      const first = await say({ text: 'My name is Ann.' });
      expect(first[0]).toEqual(['started', { number: 1 }]);
      expect(first.at(-1)![0]).toBe('result');
      expect((await say({ text: 'Who am I?' }))[0]).toEqual(['started', { number: 2 }]);
      expect(await messages()).toMatchObject([
        { number: 1, status: 'completed', text: 'My name is Ann.' },
        { number: 2, status: 'completed', text: 'Who am I?' },
      ]);
      const other = await open(token);
      expect(await other.messages()).toEqual([]);
      const { runs } = expectOk(
        await send('GET', `/workspaces/${owner.workspaceId}/runs?tenant_id=${encodeURIComponent(tenant_id)}`),
      );
      expect(runs).toHaveLength(2);
    });

    test('are made by owners, with limits that are checked', async () => {
      const body = { agent: `${owner.slug}/greeter` };
      const member = await target().addUser('chat-links-member');
      await target().addMember(member, owner.workspaceId);
      expectError(await send('POST', links(), { key: member.key, json: body }), 403, 'FORBIDDEN');
      expectOk(await send('GET', links(), { key: member.key }));
      const wrong = { ...body, daily_budget_usd: 0 };
      expectError(await send('POST', links(), { json: wrong }), 400, 'INVALID_INPUT', 'daily_budget_usd');
      expectError(await send('POST', links(), { json: { agent: 'chat-links/none' } }), 404, 'NOT_FOUND', 'none');
    });
  });
}
