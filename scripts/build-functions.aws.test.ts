import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeCompileCache } from '#aws/compile-cache.ts';
import { loadWithCache } from '#test/helpers/compile-cache.ts';
import { buildFunctions, loadedAtStart } from './build-functions.ts';

const ROOT = join(import.meta.dirname, '..');
const folder = mkdtempSync(join(tmpdir(), 'platform-functions-'));
const names = readdirSync(join(import.meta.dirname, '../functions'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
let metafile: Awaited<ReturnType<typeof buildFunctions>>;

beforeAll(async () => {
  metafile = await buildFunctions(folder);
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true }));

const atStart = (name: string) => loadedAtStart(metafile, join(folder, name, 'index.cjs'));

/** The duration of a cold start depends on the amount of loaded code, which can be measured without a clock. */
describe('what functions load when they start', () => {
  /** Code that is the purpose of these functions. */
  const NEEDED: Record<string, RegExp | undefined> = {
    cleaner: /client-(s3|secrets-manager)/,
    'pool-cleaner': /client-ecs/,
    'services-cleaner': /client-(application-auto-scaling|cloudwatch-logs|ecs|elastic-load-balancing-v2)/,
    'pool-keeper': /client-ecs/,
    'microvm-sweeper': /client-lambda-microvms/,
    'compile-cache': /client-lambda|fflate/,
  };

  test.each(names)('%s: no client but DynamoDB, no provider, no library that only some requests need', (name) => {
    const libraries = /\/(@aws-sdk\/client-(?!dynamodb\/)[\w-]+|@ai-sdk\/[\w-]+|ajv|unbash|busboy|yauzl|fflate)\//;
    const loaded = new Set(atStart(name).sources.map((source) => libraries.exec(source)?.[1]));
    expect([...loaded].filter((library) => library && !NEEDED[name]?.test(library))).toEqual([]);
  });

  /** These functions serve calls of every kind; the server of calls also streams of events. */
  const MORE_KB: Record<string, number | undefined> = { calls: 540, 'call-server': 600 };

  test.each(names)('%s: less than 500 KB, or what is named here', (name) => {
    expect(atStart(name).bytes).toBeLessThan((MORE_KB[name] ?? 500) * 1024);
  });

  test.each(names)('%s: few files', (name) => {
    expect(atStart(name).files).toBeLessThan(6);
  });

  test.each(['calls', 'agents', 'meta'])('%s: that schemas are not compiled is said before one is made', (name) => {
    const [chunk] = Object.entries(metafile.outputs).find(
      ([path, { inputs }]) => path.includes(`/${name}/`) && 'functions/no-jit.ts' in inputs,
    )!;
    const code = readFileSync(join(ROOT, chunk), 'utf8');
    const said = code.indexOf('jitless:!0');
    expect(said).toBeGreaterThan(0);
    expect(code.slice(0, said)).not.toMatch(/\.object\(\{|operationId:/);
  });

  test.each(names)('%s: of the modules of Node what is used, and so not all of fetch with http', (name) => {
    const files = Object.entries(metafile.outputs).filter(([path]) => path.includes(`/${name}/`));
    const imports = files.flatMap(([, { imports }]) => imports.filter(({ kind }) => kind === 'import-statement'));
    expect(files.length).toBeGreaterThan(0);
    expect(imports.map(({ path }) => path).filter(isBuiltin)).toEqual([]);
    const code = files
      .filter(([path]) => path.endsWith('.cjs'))
      .map(([path]) => readFileSync(join(ROOT, path), 'utf8'));
    expect(code.filter((text) => /httpAgentProvider:[^;]*(import|require)\(/.test(text))).toEqual([]);
  });

  test('zod, in one language', () => {
    const locales = atStart('calls').sources.filter((source) => /\/zod\/v4\/locales\/(?!index)/.test(source));
    expect(locales.map((source) => source.split('/').at(-1))).toEqual(['en.js']);
  });

  test('the rows that a function does not serve have no schemas', () => {
    const routes = atStart('keys').sources.filter((source) => source.endsWith('/routes.ts'));
    expect(routes.toSorted()).toEqual([
      ...['core/accounts/clients/routes.ts', 'core/accounts/keys/routes.ts', 'core/accounts/sign-in/routes.ts'],
      'core/accounts/trusts/routes.ts',
      'core/api/routes.ts',
    ]);
  });
});

test.each(['calls', 'agents', 'meta'])(
  '%s takes all that it loads at its start from its compile cache',
  async (name) => {
    const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error };
    const layer = await makeCompileCache(join(folder, name), '/opt/compile-cache', log, { AWS_REGION: 'us-east-1' });
    const { hits, files } = await loadWithCache(join(folder, name), layer);
    expect(files).toBeGreaterThan(1);
    expect(hits).toBe(files);
    // Lambda limits code and layers to 250 MB, and an archive in a request to 50 MB.
    expect([...layer.values()].reduce((sum, { byteLength }) => sum + byteLength, 0)).toBeLessThan(12 * 1024 * 1024);
  },
  60_000,
);

test('the cache has what a first request runs', async () => {
  const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error };
  const layer = await makeCompileCache(join(folder, 'agents'), '/opt/compile-cache', log, { AWS_REGION: 'us-east-1' });
  // A literal of the method that signs each request of DynamoDB's client.
  const found = [...layer].filter(
    ([path, bytes]) => /[0-9a-f]{16}\/chunk-/.test(path) && Buffer.from(bytes).includes('SignedHeaders='),
  );
  expect(found).toHaveLength(1);
}, 60_000);

test.each(['calls', 'call-server'])("%s: the vault of secrets shares the libraries of DynamoDB's client", (name) => {
  const having = Object.entries(metafile.outputs).filter(
    ([, { inputs }]) => 'aws/secrets/secrets-manager-vault.ts' in inputs,
  );
  // With libraries of its own it would be in a folder of its own.
  const isShared = new RegExp(`/${name}/secrets-manager-vault-\\w+\\.cjs$`);
  expect(having.filter(([path]) => isShared.test(path))).toHaveLength(1);
});

test('what signs requests to Amazon Bedrock comes with the model providers only, as a small part of its own', () => {
  const having = (part: RegExp) =>
    names.filter((name) => {
      const files = Object.entries(metafile.outputs).filter(([path]) => path.includes(`/${name}/`));
      return files.some(([, { imports }]) =>
        imports.some(({ path, kind }) => kind === 'dynamic-import' && part.test(path)),
      );
    });
  expect(having(/bedrock-signer/)).toContain('calls');
  expect(having(/bedrock-signer/)).toEqual(having(/ai-sdk-anthropic/));
  for (const name of names) expect(atStart(name).sources).not.toContain('adapters/llm/bedrock-signer.ts');
  const [, part] = Object.entries(metafile.outputs).find(
    ([, { inputs }]) => 'adapters/llm/bedrock-signer.ts' in inputs,
  )!;
  expect(part.bytes).toBeLessThan(50 * 1024);
  // Functions get their credentials from environment variables.
  const elsewhere = /credential-provider-(ini|sso|http|process|login)\//;
  expect(Object.keys(part.inputs).filter((input) => elsewhere.test(input))).toEqual([]);
});

test('what describes one agent has its parts of the document, and is loaded late', () => {
  expect(atStart('catalog').sources).not.toContain('core/api/agent-document/document.ts');
  const [part] = readdirSync(join(folder, 'catalog')).filter((file) => /^document-\w+\.cjs$/.test(file));
  const text = readFileSync(join(folder, 'catalog', part!), 'utf8');
  for (const name of ['callAgent', 'getRun', 'cancelRun']) expect(text).toContain(name);
  expect(text).not.toContain('listRuns');
});

test('the document that is deployed is the one of docs', async () => {
  const parts = readdirSync(join(folder, 'meta')).filter((file) => /^openapi-\w+\.cjs$/.test(file));
  expect(parts).toHaveLength(1);
  const { load } = await import(join(folder, 'meta/loader.mjs'));
  const { openApiDocument } = load(parts[0]!);
  const docs = readFileSync(new URL('../docs/openapi.json', import.meta.url), 'utf8');
  expect(openApiDocument()).toEqual(JSON.parse(docs));
});
