import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname } from 'node:path';
import type { Clock } from '#core/ports/clock.ts';
import { payPage, receiptPage } from './pages.ts';
import { emptyState, ScriptedStripe, TEST_CARDS, type TestCard } from './scripted-stripe.ts';

export interface ScriptedStripeServer {
  /** Origin for `PLATFORM_STRIPE_URL`. */
  readonly url: string;
  readonly key: string;
  readonly webhookSecret: string;
  readonly provider: ScriptedStripe;
  /** Starts sending events to this address, including those of earlier starts. */
  deliverTo(url: string): void;
  /** Pauses the delivery of events. */
  holdEvents(): void;
  close(): Promise<void>;
}

const MAX_FORM_BYTES = 64 * 1024;
const DELIVERY_MS = 10_000;

/**
 * Starts the scripted payment provider on a free loopback port, because everyone who can open its pages gets free
 * credits. Its state is in `file`, if given.
 */
export async function startScriptedStripe({
  clock,
  file,
}: {
  readonly clock: Pick<Clock, 'now'>;
  readonly file?: string;
}): Promise<ScriptedStripeServer> {
  const state = file !== undefined && existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : emptyState();
  const [key, webhookSecret] = [newSecret('sk_test_'), newSecret('whsec_')];
  let receiver: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let delivering: Promise<void> | undefined;

  const save = () => {
    if (file === undefined) return;
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(`${file}.new`, JSON.stringify(state), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  };
  const provider = new ScriptedStripe({
    clock,
    key,
    webhookSecret,
    state,
    changed() {
      save();
      wake(0);
    },
  });
  const wake = (ms: number) => {
    if (receiver === undefined || delivering) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      delivering = deliver(receiver).finally(() => {
        delivering = undefined;
      });
      void delivering.then(again);
    }, ms).unref();
  };
  const deliver = async (to: string | undefined) => {
    if (to !== undefined) await provider.deliver((message) => post(to, message));
  };
  const again = () => {
    const next = Math.min(...(state.deliveries as { due: number }[]).map(({ due }) => due));
    if (Number.isFinite(next)) wake(Math.max(0, next - clock.now()));
  };

  const server = createServer((request, response) => {
    serve(provider, request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  provider.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: provider.url,
    key,
    webhookSecret,
    provider,
    deliverTo(url) {
      receiver = url;
      wake(0);
    },
    holdEvents() {
      receiver = undefined;
      clearTimeout(timer);
    },
    async close() {
      receiver = undefined;
      clearTimeout(timer);
      server.close();
      server.closeAllConnections();
      await delivering;
    },
  };
}

const newSecret = (prefix: string): string => prefix + randomBytes(24).toString('hex');

async function post(url: string, { body, signature }: { body: string; signature: string }): Promise<boolean> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json; charset=utf-8', 'stripe-signature': signature },
      body,
      signal: AbortSignal.timeout(DELIVERY_MS),
    });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

async function serve(provider: ScriptedStripe, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = 'GET', url: path = '/' } = request;
  if (!isOwn(provider, request)) return void response.writeHead(403).end();
  const body = await readText(request);
  if (body === undefined) return void response.writeHead(413).end();
  const [, folder, id = ''] = path.split('?')[0]!.split('/');
  if (folder === 'v1') {
    const headers = new Headers(Object.entries(request.headersDistinct).map(([name, values]) => [name, values![0]!]));
    const { status, body: json } = provider.answer(method, path, headers, body);
    return void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json));
  }
  const html = (status: number, text: string) =>
    void response
      .writeHead(status, {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
      })
      .end(text);
  const receipt = folder === 'receipts' ? provider.receipt(id) : undefined;
  if (receipt) return html(200, receiptPage(receipt));
  const session = folder === 'pay' ? provider.find(id) : undefined;
  if (session === undefined) return html(404, '<p>There is no such page.</p>');
  const shown = { ...session, isAwaited: provider.isAwaited(session) };
  if (method !== 'POST') return html(200, payPage(shown));
  const form = new URLSearchParams(body);
  const transfer = form.get('transfer');
  const card = form.get('card') ?? '';
  if (transfer === null && !Object.hasOwn(TEST_CARDS, card)) {
    return html(400, payPage(shown, 'Choose one of the cards.'));
  }
  const done = transfer === null ? provider.pay(id, card as TestCard) : provider.transfer(id, transfer === 'arrives');
  if ('problem' in done) return html(402, payPage(shown, done.problem));
  response.writeHead(303, { location: done.goTo }).end();
}

/**
 * Whether a request names this provider as its host and does not come from a page of another origin. Otherwise a web
 * page that the operator opens could pay on its author's behalf, also through a host name that resolves to this
 * machine.
 */
function isOwn({ url }: ScriptedStripe, { headers: { host, origin } }: IncomingMessage): boolean {
  return host === new URL(url).host && (origin === undefined || origin === url);
}

async function readText(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += (chunk as Buffer).byteLength;
    if (size > MAX_FORM_BYTES) return undefined;
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString();
}
