import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { unzipSync } from 'fflate';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { AWS_TEST_ACCOUNT } from '#test/helpers/aws-account.ts';
import { loadWithCache, writeBundle } from '#test/helpers/compile-cache.ts';
import { startFakeLambda } from '#test/helpers/fake-lambda.ts';
import { HastyClock } from '#test/helpers/hasty-clock.ts';
import { type CompileCacheHost, compileCacheLayer, makeCompileCache, removeCompileCache } from './compile-cache.ts';

const folder = '/opt/compile-cache';
const env = { AWS_REGION: 'us-east-1' };
const told: string[] = [];
const tell = (message: string) => void told.push(message);
const log = { debug: () => {}, info: () => {}, warn: tell, error: tell };

/** Long enough that V8 compiles its functions only when they are called. */
const GOOD = `
function calledAtStart() { return 'a function of some length that runs at the start'; }
function neverCalled() { return 'a function of some length that no request needs'; }
export const text = calledAtStart() + typeof neverCalled;
export const handler = async () => ({ later: (await import('./later.cjs')).later(), url: import.meta.url });
`;

const bundles = mkdtempSync(join(tmpdir(), 'platform-bundles-'));
afterAll(() => rmSync(bundles, { recursive: true }));
beforeAll(async () => {
  await writeBundle(join(bundles, 'good'), {
    'index.cjs': GOOD,
    'later.cjs': 'import { text } from "./index.cjs";\nexport const later = () => text;\n',
    'part/index.cjs': 'throw new Error("only in a thread of " + import.meta.url);\n',
  });
  await writeBundle(join(bundles, 'ending'), { 'index.cjs': 'process.exit(1);\n' });
});
const good = join(bundles, 'good');
const make = (name: string) => makeCompileCache(join(bundles, name), folder, log, env);
/** Changes the hash of V8's version, the second word of its data. */
const withOtherVersion = (bytes: Uint8Array) => bytes.map((byte, at) => (at === 4 ? byte ^ 1 : byte));
/** Returns the paths of V8's data, without those of Node for `index.mjs` and the loader. */
const entriesOf = (files: ReadonlyMap<string, Uint8Array>) => [...files.keys()].filter((path) => path.endsWith('.cjs'));

test('a function takes its code from the cache of its layer', async () => {
  const layer = await make('good');
  expect(layer.get('compile-cache/node.txt')?.toString()).toBe(`${process.version} ${process.arch}\n`);
  expect(entriesOf(layer)).toHaveLength(3);
  // Only some requests load the second file.
  for (const [file, files] of [
    ['index.cjs', 1],
    ['later.cjs', 2],
  ] as const) {
    expect(await loadWithCache(good, layer, { file })).toEqual({ hits: files, files, rejected: 0, isOn: true });
  }
});

test('the cache has the functions that ran when the bundle was loaded, and no others', async () => {
  const layer = await make('good');
  const [index] = entriesOf(layer).filter((path) => /\/[0-9a-f]{16}\/index\.cjs$/.test(path));
  const data = Buffer.from(layer.get(index!)!);
  // Literals belong to the code of their function.
  expect(['runs at the start', 'no request needs'].map((text) => data.includes(text))).toEqual([true, false]);
});

test('the cache has what the request of the bundle runs, without credentials and network', async () => {
  const requested = join(bundles, 'requested');
  await writeBundle(requested, {
    'index.cjs': `
      function refused() { return 'what follows a connection that is refused'; }
      function reached() { return 'what follows an answer'; }
      export async function handler({ path }) {
        const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_ENDPOINT_URL } = process.env;
        const isReal = [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN].includes('real');
        if (path === '/first' && !isReal) await fetch(AWS_ENDPOINT_URL).then(reached, refused);
      }`,
  });
  const real = { AWS_ACCESS_KEY_ID: 'real', AWS_SECRET_ACCESS_KEY: 'real', AWS_SESSION_TOKEN: 'real' };
  const found = async () => {
    const layer = await makeCompileCache(requested, folder, log, { ...env, ...real });
    const [index] = entriesOf(layer);
    const data = Buffer.from(layer.get(index!)!);
    return ['connection that is refused', 'follows an answer'].map((text) => data.includes(text));
  };
  expect(await found()).toEqual([false, false]);
  writeFileSync(join(requested, 'first-request.json'), JSON.stringify({ path: '/first' }));
  expect(await found()).toEqual([true, false]);
  writeFileSync(join(requested, 'first-request.json'), JSON.stringify({ path: '/other' }));
  expect(await found()).toEqual([false, false]);
});

test('a bundle works without a cache: files import one another, now and later, and know where they are', async () => {
  const { handler } = await import(join(good, 'index.mjs'));
  expect(await handler()).toEqual({
    later: expect.stringContaining('runs at the start'),
    url: pathToFileURL(join(good, 'index.mjs')).href,
  });
});

test('a cache of another Node, of other code or none at all costs the gain and nothing else', async () => {
  const layer = await make('good');
  const none = { hits: 0, files: 1, rejected: 0 };
  const moved = new Map([...layer].map(([path, bytes]) => [path.replace(process.version, 'v24.0.0'), bytes]));
  expect(entriesOf(moved)).not.toEqual(entriesOf(layer));
  expect(await loadWithCache(good, moved)).toMatchObject(none);
  expect(await loadWithCache(good, new Map())).toMatchObject(none);

  // V8 would take the cache of a source of the same length for its own.
  const changed = mkdtempSync(join(tmpdir(), 'platform-changed-'));
  onTestFinished(() => rmSync(changed, { recursive: true }));
  await writeBundle(changed, { 'index.cjs': GOOD.replace('later.cjs', 'after.cjs') });
  expect(await loadWithCache(changed, layer)).toMatchObject(none);

  const torn = new Map([...layer].map(([path, bytes]) => [path, bytes.subarray(0, bytes.length / 2)]));
  expect(await loadWithCache(good, torn)).toMatchObject({ ...none, rejected: 1 });
  const ofOtherV8 = new Map([...layer].map(([path, bytes]) => [path, withOtherVersion(bytes)]));
  expect(await loadWithCache(good, ofOtherV8)).toMatchObject({ ...none, rejected: 1 });
});

test('where Node cannot make its folder, as where layers are, it has no cache unless the folder is there', async () => {
  // Not even root can create a folder below a file.
  const blocked = new Map([['compile-cache', Buffer.from('a file')]]);
  expect(await loadWithCache(good, blocked, { folder: '/opt/compile-cache/folder' })).toMatchObject({
    hits: 0,
    files: 1,
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
  expect(await loadWithCache(good, new Map(Object.entries(files)))).toMatchObject({ hits: 1 });
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
