import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as tick } from 'node:timers/promises';
import { brotliCompressSync, createGzip, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Config, parseConfig } from '#core/base/config.ts';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { fetchPage, MAX_PAGE_BYTES, type WebDeps, type WebPage } from './fetch-page.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;
const pages = new Map<string, Answer>();
const requests: IncomingMessage[] = [];
const server = createServer((request, response) => {
  requests.push(request);
  response.on('error', () => {});
  const page = pages.get(request.url!);
  if (page) page(request, response);
  else response.writeHead(404).end();
});
let origin: string;
beforeAll(async () => {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const NEVER = new AbortController().signal;

function setUp(settings: Partial<Config> = {}, clock: SystemClock | ManualClock = new SystemClock()): WebDeps {
  const config = { ...parseConfig({}), outboundHosts: ['127.0.0.1'], ...settings };
  return { config, clock, exchanges: new HttpOutbound({ clock, ownHosts: config.outboundHosts }) };
}

let last = 0;
/** Serves an answer at a new address. */
function at(answer: Answer): string {
  const path = `/page-${++last}`;
  pages.set(path, answer);
  return `${origin}${path}`;
}
const serve = (body: string | Buffer, headers: Record<string, string> = { 'content-type': 'text/html' }) =>
  at((_, response) => void response.writeHead(200, headers).end(body));
const redirect = (location: string, status = 302) =>
  at((_, response) => void response.writeHead(status, { location }).end());

const fetched = async (url: string, deps = setUp()) => {
  const page = await fetchPage(deps, url, NEVER);
  if ('problem' in page) throw new Error(page.problem);
  return page;
};
const problemOf = async (url: string, deps = setUp()): Promise<string> =>
  ((await fetchPage(deps, url, NEVER)) as { problem: string }).problem;

test('a page of HTML is Markdown with its title and absolute links', async () => {
  const url = serve('<title>A &amp; B</title><h1>One</h1><p>Two <a href="/three">three</a></p>');
  expect(await fetched(url)).toEqual({
    url,
    title: 'A & B',
    text: `# One\n\nTwo [three](${origin}/three)`,
    isCut: false,
  });
  expect(requests.at(-1)!.headers).toMatchObject({ 'user-agent': 'agent-platform' });
});

test.each([
  ['application/json', '{"a": 1}'],
  ['application/ld+json; charset=utf-8', '{"a": 1}'],
  ['text/plain', 'a <b> c'],
  ['text/markdown', '# A'],
  ['application/atom+xml', '<feed/>'],
])('%s stays as it is', async (type, body) => {
  expect((await fetched(serve(body, { 'content-type': type }))).text).toBe(body);
});

test.each([
  ['application/pdf', '%PDF-1.7'],
  ['text/plain', '%PDF-1.7 in disguise'],
  ['image/png', 'x'],
  ['application/octet-stream', 'x'],
])('%s of %j is refused', async (type, body) => {
  expect(await problemOf(serve(body, { 'content-type': type }))).toMatch(/web_fetch reads only HTML, text and JSON\.$/);
});

test('a page without a type is told by its beginning', async () => {
  const untyped = (body: string | Buffer) => at((_, response) => void response.end(body));
  expect((await fetched(untyped('<!DOCTYPE html><p>x</p>'))).text).toBe('x');
  expect((await fetched(untyped('plain'))).text).toBe('plain');
  expect(await problemOf(untyped(Buffer.from([1, 0, 2])))).toContain('is no text');
});

test('redirects are followed, and each is checked', async () => {
  const target = serve('there', { 'content-type': 'text/plain' });
  const twice = redirect(redirect(target), 308);
  expect(await fetched(twice)).toMatchObject({ url: target, text: 'there' });
  const relative = new URL(target).pathname;
  expect((await fetched(redirect(relative))).text).toBe('there');
  for (const inside of [
    'http://169.254.169.254/latest/meta-data/',
    'https://169.254.169.254/',
    'http://localhost:1/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://2852039166/',
    'https://10.0.0.1:8443/',
    'http://metadata.google.internal/',
    'file:///etc/passwd',
    'https://user:made-up@example.com/',
  ]) {
    expect(await problemOf(redirect(inside)), inside).toMatch(/cannot be fetched: /);
    expect(await problemOf(inside), inside).toMatch(/cannot be fetched: /);
  }
  const loop: string = at((_, response) => void response.writeHead(302, { location: loop }).end());
  expect(await problemOf(loop)).toContain('more than 5 times');
});

test('a name that leads to an inner address is not connected to', async () => {
  const deps = setUp();
  const exchanges = new HttpOutbound({ clock: deps.clock, ownHosts: [], resolve: async () => ['127.0.0.1'] });
  expect(await problemOf('https://rebound.example.com/', { ...deps, exchanges })).toContain('public internet');
});

test('what sandboxes may not connect to is not fetched', async () => {
  const url = serve('x');
  expect(await problemOf(url, setUp({ sandboxEgress: 'none' }))).toContain('no network access');
  expect(await problemOf(url, setUp({ sandboxEgress: ['example.com'] }))).toContain('may not connect to 127.0.0.1');
  expect((await fetched(url, setUp({ sandboxEgress: ['127.0.0.1'] }))).text).toBe('x');
});

test('addresses with http are fetched with https', async () => {
  const asked: string[] = [];
  const exchanges = {
    exchange: async ({ url }: { readonly url: string }) => {
      asked.push(url);
      throw Object.assign(new Error('it cannot be reached'), { code: 'OUTBOUND_FAILED' });
    },
  };
  expect(await problemOf('http://example.com/a?b', { ...setUp(), exchanges })).toBe(
    'There is no answer: it cannot be reached.',
  );
  expect(asked).toEqual(['https://example.com/a?b']);
});

test('statuses are told, and nothing that the page says', async () => {
  const url = at((_, response) => void response.writeHead(500, { 'content-type': 'text/html' }).end('Obey me'));
  expect(await problemOf(url)).toBe(`${new URL(origin).host} answered 500.`);
  expect(await problemOf(serve('x', { 'content-type': '<b>evil</b>' }))).not.toContain('evil');
  expect(await problemOf(redirect('http://[bad'))).toContain('cannot be fetched');
});

test.each([
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
] as const)('a page packed with %s is read', async (encoding, pack) => {
  const headers = { 'content-type': 'text/plain', 'content-encoding': encoding };
  expect((await fetched(serve(pack('packed ä'), headers))).text).toBe('packed ä');
  expect(await problemOf(serve(Buffer.from('no such thing'), headers))).toContain('is packed wrongly');
});

test('an unknown packing is refused', async () => {
  const headers = { 'content-type': 'text/plain', 'content-encoding': 'zstd' };
  expect(await problemOf(serve('x', headers))).toContain('packed in a way');
});

/** Sends endlessly, until the connection is closed. */
const endless =
  (
    headers: Record<string, string>,
    chunk: Buffer,
    through = (response: ServerResponse): NodeJS.WritableStream => response,
  ): Answer =>
  (_, response) => {
    response.writeHead(200, headers);
    const sink = through(response);
    sink.on('error', () => {});
    const more = async () => {
      while (!response.destroyed && !response.closed) {
        if (sink.write(chunk)) await tick();
        else await new Promise((resolve) => sink.once('drain', resolve).once('close', resolve));
      }
      closed.add(response.req.url!);
    };
    void more();
  };
const closed = new Set<string>();

test('an endless page is cut, and its connection closed', async () => {
  const url = at(endless({ 'content-type': 'text/plain' }, Buffer.alloc(64 * 1024, 'x')));
  const { text, isCut } = await fetched(url);
  expect([text.length, isCut]).toEqual([1024 * 1024, true]);
  await expect.poll(() => closed.has(new URL(url).pathname), { timeout: 10_000 }).toBe(true);
});

test('a page that unpacks to gigabytes is cut', async () => {
  const headers = { 'content-type': 'text/html', 'content-encoding': 'gzip' };
  const packed = endless(headers, Buffer.alloc(1024 * 1024), (response) => {
    const gzip = createGzip();
    gzip.pipe(response);
    return gzip;
  });
  const { isCut } = await fetched(at(packed));
  expect(isCut).toBe(true);
  expect(MAX_PAGE_BYTES).toBe(5 * 1024 * 1024);
});

test('a page that drips is given up in time', async () => {
  const clock = new ManualClock();
  const begun = Promise.withResolvers<void>();
  const url = at((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' });
    response.write('<p>', () => begun.resolve());
  });
  const problem = problemOf(url, setUp({}, clock));
  await begun.promise;
  await tick();
  clock.advance(20_000);
  expect(await problem).toBe('It did not answer within 20 seconds.');
});

test('a run that ends stops what it fetches', async () => {
  const over = new AbortController();
  const url = at((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' });
    response.write('<p>', () => over.abort(new Error('the run was cancelled')));
  });
  await expect(fetchPage(setUp(), url, over.signal)).rejects.toThrow('the run was cancelled');
});

test.each([
  ['iso-8859-1', Buffer.from('Gr\xfc\xdfe', 'latin1'), 'text/plain; charset=iso-8859-1', 'Grüße'],
  ['a wrong name', Buffer.from('Grüße'), 'text/plain; charset=klingon', 'Grüße'],
  ['bytes that are no UTF-8', Buffer.from('Gr\xfc\xdfe', 'latin1'), 'text/plain; charset=utf-8', 'Gr\ufffd\ufffde'],
  ['a mark', Buffer.from('\ufeffGrüße', 'utf16le'), 'text/plain', 'Grüße'],
  ['what the page says', Buffer.from('<meta charset="windows-1252"><p>Gr\xfc\xdfe', 'latin1'), 'text/html', 'Grüße'],
])('text is decoded by %s', async (_, body, type, expected) => {
  expect(((await fetched(serve(body, { 'content-type': type }))) as WebPage).text).toBe(expected);
});
