import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Docs } from './docs.ts';

function made(files: Readonly<Record<string, string>>, url = 'https://example.org') {
  const parent = mkdtempSync(join(tmpdir(), 'docs-'));
  onTestFinished(() => rmSync(parent, { recursive: true }));
  for (const [name, text] of Object.entries({ 'secret.txt': 'secret', ...files })) {
    mkdirSync(dirname(join(parent, name)), { recursive: true });
    writeFileSync(join(parent, name), text);
  }
  const docs = new Docs({ url, folder: join(parent, 'site'), sources: join(parent, 'docs') });
  return async (path: string, sent: Record<string, string> = {}, method = 'GET') => {
    expect(docs.takes({ url: path })).toBe(true);
    const response = await docs.answer({ method, url: path, headers: new Headers(sent) });
    return { ...response, text: response.body === null ? null : String(response.body) };
  };
}

const SITE = {
  'site/index.html': '<a href="/docs/calls">',
  'site/index.md': 'home',
  'site/404.html': 'gone',
  'site/calls.html': 'page',
  'site/calls.html.br': 'brotli',
  'site/calls.md': '# Calls',
  'site/llms.txt': 'list',
  'site/_astro/a.1b2c.js': 'script',
};
const SOURCES = {
  'README.md':
    '# Platform\n\nIt hosts agents for you.\n\n**See it work.**\n\n## Documentation\n\n[calls](docs/calls.md)\n\nApache-2.0',
  'docs/calls.md': '# Calls\n\nCall an agent with a request.\n\n[errors](errors/TIMEOUT.md)\n',
  'docs/errors/TIMEOUT.md': '# TIMEOUT\n\nThe deadline passed before the end.\n',
};

test('pages are found without their extension, and as Markdown by it or by Accept', async () => {
  const get = made(SITE);
  const page = await get('/docs/calls?x=1');
  expect(page).toMatchObject({ status: 200, text: 'page' });
  expect(page.headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-cache',
    vary: 'accept, accept-encoding',
    'x-content-type-options': 'nosniff',
  });
  expect(await get('/docs/')).toMatchObject({ status: 200, text: SITE['site/index.html'] });
  for (const [path, accept] of [
    ['/docs/calls.md', '*/*'],
    ['/docs/calls', 'text/markdown, text/html;q=0.5'],
  ] as const) {
    const { text, headers } = await get(path, { accept });
    expect([text, headers['content-type']]).toEqual(['# Calls', 'text/markdown; charset=utf-8']);
  }
  expect(await get('/llms.txt')).toMatchObject({ status: 200, text: 'list' });
});

test('the policy allows WebAssembly for the search, and neither eval nor inline scripts', async () => {
  const policy = (await made(SITE)('/docs/')).headers['content-security-policy']!;
  expect(policy).toContain("script-src 'self' 'wasm-unsafe-eval';");
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toMatch(/script-src[^;]*('unsafe-inline'|'unsafe-eval')/);
});

test('files come compressed and are kept: for ever with a hash in their names, else until they change', async () => {
  const get = made(SITE);
  const page = await get('/docs/calls', { 'accept-encoding': 'gzip, br' });
  expect(page).toMatchObject({ text: 'brotli', headers: { 'content-encoding': 'br' } });
  const again = await get('/docs/calls', { 'accept-encoding': 'gzip, br', 'if-none-match': page.headers.etag! });
  expect([again.status, again.text]).toEqual([304, null]);
  expect((await get('/docs/calls', { 'if-none-match': page.headers.etag! })).status).toBe(200);
  expect((await get('/docs/_astro/a.1b2c.js')).headers['cache-control']).toContain('immutable');
});

test('each address has one form; unknown ones show the page of unknown addresses', async () => {
  const get = made(SITE);
  expect(await get('/docs')).toMatchObject({ status: 308, headers: { location: '/docs/' } });
  expect(await get('/docs/calls/')).toMatchObject({ status: 308, headers: { location: '/docs/calls' } });
  expect(await get('/docs/gone')).toMatchObject({ status: 404, text: 'gone' });
  expect(await get('/docs/calls', {}, 'HEAD')).toMatchObject({ status: 200, text: null });
  expect(await get('/docs/', {}, 'POST')).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD' } });
});

test('no path leads out of the folder, built or not', async () => {
  for (const get of [made(SITE), made(SOURCES)]) {
    for (const path of [
      '../secret.txt',
      '..%2fsecret.txt',
      '%2e%2e/secret.txt',
      '..\\secret.txt',
      '/etc/passwd',
      '%ff',
      'calls.md%00',
    ]) {
      const { status, text } = await get(`/docs/${path}`);
      expect([status, text]).toEqual([404, expect.not.stringMatching(/^secret$|root:/)]);
    }
    expect((await get('/docs/../README.md')).status).toBe(404);
  }
});

test('other addresses are left to the API', () => {
  const docs = new Docs({ url: 'https://example.org' });
  for (const url of ['/docsx', '/doc', '/llms.txt/x', '/agents', '/docs-team/agent/v1/run']) {
    expect(docs.takes({ url }), url).toBe(false);
  }
});

test('behind a proxy, links begin with its path', async () => {
  const get = made(SITE, 'https://example.org/below');
  expect((await get('/docs/')).text).toBe('<a href="/below/docs/calls">');
  expect((await get('/docs')).headers.location).toBe('/below/docs/');
});

test('without a built site, a page names the command, and the Markdown is there', async () => {
  const get = made(SOURCES);
  const { status, text, headers } = await get('/docs/errors/TIMEOUT');
  expect([status, headers['cache-control']]).toEqual([404, 'no-store']);
  expect(text).toContain('npm run docs:site');
  expect(text).toContain('href="/docs/errors/TIMEOUT.md"');
  expect(await get('/docs/errors/TIMEOUT.md')).toMatchObject({ status: 200, text: SOURCES['docs/errors/TIMEOUT.md'] });
  expect((await get('/docs/calls', { accept: 'text/markdown' })).text).toContain('(/docs/errors/TIMEOUT.md)');
  expect((await get('/llms.txt')).text).toContain('- [Calls](/docs/calls.md): Call an agent with a request.');
  expect((await get('/llms-full.txt')).text).toContain('The deadline passed');
  expect((await get(['/docs', 'gone.md'].join('/'))).status).toBe(404);
  expect((await made({})('/docs/')).text).toContain('npm run docs:site');
  expect((await made({})('/llms.txt')).status).toBe(404);
});
