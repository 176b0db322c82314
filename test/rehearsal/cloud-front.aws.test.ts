import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { FRONT_HEADER, FRONT_HOST_HEADER, VIEWER_HEADER } from '#core/http/front-headers.ts';
import { PAGE_HEADERS } from '#core/http/page-headers.ts';
import { synthesise } from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';
import { readAssembly } from './assembly.ts';
import { FRONT_NAME, startCloudFront } from './cloud-front.ts';

const { folder, stacks } = synthesise(dev);
const assembly = readAssembly(folder, stacks);

/** A second of CloudFront's limits lasts this long here. */
const SECOND_MS = 10;

async function startFront(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const requests: IncomingMessage[] = [];
  const origin = createServer((request, response) => {
    requests.push(request);
    answer(request, response);
  }).listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const api = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  const front = await startCloudFront(assembly, { api, secondMs: SECOND_MS });
  onTestFinished(async () => {
    await front.close();
    origin.closeAllConnections();
    origin.close();
  });
  return { url: front.url, requests, stopOrigin: () => origin.close() };
}

describe('requests to the API', () => {
  test('arrive with CloudFront’s token, name and the viewer’s address, whatever the viewer says', async () => {
    const { url, requests } = await startFront((_, response) => response.end('{}'));
    const headers = {
      authorization: 'Bearer sk_live_x',
      cookie: 'session=1',
      [FRONT_HEADER]: 'forged',
      [VIEWER_HEADER]: '198.51.100.66',
      [FRONT_HOST_HEADER]: 'evil.example',
      te: 'trailers',
    };
    const answer = await fetch(`${url}/org?limit=1`, { headers });
    expect(answer.status).toBe(200);
    const [request] = requests;
    expect(request!.url).toBe('/org?limit=1');
    expect(request!.headers).toMatchObject({
      authorization: 'Bearer sk_live_x',
      cookie: 'session=1',
      host: expect.stringMatching(/\.execute-api\.eu-west-1\.amazonaws\.com$/),
      via: `2.0 ${FRONT_NAME} (CloudFront)`,
      [VIEWER_HEADER]: '127.0.0.1',
      [FRONT_HOST_HEADER]: FRONT_NAME,
    });
    expect(request!.headers[FRONT_HEADER]).not.toBe('forged');
    expect(request!.headers.te).toBeUndefined();
    expect(answer.headers.get('x-cache')).toBe('Miss from cloudfront');
    expect(answer.headers.get('via')).toContain('CloudFront');
  });

  test('end with CloudFront’s own 504 after its silence, once for a POST and three times for a GET', async () => {
    const { url, requests } = await startFront(() => {});
    const posted = await fetch(`${url}/main/slow/latest/run`, { method: 'POST', body: '{}' });
    expect([posted.status, posted.headers.get('x-cache'), requests.length]).toEqual([504, 'Error from cloudfront', 1]);
    // Not the platform's envelope: clients must expect that.
    expect(await posted.text()).toContain('504 ERROR');
    expect((await fetch(`${url}/slow`)).status).toBe(504);
    expect(requests).toHaveLength(1 + 3);
  });

  test('keep a stream as long as it says something, and lose it in silence', async () => {
    const events = Array.from({ length: 5 }, (_, i) => `data: ${i}\n\n`);
    const { url } = await startFront(async (request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of events) {
        response.write(event);
        await new Promise((done) => setTimeout(done, 30 * SECOND_MS));
      }
      if (request.url === '/ends') response.end();
    });
    const stream = (path: string) => fetch(`${url}${path}`, { method: 'POST' }).then((answer) => answer.text());
    expect(await stream('/ends')).toBe(events.join(''));
    await expect(stream('/goes-silent')).rejects.toThrow();
  });

  test('are answered 502 if the origin breaks the connection', async () => {
    const { url } = await startFront((request) => request.socket.destroy());
    expect((await fetch(`${url}/org`, { method: 'POST' })).status).toBe(502);
  });

  test('with a body are refused for GET, as are long addresses and methods that no route has', async () => {
    const { url, requests } = await startFront((_, response) => response.end());
    const status = (path: string, method: string, body?: string) =>
      new Promise<number>((done) => {
        const headers = body === undefined ? {} : { 'content-length': body.length };
        httpRequest(url + path, { method, headers }, (answer) => done(answer.resume().statusCode!)).end(body);
      });
    expect(await status('/org', 'GET', '{}')).toBe(403);
    expect(await status(`/${'a'.repeat(9000)}`, 'GET')).toBe(414);
    expect(await status('/org', 'TRACE')).toBe(403);
    expect(await status('/dashboard/', 'POST')).toBe(403);
    expect(requests).toEqual([]);
  });

  test('that failed are not answered for others from what CloudFront keeps', async () => {
    const statuses = new Map([['Bearer member', 200]]);
    const { url } = await startFront((request, response) => {
      response.writeHead(statuses.get(request.headers.authorization!) ?? Number(request.url!.slice(1, 4))).end();
    });
    for (const status of [404, 500, 501, 502, 503, 504]) {
      const as = (who: string) => fetch(`${url}/${status}`, { headers: { authorization: `Bearer ${who}` } });
      expect((await as('stranger')).status).toBe(status);
      expect((await as('member')).status, String(status)).toBe(200);
    }
  });
});

describe('pages', () => {
  test('come from the bucket, with their headers, and assets are kept', async () => {
    const { url, requests } = await startFront((_, response) => response.end());
    const shown = await fetch(`${url}/dashboard/main/runs/0a1b`);
    expect([shown.status, shown.headers.get('content-type'), shown.headers.get('cache-control')]).toEqual([
      200,
      'text/html',
      'no-cache',
    ]);
    for (const name of Object.keys(PAGE_HEADERS)) expect(shown.headers.get(name), name).toBeTruthy();
    expect(shown.headers.get('strict-transport-security')).toBe('max-age=31536000');
    expect(await shown.text()).toContain('<base href="/dashboard/">');
    const asset = () => fetch(`${url}/dashboard/assets/main-1a2b.js`).then(({ headers }) => headers.get('x-cache'));
    expect([await asset(), await asset()]).toEqual(['Miss from cloudfront', 'Hit from cloudfront']);
    expect((await fetch(`${url}/dashboard`, { redirect: 'manual' })).headers.get('location')).toBe('/dashboard/');
    expect((await fetch(`${url}/dashboard/assets/gone.js`)).status).toBe(404);
    expect(requests).toEqual([]);
  });

  test('of the documentation come as HTML, as Markdown, and as text for models', async () => {
    const { url } = await startFront((_, response) => response.end());
    const typeOf = async (path: string, accept: string) => {
      const { status, headers } = await fetch(url + path, { headers: { accept } });
      return `${status} ${headers.get('content-type')}`;
    };
    expect(await typeOf('/docs/calls', 'text/html')).toBe('200 text/html');
    expect(await typeOf('/docs/calls', 'text/markdown')).toBe('200 text/markdown');
    expect(await typeOf('/llms.txt', '*/*')).toBe('200 text/plain');
    expect(await typeOf('/docs/gone', 'text/html')).toBe('404 text/html; charset=utf-8');
  });
});
