import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { type FakeLambda, startFakeLambda } from '#test/helpers/fake-lambda.ts';
import { callPasser } from './pass-call.ts';

const prelude = (statusCode: number, headers: Record<string, string>) =>
  Buffer.concat([Buffer.from(JSON.stringify({ statusCode, headers })), Buffer.alloc(8)]);
const AS_JSON = { 'content-type': 'application/json' };

let chunks: () => AsyncGenerator<Uint8Array>;
let lambda: FakeLambda;
beforeEach(async () => {
  lambda = await startFakeLambda(async () => ({ isStream: true, payload: chunks() }));
  onTestFinished(() => lambda.close());
  vi.stubEnv('AWS_ENDPOINT_URL', lambda.url);
  vi.stubEnv('AWS_REGION', 'eu-west-1');
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'key');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
  onTestFinished(() => void vi.unstubAllEnvs());
});
const pass = () => callPasser({ clock: new SystemClock() }, 'platform-test-calls:7')({ path: '/' });

test('JSON is answered before the function ends its work', async () => {
  const work = Promise.withResolvers<void>();
  chunks = async function* () {
    yield Buffer.concat([prelude(202, { ...AS_JSON, 'x-run-id': 'r' }), Buffer.from('{"a":"}')]);
    yield Buffer.from('"}');
    await work.promise;
  };
  const { status, headers, body } = await pass();
  expect([status, headers['x-run-id'], String(body)]).toEqual([202, 'r', '{"a":"}"}']);
  expect(lambda.calls).toEqual(['stream platform-test-calls:7']);
  work.resolve();
});

test('a stream is passed on as it comes', async () => {
  const more = Promise.withResolvers<void>();
  chunks = async function* () {
    yield prelude(200, { 'content-type': 'text/event-stream' });
    yield Buffer.from('first');
    await more.promise;
    yield Buffer.from('second');
  };
  const { body } = await pass();
  const stream = (body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  const next = async () => Buffer.from((await stream.next()).value ?? []).toString();
  expect(await next()).toBe('first');
  more.resolve();
  expect(await next()).toBe('second');
  expect((await stream.next()).done).toBe(true);
});

test('a throttled function is a busy host, and is invoked again before', async () => {
  chunks = async function* () {
    yield Buffer.concat([prelude(200, AS_JSON), Buffer.from('{}')]);
  };
  lambda.throttle(1);
  expect(String((await pass()).body)).toBe('{}');
  lambda.throttle(100);
  await expect(pass()).rejects.toMatchObject({ code: 'HOST_BUSY' });
});

test('an answer that breaks off is an error, and the call is not sent again', async () => {
  chunks = async function* () {
    yield prelude(200, AS_JSON);
    yield Buffer.from('{"a":');
    yield Buffer.from('1}');
  };
  lambda.breakOff(1);
  await expect(pass()).rejects.toThrow();
  expect(lambda.calls).toHaveLength(1);
});
