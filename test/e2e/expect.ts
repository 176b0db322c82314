import { expect } from 'vitest';
import type { Answer } from '#test/helpers/platform.ts';

/** Checks an answer against the error envelope (`docs/interface/errors.md#error-envelope`) and returns its `error`. */
export function expectError(answer: Answer, status: number, code: string, message?: string | RegExp) {
  expect(answer.body, `HTTP ${answer.status}`).toMatchObject({ error: { code } });
  expect(answer.status).toBe(status);
  expect(answer.body).toEqual({
    error: expect.objectContaining({ code, message: expect.stringMatching(/./), is_retryable: expect.any(Boolean) }),
    metadata: { request_id: expect.stringMatching(/^req_[0-9a-f]{32}$/) },
  });
  expect(answer.headers.get('x-request-id')).toBe(answer.body.metadata.request_id);
  if (typeof message === 'string') expect(answer.body.error.message).toContain(message);
  else if (message) expect(answer.body.error.message).toMatch(message);
  return answer.body.error;
}

/** Returns the body of an answer. Throws unless the answer is a success. */
export function expectOk(answer: Answer, status = 200) {
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status });
  return answer.body;
}

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
export const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
