import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from 'vitest';
import type { BootDocument } from '#core/ports/service-host.ts';
import { LoopGateway } from './loop-gateway.ts';

const BOOT: BootDocument = {
  serviceId: 'f3c7c9f0-0000-4000-8000-000000000001',
  workspaceId: 'w',
  revision: 1,
  agent: 'acme/helper@v1',
  app: { kind: 'loop', inputSchema: { type: 'object', required: ['question'] } },
  env: {},
  secrets: {},
  port: 3000,
  bundle: { key: 'bundles/x' },
  egress: 'none',
  limits: { memoryBytes: 1, diskBytes: 1, fileBytes: 1, processes: 1 },
};

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

async function listening(listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Starts a gateway in front of a platform with the handler `platform`. */
async function gateway(platform: RequestListener | undefined, boot: Partial<BootDocument> = {}) {
  const port = platform === undefined ? 9 : await listening(platform);
  const loop = new LoopGateway({ ...BOOT, ...boot }, { url: `http://127.0.0.1:${port}/prod`, token: 'made-up-token' });
  return { loop, port: await listening((incoming, response) => loop.request(incoming, response, '192.0.2.7')) };
}

async function ask(port: number, method: string, path = '/', headers: Record<string, string> = {}, body?: string) {
  const request = httpRequest({ host: '127.0.0.1', port, method, path, headers, agent: false });
  request.end(body);
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  const content = await text(answer);
  return {
    status: answer.statusCode,
    headers: answer.headers,
    content,
    json: () => JSON.parse(content),
  };
}

describe('the address of a loop', () => {
  test('passes a POST on as a call with the token of the instance, and its answer back', async () => {
    const seen: unknown[] = [];
    const { port } = await gateway(async (incoming, response) => {
      const { method, url, headers } = incoming;
      seen.push({ method, url, headers, body: await text(incoming) });
      response.writeHead(422, {
        ...{ 'content-type': 'application/json', 'x-run-id': 'r', 'retry-after': '3' },
        ...{ 'set-cookie': 'platform=1', 'x-internal': '1' },
      });
      response.end('{"error":{}}');
    });
    const headers = {
      ...{ 'content-type': 'application/json', 'idempotency-key': 'k', prefer: 'respond-async' },
      ...{ authorization: 'Bearer of-the-client', cookie: 'a=1', 'x-forwarded-for': '192.0.2.1' },
    };
    const answer = await ask(port, 'POST', '/?a=b', headers, '{"question":"why"}');
    expect([answer.status, answer.content]).toEqual([422, '{"error":{}}']);
    expect(answer.headers).toMatchObject({ 'x-run-id': 'r', 'retry-after': '3' });
    expect(answer.headers).not.toHaveProperty('set-cookie');
    expect(answer.headers).not.toHaveProperty('x-internal');
    expect(seen).toEqual([
      {
        method: 'POST',
        url: `/prod/runner/services/${BOOT.serviceId}/calls`,
        headers: expect.objectContaining({
          ...{ authorization: 'Bearer made-up-token', 'idempotency-key': 'k', prefer: 'respond-async' },
          'content-type': 'application/json',
        }),
        body: '{"question":"why"}',
      },
    ]);
    expect((seen[0] as { headers: object }).headers).not.toHaveProperty('cookie');
  });

  test('passes events on as they come, and ends the call where its client leaves', async () => {
    let isLeft = false;
    const { loop, port } = await gateway((incoming, response) => {
      incoming.resume();
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('event: progress\n\n');
      response.once('close', () => {
        isLeft = true;
      });
    });
    const request = httpRequest({ host: '127.0.0.1', port, method: 'POST', agent: false }).on('error', () => {});
    request.end('{}');
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    answer.on('error', () => {});
    const [event] = await once(answer, 'data');
    expect([answer.headers['content-type'], String(event)]).toEqual(['text/event-stream', 'event: progress\n\n']);
    let isIdle = false;
    void loop.idle().then(() => {
      isIdle = true;
    });
    expect(isIdle).toBe(false);
    request.destroy();
    await expect.poll(() => [isLeft, isIdle], { timeout: 20_000 }).toEqual([true, true]);
  });

  test('says what it takes, and refuses the rest in the envelope of errors', async () => {
    const { port } = await gateway((_, response) => response.end('called'));
    expect((await ask(port, 'GET')).json()).toEqual({
      agent: 'acme/helper@v1',
      takes: {
        ...{ method: 'POST', path: '/', content_type: 'application/json' },
        input_schema: { type: 'object', required: ['question'] },
      },
      answers: ['application/json', 'text/event-stream'],
    });
    const put = await ask(port, 'PUT', '/', {}, '{}');
    expect([put.status, put.headers.allow, put.json().error]).toEqual([
      405,
      'GET, HEAD, POST',
      expect.objectContaining({
        code: 'METHOD_NOT_ALLOWED',
        message: expect.stringContaining('POST with a JSON body'),
      }),
    ]);
    for (const path of ['/chat', '/../calls', '//', '/%2e']) {
      const answer = await ask(port, 'POST', path, {}, '{}');
      expect([path, answer.status, answer.json().error.code]).toEqual([path, 404, 'NOT_FOUND']);
    }
  });

  test('is not held by bodies that do not come: no call begins, and one address has a share of the calls', async () => {
    let calls = 0;
    const { port } = await gateway((incoming, response) => {
      calls += 1;
      incoming.resume().on('end', () => response.end('called'));
    });
    const half = (begin: string) => {
      const request = httpRequest({ host: '127.0.0.1', port, method: 'POST', agent: false }).on('error', () => {});
      open.push(() => request.destroy());
      request.setHeader('content-length', '1000');
      request.flushHeaders();
      if (begin !== '') request.write(begin);
      return new Promise<number>((resolve) => request.once('response', ({ statusCode }) => resolve(statusCode!)));
    };
    for (let count = 0; count < 101; count++) void half('');
    expect((await ask(port, 'POST', '/', {}, '{}')).content).toBe('called');
    expect(calls).toBe(1);
    expect(await Promise.race(Array.from({ length: 101 }, () => half('{')))).toBe(429);
    expect(calls).toBeLessThanOrEqual(101);
  });

  test('with an access key answers nobody without it', async () => {
    const { port } = await gateway((_, response) => response.end('called'), {
      secrets: { SERVICE_ACCESS_KEY: 'made-up-access-key' },
    });
    for (const headers of [{}, { authorization: 'Bearer made-up' }, { authorization: 'made-up-access-key' }]) {
      for (const method of ['GET', 'POST']) {
        const answer = await ask(port, method, '/', headers as Record<string, string>);
        expect([answer.status, answer.json().error.code]).toEqual([401, 'UNAUTHORIZED']);
        expect(answer.content).not.toContain('made-up-access-key');
      }
    }
    const authorization = 'Bearer made-up-access-key';
    expect((await ask(port, 'POST', '/', { authorization }, '{}')).content).toBe('called');
  });

  test('answers 503 while the platform refuses the token, or is not there', async () => {
    for (const platform of [
      (_: IncomingMessage, response: Parameters<RequestListener>[1]) => response.writeHead(401).end('{}'),
      undefined,
    ]) {
      const { port } = await gateway(platform);
      const answer = await ask(port, 'POST', '/', {}, '{}');
      expect([answer.status, answer.headers['retry-after'], answer.json().error.code]).toEqual([
        503,
        '2',
        'SERVICE_UNAVAILABLE',
      ]);
    }
  });

  test('breaks the answer off where the platform does', async () => {
    const { port } = await gateway((_, response) => {
      response.write('half');
      setImmediate(() => response.destroy());
    });
    await expect(ask(port, 'POST', '/', {}, '{}')).rejects.toThrow('aborted');
  });
});
