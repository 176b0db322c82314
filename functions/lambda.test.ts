import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { APIGatewayProxyEvent } from 'aws-lambda';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { targetOf } from '#core/http/message.ts';
import { readMultipart } from '#core/http/multipart.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { invoke, splitPrelude } from '#test/helpers/lambda-runtime.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createHandler, toRequest } from './lambda.ts';

const recorded = (name: string): APIGatewayProxyEvent =>
  JSON.parse(readFileSync(join(import.meta.dirname, '../test/fixtures/api-gateway', `${name}.json`), 'utf8'));

describe('an event of API Gateway', () => {
  test('keeps the query, which the gateway has decoded, with repeated names', () => {
    const { method, url } = toRequest(recorded('get-with-query'));
    expect(method).toBe('GET');
    expect(url).toMatch('/public/agents?');
    expect([...new URL(url, 'https://platform.test').searchParams]).toEqual([
      ['search', 'größe & maß'],
      ['tags', 'csv'],
      ['tags', 'a,b'],
      ['empty', ''],
    ]);
  });

  test('keeps JSON and headers', async () => {
    const { headers, ...rest } = await opened(recorded('post-json'));
    expect(rest).toEqual({
      method: 'POST',
      path: '/acme/csv-insights/latest/run',
      body: Buffer.from('{"text":"Ünïcode ✓ \\"quoted\\""}'),
    });
    expect(headers.get('authorization')).toBe('Bearer sk_live_xxxxxxxxxxxx');
    expect(headers.get('x-workspace-id')).toBe('3f2504e0-4f89-41d3-9a0c-0305e82c3301');
  });

  test('keeps bytes and every value of a header', async () => {
    const { headers, body } = await opened(recorded('post-multipart'));
    expect(body.includes(Buffer.from([0, 255, 254, 13, 10, 128]))).toBe(true);
    expect(headers.get('cookie')).toBe('a=1; b=2');
    const { files } = await readMultipart(toRequest(recorded('post-multipart')), { bytes: 1000 });
    expect(files.map(({ content }) => content.byteLength)).toEqual([6]);
  });

  test("loses a custom domain's base path, and stays percent-encoded", async () => {
    const { path } = await opened(recorded('custom-domain-encoded-path'));
    expect(path).toBe('/workspaces/ws%201/secrets/A%2FB%2520%C3%BC');
  });

  test('with an empty first segment names no other host', async () => {
    const event = { ...recorded('post-json'), path: '//evil.example/latest/run' };
    expect(targetOf(toRequest(event).url)).toEqual({ path: '//evil.example/latest/run', query: '' });
  });

  test('without a body has none', async () => {
    const { body, bytes } = toRequest({ ...recorded('get-with-query'), body: null });
    expect([body, await bytes()]).toEqual([null, Buffer.alloc(0)]);
  });
});

