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

const { folder, stacks } = synthesise(defineStage({ ...dev, sandbox: { kind: 'none' } }));
const api = await startRestApi();
api.serve(readAssembly(folder, stacks), async (_, { path }) => {
  LAMBDA[path]?.();
  return { isStream: false, payload: Readable.from([Buffer.from('no JSON')]) };
});
afterAll(() => api.close());

const errorOf = async (path: string) => {
  const answer = await fetch(api.url + path);
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
