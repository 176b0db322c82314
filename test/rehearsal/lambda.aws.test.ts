import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fetchLambdaRuntime } from '../../scripts/fetch-test-tools.ts';
import type { Assembly } from './assembly.ts';
import { type Lambda, startLambda } from './lambda.ts';

/** A buffered and a streaming function, each controlled by its event. */
const BUFFERED = `export const handler = async (event) => {
  if (event.fail) throw new Error('as told, ' + process.pid);
  if (event.exit) process.exit(7);
  if (event.hang) await new Promise(() => setInterval(() => {}, 1000));
  if (event.tick) setInterval(() => {}, 5);
  if (event.large) return 'x'.repeat(event.large);
  return { name: process.env.NAME, memory: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE, pid: process.pid };
};`;
const STREAMED = `import { existsSync } from 'node:fs';
export const handler = awslambda.streamifyResponse(async (event, raw) => {
  const stream = awslambda.HttpResponseStream.from(raw, { statusCode: 201, headers: {} });
  stream.write('first ');
  while (event.until && !existsSync(event.until)) await new Promise((resolve) => setTimeout(resolve, 10));
  if (event.hang) await new Promise(() => setInterval(() => {}, 1000));
  stream.end('last');
});`;

const sources: Record<string, string> = {
  buffered: BUFFERED,
  streamed: STREAMED,
  patient: STREAMED,
  broken: 'throw new Error("not me");',
};
let lambda: Lambda;

beforeAll(() => {
  const runtime = fetchLambdaRuntime();
  const folder = (name: string) => {
    const made = mkdtempSync(join(tmpdir(), `platform-${name}-`));
    writeFileSync(join(made, 'index.mjs'), sources[name]!);
    return made;
  };
  const folders = Object.fromEntries(Object.keys(sources).map((name) => [name, folder(name)]));
  const resources = Object.keys(sources).map((name) => ({
    id: name,
    type: 'AWS::Lambda::Function',
    properties: {
      FunctionName: name,
      Handler: 'index.handler',
      Code: { S3Key: name },
      MemorySize: 128,
      Timeout: name === 'patient' ? 60 : 2,
      Environment: { Variables: { NAME: name } },
    },
    arn: `arn:aws:lambda:eu-west-1:111122223333:function:${name}`,
    stack: 'test',
  }));
  const assembly: Assembly = {
    resources,
    of: (type) => resources.filter((resource) => resource.type === type),
    versions: new Map(),
    assetFolder: (key) => folders[key]!,
  };
  lambda = startLambda(assembly, runtime, () => ({}));
});
afterAll(() => lambda.close());

const call = async (name: string, event: object) => {
  const { isStream, payload } = await lambda.invoke(name, event);
  return { isStream, text: Buffer.concat(await Array.fromAsync(payload)).toString() };
};
const answer = async (event: object = {}) => JSON.parse((await call('buffered', event)).text);

/** `T`: stopped by a signal. */
const stateOf = (pid: number) => /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];

test('a function has the environment of its template and of Lambda, and nothing of ours', async () => {
  expect(await answer()).toMatchObject({ name: 'buffered', memory: '128' });
});

test('what a function leaves running stands still between its events', async () => {
  const { pid } = await answer({ tick: true });
  await expect.poll(() => stateOf(pid)).toBe('T');
});

test('a stream comes as it is written', async () => {
  const until = join(mkdtempSync(join(tmpdir(), 'platform-stream-')), 'first-has-come');
  const { isStream, payload } = await lambda.invoke('patient', { until });
  expect(isStream).toBe(true);
  let text = '';
  for await (const chunk of payload) {
    text += Buffer.from(chunk).toString();
    if (text.includes('first')) writeFileSync(until, '');
  }
  expect(text).toBe(`{"statusCode":201,"headers":{}}${'\0'.repeat(8)}first last`);
});

test('what a function throws is told, and its environment lives on', async () => {
  const error: Error = await call('buffered', { fail: true }).catch((thrown) => thrown);
  expect(error).toMatchObject({ code: 'FUNCTION_ERROR', message: expect.stringContaining('as told') });
  const pid = Number(/as told, (\d+)/.exec(error.message)![1]);
  await expect.poll(() => stateOf(pid)).toBe('T');
});

test('what takes too long is killed with its environment', async () => {
  await expect(call('buffered', { hang: true })).rejects.toThrow('Task timed out after 2.00 seconds');
  await expect(call('streamed', { hang: true })).rejects.toThrow('Task timed out after 2.00 seconds');
  expect(await answer()).toMatchObject({ name: 'buffered' });
});

test('a process that ends, or cannot begin, fails its event', async () => {
  await expect(call('buffered', { exit: true })).rejects.toThrow('its process ended');
  await expect(call('broken', {})).rejects.toThrow('not me');
  expect(await answer()).toMatchObject({ name: 'buffered' });
});

test("events and answers past Lambda's 6 MB do not pass", async () => {
  await expect(call('buffered', { text: 'x'.repeat(6_291_556) })).rejects.toMatchObject({
    code: 'RequestTooLargeException',
  });
  await expect(call('buffered', { large: 6_291_556 })).rejects.toThrow('ResponseSizeTooLarge');
  expect((await call('buffered', { large: 6_000_000 })).text).toHaveLength(6_000_002);
});

test('more events at once have environments of their own, which then take the next', async () => {
  const until = join(mkdtempSync(join(tmpdir(), 'platform-stream-')), 'all-have-begun');
  const streams = await Promise.all(Array.from({ length: 3 }, () => lambda.invoke('patient', { until })));
  writeFileSync(until, '');
  for (const { payload } of streams) {
    expect(Buffer.concat(await Array.fromAsync(payload)).toString()).toMatch(/first last$/);
  }
  await expect(lambda.invoke('nobody', {})).rejects.toMatchObject({ code: 'ResourceNotFoundException' });
});
