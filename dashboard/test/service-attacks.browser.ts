import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { clientOf, type LocalTarget, publishCode, startLocalTarget } from '../../test/helpers/platform.ts';
import { findChromium, launchChromium, signedInPage } from './chromium.ts';

/** An app that serves pages, a worker and cookies for the whole domain, and records what browsers send. */
const APP = `
const seen = [];
require('node:http').createServer((request, response) => {
  if (request.url === '/seen') return response.end(JSON.stringify(seen));
  seen.push({ url: request.url, cookie: request.headers.cookie ?? '' });
  response.setHeader('set-cookie', ['stray=1; Domain=localhost; Path=/', 'platform_session=forged; Domain=localhost; Path=/']);
  const isScript = request.url.endsWith('.js');
  response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
  response.setHeader('service-worker-allowed', '/');
  response.end(isScript ? 'self.addEventListener("fetch", () => {});' : '<!doctype html><title>service</title>');
}).on('upgrade', ({ headers }, socket) => {
  const key = headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = require('node:crypto').createHash('sha1').update(key).digest('base64');
  socket.on('error', () => {}).write(
    'HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n');
}).listen(process.env.PORT);`;

describe.skipIf(findChromium() === undefined)('a page of a service or of another site', { timeout: 120_000 }, () => {
  let target: LocalTarget;
  let browser: Browser;
  /** Platform URL under the host name for which cookies would be shared, if any were set. */
  let platform: string;
  let service: { readonly id: string; readonly url: string } | undefined;
  let workspace_id: string;
  let context: BrowserContext;
  let dashboard: Page;

  beforeAll(async () => {
    target = await startLocalTarget();
    // A foreign host name that resolves to this machine, as an attacker's DNS could.
    browser = await launchChromium(['--host-resolver-rules=MAP rebound.example 127.0.0.1']);
    platform = `http://localhost:${new URL(target.url).port}`;
    const client = clientOf(target);
    workspace_id = (await client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
    if (!target.services) return;
    await target.setPlan(workspace_id, 'team');
    const manifest = { run_mode: 'always_on', runtime: { command: 'node server.js' } };
    await publishCode(client, 'bot', { 'server.js': APP }, manifest);
    const { service: made } = await client.deployService({ params: { workspace_id }, body: { agent: 'acme/bot' } });
    const state = async () =>
      (await client.getService({ params: { workspace_id, service_id: made.id } })).service.health_status;
    await vi.waitFor(async () => expect(await state()).toBe('healthy'), { timeout: 60_000, interval: 100 });
    service = { id: made.id, url: new URL(made.service_url!).origin };
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    await target?.close();
  });
  const signIn = async () => {
    context = await browser.newContext();
    dashboard = await signedInPage(context, { ...target, url: platform });
    await dashboard.getByRole('heading', { level: 1 }).waitFor();
  };
  afterEach(() => context?.close());

  const open = async (url: string) => {
    const page = await context.newPage();
    await page.goto(url);
    return page;
  };
  /** Returns the result of a script in the page; errors become their names. */
  const run = <T>(page: Page, script: string): Promise<T> =>
    page.evaluate(
      `(async () => { try { return await (async () => { ${script} })(); } catch (error) { return error.name; } })()`,
    );
  const isSignedIn = async () => {
    await dashboard.goto(`${platform}/dashboard/acme/settings`);
    await dashboard.getByRole('heading', { level: 1 }).waitFor();
    return !dashboard.url().includes('/login');
  };

  test('sets no cookie for the platform, not even so many that it locks people out', async ({ skip }) => {
    skip(!service, 'no sandbox on this machine');
    await signIn();
    const before = await context.cookies(platform);
    expect(before.map(({ name }) => name)).toEqual(['platform_session']);
    const page = await open(service!.url);
    await run(
      page,
      `for (const domain of ['localhost', '.localhost', '127.0.0.1', ''])
         for (let count = 0; count < 180; count++)
           document.cookie = 'bomb' + count + '=' + 'x'.repeat(4000) + '; path=/' + (domain && '; domain=' + domain);
       document.cookie = 'platform_session=forged; path=/; domain=localhost';
       document.domain = 'localhost';`,
    );
    await page.goto(`${service!.url}/again`).catch(() => {});
    expect(await context.cookies([platform, target.url])).toEqual(before);
    expect(await isSignedIn()).toBe(true);
  });

  test('gets no cookie of the platform', async ({ skip }) => {
    skip(!service, 'no sandbox on this machine');
    await signIn();
    await open(`${service!.url}/first`);
    const page = await open(`${service!.url}/seen`);
    expect(await page.locator('body').textContent()).toContain('/first');
    expect(await page.locator('body').textContent()).not.toContain('platform_session=plat');
    const { value } = (await context.cookies(platform))[0]!;
    expect(await page.locator('body').textContent()).not.toContain(value);
  });

  test('has its service worker for itself, and none of the platform', async ({ skip }) => {
    skip(!service, 'no sandbox on this machine');
    await signIn();
    const page = await open(service!.url);
    const register = (url: string, scope: string) =>
      run(page, `return (await navigator.serviceWorker.register('${url}', { scope: '${scope}' })).scope;`);
    expect(await register('/worker.js', '/')).toBe(`${service!.url}/`);
    expect(await register(`${platform}/services/${service!.id}/worker.js`, `${platform}/`)).toBe('SecurityError');
    expect(await register('/worker.js', `${platform}/dashboard/`)).toBe('SecurityError');
    // The path is on the platform's origin, so it serves nothing to browsers.
    const direct = await context.newPage();
    const answer = await direct.goto(`${platform}/services/${service!.id}/`);
    expect(answer!.status()).toBe(403);
    expect(
      await run(
        dashboard,
        `return (await navigator.serviceWorker.register('/services/${service!.id}/worker.js')).scope;`,
      ),
    ).toMatch(/Error$/);
    expect(await run(dashboard, 'return (await navigator.serviceWorker.getRegistrations()).length;')).toBe(0);
    expect(await isSignedIn()).toBe(true);
  });

  const pages = [
    ['of a service', async () => service?.url],
    ['of another site', async () => foreign],
    ['of another port, which has the cookies of this one', async () => foreign.replace('127.0.0.1', 'localhost')],
  ] as const;
  let foreign: string;
  let close = () => {};
  beforeAll(async () => {
    const server = createServer((_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>evil</title>'),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    foreign = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    close = () => {
      server.closeAllConnections();
      server.close();
    };
  });
  afterAll(() => close());

  test.each(pages)('%s changes and reads nothing with the session of a person', async (_, where) => {
    const from = await where();
    if (from === undefined) return;
    await signIn();
    const page = await open(from);
    const count = async () => (await clientOf(target).listWorkspaces({})).workspaces.length;
    const before = await count();
    const body = JSON.stringify(JSON.stringify({ name: 'Evil', slug: 'evil-made-up' }));
    for (const [mode, type] of [
      ['no-cors', 'text/plain'],
      ['cors', 'application/json'],
      ['same-origin', 'application/json'],
    ]) {
      await run(
        page,
        `await fetch('${platform}/workspaces', { method: 'POST', mode: '${mode}', credentials: 'include', headers: { 'content-type': '${type}' }, body: ${body} });`,
      );
    }
    // Also as a form, which navigates the page.
    const form = await open(from);
    await run(
      form,
      `const form = Object.assign(document.createElement('form'), { method: 'post', action: '${platform}/workspaces', enctype: 'text/plain' });
       form.append(Object.assign(document.createElement('input'), { name: '{"name":"Evil","slug":"evil-made-up","x":"', value: '"}' }));
       document.body.append(form); form.submit();`,
    );
    await form.waitForLoadState();
    expect(await count()).toBe(before);
    const read = `return (await fetch('${platform}/workspaces', { credentials: 'include' })).status;`;
    expect(await run(page, read)).toBe('TypeError');
    expect(await isSignedIn()).toBe(true);
  });

  test('under a name that leads here gets what strangers get, and no service', async () => {
    await signIn();
    const page = await open(`http://rebound.example:${new URL(platform).port}/dashboard/login`);
    expect(await page.title()).not.toBe('');
    const ask = (path: string, method = 'GET', body = '') =>
      run<{ status: number; text: string }>(
        page,
        `const answer = await fetch('${path}', { method: '${method}'${body && `, headers: { 'content-type': 'application/json' }, body: ${JSON.stringify(body)}`} });
         return { status: answer.status, text: await answer.text() };`,
      );
    for (const path of ['/workspaces', '/metrics', `/workspaces/${workspace_id}/services`]) {
      expect([path, (await ask(path)).status]).toEqual([path, 401]);
    }
    const health = await ask('/health/detailed');
    expect([health.status, Object.keys(JSON.parse(health.text))]).toEqual([200, ['status', 'services']]);
    const { code } = await clientOf(target).createSignInCode({ body: {} });
    expect((await ask('/auth/session', 'POST', JSON.stringify({ code }))).status).toBe(403);
    if (!service) return;
    const path = `/services/${service.id}/seen`;
    expect((await ask(path)).status).toBe(403);
    const connect = (url: string) => `return new Promise((done) => {
      const socket = new WebSocket('${url}');
      socket.onopen = () => done('open'); socket.onerror = () => done('refused');
    });`;
    const own = service.url.replace('http', 'ws');
    expect(await run(await open(service.url), connect(`${own}/`))).toBe('open');
    expect(await run(page, connect(`ws://rebound.example:${new URL(platform).port}${path}`))).toBe('refused');
    const other = await open(foreign);
    expect(await run(other, connect(`${platform.replace('http', 'ws')}${path}`))).toBe('refused');
  });

  test.each(pages)('%s frames the dashboard in nothing, and holds no handle of it', async (_, where) => {
    const from = await where();
    if (from === undefined) return;
    await signIn();
    const page = await open(from);
    await run(
      page,
      `const frame = Object.assign(document.createElement('iframe'), { src: '${platform}/dashboard/acme/settings' });
       const loaded = new Promise((done) => { frame.onload = done; });
       document.body.append(frame); await loaded;`,
    );
    const framed = page.frames().find((frame) => frame !== page.mainFrame());
    expect(framed?.url() ?? 'none').not.toContain('/dashboard/acme');
    const [opened] = await Promise.all([
      context.waitForEvent('page'),
      run(page, `window.opened = window.open('${platform}/dashboard/acme/settings'); return true;`),
    ]);
    await opened.waitForLoadState();
    // The page is in its own browsing context group, so its opener sees a closed window.
    await expect.poll(() => run(page, 'return window.opened.closed;')).toBe(true);
    expect(await opened.evaluate('window.opener')).toBe(null);
  });
});
