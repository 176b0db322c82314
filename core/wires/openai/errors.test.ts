import { expect, test } from 'vitest';
import { PlatformError } from '#core/base/errors.ts';
import { openAiErrorResponse, refuse } from './errors.ts';

const ID = '00000000-0000-4000-8000-000000000001';
const answered = (error: unknown) => {
  const { status, headers, body } = openAiErrorResponse(error, ID, { 'x-request-id': 'req_1' });
  return { status, headers, error: JSON.parse(body as string).error };
};

test.each([
  [new PlatformError('UNAUTHORIZED', 'no'), 401, 'invalid_request_error', 'invalid_api_key', 'false'],
  [new PlatformError('RATE_LIMITED', 'no'), 429, 'rate_limit_error', 'rate_limit_exceeded', 'true'],
  [new PlatformError('BUDGET_EXCEEDED', 'no'), 429, 'insufficient_quota', 'insufficient_quota', 'false'],
  [new PlatformError('SANDBOX_ERROR', 'no'), 500, 'server_error', 'sandbox_error', 'false'],
  [new PlatformError('LLM_ERROR', 'no'), 502, 'server_error', 'llm_error', 'true'],
  [new PlatformError('TIMEOUT', 'no', { is_retryable: false }), 504, 'server_error', 'timeout', 'false'],
  [new PlatformError('UNPROCESSABLE', 'no'), 422, 'invalid_request_error', 'unprocessable', 'false'],
])('%o', (error, status, type, code, retry) => {
  const answer = answered(error);
  expect(answer).toMatchObject({ status, error: { message: 'no', type, code, param: null } });
  expect(answer.headers).toMatchObject({ 'x-should-retry': retry, 'x-request-id': 'req_1' });
});

test('a hint is part of the message, and a time to wait a header', () => {
  const error = new PlatformError('RATE_LIMITED', 'Too many.', { hint: 'Wait.', suggested_wait_time: 7 });
  expect(answered(error)).toMatchObject({ error: { message: 'Too many. Wait.' }, headers: { 'retry-after': '7' } });
});

test('what went wrong on our side is not told', () => {
  const { error, status } = answered(new Error('the password is hunter2'));
  expect({ status, code: error.code }).toEqual({ status: 500, code: 'internal_error' });
  expect(error.message).not.toContain('hunter2');
});

test('a refused parameter is named', () => {
  expect(() => refuse('n', 'must be 1.')).toThrow(expect.objectContaining({ param: 'n', message: 'n: must be 1.' }));
});
