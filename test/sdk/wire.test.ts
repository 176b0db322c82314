import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { ERROR_CODES, httpStatusOf, isRetryable } from '#core/base/errors.ts';
import { type Job, languages } from './languages.ts';
import { json, type Recorder, startRecorder } from './recorder.ts';

/**
 * The requests of both SDKs, and their handling of answers (`docs/interface/calls.md`,
 * `docs/interface/orchestration.md#chain-headers`).
 */
describe.each(languages())('the SDK for $name', ({ run }) => {
  let gateway: Recorder;
  beforeEach(async () => {
    gateway = await startRecorder();
    return () => gateway.close();
  });

  const chain = () => ({
    PLATFORM_SERVICE_KEY: 'sk_agent_test',
    PLATFORM_GATEWAY_URL: gateway.url,
    PLATFORM_CALL_CHAIN: 'acme/top@v2,acme/self@v1',
    PLATFORM_CALL_CHAIN_SIG: 'chain-sig',
    PLATFORM_DEADLINE_MS: String(Date.now() + 60_000),
    PLATFORM_MAX_HOPS: '3',
    PLATFORM_DOWNSTREAM_REMAINING: '49',
    PLATFORM_BILLING_ORG_ID: 'org',
    PLATFORM_BILLING_ORG_SIG: 'org-sig',
    PLATFORM_ROOT_RUN_ID: 'root',
    PLATFORM_REQUEST_ID: 'req_1',
  });
  const call = (ref = 'acme/other@v1', more: Partial<Job> = {}): Job => ({
    module: 'agent',
    method: 'call',
    args: [ref, { text: 'héllo' }],
    ...more,
  });

  describe('AgentClient', () => {
    test('sends key, chain and input, and answers the data', async () => {
      gateway.answer = (_, response) => json(response, 200, { data: { sum: 3 }, metadata: {} });
      const env = chain();
      expect(await run(call(), env)).toEqual({ value: { sum: 3 } });
      expect(gateway.requests).toMatchObject([
        {
          method: 'POST',
          path: '/acme/other/v1/run',
          body: { text: 'héllo' },
          headers: {
            authorization: 'Bearer sk_agent_test',
            'x-platform-call-chain': env.PLATFORM_CALL_CHAIN,
            'x-platform-call-chain-sig': 'chain-sig',
            'x-platform-deadline-ms': env.PLATFORM_DEADLINE_MS,
            'x-platform-max-hops': '2',
            'x-platform-downstream-remaining': '49',
            'x-platform-billing-org-id': 'org',
            'x-platform-billing-org-sig': 'org-sig',
            'x-platform-root-run-id': 'root',
            'x-platform-request-id': 'req_1',
          },
        },
      ]);
    });

    test('sends no header for what it was not told', async () => {
      const { PLATFORM_SERVICE_KEY, PLATFORM_GATEWAY_URL } = chain();
      await run(call('acme/other@v1', { options: { endpoint: 'a b/c' } }), {
        PLATFORM_SERVICE_KEY,
        PLATFORM_GATEWAY_URL: `${PLATFORM_GATEWAY_URL}/`,
      });
      expect(gateway.requests).toMatchObject([{ path: '/acme/other/v1/a%20b%2Fc' }]);
      expect(Object.keys(gateway.requests[0]!.headers).filter((name) => name.startsWith('x-platform'))).toEqual([]);
    });

    test('answers a body without data and metadata as it is', async () => {
      gateway.answer = (_, response) => json(response, 200, { data: 1 });
      expect(await run(call(), chain())).toEqual({ value: { data: 1 } });
    });

    test('goes on with the chain of a request, and with nothing of its own environment', async () => {
      const headers = { 'x-platform-call-chain': 'acme/asker@v1', 'x-platform-max-hops': '1' };
      await run(call('acme/top@v2', { headers }), chain());
      const sent = gateway.requests[0]!.headers;
      expect(sent).toMatchObject({ authorization: 'Bearer sk_agent_test', 'x-platform-call-chain': 'acme/asker@v1' });
      expect(sent['x-platform-max-hops']).toBe('0');
      expect(sent).not.toHaveProperty('x-platform-root-run-id');
    });

    test.each([
      ['a cycle', 'CallChainCycleError', 'DEPENDENCY_CYCLE', {}, 'acme/top@v2'],
      ['no hops left', 'MaxHopsExceededError', 'MAX_HOPS_EXCEEDED', { PLATFORM_MAX_HOPS: '0' }, 'acme/other@v1'],
      ['a deadline gone by', 'TimeoutExceededError', 'TIMEOUT', { PLATFORM_DEADLINE_MS: '1000' }, 'acme/other@v1'],
      ['no key', 'DependencyCallError', 'UNAUTHORIZED', { PLATFORM_SERVICE_KEY: '' }, 'acme/other@v1'],
    ])('refuses %s without asking', async (_, type, code, env, ref) => {
      expect(await run(call(ref), { ...chain(), ...env })).toMatchObject({ error: { type, code } });
      expect(gateway.requests).toEqual([]);
    });

    test.each(['other@v1', 'acme/other', 'acme/other@latest', 'Acme/other@v1', 'acme/other@v1/run', '../x@v1'])(
      'refuses %j, which names no exact version',
      async (ref) => {
        expect((await run(call(ref), chain())).error?.message).toContain(ref);
        expect(gateway.requests).toEqual([]);
      },
    );

    test('tells how a call failed', async () => {
      const body = {
        error: { code: 'RATE_LIMITED', message: 'tomorrow', is_retryable: true, suggested_wait_time: 7 },
        metadata: { request_id: 'req_9' },
      };
      gateway.answer = (_, response) => json(response, 429, body);
      expect(await run(call(), chain())).toMatchObject({
        error: {
          type: 'DependencyCallError',
          status: 429,
          code: 'RATE_LIMITED',
          message: 'tomorrow',
          isRetryable: true,
          suggestedWaitTime: 7,
          requestId: 'req_9',
          responseBody: body,
        },
      });
      gateway.answer = (_, response) => response.writeHead(502).end('<html>');
      expect(await run(call(), chain())).toMatchObject({
        error: { type: 'DependencyCallError', status: 502, code: 'HTTP_502', responseBody: '<html>' },
      });
      gateway.answer = (_, response) => response.destroy();
      expect(await run(call(), chain())).toMatchObject({
        error: { type: 'DependencyCallError', status: null, code: 'NETWORK_ERROR', isRetryable: true },
      });
    });

    test('takes its key nowhere else', async () => {
      const elsewhere = await startRecorder();
      gateway.answer = (_, response) => response.writeHead(307, { location: `${elsewhere.url}/` }).end();
      expect((await run(call(), chain())).error?.type).toBe('DependencyCallError');
      gateway.answer = (_, response) => response.writeHead(302, { location: `${elsewhere.url}/` }).end();
      expect((await run(call(), chain())).error?.type).toBe('DependencyCallError');
      expect(elsewhere.requests).toEqual([]);
      elsewhere.close();
    });

    test('waits no longer than its timeout, and never past the deadline', async () => {
      gateway.answer = () => {};
      const timedOut = { error: { type: 'TimeoutExceededError', code: 'TIMEOUT', isRetryable: true } };
      expect(await run(call('acme/other@v1', { options: { timeout: 0.2 } }), chain())).toMatchObject(timedOut);
      expect(await run(call('acme/other@v1', { deadlineIn: 1 }), chain())).toMatchObject(timedOut);
      expect(gateway.requests).toHaveLength(2);
    });

    test('an answer that drips must end in time, too', async () => {
      gateway.answer = (_, response) => {
        const timer = setInterval(() => response.write(' '), 50);
        response.on('close', () => clearInterval(timer));
      };
      const { error } = await run(call('acme/other@v1', { options: { timeout: 0.5 } }), chain());
      expect(error).toMatchObject({ type: 'TimeoutExceededError' });
    });

    test('makes 40 calls at once', async () => {
      const waiting: (() => void)[] = [];
      gateway.answer = (_, response) => {
        waiting.push(() => json(response, 200, { data: 1, metadata: {} }));
        if (waiting.length === 40) for (const go of waiting) go();
      };
      const refs = Array.from({ length: 40 }, (_, index) => `acme/other-${index}@v1`);
      expect((await run(call('', { method: 'callAll', args: [refs] }), chain())).value).toHaveLength(40);
    });

    test("runs agents on the author's machine where the command line tool says so", async () => {
      const folder = mkdtempSync(join(tmpdir(), 'sdk-agents-'));
      const agent = (name: string, command: string) => {
        mkdirSync(join(folder, 'acme', name, 'v1'), { recursive: true });
        writeFileSync(join(folder, 'acme', name, 'v1', 'agent.json'), JSON.stringify({ runtime: { command } }));
      };
      agent(
        'echo',
        `node -e 'console.log(JSON.stringify([process.env.PLATFORM_CALL_CHAIN, process.env.PLATFORM_MAX_HOPS]))'`,
      );
      agent('broken', 'exit 3');
      const env = { ...chain(), PLATFORM_LOCAL_EXECUTION: 'true', PLATFORM_AGENTS_DIR: folder };
      expect(await run(call('acme/echo@v1'), env)).toEqual({
        value: ['acme/top@v2,acme/self@v1,acme/echo@v1', '2'],
      });
      const failed = { type: 'LocalExecutionError', exitCode: 3 };
      expect(await run(call('acme/broken@v1'), env)).toMatchObject({ error: failed });
      expect(await run(call('acme/absent@v1'), env)).toMatchObject({ error: { ...failed, exitCode: null } });
      expect(gateway.requests).toEqual([]);
      rmSync(folder, { recursive: true });
    });
  });

  const workspace = () => ({ PLATFORM_SERVICE_KEY: 'sk_agent_test', PLATFORM_GATEWAY_URL: gateway.url });

  describe('storage', () => {
    /** The documents of one namespace. */
    function serveDocuments(): Map<string, { value: unknown; version: number }> {
      const documents = new Map<string, { value: unknown; version: number }>();
      gateway.answer = ({ method, path, headers, body }, response) => {
        const key = path.split('/')[3];
        const document = key === undefined ? undefined : documents.get(key);
        const expected = headers['if-match'];
        const refuse = (status: number, code: string) => json(response, status, { error: { code, message: code } });
        if (path.startsWith('/storage/notes?cursor=2')) return json(response, 200, { keys: ['c'], has_more: false });
        if (path === '/storage') return json(response, 200, { namespaces: ['notes'] });
        if (path === '/storage/notes' && method === 'GET') {
          return json(response, 200, { keys: ['a', 'b'], cursor: '2', has_more: true });
        }
        if (key === undefined) return json(response, 200, { deleted: true, documents_deleted: documents.size });
        if (method === 'PUT') {
          if (key === 'full') return refuse(429, 'STORAGE_QUOTA_EXCEEDED');
          if (expected !== undefined && Number(expected) !== (document?.version ?? 0)) return refuse(409, 'CONFLICT');
          documents.set(key, { value: body, version: (document?.version ?? 0) + 1 });
        } else if (document === undefined) return refuse(404, 'NOT_FOUND');
        if (method === 'PATCH') documents.set(key, { value: { ...(document!.value as object), ...body }, version: 9 });
        if (method === 'DELETE') return json(response, 200, { deleted: documents.delete(key) });
        json(response, 200, { namespace: 'notes', key, ...documents.get(key) });
      };
      return documents;
    }
    const storage = (method: string, args: unknown[], options = {}) =>
      run({ module: 'storage', method, args, options }, workspace());

    test('reads and writes documents', async () => {
      serveDocuments();
      expect(await storage('get', ['notes', 'a'])).toEqual({ value: null });
      expect((await storage('set', ['notes', 'a', { n: 1 }])).value).toMatchObject({ value: { n: 1 }, version: 1 });
      expect((await storage('get', ['notes', 'a'])).value).toMatchObject({ value: { n: 1 }, version: 1 });
      expect((await storage('patch', ['notes', 'a', { m: 2 }])).value).toMatchObject({ value: { n: 1, m: 2 } });
      expect(await storage('delete', ['notes', 'a'])).toEqual({ value: true });
      expect(await storage('delete', ['notes', 'a'])).toEqual({ value: false });
      expect(gateway.requests[0]).toMatchObject({ headers: { authorization: 'Bearer sk_agent_test' } });
    });

    test('lists all pages, and counts what it deletes', async () => {
      serveDocuments().set('a', { value: {}, version: 1 });
      expect(await storage('namespaces', [])).toEqual({ value: ['notes'] });
      expect(await storage('list', ['notes'])).toEqual({ value: ['a', 'b', 'c'] });
      expect(await storage('deleteNamespace', ['notes'])).toEqual({ value: 1 });
    });

    test('writes over the expected version only, and tries again when it updates', async () => {
      const documents = serveDocuments();
      documents.set('a', { value: { count: 1 }, version: 4 });
      const stale = await storage('set', ['notes', 'a', {}], { version: 3 });
      expect(stale.error).toMatchObject({ type: 'StorageConflictError', status: 409, code: 'CONFLICT' });

      const serve = gateway.answer;
      let rivals = 2;
      gateway.answer = (request, response) => {
        if (request.method === 'PUT' && rivals-- > 0) {
          const { value, version } = documents.get('a')!;
          documents.set('a', { value: { count: (value as { count: number }).count + 10 }, version: version + 1 });
        }
        serve(request, response);
      };
      expect((await storage('update', ['notes', 'a'])).value).toMatchObject({ value: { count: 22 } });
      expect((await storage('update', ['notes', 'fresh'])).value).toMatchObject({ value: { count: 1 }, version: 1 });
      rivals = 100;
      expect((await storage('update', ['notes', 'a'], { retries: 1 })).error?.type).toBe('StorageConflictError');
    });

    test('tells its kinds of errors apart, and takes a person’s key, too', async () => {
      serveDocuments();
      expect((await storage('set', ['notes', 'full', {}])).error?.type).toBe('StorageQuotaError');
      expect((await storage('patch', ['notes', 'absent', {}])).error?.type).toBe('StorageNotFoundError');
      const job: Job = { module: 'storage', method: 'namespaces' };
      await run(job, { PLATFORM_API_KEY: 'sk_live_a', PLATFORM_API_URL: gateway.url });
      expect(gateway.requests.at(-1)?.headers.authorization).toBe('Bearer sk_live_a');
      expect((await run(job, {})).error).toMatchObject({ code: 'UNAUTHORIZED' });
    });
  });

  test('message sends one', async () => {
    gateway.answer = (_, response) => json(response, 201, { id: 'm' });
    const options = { level: 'warning', metadata: { a: 1 } };
    const job: Job = { module: 'message', method: 'send', args: ['Title', 'Body'], options };
    expect(await run(job, workspace())).toEqual({ value: { id: 'm' } });
    expect(gateway.requests).toMatchObject([{ method: 'POST', path: '/messages' }]);
    expect(gateway.requests[0]!.body).toEqual({ title: 'Title', body: 'Body', ...options });
  });

  test('task creates, lists, reads, changes, completes and deletes', async () => {
    gateway.answer = ({ method, path }, response) =>
      json(
        response,
        200,
        method === 'GET' && path.startsWith('/tasks?') ? { tasks: [{ id: 't' }], total: 1 } : { id: 't' },
      );
    const task = async (method: string, args: unknown[], options = {}) =>
      (await run({ module: 'task', method, args, options }, workspace())).value;
    expect(await task('create', [], { title: 'T', priority: 'high' })).toEqual({ id: 't' });
    expect(await task('list', [], { status: 'open', overdue: true, limit: 5, offset: 0 })).toEqual([{ id: 't' }]);
    expect(await task('get', ['t'])).toEqual({ id: 't' });
    expect(await task('update', ['t'], { title: 'U', project: null })).toEqual({ id: 't' });
    expect(await task('complete', ['t'])).toEqual({ id: 't' });
    expect(await task('delete', ['t'])).toBeNull();
    expect(gateway.requests.map(({ method, path, body }) => [method, path.split('?')[0], body])).toEqual([
      ['POST', '/tasks', { title: 'T', priority: 'high' }],
      ['GET', '/tasks', undefined],
      ['GET', '/tasks/t', undefined],
      ['PATCH', '/tasks/t', { title: 'U', project: null }],
      ['PATCH', '/tasks/t', { status: 'done' }],
      ['DELETE', '/tasks/t', undefined],
    ]);
    const query = new URLSearchParams(gateway.requests[1]!.path.split('?')[1]);
    expect(Object.fromEntries(query)).toEqual({ status: 'open', overdue: 'true', limit: '5', offset: '0' });
  });

  describe('Platform', () => {
    const env = () => ({ PLATFORM_API_KEY: 'sk_live_a', PLATFORM_API_URL: gateway.url });
    const platform = (method: string, args: unknown[], options = {}) =>
      run({ module: 'platform', method, args, options }, env());

    test('sends what it is given', async () => {
      await platform('call', ['acme/a', {}], { idempotencyKey: 'k', headers: { 'X-Platform-Tenant': 't' } });
      expect(gateway.requests).toMatchObject([
        {
          path: '/acme/a/latest/run',
          body: {},
          headers: { authorization: 'Bearer sk_live_a', 'idempotency-key': 'k', 'x-platform-tenant': 't' },
        },
      ]);
    });

    test('reads a stream however it is cut', async () => {
      const records = [
        ': ping\n\n',
        'event: progress\ndata: {"type":"stdout","text":"é\u2028\\n"}\n\n',
        'event: progress\n\n',
        'event: result\ndata: {"data": 1,\ndata: "metadata": {}}\n\n',
      ];
      const bytes = Buffer.from(records.join(''));
      gateway.answer = async (_, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'x-run-id': 'run' });
        for (let index = 0; index < bytes.length; index += 7) {
          await new Promise((resolve) => response.write(bytes.subarray(index, index + 7), resolve));
        }
        response.end();
      };
      expect((await platform('stream', ['acme/a@v1'])).value).toEqual([
        { type: 'stdout', text: 'é\u2028\n' },
        { type: 'result', data: 1, metadata: {}, warnings: [], runId: 'run' },
      ]);
    });

    test('tells of an error in the stream, of one that ends early, and reads an answer that is no stream', async () => {
      const stream = (body: string) => {
        gateway.answer = (_, response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(body);
        return platform('stream', ['acme/a@v1', {}]);
      };
      const failed = { error: { code: 'TIMEOUT', message: 'late', is_retryable: true }, metadata: { request_id: 'r' } };
      expect((await stream(`event: error\ndata: ${JSON.stringify(failed)}\n\n`)).error).toMatchObject({
        type: 'RunFailedError',
        code: 'TIMEOUT',
        requestId: 'r',
        status: null,
      });
      expect((await stream('event: progress\ndata: {"type":"heartbeat"}\n\n')).error?.code).toBe('NETWORK_ERROR');
      gateway.answer = (_, response) => json(response, 200, { data: 2, metadata: {} });
      expect((await platform('stream', ['acme/a@v1', {}])).value).toMatchObject([{ type: 'result', data: 2 }]);
    });

    test('has the status and the kind of each error that the record of a run may have', async () => {
      gateway.answer = ({ path }, response) => {
        const code = path.split('/').at(-1)!.split('?')[0]!;
        json(response, 200, { id: 'w', status: 'failed', error_code: code, error_message: 'why' });
      };
      for (const code of ERROR_CODES) {
        const { error } = await platform('wait', [code]);
        expect(error).toMatchObject({ code, status: httpStatusOf(code), isRetryable: isRetryable(code) });
      }
    });

    test('waits for a started call, tells how it failed, and cancels one', async () => {
      const records: object[] = [
        { status: 'running' },
        { status: 'waiting' },
        { status: 'completed' },
        {
          status: 'completed',
          output_data: { n: 1 },
          agent_version: 'v2',
          duration_ms: 5,
          input_tokens: 3,
          output_tokens: 4,
          cache_read_tokens: 0,
        },
        { status: 'timeout' },
        { status: 'timeout', error_message: 'too late' },
      ];
      gateway.answer = ({ method }, response) => {
        if (method === 'POST') return json(response, 202, { run_id: 'r', url: '/workspaces/w/runs/r' });
        json(response, 200, method === 'GET' ? records.shift() : {});
      };
      expect((await platform('startAndWait', ['acme/a@v1', { a: 1 }])).value).toMatchObject({
        data: { n: 1 },
        metadata: {
          request_id: 'req_r',
          processing_time_ms: 5,
          version: 'v2',
          usage: { input_tokens: 3, output_tokens: 4 },
        },
        runId: 'r',
      });
      expect(gateway.requests[0]!.headers.prefer).toBe('respond-async');
      const read = '/workspaces/w/runs/r';
      const short = `${read}?body=false`;
      expect(gateway.requests.slice(1).map(({ path }) => path)).toEqual([short, short, short, read]);
      expect((await platform('startAndWait', ['acme/a@v1', {}])).error).toMatchObject({
        type: 'RunFailedError',
        code: 'TIMEOUT',
        status: 504,
        isRetryable: true,
        runId: 'r',
        message: 'too late',
      });
      expect((await platform('startAndCancel', ['acme/a@v1', {}])).error).toBeUndefined();
      expect(gateway.requests.at(-1)).toMatchObject({ method: 'DELETE', path: '/workspaces/w/runs/r' });
    });
  });
});
