import { Readable } from 'node:stream';
import { afterAll, expect, test } from 'vitest';
import { defineStage } from '#lib/config.ts';
import { synthesise } from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';
import { readAssembly } from './assembly.ts';
import { startRestApi } from './rest-api.ts';

/** Lambda's reaction to an event, by request path. */
const LAMBDA: Readonly<Record<string, () => never>> = {
  '/agents': () => {
    throw Object.assign(new Error('Rate Exceeded.'), { code: 'TooManyRequestsException' });
  },
  '/tasks': () => {
    throw Object.assign(new Error('the function exited'), { code: 'FUNCTION_ERROR' });
  },
};

async function served(stage: Parameters<typeof defineStage>[0]) {
  const { folder, stacks } = synthesise(defineStage(stage));
  const api = await startRestApi();
  api.serve(readAssembly(folder, stacks), async (_, { path }) => {
    LAMBDA[path]?.();
    return { isStream: false, payload: Readable.from([Buffer.from('no JSON')]) };
  });
  afterAll(() => api.close());
  return api;
}

const api = await served({ ...dev, sandbox: { kind: 'none' } });

const errorOf = async (path: string, { url } = api) => {
  const answer = await fetch(url + path);
  const { error } = (await answer.json()) as { error: Record<string, unknown> };
  return { status: answer.status, retryAfter: answer.headers.get('retry-after'), ...error };
};

test('a function that Lambda does not start is asked again: nothing has happened', async () => {
  expect(await errorOf('/agents')).toMatchObject({
    status: 429,
    code: 'RATE_LIMITED',
    is_retryable: true,
    suggested_wait_time: 2,
    retryAfter: '2',
  });
});

test.each(['/tasks', '/health'])(
  'a function that ended without an answer, as at %s, may have done its work',
  async (path) => {
    expect(await errorOf(path)).toMatchObject({
      status: 500,
      code: 'INTERNAL_ERROR',
      is_retryable: false,
      retryAfter: null,
    });
  },
);

test('requests without a key do not take what methods with keys have', async () => {
  const tight = await served({
    ...{ ...dev, sandbox: { kind: 'none' }, services: { kind: 'off' }, web: { kind: 'off' } },
    throttle: { requestsPerSecond: 1, burst: 4 },
  });
  const flood = await Promise.all(Array.from({ length: 20 }, () => errorOf('/health', tight)));
  const refused = flood.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(0);
  expect(refused[0]).toMatchObject({ code: 'RATE_LIMITED', suggested_wait_time: 1, retryAfter: '1' });
  expect(await errorOf('/tasks', tight)).toMatchObject({ status: 500 });
  await expect.poll(() => tight.accessLog).toHaveLength(21);
  expect(tight.accessLog.filter(({ error_type }) => error_type === 'THROTTLED')).toHaveLength(refused.length);
  expect(tight.accessLog.at(-1)).toMatchObject({ resource: '/tasks', latency_ms: expect.stringMatching(/^\d+$/) });
});
