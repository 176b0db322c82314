import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { PlatformError } from '#core/base/errors.ts';
import { defineRoutes, raw } from '#core/http/route.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addMember, addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { createApp } from './app.ts';

const rows = defineRoutes([
  {
    operationId: 'getThing',
    method: 'GET',
    path: '/things/{id}',
    summary: '',
    fn: 'meta',
    auth: 'public',
    request: { query: z.object({ size: z.coerce.number().int().optional() }) },
    response: { 200: z.object({ id: z.string(), size: z.number().optional() }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'putThing',
    method: 'PUT',
    path: '/workspaces/{workspace_id}/things',
    summary: '',
    fn: 'meta',
    auth: 'key',
    role: 'owner',
    request: { body: z.object({ name: z.string(), nested: z.object({ n: z.int() }).optional() }) },
    response: { 201: z.object({ role: z.string(), workspace: z.string() }) },
  },
  {
    operationId: 'whoAmI',
    method: 'POST',
    path: '/who',
    summary: '',
    fn: 'meta',
    auth: 'key',
    response: { 200: z.object({ workspace: z.string() }) },
  },
  {
    operationId: 'getBytes',
    method: 'GET',
    path: '/bytes',
    summary: '',
    fn: 'meta',
    auth: 'public',
    response: { 200: raw('application/zip') },
  },
  {
    operationId: 'hook',
    method: 'POST',
    path: '/hooks/{id}/{secret}',
    summary: '',
    fn: 'runs',
    auth: 'webhook',
    response: { 200: z.object({ ok: z.literal(true) }) },
    errors: ['FORBIDDEN', 'NOT_FOUND'],
  },
  {
    operationId: 'instance',
    method: 'POST',
    path: '/instances/{id}',
    summary: '',
    fn: 'service-instances',
    auth: 'instance',
    response: { 200: z.object({ ok: z.literal(true) }) },
  },
  {
    operationId: 'wildcard',
    method: 'POST',
    path: '/{org}/{agent}/{version}/{endpoint}',
    summary: '',
    fn: 'meta',
    auth: 'public',
    response: { 200: z.object({ endpoint: z.string() }) },
  },
]);

function testApp(settings: Parameters<typeof memoryDeps>[0] = {}): {
  deps: MemoryDeps;
  app: ReturnType<typeof createWebApp>;
  request: (method: string, path: string, init?: RequestInit) => Promise<Response>;
} {
  const deps = memoryDeps(settings);
  const app = createWebApp(deps, rows, {
    getThing: async ({ params, query, responseHeaders }) => {
      responseHeaders['x-thing'] = 'yes';
      if (params.id === 'missing') throw new PlatformError('NOT_FOUND', 'no such thing', { hint: 'try another' });
      if (params.id === 'crash') throw new Error('the password is hunter2');
      if (params.id === 'wrong-status') return { status: 204, body: {} };
      if (params.id === 'wrong-body') return { status: 200, body: { id: 7 } };
      return { status: 200, body: { id: params.id, size: (query as { size?: number }).size, inside: 'stays inside' } };
    },
    putThing: async ({ caller }) => ({
      status: 201,
      body: { role: caller!.role, workspace: caller!.workspace.slug },
    }),
    whoAmI: async ({ caller }) => ({ status: 200, body: { workspace: caller!.workspace.slug } }),
    getBytes: async () => ({
      status: 200,
      body: (async function* () {
        yield Buffer.from('PK');
      })(),
      headers: { 'content-disposition': 'attachment' },
    }),
    hook: async ({ params }) => {
      if (params.id !== 'known') throw new PlatformError('NOT_FOUND', 'no such hook');
      if (params.secret !== 'right') throw new PlatformError('FORBIDDEN', 'wrong secret');
      return { status: 200, body: { ok: true } };
    },
    instance: async ({ request }) => {
      if (request.headers.get('authorization') === 'Bearer right') return { status: 200, body: { ok: true } };
      throw new PlatformError('UNAUTHORIZED', 'wrong token');
    },
    wildcard: async ({ params }) => ({ status: 200, body: { endpoint: params.endpoint } }),
  });
  const request = (method: string, path: string, init: RequestInit = {}) =>
    app(new Request(`http://platform.test${path}`, { method, ...init }));
  return { deps, app, request };
}

const json = async (response: Response) => (await response.json()) as Record<string, Record<string, unknown>>;

describe('answers', () => {
  test('carry a request id and the members that the row names', async () => {
    const { request } = testApp();
    const response = await request('GET', '/things/a%20b%2Fc?size=3');
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ id: 'a b/c', size: 3 });
    expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/);
    expect(response.headers.get('x-thing')).toBe('yes');
  });

  test('may be bytes', async () => {
    const response = await testApp().request('GET', '/bytes');
    expect(await response.text()).toBe('PK');
    expect(response.headers.get('content-type')).toBe('application/zip');
    expect(response.headers.get('content-disposition')).toBe('attachment');
  });

  test('that depend on one frozen object are made once for it, whoever asks', async () => {
    const row = { ...rows[0], request: {} } as const;
    const made: string[] = [];
    let of: object = Object.freeze({ id: 'a' });
    const app = createWebApp(memoryDeps(), [row, { ...row, operationId: 'other', path: '/others/{id}' }], {
      getThing: async () => ({
        status: 200,
        bodyOf: of,
        get body() {
          made.push('thing');
          return { ...of, inside: 'stays inside' };
        },
      }),
      other: async () => ({ status: 200, bodyOf: of, body: { id: 'another view' } }),
    });
    const get = async (path: string) => (await app(new Request(`http://platform.test${path}`))).json();
    for (let i = 0; i < 3; i++) expect(await get('/things/1')).toEqual({ id: 'a' });
    expect(made).toHaveLength(1);
    expect(await get('/others/1')).toEqual({ id: 'another view' });
    of = Object.freeze({ id: 'b' });
    expect(await get('/things/1')).toEqual({ id: 'b' });
    of = { id: 'c' };
    for (let i = 0; i < 2; i++) expect(await get('/things/1')).toEqual({ id: 'c' });
    expect(made).toHaveLength(4);
  });

  test('a HEAD is a GET without its body', async () => {
    const response = await testApp().request('HEAD', '/things/1');
    expect(response.status).toBe(200);
    expect(await response.text()).toBe('');
  });
});

