import { describe, expect, test } from 'vitest';
import { request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';

export function messagesSuite(target: () => Target): void {
  async function setUp(slug: string) {
    const user = await target().addUser(slug);
    const call = (method: string, path = '', json?: unknown, key = user.key) =>
      request(target(), method, `/messages${path}`, { key, json });
    return { user, call };
  }

  describe.concurrent('messages', () => {
    test('are sent, listed with the newest first, and deleted', async () => {
      const { call } = await setUp('message-life');
      const sent = expectOk(await call('POST', '', { title: ' Done ', body: 'All of it.', metadata: { n: 1 } }), 201);
      expect(sent).toEqual({
        id: expect.stringMatching(UUID),
        agent_name: null,
        title: 'Done',
        level: 'info',
        created_at: expect.stringMatching(ISO_TIME),
      });
      expect(expectOk(await call('GET'))).toEqual({
        messages: [{ ...sent, body: 'All of it.', metadata: { n: 1 } }],
        total: 1,
      });
      expect(expectOk(await call('DELETE', `/${sent.id}`))).toEqual({ deleted: true, id: sent.id });
      expectError(await call('DELETE', `/${sent.id}`), 404, 'NOT_FOUND', sent.id);
      expect(expectOk(await call('GET'))).toEqual({ messages: [], total: 0 });
    });

    test('are filtered by level and agent, and paged', async () => {
      const { user, call } = await setUp('message-lists');
      for (const [title, level, agent_name] of [
        ['a', 'info', 'one'],
        ['b', 'warning', 'two'],
        ['c', 'error', 'one'],
        ['d', 'info'],
        ['e', 'success', 'one'],
        ['f', 'info', 'one'],
      ]) {
        expectOk(await call('POST', '', { title, body: 'x', level, agent_name }), 201);
      }
      for (const [query, titles, total] of [
        ['', 'fedcba', 6],
        ['?limit=2&offset=1', 'ed', 6],
        ['?level=info', 'fda', 3],
        ['?agent_name=one', 'feca', 4],
        ['?agent_name=one&level=info&limit=1', 'f', 2],
        ['?agent_name=nobody', '', 0],
      ] as const) {
        const { messages, total: counted } = expectOk(await call('GET', query));
        const found = messages.map(({ title }: { title: string }) => title);
        expect([query, found.join(''), counted]).toEqual([query, titles, total]);
      }
      const path = `/workspaces/${user.workspaceId}/messages?level=warning`;
      expect(expectOk(await request(target(), 'GET', path, { key: user.key })).total).toBe(1);
      const stranger = await target().addUser('message-stranger');
      expectError(await request(target(), 'GET', path, { key: stranger.key }), 403, 'FORBIDDEN');
    });

    test.each([
      [{ body: 'x' }, 'body.title: '],
      [{ title: 'x' }, 'body.body: '],
      [{ title: 'x', body: '' }, 'body.body: must not be empty'],
      [{ title: 'x', body: 'x', level: 'fatal' }, 'body.level: '],
      [{ title: 'x', body: 'x', metadata: [] }, 'body.metadata: '],
      [{ title: 'x', body: 'x', metadata: { x: 'x'.repeat(10_000) } }, 'body.metadata: must have at most 10,000'],
    ])('are refused like this: %j', async (json, message) => {
      const { call } = await setUp(`message-bad-${Math.random().toString(36).slice(2)}`);
      expectError(await call('POST', '', json), 400, 'INVALID_INPUT', message);
    });
  });
}
