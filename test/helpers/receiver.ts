import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One received POST. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
  readonly body: any;
}

/** Customer server that receives POST requests from the platform. */
export interface Receiver {
  /** URL without a slash at the end. */
  readonly url: string;
  /** Returns the requests to paths that begin with `path`, oldest first. */
  at(path: string): readonly Received[];
  close(): void;
}

/** Starts a receiver that answers 204; a path such as `/500/x` gets that status. */
export async function startReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const text = Buffer.concat(await request.toArray()).toString();
    received.push({ path: request.url!, headers: request.headers, text, body: JSON.parse(text) });
    response.writeHead(Number(/\/(\d{3})(\/|$)/.exec(request.url!)?.[1] ?? 204)).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    at: (path) => received.filter((each) => each.path.startsWith(path)),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
