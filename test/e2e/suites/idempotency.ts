import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, UUID } from '../expect.ts';

/** `Idempotency-Key` on calls: repeated requests produce one run and one answer. */
export function idempotencySuite(target: () => Target): void {
  describe('calls with an Idempotency-Key', () => {
    let user: TestUser;
    let llmKey: string;

    const askedFor = (text: string): number =>
      target().llm.requests.filter((each) => each.apiKey === llmKey && each.text.includes(text)).length;

    beforeAll(async () => {
      needsModel(target());
      user = await target().addUser('idem');
      llmKey = `sk-idem-${user.userId}`;
      const secret = { name: 'ANTHROPIC_API_KEY', value: llmKey };
      expectOk(
        await request(target(), 'PUT', `/workspaces/${user.workspaceId}/secrets`, { key: user.key, json: secret }),
      );
      await clientOf(target(), user.key).createAgent({
        body: {
          name: 'greeter',
          type: 'prompt',
          description: 'Greets.',
          prompt: 'Greet {{name}}.',
          supported_providers: ['anthropic'],
          input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
          is_public: true,
        },
      });
      await clientOf(target(), user.key).createAgent({
        body: {
          name: 'reader',
          type: 'agent',
          description: 'Reads.',
          prompt: 'Read.',
          required_secrets: [],
        },
      });
    });

    /** Returns the raw answer. */
    async function send(
      key: string,
      input: unknown,
      {
        headers = {},
        query = '',
        as = user.key,
      }: { headers?: Record<string, string>; query?: string; as?: string } = {},
    ) {
      const response = await fetch(`${target().url}/idem/greeter/v1/run${query}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${as}`,
          'content-type': 'application/json',
          'idempotency-key': key,
          ...headers,
        },
        body: JSON.stringify(input),
      });
      return { status: response.status, headers: response.headers, text: await response.text() };
    }
    const parsed = ({ status, headers, text }: Awaited<ReturnType<typeof send>>) => ({
      status,
      headers,
      body: JSON.parse(text),
    });
    const isReplayed = ({ headers }: { headers: Headers }) => headers.get('idempotent-replayed') === 'true';

    test('sent again get the first answer byte for byte, without a second run', async () => {
      const input = { name: 'Ada of the first test' };
      const first = await send('first', input);
      expect([first.status, isReplayed(first)]).toEqual([200, false]);
      const second = await send('first', input);
      expect([second.status, isReplayed(second), second.text]).toEqual([200, true, first.text]);
      expect(second.headers.get('content-type')).toBe('application/json');
      expect(first.headers.get('x-run-id')).toMatch(UUID);
      for (const name of ['x-run-id', 'x-platform-run-id']) {
        expect(second.headers.get(name)).toBe(first.headers.get(name));
      }
      expect(second.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
      expect(askedFor(input.name)).toBe(1);
    });

    test('sent 50 times concurrently run once', async () => {
      const input = { name: 'fifty [[llm {"text":"hello to all","delayMs":700}]]' };
      const answers = await Promise.all(Array.from({ length: 50 }, () => send('fifty', input)));
      expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
      expect(answers[0]!.status).toBe(200);
      expect(new Set(answers.map(({ headers }) => headers.get('x-run-id'))).size).toBe(1);
      expect(answers.filter(isReplayed)).toHaveLength(49);
      expect(askedFor('fifty')).toBe(1);
    });

    test('that failed during the run repeat that failure without a second run', async () => {
      const input = { name: 'broken [[llm {"status":400,"message":"no such thing"}]]' };
      const first = await send('failing', input);
      expect(first.status).toBeGreaterThanOrEqual(400);
      const asked = askedFor('broken');
      const second = await send('failing', input);
      expect([second.status, isReplayed(second), second.text]).toEqual([first.status, true, first.text]);
      expect(second.headers.get('x-run-id')).toBe(first.headers.get('x-run-id'));
      expect(askedFor('broken')).toBe(asked);
    });

    test('that were refused before the run may be corrected under the same key', async () => {
      expectError(parsed(await send('corrected', { name: 7 })), 400, 'INVALID_INPUT');
      const answer = await send('corrected', { name: 'now right' });
      expect([answer.status, isReplayed(answer)]).toEqual([200, false]);
    });

    test('with a used key and another body, path or query are a conflict', async () => {
      await send('taken', { name: 'x' });
      expectError(parsed(await send('taken', { name: 'y' })), 409, 'CONFLICT', 'a different path, query or body');
      expectError(parsed(await send('taken', { name: 'x' }, { query: '?verbose=true' })), 409, 'CONFLICT');
      const elsewhere = await request(target(), 'POST', '/idem/greeter/v1/other', {
        key: user.key,
        json: { name: 'x' },
        headers: { 'idempotency-key': 'taken' },
      });
      expectError(elsewhere, 409, 'CONFLICT');
    });

    test('use keys of their own workspace: another workspace may use the same key', async () => {
      const other = await target().addUser('idem-other');
      const secret = { name: 'ANTHROPIC_API_KEY', value: llmKey };
      expectOk(
        await request(target(), 'PUT', `/workspaces/${other.workspaceId}/secrets`, { key: other.key, json: secret }),
      );
      const mine = await send('shared', { name: 'mine' });
      const theirs = await send('shared', { name: 'theirs' }, { as: other.key });
      expect([mine.status, theirs.status, isReplayed(theirs)]).toEqual([200, 200, false]);
    });

    test.each([
      ['no character', ''],
      ['256 characters', 'k'.repeat(256)],
    ])('with a key of %s are refused', async (_, key) => {
      expectError(parsed(await send(key, { name: 'x' })), 400, 'INVALID_INPUT', 'idempotency-key');
    });

    test('may have a key of 255 characters', async () => {
      expect((await send('k'.repeat(255), { name: 'x' })).status).toBe(200);
    });

    test('as streams end with the same result', async () => {
      const input = { name: 'streamed' };
      const headers = { accept: 'text/event-stream' };
      const first = await send('stream', input, { headers });
      const [, result] = /^event: result\ndata: (.*)\n\n$/m.exec(first.text)!;
      const second = await send('stream', input, { headers });
      expect(second.text).toBe(`event: result\ndata: ${result}\n\n`);
      expect(second.headers.get('content-type')).toBe('text/event-stream');
      const plain = await send('stream', input);
      expect([plain.status, plain.text, isReplayed(plain)]).toEqual([200, result, true]);
      expect(askedFor('streamed')).toBe(1);
    });

    test('with respond-async name the same run', async () => {
      const input = { name: 'asynchronous' };
      const headers = { prefer: 'respond-async' };
      const first = await send('async', input, { headers });
      const second = await send('async', input, { headers });
      expect([first.status, second.status, second.text]).toEqual([202, 202, first.text]);
      for (const name of ['location', 'preference-applied', 'x-run-id']) {
        expect(second.headers.get(name)).toBe(first.headers.get(name));
      }
      expect(isReplayed(second)).toBe(true);
    });

    test('with files are the same call under any multipart boundary', async () => {
      const form = (text: string) => {
        const body = new FormData();
        body.set('file', new Blob([text], { type: 'text/plain' }), 'a.txt');
        return body;
      };
      const upload = (text: string) =>
        request(target(), 'POST', '/idem/reader/v1/run', {
          key: user.key,
          body: form(text),
          headers: { 'idempotency-key': 'files' },
        });
      const first = await upload('one');
      const second = await upload('one');
      expect([second.status, isReplayed(second), second.body]).toEqual([200, true, first.body]);
      expectError(await upload('two'), 409, 'CONFLICT');
    });
  });
}
