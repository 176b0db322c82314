import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';

export interface LoadBalancerOptions {
  /** Returns the route of a host name, for use with {@link targets}. */
  route(host: string): Promise<string | undefined>;
  /** Returns the healthy targets of a route. */
  targets(route: string): readonly { readonly address: string }[];
}

export interface LoadBalancer {
  readonly port: number;
  /** Resolves when the requests to a deregistered address have ended or timed out. */
  drained(address: string): Promise<void>;
  close(): Promise<void>;
}

/** Deregistration delay; on AWS it is minutes. */
const DRAIN_MS = 1000;
/** A connection's own headers, which are not passed on (RFC 9110, section 7.6.1). */
const HOP_BY_HOP = /^(connection|keep-alive|proxy-connection|te|transfer-encoding|upgrade)$/i;

/**
 * Fakes AWS's application load balancers for tasks of services: routes by host name, round-robins over healthy targets,
 * forwards WebSockets, and answers errors with HTML. Requests arrive as HTTP and are marked as HTTPS, because TLS ends
 * before it.
 */
export async function startLoadBalancer(options: LoadBalancerOptions): Promise<LoadBalancer> {
  const underWay = new Map<string, number>();
  let turn = 0;

  async function targetFor({ headers }: IncomingMessage): Promise<string | undefined> {
    const route = await options.route(headers.host ?? '');
    const targets = route === undefined ? [] : options.targets(route);
    turn += 1;
    return targets[turn % targets.length]?.address;
  }
  const count = (address: string, change: number) => underWay.set(address, (underWay.get(address) ?? 0) + change);

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const host = await targetFor(incoming);
    if (host === undefined) return answer(response, 503, 'Service Temporarily Unavailable');
    count(host, 1);
    response.once('close', () => count(host, -1));
    const { method, url: path } = incoming;
    const outgoing = httpRequest({ host, port: 8080, method, path, agent: false, headers: headersOf(incoming) });
    outgoing.on('response', (from) => {
      const kept = pairsOf(from.rawHeaders).filter(([name]) => !HOP_BY_HOP.test(name));
      response.writeHead(from.statusCode!, from.statusMessage, kept.flat());
      response.flushHeaders();
      from.pipe(response);
      from.on('error', () => response.destroy());
    });
    outgoing.on('error', () => {
      if (response.headersSent) response.destroy();
      else answer(response, 502, 'Bad Gateway');
    });
    response.once('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  }

  async function upgrade(incoming: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const host = await targetFor(incoming);
    if (host === undefined) return void socket.end('HTTP/1.1 503 Service Temporarily Unavailable\r\n\r\n');
    count(host, 1);
    const target = connect(8080, host);
    const lines = [...pairsOf(headersOf(incoming)), ['connection', 'upgrade'], ['upgrade', incoming.headers.upgrade!]];
    target.write(`${incoming.method} ${incoming.url} HTTP/1.1\r\n`);
    target.write(`${lines.map(([name, value]) => `${name}: ${value}`).join('\r\n')}\r\n\r\n`);
    target.write(head);
    for (const [from, to] of [
      [socket, target],
      [target, socket],
    ] as const) {
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => to.destroy());
    }
    target.once('close', () => count(host, -1));
  }

  const server = createServer({ requestTimeout: 0 }, (incoming, response) => {
    serve(incoming, response).catch(() => answer(response, 500, 'Internal Server Error'));
  });
  server.on('upgrade', (incoming, socket: Socket, head) => {
    socket.on('error', () => {});
    upgrade(incoming, socket, head).catch(() => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async drained(address) {
      const end = Date.now() + DRAIN_MS;
      while ((underWay.get(address) ?? 0) > 0 && Date.now() < end) await setTimeout(20);
    },
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function answer(response: ServerResponse, status: number, reason: string): void {
  const page = `<html>\r\n<head><title>${status} ${reason}</title></head>\r\n<body>\r\n<center><h1>${status} ${reason}</h1></center>\r\n</body>\r\n</html>\r\n`;
  response.writeHead(status, reason, { server: 'awselb/2.0', 'content-type': 'text/html' }).end(page);
}

/** Returns alternating header names and values, including those that a load balancer adds. */
function headersOf({ rawHeaders, headers, socket }: IncomingMessage): string[] {
  const forwarded = [headers['x-forwarded-for'], socket.remoteAddress].filter((each) => each !== undefined);
  const kept = pairsOf(rawHeaders).filter(([name]) => {
    const isOwn = /^x-forwarded-(for|proto|port)$/i.test(name);
    // Node sets the transfer encoding itself.
    return !isOwn && (!HOP_BY_HOP.test(name) || /^transfer-encoding$/i.test(name));
  });
  return [
    ...kept.flat(),
    ...['X-Forwarded-For', forwarded.join(', ')],
    ...['X-Forwarded-Proto', 'https', 'X-Forwarded-Port', '443'],
    ...['X-Amzn-Trace-Id', 'Root=1-67891233-abcdef012345678912345678'],
  ];
}

const pairsOf = (raw: readonly string[]): [string, string][] =>
  raw.flatMap((name, index) => (index % 2 === 0 ? [[name, raw[index + 1]!] as [string, string]] : []));
