import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Dashboard } from './dashboard.ts';

const log = { info: () => {}, error: () => {} };

function made(files: Readonly<Record<string, string>>, url = 'https://example.org/below/dashboard') {
  const parent = mkdtempSync(join(tmpdir(), 'dashboard-'));
  onTestFinished(() => rmSync(parent, { recursive: true }));
  const folder = join(parent, 'dist');
  mkdirSync(join(folder, 'assets'), { recursive: true });
  writeFileSync(join(parent, 'secret.txt'), 'secret');
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const dashboard = new Dashboard({ log, url, folder });
  return async (path: string, accepted = '', method = 'GET') => {
    const { status, headers, body } = await dashboard.answer({ method, url: path }, accepted);
    return { status, headers, text: body === null ? null : String(body) };
  };
}

const FILES = {
  'index.html': '<base href="/dashboard/" /><meta name="platform-command" content="" /><p>page</p>',
  'theme.js': 'theme',
  'assets/a-123.js': 'plain',
  'assets/a-123.js.br': 'brotli',
  'assets/a-123.js.gz': 'gzip',
};

test('every path that is no file is the page, at the address where browsers see it', async () => {
  const get = made(FILES);
  for (const path of ['/dashboard/', '/dashboard/acme/runs?status=failed', '/dashboard/index.html', '/dashboard/%ff']) {
    const { status, headers, text } = await get(path);
    expect([status, text]).toEqual([
      200,
      '<base href="/below/dashboard/" /><meta name="platform-command" content="npx platform" /><p>page</p>',
    ]);
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': expect.stringContaining("default-src 'none'; script-src 'self'"),
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
    });
  }
  expect(await get('/dashboard')).toMatchObject({ status: 308, headers: { location: '/below/dashboard/' } });
});

test('files come as the client takes them; those with a hash in their name stay', async () => {
  const get = made(FILES);
  const script = await get('/dashboard/assets/a-123.js', 'gzip, deflate, br');
  expect(script).toMatchObject({
    text: 'brotli',
    headers: {
      'content-encoding': 'br',
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'accept-encoding',
    },
  });
  expect(await get('/dashboard/assets/a-123.js', 'gzip')).toMatchObject({ text: 'gzip' });
  const plain = await get('/dashboard/assets/a-123.js');
  expect([plain.text, plain.headers['content-encoding']]).toEqual(['plain', undefined]);
  expect((await get('/dashboard/theme.js')).headers['cache-control']).toBe('no-cache');
  expect(await get('/dashboard/assets/gone.js')).toMatchObject({ status: 404 });
  expect(await get('/dashboard/assets/a-123.js', '', 'HEAD')).toMatchObject({ status: 200, text: null });
  expect(await get('/dashboard/', '', 'POST')).toMatchObject({ status: 405 });
});

test('no path leads out of the folder', async () => {
  const get = made(FILES);
  const paths = ['../secret.txt', '..%2fsecret.txt', '%2e%2e/secret.txt', '..\\secret.txt', 'assets/../../secret.txt'];
  for (const path of [...paths, '/etc/passwd', 'assets/%2e%2e%2f%2e%2e%2fsecret.txt', 'theme.js%00']) {
    expect((await get(`/dashboard/${path}`)).text).not.toMatch(/secret$|root:/);
  }
});

test('without files it says how they are built', async () => {
  const { status, text } = await made({})('/dashboard/');
  expect([status, text]).toEqual([404, expect.stringContaining('npm run build --workspace dashboard')]);
});

test('takes its own paths alone', () => {
  const dashboard = new Dashboard({ log, url: 'http://127.0.0.1:4280/dashboard', folder: 'none' });
  const takes = (url: string) => dashboard.takes({ url });
  expect(['/dashboard', '/dashboard/', '/dashboard?a', '/dashboard/x'].map(takes)).toEqual([true, true, true, true]);
  expect(['/dashboards', '/dashboard-x/a/v1/run', '/', '/agents'].map(takes)).toEqual([false, false, false, false]);
});