describe('errors', () => {
  test('have one envelope, whose request id is that of the header', async () => {
    const response = await testApp().request('GET', '/things/missing');
    expect(response.status).toBe(404);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.headers.get('x-thing')).toBe('yes');
    expect(await response.json()).toEqual({
      error: { code: 'NOT_FOUND', message: 'no such thing', is_retryable: false, hint: 'try another' },
      metadata: { request_id: response.headers.get('x-request-id') },
    });
  });

  test.each(['crash', 'wrong-status', 'wrong-body'])(
    'of our own (%s) are in the log and not in the answer',
    async (id) => {
      const { request, deps } = testApp();
      const response = await request('GET', `/things/${id}`);
      expect(response.status).toBe(500);
      const { error, metadata } = await json(response);
      expect(error).toEqual({
        code: 'INTERNAL_ERROR',
        is_retryable: true,
        message: 'Something went wrong on our side. Try again; if it persists, report the request id.',
      });
      const [line] = deps.lines.filter(({ level }) => level === 'error');
      expect(line!.fields.request_id).toBe(metadata!.request_id);
      expect(line!.fields.stack).toEqual(expect.any(String));
    },
  );

  test('a wrong query names its member', async () => {
    const response = await testApp().request('GET', '/things/1?size=big');
    expect(response.status).toBe(400);
    expect((await json(response)).error!.message).toMatch(/^query\.size: /);
  });

  test.each([
    ['GET', '/nothing'],
    ['GET', '/'],
    ['GET', '/things/1/'],
    ['GET', `/things/${'x'.repeat(257)}`],
    ['POST', '/org//v1/run'],
    ['POST', '/things/a/b/c'],
    ['GET', '/who/a/b/c'],
    ['POST', '/workspaces/1/things/2'],
  ])('%s %s is nowhere', async (method, path) => {
    const response = await testApp().request(method, path);
    expect(response.status).toBe(404);
    expect((await json(response)).error!.message).toContain('There is nothing at ');
    expect(response.headers.get('allow')).toBeNull();
  });

  test('lets pages of any origin ask and read', async () => {
    const { request } = testApp();
    const answer = await request('GET', '/things/1', { headers: { origin: 'https://pages.example.org' } });
    expect(answer.headers.get('access-control-allow-origin')).toBe('*');
    expect(answer.headers.get('access-control-expose-headers')).toBe('*');
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull();
    const refused = await request('GET', '/nothing', { headers: { origin: 'https://pages.example.org' } });
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([404, '*']);
    expect((await request('GET', '/things/1')).headers.get('access-control-allow-origin')).toBeNull();
  });

  test('answers what a browser asks before a call', async () => {
    const { request } = testApp();
    const headers = {
      origin: 'https://pages.example.org',
      'access-control-request-method': 'PUT',
      'access-control-request-headers': 'authorization,content-type',
    };
    const answer = await request('OPTIONS', '/workspaces/1/things', { headers });
    expect([answer.status, await answer.text()]).toEqual([204, '']);
    expect(answer.headers.get('access-control-allow-origin')).toBe('*');
    expect(answer.headers.get('access-control-allow-methods')).toContain('PUT');
    expect(answer.headers.get('access-control-allow-headers')).toBe('authorization,content-type');
    expect((await request('OPTIONS', '/nothing', { headers })).status).toBe(404);
  });

  test.each([
    ['POST', '/things/1', 'GET'],
    ['OPTIONS', '/things/1', 'GET'],
    ['DELETE', '/workspaces/1/things', 'PUT'],
    ['GET', '/org/agent/v1/run', 'POST'],
    ['HEAD', '/org/agent/v1/run', 'POST'],
  ])('%s %s is another method than %s', async (method, path, allowed) => {
    const response = await testApp().request(method, path);
    expect(response.status).toBe(405);
    expect(response.headers.get('allow')).toBe(allowed);
  });
});

