import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '#core/api/client.ts';
import type { LocalServer } from '../server.ts';
import { EXAMPLES_FOLDER } from './examples.ts';

const NAME = 'webhook-chat';
/** Timeout for the start of the service, and for a message. */
const PATIENCE_MS = 30_000;
const POLL_MS = 50;

export interface ShownService {
  readonly url: string;
  /** Password of the service's page. */
  readonly password: string;
}

/**
 * Deploys examples/webhook-chat and tests it end to end: it sends a signed webhook and expects the message on a
 * WebSocket. `say` gets a line for each step. Throws an Error that describes the problem, with the end of the service's
 * log.
 */
export async function showService(
  server: LocalServer,
  key: string,
  say: (line: string) => void,
): Promise<ShownService> {
  const client = createClient({ baseUrl: server.url, key });
  const agent = (await client.listAgents({})).find(({ name, runnable }) => name === NAME && runnable);
  if (!agent) throw new Error(`examples/${NAME} was not published, so it cannot be deployed: the reason is above`);
  const { id: workspace } = await client.getOrg({});
  const secrets = {
    CHAT_KEY: (await client.createServiceKey({ params: { id: agent.id } })).key,
    CHAT_PASSWORD: randomBytes(12).toString('base64url'),
    CHAT_WEBHOOK_SECRET: `whsec_${randomBytes(32).toString('base64')}`,
  };
  for (const [name, value] of Object.entries(secrets)) {
    await client.putSecret({ params: { workspace_id: workspace }, body: { name, value } });
  }

  say(`\n$ curl ${server.url}/workspaces/${workspace}/services -d '{"agent_name": "${NAME}"}'`);
  const startedAt = performance.now();
  const { service } = await client.deployService({
    params: { workspace_id: workspace },
    body: { agent_name: NAME },
  });
  const params = { workspace_id: workspace, service_id: service.id };
  try {
    while ((await get(service.service_url!)) !== 200) {
      const { current_state: state, last_error: problem } = (await client.getService({ params })).service;
      if (problem) throw new Error(`the service ${NAME} is ${state}: ${problem}`);
      if (performance.now() - startedAt > PATIENCE_MS) throw new Error(`the service ${NAME} does not answer`);
      await sleep(POLL_MS);
    }
    say(`${service.service_url} answers, ${Math.round(performance.now() - startedAt)} ms after the request`);
    await exchange(`${server.url}/services/${service.id}`, secrets, say);
  } catch (error) {
    const { logs } = await client.listServiceLogs({ params, query: { limit: 10 } });
    const lines = logs.map(({ severity, message }) => `  ${severity} ${message}`);
    throw new Error([(error as Error).message, 'the end of its log:', ...lines].join('\n'), { cause: error });
  }
  return { url: service.service_url!, password: secrets.CHAT_PASSWORD };
}

/** Returns the status that a browser would get. Browsers resolve `*.localhost` themselves, Node does not. */
async function get(address: string): Promise<number | undefined> {
  const { host, port } = new URL(address);
  const asked = httpRequest({ host: '127.0.0.1', port, headers: { host }, agent: false });
  asked.end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  await text(answer);
  return answer.statusCode;
}

/** Sends a webhook and expects its message. `url` is the path form of the address, for programs. */
async function exchange(
  url: string,
  { CHAT_PASSWORD: password, CHAT_WEBHOOK_SECRET: secret }: { CHAT_PASSWORD: string; CHAT_WEBHOOK_SECRET: string },
  say: (line: string) => void,
): Promise<void> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/socket`, {
    headers: { authorization: `Bearer ${password}` },
  });
  const arrived = Promise.withResolvers<string>();
  const opened = Promise.withResolvers<void>();
  const fail = (why: string) => {
    const error = new Error(why);
    opened.reject(error);
    arrived.reject(error);
  };
  opened.promise.catch(() => {});
  arrived.promise.catch(() => {});
  signal.addEventListener('abort', () => fail('the message did not arrive on the WebSocket'));
  socket.addEventListener('close', () => fail('the WebSocket was closed before the message arrived'));
  socket.addEventListener('open', () => opened.resolve());
  socket.addEventListener('message', ({ data }) => {
    const event = JSON.parse(String(data));
    if (event.type === 'message') arrived.resolve(`${event.message.from}: ${event.message.text}`);
  });
  try {
    await opened.promise;
    const body = readFileSync(join(EXAMPLES_FOLDER, NAME, 'sample-webhook.json'));
    const answer = await fetch(`${url}/webhook`, { method: 'POST', headers: signed(body, secret), body, signal });
    say(`\n$ curl ${url}/webhook -d @examples/${NAME}/sample-webhook.json   # and its signature`);
    say(`${answer.status} ${(await answer.text()).trim()}`);
    say('a WebSocket that was open received');
    say(`  ${await arrived.promise}`);
  } finally {
    socket.close();
  }
}

/** Signs the body according to https://www.standardwebhooks.com. */
function signed(body: Buffer, secret: string): Record<string, string> {
  const [id, timestamp] = [`msg_${randomUUID()}`, String(Math.floor(Date.now() / 1000))];
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}
