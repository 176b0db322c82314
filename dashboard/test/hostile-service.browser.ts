import { expect, test } from 'vitest';
import { publishCode } from '../../test/helpers/platform.ts';
import { describeSite } from './browser.ts';

/** A page for scripts of the test, and a service worker that would answer for every page in its reach. */
const APP = `
require('node:http').createServer((request, response) => {
  if (request.url === '/worker.js') {
    response.setHeader('content-type', 'text/javascript');
    response.setHeader('service-worker-allowed', '/');
    return response.end("addEventListener('fetch', (event) => event.respondWith(new Response('taken over')))");
  }
  response.setHeader('content-type', 'text/html');
  response.setHeader('set-cookie', ['platform_session=tossed; Domain=localhost; Path=/', 'platform_session=own']);
  response.end('<title>trap</title>');
}).listen(process.env.PORT);`;

/** What a page of a service may try. Each answers what it got, or the name of what stopped it. */
const tries = (dashboard: string) => ({
  'read with the cookie': `fetch('${dashboard}/workspaces', { credentials: 'include' }).then((answer) => answer.text())`,
  'read the page': `fetch('${dashboard}/dashboard/', { credentials: 'include' }).then((answer) => answer.text())`,
  'look into its window': `new Promise((done, fail) => {
    const opened = open('${dashboard}/dashboard/acme');
    setTimeout(() => { try { done(opened.document.body.innerHTML) } catch (error) { fail(error) } }, 3000);
  })`,
  'take it over with a worker': `navigator.serviceWorker.register('${dashboard}/worker.js', { scope: '/' })`,
  'have it as a worker': `new Promise((done, fail) => {
    const worker = new Worker('${dashboard}/dashboard/');
    worker.onerror = () => fail(new Error('refused'));
    worker.onmessage = done;
  })`,
});

describeSite('a service that people visit', (site) => {
  test('gets nothing of the dashboard in the same browser', async () => {
    const { workspaces } = await site.client.listWorkspaces({});
    const workspace_id = workspaces.find(({ slug }) => slug === 'acme')!.id;
    await site.target.setPlan(workspace_id, 'team');
    const manifest = { run_mode: 'always_on', runtime: { command: 'node server.js' } };
    await publishCode(site.client, 'trap', { 'server.js': APP }, manifest);
    const { service } = await site.client.deployService({
      params: { workspace_id },
      body: { agent: 'acme/trap' },
    });
    const find = async () =>
      (await site.client.getService({ params: { workspace_id, service_id: service.id } })).service.state;
    await expect.poll(find, { timeout: 60_000 }).toBe('running');
    const trapUrl = service.service_url!;

    // Under this name the dashboard and the service are one site to browsers.
    const dashboard = site.target.url.replace('127.0.0.1', 'localhost');
    const page = await site.open('/login', { signedIn: false });
    const own = await page.context().newPage();
    await own.goto(`${dashboard}/dashboard/login`);
    const { code } = await site.client.createSignInCode({ body: {} });
    const body = JSON.stringify(JSON.stringify({ code }));
    await own.evaluate(
      `fetch('/auth/session', { method: 'POST', headers: { 'content-type': 'application/json' }, body: ${body} })`,
    );
    await own.goto(`${dashboard}/dashboard/acme`);
    await own.getByRole('heading', { level: 1 }).waitFor();

    const trap = await page.context().newPage();
    await trap.goto(trapUrl);
    expect(await trap.title()).toBe('trap');
    await trap.evaluate(`document.cookie = 'platform_session=scripted; Domain=localhost; Path=/'`);
    for (const [name, code] of Object.entries(tries(dashboard))) {
      const got = await trap.evaluate(`Promise.resolve(${code}).then(() => 'got it', ({ name }) => name)`);
      expect([name, got]).not.toEqual([name, 'got it']);
    }
    // It is asked for with the cookie, and must not act on it.
    const form = `fetch('${dashboard}/workspaces', { method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'content-type': 'text/plain' }, body: '{"name": "made by a service", "slug": "made-by-a-service"}' }).then(({ type }) => type)`;
    expect(await trap.evaluate(form)).toBe('opaque');
    expect((await site.client.listWorkspaces({})).workspaces.map(({ slug }) => slug)).not.toContain(
      'made-by-a-service',
    );
    // Its own worker rules its own origin, and a frame shows nothing of the dashboard.
    await trap.evaluate(`navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready)`);
    await trap.evaluate(`new Promise((done) => {
      const frame = document.createElement('iframe');
      frame.src = '${dashboard}/dashboard/acme';
      frame.onload = done;
      document.body.append(frame);
    })`);
    const framed = trap.frames().find((frame) => frame !== trap.mainFrame())!;
    expect(framed.url()).not.toContain('/dashboard');

    await own.reload();
    await own.getByRole('heading', { level: 1 }).waitFor();
    expect(own.url()).toContain('/dashboard/acme');
    expect(await own.evaluate('navigator.serviceWorker.controller')).toBeNull();
  });
});