describe('callers', () => {
  const bearer = (key: string, headers: Record<string, string> = {}) => ({
    headers: { authorization: `Bearer ${key}`, ...headers },
  });

  test('act in their own workspace, or in the one they name', async () => {
    const { request, deps } = testApp();
    const [ann, bob] = [await addUser(deps, 'ann'), await addUser(deps, 'bob')];
    await addMember(deps, bob, ann.workspaceId);
    const who = async (init: RequestInit) => json(await request('POST', '/who', init));
    expect(await who(bearer(bob.key))).toEqual({ workspace: 'bob' });
    expect(await who(bearer(bob.key, { 'x-workspace-id': ann.workspaceId }))).toEqual({ workspace: 'ann' });
    expect((await who(bearer(ann.key, { 'x-workspace-id': bob.workspaceId }))).error).toMatchObject({
      code: 'FORBIDDEN',
    });
    expect((await who(bearer(ann.key, { 'x-workspace-id': '' }))).error).toMatchObject({ code: 'FORBIDDEN' });
  });

  test('need the role of the row', async () => {
    const { request, deps } = testApp();
    const [ann, bob] = [await addUser(deps, 'ann'), await addUser(deps, 'bob')];
    await addMember(deps, bob, ann.workspaceId);
    const put = async (key: string) => {
      const init = { headers: { ...bearer(key).headers, 'content-type': 'application/json' }, body: '{"name":"x"}' };
      return json(await request('PUT', `/workspaces/${ann.workspaceId}/things`, init));
    };
    expect(await put(ann.key)).toEqual({ role: 'owner', workspace: 'ann' });
    expect((await put(bob.key)).error).toMatchObject({
      code: 'FORBIDDEN',
      message: 'Only an owner of the workspace "ann" may do this.',
    });
  });

  test.each([
    ['no header', {}],
    ['another scheme', { authorization: 'Basic c2s6' }],
    ['no key', { authorization: 'Bearer ' }],
    ['a key that is none', { authorization: 'Bearer sk_live_x' }],
    ['two keys', { authorization: 'Bearer a b' }],
  ])('without a key get 401: %s', async (_, headers) => {
    const response = await testApp().request('POST', '/who', { headers: headers as Record<string, string> });
    expect(response.status).toBe(401);
    expect((await json(response)).error).toMatchObject({ code: 'UNAUTHORIZED', is_retryable: false });
  });

  async function refusalOf(body: string): Promise<string> {
    const { request, deps } = testApp();
    const ann = await addUser(deps, 'ann');
    const response = await request('PUT', `/workspaces/${ann.workspaceId}/things`, {
      headers: { authorization: `bearer ${ann.key}`, 'content-type': 'application/json' },
      body,
    });
    expect(response.status).toBe(400);
    return ((await json(response)).error as { message: string }).message;
  }

  test('a wrong body names every wrong member, without its value', async () => {
    const message = await refusalOf('{"name":{"secret":1},"nested":{"n":"two"}}');
    expect(message).toContain('body.name: ');
    expect(message).toContain('body.nested.n: ');
    expect(message).not.toContain('two');
  });

  test('a body without a member that it must have says which, and what it must be', async () => {
    const message =
      'body.name: is missing: it must be of the type string; body.nested.n: is missing: it must be of the type number';
    expect(await refusalOf('{"nested":{}}')).toBe(message);
  });
});

