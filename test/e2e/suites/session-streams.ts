import { beforeAll, describe, expect, test } from 'vitest';
import { follow, followWithCuts, streamCall } from '#test/helpers/events.ts';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectOk } from '../expect.ts';

const limit = { timeout: 120_000 };
const WORDS = Array.from({ length: 40 }, (_, index) => `word-${index}`).join(' ');

/** Streams of a session's messages that break, and what their readers get instead (`docs/interface/events.md`). */
export function sessionStreamsSuite(target: () => Target): void {
  let user: TestUser;
  let session: string;

  const send = (method: string, path: string, json?: unknown, headers?: Record<string, string>) =>
    request(target(), method, `/workspaces/${user.workspaceId}${path}`, {
      ...{ key: user.key, json },
      ...(headers && { headers }),
    });
  const open = async (agent: string) =>
    expectOk(await send('POST', '/sessions', { agent: `session-streams/${agent}` }), 201).id as string;
  const textOf = (events: readonly { readonly type: string; readonly data: { type?: string; text?: string } }[]) =>
    events.flatMap(({ type, data }) => (type === 'progress' && data.type === 'text_delta' ? data.text : [])).join('');

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('session-streams');
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-session-streams-0123456789' };
    expectOk(await send('PUT', '/secrets', secret));
    for (const [name, chunkDelayMs] of [
      ['slow-teller', 60],
      ['quick-teller', 0],
    ] as const) {
      const prompt = `Tell. {{message}} [[llm ${JSON.stringify([{ text: WORDS, chunkDelayMs }])}]]`;
      const json = { name, type: 'prompt', description: 'x', required_secrets: [], prompt };
      expectOk(await request(target(), 'POST', '/agents', { key: user.key, json }), 201);
    }
    session = await open('slow-teller');
  });

  describe('a stream of a message that broke', () => {
    test.each(['slow-teller', 'quick-teller'])('is read from the events of its run: %s', limit, async (name) => {
      const id = await open(name);
      const path = `/workspaces/${user.workspaceId}/sessions/${id}/messages`;
      const call = await streamCall(target(), path, { key: user.key, json: { text: 'Hi' } });
      await call.records.next();
      call.leave();
      const events = await followWithCuts(
        target(),
        `/workspaces/${user.workspaceId}/runs/${call.headers.get('x-run-id')}/events`,
        { key: user.key, every: 1 },
      );
      expect(textOf(events)).toBe(WORDS);
      expect(events.at(-1)).toMatchObject({ type: 'end', data: { status: 'completed' } });
      expect(events.filter(({ type }) => type === 'end')).toHaveLength(1);
    });

    test('and those of the session go on from any event, over all its messages', limit, async () => {
      const headers = { prefer: 'respond-async' };
      for (const text of ['Hi', 'Again']) {
        expectOk(await send('POST', `/sessions/${session}/messages`, { text }, headers), 202);
      }
      const path = `/workspaces/${user.workspaceId}/sessions/${session}/events`;
      const all: { id: string; type: string; data: { type?: string; text?: string } }[] = [];
      while (all.filter(({ type }) => type === 'end').length < 2) {
        const follower = await follow(target(), path, { key: user.key, after: all.at(-1)?.id });
        for await (const event of follower.events) {
          all.push(event);
          break;
        }
        follower.leave();
      }
      expect(textOf(all)).toBe(WORDS + WORDS);
      expect(new Set(all.map(({ id, type }) => `${id} ${type}`)).size).toBe(all.length);
    });
  });
}
