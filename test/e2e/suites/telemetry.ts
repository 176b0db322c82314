import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { clientOf, needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

/** Spans are sent every few seconds, on AWS every minute. */
const WAIT = { timeout: 90_000, interval: 200 };
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

// biome-ignore lint/suspicious/noExplicitAny: tests look into spans of every shape.
type Span = any;

/** The export of spans. The target must allow requests to 127.0.0.1. */
export function telemetrySuite(target: () => Target): void {
  describe('telemetry', { timeout: 180_000 }, () => {
    let owner: TestUser;
    let server: Server;
    let url: string;
    let status = 200;
    const spans: Span[] = [];
    const texts: string[] = [];
    const api = (method: string, path = '', json?: unknown, key = owner.key) =>
      request(target(), method, `/workspaces/${owner.workspaceId}/telemetry${path}`, { key, json });
    const call = (headers: Record<string, string> = {}) =>
      request(target(), 'POST', '/otel-owner/traced/v1/run', {
        ...{ key: owner.key, headers },
        json: { question: 'A question that stays here.' },
      });

    beforeAll(async () => {
      needsModel(target());
      server = createServer(async (request, response) => {
        const text = Buffer.concat(await request.toArray()).toString();
        texts.push(text);
        if (status === 200) {
          for (const resource of JSON.parse(text).resourceSpans) spans.push(...resource.scopeSpans[0].spans);
        }
        response.writeHead(status).end(`key ${request.headers['x-key']} for ${request.url}`);
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      owner = await target().addUser('otel-owner');
      const secrets = `/workspaces/${owner.workspaceId}/secrets`;
      const secret = { name: 'ANTHROPIC_API_KEY', value: `sk-telemetry-${owner.userId}` };
      expectOk(await request(target(), 'PUT', secrets, { key: owner.key, json: secret }));
      const agent = { type: 'prompt', description: 'Answers.', supported_providers: ['anthropic'] } as const;
      await clientOf(target(), owner.key).createAgent({
        body: { ...agent, name: 'traced', prompt: 'Answer {{question}}.' },
      });
    });
    afterEach(() => {
      status = 200;
    });
    afterAll(() => {
      server?.close();
      server?.closeAllConnections();
    });

    test('is off until an owner names a collector', async () => {
      expect(expectOk(await api('GET'))).toEqual({ telemetry: null });
      expectError(await api('POST', '/test'), 404, 'NOT_FOUND', 'sends no spans');
      expectError(await api('DELETE'), 404, 'NOT_FOUND');
      const settings = { endpoint: url, headers: { 'x-key': 'made-up-key' } };
      expect(expectOk(await api('PUT', '', settings)).telemetry).toEqual({
        ...{ endpoint: url, headers: { 'x-key': '••••••••' }, content: false, updated_at: expect.any(String) },
        ...{ problem: null, problem_since: null },
      });
      expect(JSON.stringify(expectOk(await api('GET')))).not.toContain('made-up-key');
    });

    test.each([
      [{ endpoint: 'ftp://otel.example.com' }, 'endpoint'],
      [{ endpoint: 'https://10.0.0.1' }, 'endpoint'],
      [{ endpoint: 'https://user:pass@otel.example.com' }, 'endpoint'],
      [{ endpoint: 'https://otel.example.com', headers: { Host: 'x' } }, 'headers'],
      [{ endpoint: 'https://otel.example.com', headers: { 'x-key': 'a\r\nb: c' } }, 'headers'],
      [{ endpoint: 'https://otel.example.com', headers: { 'x-key': '••••••••' } }, 'headers'],
      [{ endpoint: 'https://otel.example.com' }, 'headers'],
    ])('refuses %j and keeps its settings', async (settings, member) => {
      expectError(await api('PUT', '', settings), 400, 'INVALID_INPUT', member);
      expect(expectOk(await api('GET')).telemetry.endpoint).toBe(url);
    });

    test('a test shows the answer of the collector without the key', async () => {
      expect(expectOk(await api('POST', '/test'))).toEqual({
        ...{ success: true, status: 200, answer: 'key •••••••• for /v1/traces', problem: null },
      });
      status = 401;
      expect(expectOk(await api('POST', '/test'))).toMatchObject({
        ...{ success: false, status: 401, problem: 'The collector answered 401.' },
      });
    });

    test('is shown to members, changed by owners, and not there for others', async () => {
      const member = await target().addUser('otel-member');
      const stranger = await target().addUser('otel-stranger');
      await target().addMember(member, owner.workspaceId);
      expectOk(await api('GET', '', undefined, member.key));
      for (const [method, path, body] of [
        ['PUT', '', { endpoint: url }],
        ['DELETE', '', undefined],
        ['POST', '/test', undefined],
      ] as const) {
        expectError(await api(method, path, body, member.key), 403, 'FORBIDDEN');
        expectError(await api(method, path, body, stranger.key), 403, 'FORBIDDEN');
      }
      expectError(await api('GET', '', undefined, stranger.key), 403, 'FORBIDDEN');
    });

    test('sends each run in the trace of its caller, and waits for a collector that is away', async () => {
      status = 503;
      const answer = await call({ traceparent: `00-${TRACE}-${PARENT}-01` });
      expectOk(answer);
      const alone = await call({ traceparent: 'nonsense' });
      expectOk(alone);
      const [runId, aloneId] = [answer, alone].map(({ headers }) => headers.get('x-run-id')!.replaceAll('-', ''));
      const eventually = (check: () => void | Promise<void>) =>
        vi.waitFor(async () => {
          await target().passMinute?.();
          await check();
        }, WAIT);
      await eventually(async () => {
        expect(expectOk(await api('GET')).telemetry.problem).toBe('The collector answered 503.');
      });
      status = 200;
      const named = (name: string) => spans.filter((span) => span.name.startsWith(name));
      await eventually(() => expect(named('invoke_agent')).toHaveLength(2));
      expect(named('invoke_agent')).toEqual([
        expect.objectContaining({
          ...{ name: 'invoke_agent otel-owner/traced', traceId: TRACE, parentSpanId: PARENT },
          spanId: runId!.slice(16),
        }),
        expect.objectContaining({ traceId: aloneId, spanId: aloneId!.slice(16) }),
      ]);
      expect(named('chat')).toMatchObject([
        { traceId: TRACE, parentSpanId: runId!.slice(16), kind: 3 },
        { traceId: aloneId, parentSpanId: aloneId!.slice(16), kind: 3 },
      ]);
      expect(texts.join()).not.toMatch(/A question that stays|sk-telemetry|made-up-key/);
      await eventually(async () => expect(expectOk(await api('GET')).telemetry.problem).toBeNull());
    });

    test('is off again when it is deleted', async () => {
      expect(expectOk(await api('DELETE'))).toEqual({ deleted: true });
      expect(expectOk(await api('GET'))).toEqual({ telemetry: null });
    });
  });
}
