import type { Socket } from 'node:net';

/**
 * Identifies the connections to the local server that come from sandboxes. All of them have this machine's own address:
 * without this, the requests of one run would count against the limit of every other
 * (`docs/interface/limits.md#addresses`), and behind a trusted proxy a run could choose the address that it is counted
 * by.
 */
export class GatewayClients {
  readonly #origins = new Map<string, string>();

  /** `socket` is the platform's own end, connected for the sandbox `origin`. */
  readonly add = (socket: Socket, origin: string): void => {
    const key = keyOf(socket.localAddress, socket.localPort);
    this.#origins.set(key, origin);
    // Two pipelines on one socket exceed Node's default of ten listeners.
    socket.setMaxListeners(socket.getMaxListeners() + 1);
    socket.once('close', () => this.#origins.delete(key));
  };

  /** Returns the sandbox behind an accepted connection, or `undefined` for external clients. */
  originOf({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string | undefined {
    return this.#origins.get(keyOf(remoteAddress, remotePort));
  }
}

/** A server on all addresses sees IPv4 clients at IPv4-mapped IPv6 addresses. */
const keyOf = (address: string | undefined, port: number | undefined): string =>
  `${address?.replace(/^::ffff:/, '')} ${port}`;
