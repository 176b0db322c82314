import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, UUID } from '../expect.ts';

const fixture = (name: string): string =>
  readFileSync(join(import.meta.dirname, '../../fixtures/webhooks', name), 'utf8');

interface Hook {
  readonly id: string;
  /** URL shown when the schedule was created. */
  readonly url: string;
}

/** `POST /webhooks/{schedule_id}/{secret}`, as GitHub, Stripe and other holders of the URL send it. */
export function webhooksSuite(target: () => Target): void {
  describe('webhooks', () => {
    let user: TestUser;
    let llmKey: string;
    const schedules = () => `/workspaces/${user.workspaceId}/schedules`;
    const api = (method: string, path: string, json?: unknown, key = user.key) =>
      request(target(), method, `${schedules()}${path}`, { key, json });
    /** Returns the texts of matching model requests. */
    const asked = (text: string): string[] =>
      target()
        .llm.requests.filter((each) => each.apiKey === llmKey && each.text.includes(text))
        .map((each) => each.text);

    beforeAll(async () => {
      user = await target().addUser('hooks');
      llmKey = `sk-hooks-${user.userId}`;
      const secret = { name: 'ANTHROPIC_API_KEY', value: llmKey };
      expectOk(
        await request(target(), 'PUT', `/workspaces/${user.workspaceId}/secrets`, { key: user.key, json: secret }),
      );
      const agent = { type: 'prompt', description: 'x', supported_providers: ['anthropic'] };
      const client = clientOf(target(), user.key);
      await client.createAgent({ body: { ...agent, name: 'reader', prompt: 'Read.' } });
      await client.createAgent({
        body: {
          ...agent,
          name: 'strict',
          prompt: 'Order {{order}}.',
          input_schema: { type: 'object', properties: { order: { type: 'integer' } }, required: ['order'] },
        },
      });
    });

    async function makeHook(body: Record<string, unknown> = {}): Promise<Hook> {
      const made = await api('POST', '', { agent: 'hooks/reader', schedule_type: 'webhook', ...body });
      const { id, webhook_url: url } = expectOk(made, 201).schedule;
      expect(url).toMatch(new RegExp(`/webhooks/${id}/[a-z][A-Za-z0-9_-]{43}$`));
      return { id, url };
    }
    /** Sends a request without a content type unless given. */
    const post = (hook: Pick<Hook, 'url'>, body?: string, headers: Record<string, string> = {}, method = 'POST') =>
      request({ url: target().url }, method, new URL(hook.url).pathname.replace(/^.*(?=\/webhooks\/)/, ''), {
        ...(body !== undefined && { body: new TextEncoder().encode(body) }),
        headers,
      });
    const JSON_TYPE = { 'content-type': 'application/json' };
    const runsOf = async ({ id }: Hook) => expectOk(await api('GET', `/${id}/runs`)).runs;

    test('run the agent and answer with the run', async () => {
      needsModel(target());
      const hook = await makeHook({ input_data: { greeting: 'good morning' } });
      const answer = await post(hook, '{"name":"Ada [[llm {\\"text\\":\\"hello\\"}]]"}', JSON_TYPE);
      const run = expectOk(answer);
      expect(run).toEqual({
        run_id: expect.stringMatching(UUID),
        status: 'success',
        duration_ms: expect.any(Number),
        output: { result: expect.any(String) },
        error: null,
        deduplicated: false,
      });
      expect(answer.headers.get('x-run-id')).toBe(run.run_id);
      const [listed] = await runsOf(hook);
      expect(listed).toMatchObject({ id: run.run_id, status: 'completed', trigger_source: 'webhook' });
      const { schedule } = expectOk(await api('GET', `/${hook.id}`));
      expect(schedule).toMatchObject({ run_count: 1, last_run_status: 'completed', consecutive_failures: 0 });
    });

    test.each([
      ['no body', undefined, { a: 1, b: { c: 2 } }],
      ['an empty object', '{}', { a: 1, b: { c: 2 } }],
      ['an object, whose members win', '{"b":{"d":3},"e":4}', { a: 1, b: { d: 3 }, e: 4 }],
      ['an array', '[1]', { a: 1, b: { c: 2 }, data: [1] }],
      ['a text', '"x"', { a: 1, b: { c: 2 }, data: 'x' }],
      ['null', 'null', { a: 1, b: { c: 2 }, data: null }],
    ])('merge %s into the input of the schedule', async (_, body, input) => {
      const hook = await makeHook({ input_data: { a: 1, b: { c: 2 } } });
      const { run_id } = expectOk(await post(hook, body));
      const run = await request(target(), 'GET', `/workspaces/${user.workspaceId}/runs/${run_id}`, { key: user.key });
      expect(expectOk(run).input_data).toEqual(input);
    });

    test('accept a delivery of GitHub', async () => {
      const hook = await makeHook();
      const body = fixture('github-push.json');
      const headers = {
        ...JSON_TYPE,
        'user-agent': 'GitHub-Hookshot/044aadd',
        'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
        'x-github-event': 'push',
        'x-hub-signature-256': `sha256=${'d5'.repeat(32)}`,
      };
      const { run_id } = expectOk(await post(hook, body, headers));
      const run = await request(target(), 'GET', `/workspaces/${user.workspaceId}/runs/${run_id}`, { key: user.key });
      expect(expectOk(run).input_data).toEqual(JSON.parse(body));
      expect(asked('0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c')).toHaveLength(1);
    });

    test('refuse GitHub’s form encoding with the setting to change', async () => {
      const hook = await makeHook();
      const form = new URLSearchParams({ payload: fixture('github-push.json') }).toString();
      const answer = await post(hook, form, { 'content-type': 'application/x-www-form-urlencoded' });
      const { hint } = expectError(answer, 415, 'UNSUPPORTED_TYPE', 'application/x-www-form-urlencoded');
      expect(hint).toContain('content type');
      expect(await runsOf(hook)).toEqual([]);
    });

    test('accept a delivery of Stripe and keep its own `data`', async () => {
      const hook = await makeHook({ input_data: { data: 'of the schedule', shop: 'main' } });
      const body = fixture('stripe-payment-intent.json');
      const headers = {
        'content-type': 'application/json; charset=utf-8',
        'stripe-signature': `t=1763626460,v1=${'ab'.repeat(32)}`,
      };
      const { run_id } = expectOk(await post(hook, body, headers));
      const run = await request(target(), 'GET', `/workspaces/${user.workspaceId}/runs/${run_id}`, { key: user.key });
      expect(expectOk(run).input_data).toEqual({ shop: 'main', ...JSON.parse(body) });
    });

    test('with a key run once, also when the body changes', async () => {
      const hook = await makeHook();
      const headers = { ...JSON_TYPE, 'idempotency-key': 'evt-1' };
      const first = expectOk(await post(hook, '{"note":"first delivery"}', headers));
      expect(first.deduplicated).toBe(false);
      for (const body of ['{"note":"first delivery"}', '{"note":"another body"}', undefined]) {
        expect(expectOk(await post(hook, body, headers))).toEqual({ ...first, deduplicated: true });
      }
      expect([asked('first delivery').length, asked('another body').length]).toEqual([1, 0]);
      expect(await runsOf(hook)).toHaveLength(1);
      // Idempotency keys are scoped to a webhook.
      const other = await makeHook();
      expect(expectOk(await post(other, '{}', headers)).deduplicated).toBe(false);
    });

    test('sent ten times concurrently with a key run once', async () => {
      const hook = await makeHook({ input_data: { note: 'ten at once [[llm {"text":"done","delayMs":500}]]' } });
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => post(hook, undefined, { 'idempotency-key': 'evt-2' })),
      );
      const runs = answers.map((answer) => expectOk(answer));
      expect(new Set(runs.map(({ run_id }) => run_id)).size).toBe(1);
      expect(runs.filter(({ deduplicated }) => deduplicated)).toHaveLength(9);
      expect(asked('ten at once')).toHaveLength(1);
      expect(await runsOf(hook)).toHaveLength(1);
    });

    test('sent twelve times concurrently without a key run twelve times, and are counted', async () => {
      needsModel(target());
      const hook = await makeHook();
      const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => post(hook, `{"n":${n}}`)));
      const ids = answers.map((answer) => expectOk(answer).run_id);
      expect(new Set(ids).size).toBe(12);
      const { runs, total } = expectOk(await api('GET', `/${hook.id}/runs?limit=50`));
      expect([runs.length, total]).toEqual([12, 12]);
      const { schedule } = expectOk(await api('GET', `/${hook.id}`));
      expect(schedule).toMatchObject({ run_count: 12, consecutive_failures: 0, last_run_status: 'completed' });
    });

    test('answer with the failed run, and again with its key', async () => {
      needsModel(target());
      const hook = await makeHook({ agent: 'hooks/strict' });
      const headers = { 'idempotency-key': 'evt-3' };
      const first = expectOk(await post(hook, '{"order":"seven"}', headers));
      expect(first).toMatchObject({ status: 'error', output: null, error: expect.stringContaining('order') });
      expect(expectOk(await post(hook, '{"order":7}', headers))).toEqual({ ...first, deduplicated: true });
      expect(expectOk(await post(hook, '{"order":7}'))).toMatchObject({ status: 'success' });
      const runs = await runsOf(hook);
      expect(runs.map(({ status }: { status: string }) => status)).toEqual(['completed', 'failed']);
    });

    test.each([
      ['half a body', '{"a":', {}],
      ['text', 'hello', {}],
      ['text that claims to be JSON', 'hello', JSON_TYPE],
    ])('refuse %s', async (_, body, headers) => {
      const hook = await makeHook();
      expectError(await post(hook, body, headers), 400, 'INVALID_INPUT', 'not valid JSON');
      expect(await runsOf(hook)).toEqual([]);
    });

    test('refuse a body past the limit', async () => {
      const hook = await makeHook();
      const { status, body } = await post(hook, `"${'x'.repeat(26 * 1024 ** 2)}"`, JSON_TYPE);
      expect([status, body.error.code]).toEqual([413, 'DOCUMENT_TOO_LARGE']);
      expect(await runsOf(hook)).toEqual([]);
    });

    test.each(['GET', 'PUT', 'DELETE'])('are not found for the method %s', async (method) => {
      const hook = await makeHook();
      const answer = await post(hook, undefined, {}, method);
      expectError(answer, 405, 'METHOD_NOT_ALLOWED', 'POST');
      expect(await runsOf(hook)).toEqual([]);
    });

    test.each([
      ['empty', ''],
      ['of 256 characters', 'k'.repeat(256)],
    ])('refuse a key that is %s', async (_, key) => {
      const hook = await makeHook();
      expectError(await post(hook, '{}', { 'idempotency-key': key }), 400, 'INVALID_INPUT', 'idempotency-key');
    });

    test('are refused without their secret', async () => {
      const hook = await makeHook();
      const secret = hook.url.split('/').at(-1)!;
      const wrong = secret.slice(0, -1) + (secret.endsWith('A') ? 'B' : 'A');
      for (const given of [wrong, 'x', secret.toLowerCase(), `${secret}=`, 'null', '__proto__']) {
        expectError(await post({ url: hook.url.replace(secret, given) }, '{}'), 403, 'FORBIDDEN', 'secret');
      }
      const unknown = '3f2504e0-4f89-41d3-9a0c-0305e82c3301';
      for (const id of [unknown, 'x', hook.id.slice(1)]) {
        expectError(await post({ url: hook.url.replace(hook.id, id) }, '{}'), 404, 'NOT_FOUND');
      }
      expect(await runsOf(hook)).toEqual([]);
    });

    test('secrets open their own schedule only, and a cron schedule has none', async () => {
      const [one, other] = [await makeHook(), await makeHook()];
      expectError(await post({ url: one.url.replace(one.id, other.id) }, '{}'), 403, 'FORBIDDEN');
      const cron = await api('POST', '', { agent: 'hooks/reader', cron_expression: '0 9 * * *' });
      const { schedule } = expectOk(cron, 201);
      expect(schedule).not.toHaveProperty('webhook_url');
      expectError(await post({ url: one.url.replace(one.id, schedule.id) }, '{}'), 404, 'NOT_FOUND');
      expectError(await api('POST', `/${schedule.id}/regenerate-webhook`), 409, 'CONFLICT', 'no webhook');
    });

    test('that are disabled run nothing, but repeat earlier answers by key', async () => {
      const hook = await makeHook();
      const keyed = { 'idempotency-key': 'evt-4' };
      const before = expectOk(await post(hook, '{}', keyed));
      expectOk(await api('PATCH', `/${hook.id}`, { enabled: false }));
      const fresh = { 'idempotency-key': 'evt-5' };
      for (const headers of [{}, fresh]) expectError(await post(hook, '{}', headers), 409, 'CONFLICT', 'disabled');
      expect(expectOk(await post(hook, '{}', keyed))).toEqual({ ...before, deduplicated: true });
      expectOk(await api('PATCH', `/${hook.id}`, { enabled: true }));
      expect(expectOk(await post(hook, '{}', fresh)).deduplicated).toBe(false);
      expectOk(await api('DELETE', `/${hook.id}`));
      for (const headers of [{}, keyed]) expectError(await post(hook, '{}', headers), 404, 'NOT_FOUND');
    });

    test('show their secret once, and never again', async () => {
      const hook = await makeHook();
      const secret = hook.url.split('/').at(-1)!;
      const seen = [
        await api('GET', ''),
        await api('GET', `/${hook.id}`),
        await api('GET', `/${hook.id}?reveal_webhook=true`),
        await api('PATCH', `/${hook.id}`, { input_data: { a: 1 } }),
        await api('GET', `/${hook.id}/events`),
      ];
      for (const answer of seen) expect(JSON.stringify(expectOk(answer))).not.toContain(secret);
    });

    test('get a new address from an owner, and the old one is refused', async () => {
      const hook = await makeHook();
      const member = await target().addUser('hooks-member');
      await target().addMember(member, user.workspaceId);
      const path = `/${hook.id}/regenerate-webhook`;
      expectError(await api('POST', path, undefined, member.key), 403, 'FORBIDDEN', 'Only an owner');
      const { webhook_url: url, message } = expectOk(await api('POST', path));
      expect(message).toContain('once');
      expect(url).not.toBe(hook.url);
      expectError(await post(hook, '{}'), 403, 'FORBIDDEN');
      expectOk(await post({ url }, '{}'));
      const { events } = expectOk(await api('GET', `/${hook.id}/events`));
      expect(events.map(({ event_type }: { event_type: string }) => event_type)).toContain('webhook_regenerated');
      expectError(await api('POST', '/3f2504e0-4f89-41d3-9a0c-0305e82c3301/regenerate-webhook'), 404, 'NOT_FOUND');
    });
  });
}
