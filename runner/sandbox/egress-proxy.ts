import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { connect, isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { isAllowedPrivate } from '#core/base/private-ranges.ts';
import { resolveAll } from '#core/outbound/allowed-addresses.ts';
import type { EgressTarget } from '#core/outbound/egress-target.ts';
import { isOnHostList, isOnTargetList } from '#core/outbound/host-list.ts';
import { isPublicAddress } from '#core/outbound/public-address.ts';
import type { Egress, EgressTargets } from '#core/ports/sandbox.ts';

/** Address of the platform itself. */
export interface Gateway {
  readonly host: string;
  readonly port: number;
  /** Called for each connection of a sandbox before its first byte, if the platform is the same process. */
  readonly onConnect?: (socket: Socket, origin: string) => void;
}

/** Package registries that only installations may use, never runs. */
export interface Registries {
  /** Variables such as `PIP_INDEX_URL`, `npm_config_registry`, `PIP_CERT`. Files must be in /etc/ssl/certs. */
  readonly env: Readonly<Record<string, string>>;
  /** `host:port` pairs that may be private addresses and are exempt from the allowlist (`isOnTargetList`). */
  readonly allowHosts: readonly string[];
}

export interface EgressPolicy {
  readonly egress: Exclude<Egress, 'none'>;
  readonly gateway?: Gateway;
  /** Name of the sandbox for {@link Gateway.onConnect}. */
  readonly origin?: string;
  readonly allowHosts?: readonly string[];
  /** Targets besides the ports of the web. */
  readonly egressTargets?: EgressTargets;
  /** @default - the machine's own */
  readonly ways?: Ways;
}

/** How names are resolved and addresses are connected to. */
export interface Ways {
  /** Resolves all addresses of a name. */
  resolve(host: string): Promise<readonly string[]>;
  connect(address: string, port: number): Socket;
}

const OF_THE_MACHINE: Ways = { resolve: resolveAll, connect: (host, port) => connect({ host, port }) };

/**
 * A tunnel carries any protocol, and services other than web servers listen on other ports
 * (`docs/interface/sandbox.md#network`).
 */
const WEB_PORTS = [80, 443];
const CONNECT_TIMEOUT_MS = 30_000;
/** Maximum number of addresses of a name to try. */
const MAX_ADDRESSES = 8;
/** Maximum number of connections of one sandbox to its targets, and how long each may be silent in both directions. */
const MAX_TARGET_CONNECTIONS = 100;
const TARGET_IDLE_MS = 3_600_000;
/** Idle time after which the system finds out whether the peer of such a connection still exists. */
const KEEP_ALIVE_MS = 60_000;
/** Idle timeout: for the first request of a connection, and between a response and the next request. */
const REQUEST_TIMEOUT_MS = 60_000;
/** Hop-by-hop headers. Node sets `transfer-encoding` itself. */
const HOP_HEADERS = ['connection', 'keep-alive', 'proxy-authorization', 'proxy-connection', 'te', 'trailer', 'upgrade'];

/**
 * The only way out of a sandbox: an HTTP proxy (forward and CONNECT) in the trusted process, one for each sandbox. It
 * resolves names itself and connects to the same address that it checked, so a name cannot resolve to another address
 * in between.
 */
export class EgressProxy {
  readonly #policy: EgressPolicy;
  readonly #server: Server;
  readonly #sockets = new Set<Duplex>();
  /** Number of requests in flight on each connection from inside, or the timer that closes it. */
  readonly #clients = new Map<Duplex, { requests: number; timer?: NodeJS.Timeout }>();
  #targetConnections = 0;

  constructor(policy: EgressPolicy) {
    this.#policy = policy;
    this.#server = createServer({ requestTimeout: 0, keepAliveTimeout: REQUEST_TIMEOUT_MS });
    this.#server.on('request', (incoming, response) => {
      this.#count(incoming.socket, 1);
      response.once('close', () => this.#count(incoming.socket, -1));
      void this.#forward(incoming, response);
    });
    this.#server.on('connect', (incoming, socket, head) => {
      this.#count(socket, 1);
      void this.#tunnel(incoming, socket, head);
    });
  }

  /** Serves a connection from inside the sandbox as a proxy client. */
  accept(socket: Socket): void {
    this.#keep(socket);
    this.#clients.set(socket, { requests: 0 });
    socket.once('close', () => {
      clearTimeout(this.#clients.get(socket)?.timer);
      this.#clients.delete(socket);
    });
    this.#count(socket, 0);
    this.#server.emit('connection', socket);
  }

  /** Connects a connection from inside the sandbox to the platform. */
  acceptForGateway(socket: Socket): void {
    this.#keep(socket);
    const { gateway } = this.#policy;
    if (!gateway) return void socket.destroy();
    const upstream = this.#keep(connect({ host: gateway.host, port: gateway.port }));
    upstream.once('connect', () => this.#report(upstream, gateway));
    join(socket, upstream);
  }

  /**
   * Connects a connection from inside the sandbox to a target of the policy. It is closed if the target may not be
   * connected to: the protocol is not known, so the reason cannot be sent. Over HTTP the proxy tells it.
   */
  async acceptForTarget(socket: Socket, target: EgressTarget): Promise<void> {
    this.#keep(socket);
    if (this.#targetConnections >= MAX_TARGET_CONNECTIONS) return void socket.destroy();
    this.#targetConnections++;
    socket.once('close', () => this.#targetConnections--);
    try {
      const upstream = await this.#connect(target);
      upstream.setNoDelay(true).setKeepAlive(true, KEEP_ALIVE_MS);
      // What arrives from either side is activity of this socket.
      socket.setTimeout(TARGET_IDLE_MS, () => socket.destroy());
      join(socket, upstream);
    } catch {
      socket.destroy();
    }
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  /** Node applies no header timeout to a server that does not listen itself. */
  #count(socket: Duplex, change: number): void {
    const client = this.#clients.get(socket);
    if (!client) return;
    client.requests += change;
    clearTimeout(client.timer);
    if (client.requests === 0) client.timer = setTimeout(() => socket.destroy(), REQUEST_TIMEOUT_MS).unref();
  }

  async #tunnel(incoming: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    try {
      const upstream = await this.#connect(parseTarget(`https://${incoming.url}`));
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      upstream.write(head);
      join(client, upstream);
    } catch (error) {
      const { status, message } = refusalOf(error);
      client.end(`HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n${message}\n`);
    }
  }

  async #forward(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = URL.parse(incoming.url ?? '');
      if (url?.protocol !== 'http:') throw new EgressError('this is a proxy: request an absolute http:// address');
      const upstream = await this.#connect(parseTarget(url.href));
      const headers = { ...incoming.headers };
      for (const name of HOP_HEADERS) delete headers[name];
      const outgoing = request({
        createConnection: () => upstream,
        method: incoming.method,
        path: url.pathname + url.search,
        headers: { ...headers, host: url.host, connection: 'close' },
      });
      pipeline(incoming, outgoing).catch(() => {});
      outgoing.on('response', (answer) => {
        const kept = { ...answer.headers };
        for (const name of HOP_HEADERS) delete kept[name];
        response.writeHead(answer.statusCode ?? 502, kept);
        pipeline(answer, response).catch(() => response.destroy());
      });
      await new Promise((resolve, reject) => outgoing.on('error', reject).on('close', resolve));
    } catch (error) {
      const { status, message } = refusalOf(error);
      if (response.headersSent) return void response.destroy();
      response.writeHead(Number.parseInt(status, 10), { 'content-type': 'text/plain', connection: 'close' });
      response.end(`${message}\n`);
    }
  }

  async #connect(target: EgressTarget): Promise<Socket> {
    const addresses = await this.#resolve(target);
    const { ways = OF_THE_MACHINE } = this.#policy;
    let problem: unknown;
    for (const host of addresses) {
      const socket = this.#keep(ways.connect(host, target.port));
      socket.setTimeout(CONNECT_TIMEOUT_MS, () => socket.destroy(new Error('it does not answer')));
      try {
        await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
        socket.setTimeout(0);
        if (this.#isGateway(target)) this.#report(socket, this.#policy.gateway!);
        return socket;
      } catch (error) {
        problem = error;
      }
    }
    throw new Error(`${target.host} cannot be reached: ${(problem as Error).message}`);
  }

  /** Returns the addresses that the policy allows for this target, at least one. Throws if there are none. */
  async #resolve(target: EgressTarget): Promise<string[]> {
    const { host, port } = target;
    const { egress, allowHosts = [], egressTargets, ways = OF_THE_MACHINE } = this.#policy;
    if (this.#isGateway(target)) return [host];
    const isRegistry = isOnTargetList(target, allowHosts);
    const isListed = egressTargets?.targets.includes(`${host}:${port}`) === true;
    if (!isRegistry && !isListed && !WEB_PORTS.includes(port)) {
      throw new EgressError(
        `${host} was asked for at port ${port}; agents may connect to the ports 80 (HTTP) and 443 (HTTPS), and to what their manifest lists in "egress"`,
      );
    }
    if (typeof egress === 'object' && !isRegistry && !isOnHostList(host, egress.allow)) {
      throw new EgressError(`${host} is not on the list of hosts that agents may connect to`);
    }
    const ranges = isListed ? egressTargets.privateRanges : [];
    const found = isIP(host) ? [host] : await ways.resolve(host);
    const allowed = found.filter(
      (address) => isRegistry || isPublicAddress(address) || isAllowedPrivate(address, ranges),
    );
    if (allowed.length === 0) {
      throw new EgressError(
        isListed
          ? `${host} has no public address, and none in a private range that the operator allows (PLATFORM_EGRESS_PRIVATE_RANGES)`
          : `${host} is not a public address; agents may connect to the public internet only`,
      );
    }
    return allowed.slice(0, MAX_ADDRESSES);
  }

  #isGateway({ host, port }: EgressTarget): boolean {
    const { gateway } = this.#policy;
    return host === gateway?.host && port === gateway.port;
  }

  #report(socket: Socket, { onConnect }: Gateway): void {
    onConnect?.(socket, this.#policy.origin ?? 'sandbox');
  }

  #keep<S extends Duplex>(socket: S): S {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    // Users of the socket see its end. An error without a listener would crash the platform.
    socket.on('error', () => {});
    return socket;
  }
}

class EgressError extends Error {}

function refusalOf(error: unknown): { status: string; message: string } {
  const { message } = error as Error;
  return error?.constructor === EgressError
    ? { status: '403 Forbidden', message: `Refused by the platform: ${message}.` }
    : { status: '502 Bad Gateway', message };
}

/** The URL parser normalizes every spelling of an IPv4 address. */
function parseTarget(url: string): EgressTarget {
  const parsed = URL.parse(url);
  if (!parsed?.hostname) throw new EgressError('the address is invalid');
  const host = parsed.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  return { host, port: Number(parsed.port) || (parsed.protocol === 'https:' ? 443 : 80) };
}

/** Pipes each stream into the other. An error in one destroys both. */
function join(one: Duplex, other: Duplex): void {
  const end = () => {
    one.destroy();
    other.destroy();
  };
  Promise.all([pipeline(one, other), pipeline(other, one)]).catch(end);
}
