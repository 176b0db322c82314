import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { unzipSync } from 'fflate';
import { afterAll, expect, onTestFinished, test, vi } from 'vitest';
import { AWS_TEST_ACCOUNT } from '#test/helpers/aws-account.ts';
import { importWithCache } from '#test/helpers/compile-cache.ts';
import { startFakeLambda } from '#test/helpers/fake-lambda.ts';
import { HastyClock } from '#test/helpers/hasty-clock.ts';
import { type CompileCacheHost, compileCacheLayer, makeCompileCache, removeCompileCache } from './compile-cache.ts';

const folder = '/opt/compile-cache';
const env = { AWS_REGION: 'us-east-1' };
const told: string[] = [];
const tell = (message: string) => void told.push(message);
const log = { debug: () => {}, info: () => {}, warn: tell, error: tell };

const bundles = mkdtempSync(join(tmpdir(), 'platform-bundles-'));
afterAll(() => rmSync(bundles, { recursive: true }));
for (const [path, text] of Object.entries({
  'good/index.mjs': 'export const handler = () => import("./later.mjs");\n',
  'good/later.mjs': 'export const later = 1;\n',
  'good/part/index.mjs': 'throw new Error("only in a thread");\n',
  'ending/index.mjs': 'process.exit(1);\n',
})) {
  mkdirSync(join(bundles, path, '..'), { recursive: true });
  writeFileSync(join(bundles, path), text);
}
const good = join(bundles, 'good');
const make = (name: string) => makeCompileCache(join(bundles, name), folder, log, env);
/** Returns all files except the one that describes the layer. */
const entriesOf = (files: ReadonlyMap<string, Uint8Array>) =>
  [...files.keys()].filter((path) => path !== 'compile-cache/node.txt');

test('a function takes its code from the cache of its layer', async () => {
  const layer = await make('good');
  expect(layer.get('compile-cache/node.txt')?.toString()).toBe(`${process.version} ${process.arch}\n`);
  // Only some requests load the second file.
  for (const file of ['index.mjs', 'later.mjs']) {
    expect(await importWithCache(good, layer, { file })).toEqual({ hits: 1, modules: 1, isOn: true });
  }
});

test('a cache of another Node, of other code or none at all costs the gain and nothing else', async () => {
  const layer = await make('good');
  const moved = new Map([...layer].map(([path, bytes]) => [path.replace(process.version, 'v24.0.0'), bytes]));
  expect(entriesOf(moved)).not.toEqual(entriesOf(layer));
  expect(await importWithCache(good, moved)).toMatchObject({ hits: 0, modules: 1 });

  const changed = mkdtempSync(join(tmpdir(), 'platform-changed-'));
  onTestFinished(() => rmSync(changed, { recursive: true }));
  writeFileSync(join(changed, 'index.mjs'), 'export const handler = () => import("./after.mjs");\n');
  expect(await importWithCache(changed, layer)).toMatchObject({ hits: 0, modules: 1 });

  const torn = new Map([...layer].map(([path, bytes]) => [path, bytes.subarray(0, bytes.length / 2)]));
  expect(await importWithCache(good, torn)).toMatchObject({ hits: 0, modules: 1 });
  expect(await importWithCache(good, new Map())).toMatchObject({ hits: 0, modules: 1 });
});

test('where Node cannot make its folder, as where layers are, it has no cache unless the folder is there', async () => {
  // Not even root can create a folder below a file.
  const blocked = new Map([['compile-cache', Buffer.from('a file')]]);
  expect(await importWithCache(good, blocked, { folder: '/opt/compile-cache/folder' })).toEqual({
    hits: 0,
    modules: 0,
    isOn: false,
  });
});

test('a bundle whose import ends the process gets a layer all the same, and a line in the log', async () => {
  expect([...(await make('ending')).keys()]).toContain('compile-cache/node.txt');
  expect(told).toEqual(['not all files of a bundle were compiled']);
});

const EMPTY = 'arn:aws:lambda:eu-west-1:111122223333:layer:platform-test-empty-layer:1';
const order = { Bundle: 'good', LayerName: 'platform-test-calls', Folder: folder };

async function start() {
  const lambda = await startFakeLambda(() => Promise.reject(new Error('no function is called')));
  onTestFinished(() => lambda.close());
  const client = new LambdaClient({ ...AWS_TEST_ACCOUNT, endpoint: lambda.url, maxAttempts: 1 });
  const clock = new HastyClock();
  const host: CompileCacheHost = { bundles, log, clock, client, emptyLayer: EMPTY };
  // The function has none of its own, while the tests have one.
  vi.stubEnv('NODE_COMPILE_CACHE', undefined);
  onTestFinished(() => void vi.unstubAllEnvs());
  return { lambda, clock, host };
}

test('the cache is published as a version of the layer, which goes when its resource does', async () => {
  const { lambda, host } = await start();
  const first = await compileCacheLayer(order, host);
  const second = await compileCacheLayer(order, host);
  expect(second).toMatch(/:layer:platform-test-calls:2$/);
  expect([...lambda.layers.keys()]).toEqual([first, second]);
  const files = unzipSync(lambda.layers.get(second)!);
  expect(await importWithCache(good, new Map(Object.entries(files)))).toMatchObject({ hits: 1 });
  await removeCompileCache(first, host);
  expect([...lambda.layers.keys()]).toEqual([second]);
  // Resource id of an attempt that failed before it had a version.
  await removeCompileCache('cleaner', host);
});

test.each(['AccessDeniedException', 'TooManyRequestsException'])(
  'while IAM or Lambda refuse to publish (%s), it is tried again for a minute',
  async (error) => {
    const { lambda, clock, host } = await start();
    lambda.refuseLayers(error, 3);
    expect(await compileCacheLayer(order, host)).toMatch(/:layer:platform-test-calls:1$/);
    lambda.refuseLayers(error, Number.POSITIVE_INFINITY);
    const since = clock.now();
    expect(await compileCacheLayer(order, host)).toBe(EMPTY);
    expect(clock.now() - since).toBeLessThanOrEqual(60_000);
    expect(clock.now() - since).toBeGreaterThan(50_000);
    expect(told.at(-1)).toBe('a function starts without a compile cache');
  },
);

test('a function without a cache gets the empty layer, which its resource does not take along', async () => {
  const { lambda, host } = await start();
  for (const wrong of [{ ...order, Bundle: 'none' }, {}, undefined]) {
    expect(await compileCacheLayer(wrong, host)).toBe(EMPTY);
  }
  // No other time would change this.
  lambda.refuseLayers('CodeStorageExceededException', 1);
  expect(await compileCacheLayer(order, host)).toBe(EMPTY);
  lambda.refuseLayers('AccessDeniedException', Number.POSITIVE_INFINITY);
  const before = told.length;
  await removeCompileCache(EMPTY, host);
  expect(told).toHaveLength(before);
  await removeCompileCache('arn:aws:lambda:eu-west-1:111122223333:layer:platform-test-calls:1', host);
  expect(told.at(-1)).toBe('a layer was left behind');
});
