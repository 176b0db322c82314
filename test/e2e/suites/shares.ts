import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';

const GONE = 'This link does not exist or has expired.';
const TOKEN = 'tok-shared-77ab12';

/** Read-only links to runs (`docs/interface/runs.md#links`). */
export function sharesSuite(target: () => Target): void {
  describe('links to runs', () => {
    let author: TestUser;
    let runId: string;
    const send = (method: string, path: string, options: Parameters<typeof request>[3] = {}) =>
      request(target(), method, path, { key: author.key, ...options });
    const shares = () => `/workspaces/${author.workspaceId}/runs/${runId}/shares`;
    const open = (token: string, part = '') => request(target(), 'GET', `/public/shares/${token}${part}`);
    const tokenOf = ({ url }: { url: string }) => url.split('/').at(-1)!;

    beforeAll(async () => {
      needsModel(target());
      author = await target().addUser('shares');
      for (const [name, value] of Object.entries({ TOKEN, ANTHROPIC_API_KEY: 'sk-shares' })) {
        expectOk(await send('PUT', `/workspaces/${author.workspaceId}/secrets`, { json: { name, value } }));
      }
      expectOk(await send('PATCH', '/org', { json: { trace_content: 'all' } }));
      const agent = { name: 'weather', type: 'prompt', description: 'x', prompt: 'What is the weather in {{city}}?' };
      const more = { supported_providers: ['anthropic'], required_secrets: ['TOKEN'] };
      expectOk(await send('POST', '/agents', { json: { ...agent, ...more } }), 201);
      const answer = await send('POST', '/shares/weather/v1/run', { json: { city: `Paris ${TOKEN}` } });
      runId = answer.headers.get('x-run-id')!;
    });

    test('show a run to everyone who has the link, until it is revoked', async () => {
      const made = expectOk(await send('POST', shares(), { json: { expires_in_days: 3 } }), 201);
      expect(made).toEqual({
        id: expect.stringMatching(UUID),
        run_id: runId,
        created_by: author.userId,
        created_at: expect.stringMatching(ISO_TIME),
        expires_at: expect.stringMatching(ISO_TIME),
        url: expect.stringMatching(/\/[a-z][\w-]{43}$/),
      });
      const { url, ...listed } = made;
      expect(expectOk(await send('GET', shares()))).toEqual({ shares: [listed] });

      const answer = await open(tokenOf(made));
      expect(expectOk(answer)).toMatchObject({
        run: { id: runId, status: 'completed', input_data: { city: 'Paris [secret TOKEN]' } },
        expires_at: made.expires_at,
      });
      expect(answer.headers.get('cache-control')).toBe('no-store');
      expect(answer.headers.get('x-robots-tag')).toBe('noindex');
      expect(answer.headers.get('referrer-policy')).toBe('no-referrer');
      expect(expectOk(await open(tokenOf(made), '/steps'))).toMatchObject({
        has_content: true,
        steps: [{ kind: 'llm_call', status: 'succeeded' }],
      });
      const { events } = expectOk(await open(tokenOf(made), '/events'));
      expect(events[0].content.messages.at(-1)).toMatchObject({ text: expect.stringContaining('[secret TOKEN]') });
      const shown = JSON.stringify([answer.body, events]);
      for (const word of [TOKEN, author.workspaceId, author.userId, '@example.com']) expect(shown).not.toContain(word);

      const deleted = expectOk(await send('DELETE', `${shares()}/${made.id}`));
      expect(deleted).toEqual({ deleted: true, id: made.id });
      for (const part of ['', '/steps', '/events']) {
        expectError(await open(tokenOf(made), part), 404, 'NOT_FOUND', GONE);
        expectError(await open('A'.repeat(43), part), 404, 'NOT_FOUND', GONE);
      }
      expectError(await send('DELETE', `${shares()}/${made.id}`), 404, 'NOT_FOUND', made.id);
      expect(expectOk(await send('GET', shares()))).toEqual({ shares: [] });
    });

    test('are valid for 7 days by default, for 30 at most', async () => {
      const { created_at, expires_at } = expectOk(await send('POST', shares(), { json: {} }), 201);
      const days = (Date.parse(expires_at) - Date.parse(created_at)) / (24 * 3600_000);
      expect(days).toBeCloseTo(7, 3);
      const tooLong = await send('POST', shares(), { json: { expires_in_days: 31 } });
      expectError(tooLong, 400, 'INVALID_INPUT', 'expires_in_days');
    });

    test('are created and revoked by owners of the workspace alone', async () => {
      const { id } = expectOk(await send('POST', shares(), { json: {} }), 201);
      const member = await target().addUser('shares-member');
      await target().addMember(member, author.workspaceId);
      const stranger = await target().addUser('shares-stranger');
      for (const { key } of [member, stranger]) {
        expectError(await send('POST', shares(), { key, json: {} }), 403, 'FORBIDDEN');
        expectError(await send('DELETE', `${shares()}/${id}`, { key }), 403, 'FORBIDDEN');
      }
      const seen = expectOk(await send('GET', shares(), { key: member.key })).shares;
      expect(seen).toContainEqual(expect.objectContaining({ id }));
      expectError(await send('GET', shares(), { key: stranger.key }), 403, 'FORBIDDEN');
    });
  });
}