describe('webhooks', () => {
  test('are limited by address for wrong secrets and unknown ids, and never for right ones', async () => {
    const { app } = testApp({ addressRequestsPerMinute: 3 });
    const send = async (path: string) => {
      const response = await app(new Request(`http://platform.test/hooks${path}`, { method: 'POST' }), '203.0.113.9');
      return [response.status, response.headers.get('x-ratelimit-remaining')];
    };
    expect(await send('/known/right')).toEqual([200, '3']);
    expect(await send('/known/wrong')).toEqual([403, '2']);
    expect(await send('/unknown/right')).toEqual([404, '1']);
    expect(await send('/known/wrong')).toEqual([403, '0']);
    expect(await send('/known/wrong')).toEqual([429, '0']);
    expect(await send('/known/right')).toEqual([200, '3']);
  });

  test('need no key, and ignore one', async () => {
    const { request } = testApp();
    const headers = { authorization: 'Bearer sk_live_wrong' };
    expect((await request('POST', '/hooks/known/right', { headers })).status).toBe(200);
  });
});

test('instances are limited by address for wrong tokens, and never for right ones', async () => {
  const { app } = testApp({ addressRequestsPerMinute: 2 });
  const send = async (token: string) => {
    const init = { method: 'POST', headers: { authorization: `Bearer ${token}` } };
    const response = await app(new Request('http://platform.test/instances/x', init), '203.0.113.9');
    return [response.status, response.headers.get('x-ratelimit-remaining')];
  };
  expect(await send('right')).toEqual([200, '2']);
  expect(await send('wrong')).toEqual([401, '1']);
  expect(await send('wrong')).toEqual([401, '0']);
  expect(await send('wrong')).toEqual([429, '0']);
  expect(await send('right')).toEqual([200, '2']);
});

test('a row without a handler is noticed at the start', () => {
  expect(() => createApp(memoryDeps(), rows, {})).toThrow('no handler for getThing');
});