describe('a handler', () => {
  test('that streams answers with the true status', async () => {
    const deps = memoryDeps();
    const { isStream, payload } = await invoke(createHandler('calls', deps, allHandlers), recorded('post-json'));
    expect(isStream).toBe(true);
    const { statusCode, headers, body } = await splitPrelude(payload);
    expect(statusCode).toBe(401);
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'x-request-id': expect.stringMatching(/^req_/),
    });
    expect(JSON.parse(Buffer.concat(await Array.fromAsync(body)).toString()).error.code).toBe('UNAUTHORIZED');
  });

  test('decodes path parameters once', async () => {
    const deps = memoryDeps();
    const { key, workspaceId } = await addUser(deps, 'acme');
    const event = recorded('custom-domain-encoded-path');
    event.path = event.path.replace('ws%201', workspaceId);
    event.multiValueHeaders.Authorization = [`Bearer ${key}`];
    const { payload } = await invoke(createHandler('secrets', deps, allHandlers), event);
    const { statusCode, body } = JSON.parse(Buffer.concat(await Array.fromAsync(payload)).toString());
    expect(statusCode).toBe(404);
    expect(JSON.parse(body).error.message).toContain('"A/B%20ü"');
  });

  test('makes no Request, Response or Headers of the web: the first one would load an HTTP client', async () => {
    const deps = memoryDeps();
    const handler = createHandler('secrets', deps, allHandlers);
    const event = recorded('custom-domain-encoded-path');
    event.multiValueHeaders.Authorization = [`Bearer ${(await addUser(deps, 'acme')).key}`];
    for (const name of ['Request', 'Response', 'Headers', 'ReadableStream']) vi.stubGlobal(name, undefined);
    onTestFinished(() => void vi.unstubAllGlobals());
    const { payload } = await invoke(handler, event);
    const { statusCode, body } = JSON.parse(Buffer.concat(await Array.fromAsync(payload)).toString());
    expect([statusCode, JSON.parse(body).error.code]).toEqual([403, 'FORBIDDEN']);
  });

  test.each([
    ['CloudFront', 'the token', [401, 401, 429]],
    ['nobody who proves to be CloudFront', 'a guess', [401, 429, 429]],
  ])('counts clients by the address that %s names', async (_, token, statuses) => {
    const memory = memoryDeps({ addressRequestsPerMinute: 1 });
    const deps = { ...memory, config: { ...memory.config, frontToken: 'the token' } };
    const handler = createHandler('secrets', deps, allHandlers);
    const answers: number[] = [];
    for (const viewer of ['203.0.113.7', '203.0.113.8', '203.0.113.8']) {
      const event = recorded('custom-domain-encoded-path');
      const headers = { 'X-Platform-Front': [token], 'X-Platform-Viewer': [viewer] };
      event.multiValueHeaders = { ...event.multiValueHeaders, Authorization: ['Bearer sk_live_x'], ...headers };
      const { payload } = await invoke(handler, event);
      answers.push(JSON.parse(Buffer.concat(await Array.fromAsync(payload)).toString()).statusCode);
    }
    expect(answers).toEqual(statuses);
  });

  const API = 'https://api.example/dev';
  const FRONT = { 'X-Platform-Front': ['the token'], 'X-Platform-Front-Host': ['d0.cloudfront.net'] };
  test.each([
    ['by way of CloudFront lead to it', {}, FRONT, 'https://d0.cloudfront.net/dashboard/login'],
    ['that have not come by way of it lead to the API', {}, {}, `${API}/auth/login`],
    ['to a foreign name lead to the API', {}, { ...FRONT, 'X-Platform-Front': ['a guess'] }, `${API}/auth/login`],
    [
      'lead to the address of the stage where it has one',
      { dashboardUrl: 'https://agents.example/dashboard' },
      FRONT,
      'https://agents.example/dashboard/login',
    ],
  ])('links in answers to requests %s', async (_, more, headers, page) => {
    const memory = memoryDeps({ baseUrl: API, ...more });
    const deps = { ...memory, config: { ...memory.config, frontToken: 'the token' } };
    const { key } = await addUser(deps, 'acme');
    const event = { ...recorded('post-json'), path: '/auth/codes', resource: '/auth/codes', body: '{}' };
    event.multiValueHeaders = { ...event.multiValueHeaders, Authorization: [`Bearer ${key}`], ...headers };
    delete event.multiValueHeaders['X-Workspace-Id'];
    const { payload } = await invoke(createHandler('keys', deps, allHandlers), event);
    const { statusCode, body } = JSON.parse(Buffer.concat(await Array.fromAsync(payload)).toString());
    expect(statusCode, body).toBe(201);
    expect(JSON.parse(body).url.split('#')[0]).toBe(page);
  });

  test('that fails inside answers 500, which says nothing', async () => {
    const deps = memoryDeps();
    const main = { ...deps.main, get: () => Promise.reject(new Error('secret detail')) };
    const failing = { ...deps, main } as AllDeps;
    const event = recorded('custom-domain-encoded-path');
    event.multiValueHeaders.Authorization = [`Bearer ${(await addUser(deps, 'acme')).key}`];
    const { payload } = await invoke(createHandler('secrets', failing, allHandlers), event);
    const { statusCode, body } = JSON.parse(Buffer.concat(await Array.fromAsync(payload)).toString());
    expect([statusCode, JSON.parse(body).error.code]).toEqual([500, 'INTERNAL_ERROR']);
    expect(body).not.toContain('secret detail');
  });

  test('without one of its handlers is not made', () => {
    expect(() => createHandler('keys', memoryDeps(), () => ({}))).toThrow('no handler for listApiKeys');
  });
});

async function opened(event: APIGatewayProxyEvent) {
  const request = toRequest(event);
  return {
    method: request.method,
    path: request.url,
    headers: request.headers,
    body: Buffer.from(await request.bytes()),
  };
}
