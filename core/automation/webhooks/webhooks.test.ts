import { describe, expect, test } from 'vitest';
import { mergeInput } from '#core/execution/input/payload.ts';
import { readPayload } from '#core/http/payload.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { isWebhookSecret, newWebhookSecret } from '../schedules/webhook-secret.ts';

const send = (body: string | Uint8Array<ArrayBuffer>, contentType?: string, limit = 10_000) => {
  const headers = new Headers(contentType === undefined ? {} : { 'content-type': contentType });
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  return readPayload(new Request('http://platform.test/', { method: 'POST', body: bytes, headers }), { bytes: limit });
};

describe('a payload', () => {
  test.each([
    ['{"a":1}', { a: 1 }],
    ['[1,2]', [1, 2]],
    ['"text"', 'text'],
    ['7', 7],
    ['false', false],
    ['null', null],
    [' {"a": "ü"}\n', { a: 'ü' }],
    ['', undefined],
  ])('%s', async (body, value) => {
    expect(await send(body, 'application/json')).toEqual(value);
  });

  test.each([
    undefined,
    'application/json; charset=utf-8',
    'application/cloudevents+json',
    'text/plain',
    'application/x-www-form-urlencoded',
  ])('that is JSON is accepted with the content type %s', async (contentType) => {
    expect(await send('{"a":1}', contentType)).toEqual({ a: 1 });
  });

  test.each([
    ['application/x-www-form-urlencoded', 'payload=%7B%22a%22%3A1%7D'],
    ['multipart/form-data; boundary=x', '--x--'],
    ['text/xml', '<a/>'],
    ['application/octet-stream', 'PK'],
  ])('of %s that is not JSON has an unsupported type', async (contentType, body) => {
    await expect(send(body, contentType)).rejects.toMatchObject({ code: 'UNSUPPORTED_TYPE' });
  });

  test.each([
    ['half', '{"a":'],
    ['text', 'hunter2'],
    ['blank', '  '],
    ['not UTF-8', Buffer.from([0x22, 0xff, 0x22])],
    ['too deep', '['.repeat(2000) + ']'.repeat(2000)],
  ])('that is not JSON (%s) is refused without being repeated', async (_, body) => {
    for (const contentType of ['application/json', undefined]) {
      await expect(send(body, contentType)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.not.stringContaining('hunter2'),
      });
    }
  });

  test('has a size limit', async () => {
    await expect(send(`"${'x'.repeat(10_000)}"`, 'application/json')).rejects.toMatchObject({
      code: 'DOCUMENT_TOO_LARGE',
    });
  });
});

describe('the input of a run', () => {
  const stored = { a: 1, b: { c: 2 } };

  test.each([
    ['nothing', undefined, stored],
    ['an empty object', {}, stored],
    ['an object, whose members replace stored ones', { b: { d: 3 }, e: 4 }, { a: 1, b: { d: 3 }, e: 4 }],
    ['a null member', { a: null }, { a: null, b: { c: 2 } }],
    ['an array', [1], { ...stored, data: [1] }],
    ['a text', 'x', { ...stored, data: 'x' }],
    ['zero', 0, { ...stored, data: 0 }],
    ['null', null, { ...stored, data: null }],
  ])('with %s', (_, payload, input) => {
    expect(mergeInput(stored, payload)).toEqual(input);
    expect(stored).toEqual({ a: 1, b: { c: 2 } });
  });

  test('never with a key that the sender put into it', () => {
    expect(mergeInput(stored, { d: 1, llm_credentials: { api_key: 'sk-made-up' } })).toEqual({ ...stored, d: 1 });
  });

  test('cannot change the prototype of objects', () => {
    const merged = mergeInput({}, JSON.parse('{"__proto__":{"isAdmin":true},"constructor":1}'));
    expect((merged as { isAdmin?: unknown }).isAdmin).toBeUndefined();
    expect(({} as { isAdmin?: unknown }).isAdmin).toBeUndefined();
    expect(JSON.stringify(merged)).toBe('{"__proto__":{"isAdmin":true},"constructor":1}');
  });
});

test('a secret is compared by its hash', () => {
  const { secret, kept } = newWebhookSecret(new SystemIds());
  const hash = kept.webhookSecretHash!;
  expect(isWebhookSecret(secret, hash)).toBe(true);
  for (const wrong of [
    '',
    hash,
    secret.slice(1),
    `${secret}x`,
    secret.toLowerCase(),
    newWebhookSecret(new SystemIds()).secret,
  ]) {
    expect(isWebhookSecret(wrong, hash), wrong).toBe(false);
  }
});
