import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, type TestContext, test } from 'vitest';
import { clients } from './languages.ts';
import { json, type Recorder, startRecorder } from './recorder.ts';

/** What the clients make of a platform or network that fails: the same in each. The tests wait most of their time. */
describe.each(clients())('the client for $name', { concurrent: true }, ({ name, run }) => {
  const refusal = (code: string, is_retryable: boolean, more = {}) => ({
    error: { code, message: code, is_retryable, ...more },
    metadata: { request_id: 'req_1' },
  });
  /** A server of the test's own, and the client of it. */
  const start = async ({ onTestFinished }: TestContext) => {
    const server = await startRecorder();
    onTestFinished(() => server.close());
    return {
      server,
      platform: (method: string, args: unknown[], options = {}) => {
        const env = { PLATFORM_API_KEY: 'sk_live_a', PLATFORM_API_URL: server.url };
        return run({ module: 'platform', method, args, options }, env);
      },
      answers: (...each: (Recorder['answer'] | 'ok')[]) => {
        server.answer = (request, response) => {
          const answer = each.length > 1 ? each.shift()! : each[0]!;
          if (answer === 'ok') json(response, 200, { data: 1, metadata: {} });
          else answer(request, response);
        };
      },
      keys: () => server.requests.map(({ headers }) => headers['idempotency-key']),
    };
  };

  test('sends a call again that was refused, cut or lost, with the same key', async (context) => {
    const { server, platform, answers, keys } = await start(context);
    answers(
      (_, response) =>
        response.writeHead(429, { 'retry-after': '1' }).end(JSON.stringify(refusal('RATE_LIMITED', true))),
      (_, response) => response.writeHead(200, { 'content-length': 100 }).end('{"data"', () => response.destroy()),
      'ok',
    );
    const began = Date.now();
    expect((await platform('call', ['acme/a'])).value).toMatchObject({ data: 1 });
    expect(Date.now() - began).toBeGreaterThan(1_000);
    expect(server.requests).toHaveLength(3);
    expect(new Set(keys()).size).toBe(1);
    expect(keys()[0]).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('gives up after two retries of a proxy that says 503', async (context) => {
    const { server, platform, answers } = await start(context);
    answers((_, response) => response.writeHead(503).end('<html>'));
    expect((await platform('call', ['acme/a'])).error).toMatchObject({ type: 'ServerError', code: 'HTTP_503' });
    expect(server.requests).toHaveLength(3);
  });

  test.for([
    ['a run that began', 502, { 'x-run-id': 'r1' }, refusal('LLM_ERROR', true), 'RunFailedError'],
    ['what would be refused again', 400, {}, refusal('INVALID_INPUT', false), 'InvalidRequestError'],
    ['a wait of minutes', 429, { 'retry-after': '300' }, refusal('RATE_LIMITED', true), 'RateLimitError'],
    ['a redirect', 307, { location: 'http://127.0.0.1:1/' }, {}, 'PlatformError'],
  ] as const)('does not send %s again', async ([, status, headers, body, type], context) => {
    const { server, platform, answers } = await start(context);
    answers((_, response) => response.writeHead(status, headers).end(JSON.stringify(body)));
    const { error } = await platform('call', ['acme/a']);
    expect(error).toMatchObject({ type, status });
    if (status === 429) expect(error).toMatchObject({ suggestedWaitTime: 300 });
    if (status === 502) expect(error).toMatchObject({ runId: 'r1' });
    expect(server.requests).toHaveLength(1);
  });

  test('sends no POST without a key again, and no key without retries', async (context) => {
    const { server, platform, answers, keys } = await start(context);
    answers((_, response) => response.destroy());
    expect((await platform('request', ['POST', '/tasks'])).error).toMatchObject({ type: 'NetworkError' });
    await platform('call', ['acme/a', {}], { maxRetries: 0 });
    expect(server.requests).toHaveLength(2);
    expect(keys()).toEqual([undefined, undefined]);
  });

  test('gives hint, page and request of an error', async (context) => {
    const { platform, answers } = await start(context);
    const more = { hint: 'Ask.', docs_url: 'https://docs.test/NOT_FOUND' };
    answers((_, response) => json(response, 404, refusal('NOT_FOUND', false, more)));
    expect((await platform('call', ['acme/a'])).error).toMatchObject({
      type: 'NotFoundError',
      hint: 'Ask.',
      docsUrl: 'https://docs.test/NOT_FOUND',
      requestId: 'req_1',
    });
  });

  test('ends at its timeout, with all attempts', async (context) => {
    const { server, platform, answers } = await start(context);
    answers(() => {});
    const { error } = await platform('call', ['acme/a', {}], { timeout: 3 });
    expect(error).toMatchObject({ type: 'TimeoutExceededError', code: 'TIMEOUT' });
    expect(server.requests).toHaveLength(1);
  });

  test('reads no answer without end', async (context) => {
    const { server, platform, answers } = await start(context);
    const piece = Buffer.alloc(1024 * 1024, ' ');
    answers(async (_, response) => {
      const closed = once(response, 'close');
      for (let sent = 0; sent < 80 && !response.destroyed; sent++) {
        if (!response.write(piece)) await Promise.race([once(response, 'drain'), closed]);
      }
      response.end();
    });
    expect((await platform('call', ['acme/a'])).error).toMatchObject({ code: 'ANSWER_TOO_LARGE' });
    expect(server.requests).toHaveLength(1);
  });

  test('a stream that is cut goes on with the answer of its run', async (context) => {
    const { platform, answers, keys } = await start(context);
    answers((_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'x-run-id': 'r1' });
      response.write('event: progress\ndata: {"type":"stdout","text":"a"}\n\nevent: prog', () => response.destroy());
    }, 'ok');
    expect((await platform('stream', ['acme/a'])).value).toMatchObject([
      { type: 'stdout' },
      { type: 'result', data: 1 },
    ]);
    expect(new Set(keys()).size).toBe(1);
  });

  test.for(['streamFirst', 'streamClosed', 'callAborted'])('%s ends the request', async (method, context) => {
    const { server, platform, answers } = await start(context);
    if (method === 'callAborted' && name === 'Python') return;
    const closed = new Promise((resolve) => {
      answers((_, response) => {
        response.on('close', () => resolve(true));
        if (method === 'callAborted') return;
        response.writeHead(200, { 'content-type': 'text/event-stream', 'x-run-id': 'r1' });
        response.write('event: progress\ndata: {"type":"stdout"}\n\n');
      });
    });
    const { value, error } = await platform(method, ['acme/a', {}]);
    expect(error).toBeUndefined();
    const expected = {
      streamFirst: [{ type: 'stdout' }, 'r1'],
      streamClosed: [{ type: 'stdout' }],
      callAborted: 'ended',
    };
    expect(value).toEqual(expected[method as keyof typeof expected]);
    expect(await closed).toBe(true);
    expect(server.requests).toHaveLength(1);
  });

  test('watches a run over lost connections, without a gap and without repeats', async (context) => {
    const { server, platform } = await start(context);
    const event = (id: string, type: string, n: number) =>
      `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ id, type, data: { n } })}\n\n`;
    const stream =
      (...events: string[]): Recorder['answer'] =>
      (_, response) =>
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end(events.join(''));
    server.answer = (request, response) => {
      if (request.path === '/org') return json(response, 200, { id: 'w/1' });
      const again = request.path.includes('after=2');
      const events = again
        ? [event('2', 'sub_call', 2), event('3', 'progress', 3), event('3', 'end', 4)]
        : [event('1', 'progress', 1), event('2', 'progress', 1), event('2', 'sub_call', 2)];
      stream(...events)(request, response);
    };
    const { value } = await platform('watch', ['r1']);
    expect(value.map(({ data }: { data: { n: number } }) => data.n)).toEqual([1, 1, 2, 3, 4]);
    expect(server.requests.map(({ path }) => path)).toContain('/workspaces/w%2F1/runs/r1/events?after=2');
  });

  test('lists every row, by cursors and by offsets, and ends where an address has no pages', async (context) => {
    const { server, platform } = await start(context);
    server.answer = ({ path }, response) => {
      const query = new URL(path, server.url).searchParams;
      const offset = Number(query.get('offset') ?? 0);
      if (path.startsWith('/cursor')) {
        const next = { first: 'second', second: null }[query.get('cursor') ?? 'first'] as string | null;
        return json(response, 200, { rows: [query.get('cursor') ?? 'first'], next_cursor: next });
      }
      if (path.startsWith('/last-row')) {
        const n = Number(query.get('cursor') ?? 0);
        return json(response, 200, [{ n, next_cursor: n < 2 ? String(n + 1) : null }]);
      }
      if (path.startsWith('/offset')) return json(response, 200, { rows: [offset, offset + 1], total: 4 });
      json(response, 200, { rows: ['same'] });
    };
    expect((await platform('list', ['/cursor', { a: true }])).value).toEqual(['first', 'second']);
    expect(server.requests.map(({ path }) => path)).toEqual(['/cursor?a=true', '/cursor?a=true&cursor=second']);
    expect((await platform('list', ['/last-row'])).value).toHaveLength(3);
    expect((await platform('list', ['/offset'])).value).toEqual([0, 1, 2, 3]);
    expect((await platform('list', ['/one-page'])).value).toEqual(['same']);
    const elsewhere = await platform('list', ['http://127.0.0.1:1/x']);
    expect(elsewhere.error?.message).toContain('must begin with "/"');
  });

  test('downloads a file as a whole, or not at all', async (context) => {
    const { platform, answers } = await start(context);
    const folder = mkdtempSync(join(tmpdir(), 'sdk-download-'));
    const content = 'x'.repeat(200_000);
    const cut: Recorder['answer'] = (_, response) =>
      response.writeHead(200, { 'content-length': content.length }).write('xx', () => response.destroy());
    answers(cut, (_, response) => response.end(content));
    expect((await platform('download', ['/agents/a/bundle', join(folder, 'a.zip')])).value).toBe(content.length);
    expect(readFileSync(join(folder, 'a.zip'), 'utf8')).toBe(content);
    answers(cut);
    expect((await platform('download', ['/b', join(folder, 'b.zip')])).error).toMatchObject({ code: 'NETWORK_ERROR' });
    expect(readdirSync(folder)).toEqual(['a.zip']);
    rmSync(folder, { recursive: true });
  });
});
