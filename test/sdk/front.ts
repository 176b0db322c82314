import { once } from 'node:events';
import { createServer, request as forward, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface Front {
  readonly url: string;
  /** Requests for events of a run: the cursor of each. */
  readonly cursors: (string | null)[];
  close(): void;
}

/**
 * Starts a server in front of a platform, for connections that break. It answers each streamed call before its run has
 * ended, and each stream of a run's events breaks after its first event, once with two refused connections after it.
 */
export async function startFront(platform: string): Promise<Front> {
  const cursors: (string | null)[] = [];
  let refusals = 2;
  const server = createServer(async (incoming, response) => {
    const isStream = incoming.headers.accept === 'text/event-stream';
    if (incoming.method === 'POST' && isStream) return continueElsewhere(platform, incoming, response);
    if (!isStream) return pass(platform, incoming, (answer) => send(answer, response));
    cursors.push(new URL(incoming.url!, platform).searchParams.get('after'));
    if (cursors.length > 1 && refusals-- > 0) return incoming.socket.destroy();
    pass(platform, incoming, async (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      let sent = '';
      for await (const piece of answer) {
        sent += piece;
        response.write(piece);
        if (!/^event: .*\n.*\n\n/m.test(sent) || /^event: end$/m.test(sent)) continue;
        return setTimeout(() => incoming.socket.destroy(), 20);
      }
      response.end();
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cursors,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Starts the call, and ends the stream as a call does that outlasts its connection. */
const continueElsewhere = (platform: string, incoming: IncomingMessage, response: ServerResponse): void =>
  pass(
    platform,
    incoming,
    async (answer) => {
      if (answer.statusCode !== 202) return send(answer, response);
      const { run_id, url } = JSON.parse(await text(answer));
      response.writeHead(200, { 'content-type': 'text/event-stream', 'x-run-id': run_id });
      response.write('event: progress\ndata: {"type":"sandbox_start"}\n\n');
      response.end(`event: continues\ndata: ${JSON.stringify({ run_id, url: `${url}/events`, after: 0 })}\n\n`);
    },
    { prefer: 'respond-async' },
  );

function pass(
  platform: string,
  incoming: IncomingMessage,
  answered: (answer: IncomingMessage) => unknown,
  more: Record<string, string> = {},
): void {
  const { host: _, ...headers } = incoming.headers;
  const options = { method: incoming.method, headers: { ...headers, ...more } };
  const outgoing = forward(`${platform}${incoming.url}`, options, answered);
  outgoing.on('error', () => incoming.socket.destroy());
  incoming.pipe(outgoing);
  incoming.socket.on('close', () => outgoing.destroy());
}

function send(answer: IncomingMessage, response: ServerResponse): void {
  response.writeHead(answer.statusCode!, answer.headers);
  answer.pipe(response);
}
