import { chmod } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';

const MAX_GREETING_BYTES = 100;
/** Timeout for the greeting, which the platform's programs send as soon as they are connected. */
const GREETING_TIMEOUT_MS = 5000;
/** Maximum number of connections that have not sent their greeting. */
const MAX_UNGREETED = 128;
const NEWLINE = 10;

/**
 * The Unix socket that sandboxes dial. Each connection starts with its greeting, a line `<kind> <token>`. Tokens are
 * secret: an unexpected greeting closes the connection, and so does the timeout.
 */
export class HostSocket {
  readonly #server: Server;
  readonly #callbacks = new Map<string, (socket: Socket) => void>();
  /** Connections that have not sent their greeting, oldest first. */
  readonly #ungreeted = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(path: string): Promise<HostSocket> {
    const server = createServer({ allowHalfOpen: true });
    const hostSocket = new HostSocket(server);
    server.on('connection', (socket) => hostSocket.#readGreeting(socket));
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, 511, resolve));
    // Sandboxes run under other uids. Only this process can enter the folder around the socket.
    await chmod(path, 0o666);
    return hostSocket;
  }

  /** Passes each connection with this greeting to `callback`, until the returned function is called. */
  on(greeting: string, callback: (socket: Socket) => void): () => void {
    this.#callbacks.set(greeting, callback);
    return () => this.#callbacks.delete(greeting);
  }

  close(): void {
    this.#server.close();
  }

  #readGreeting(socket: Socket): void {
    // A dead peer shows as the socket's end; the error adds no information.
    socket.on('error', () => socket.destroy());
    const drop = () => void socket.destroy();
    const deadline = setTimeout(drop, GREETING_TIMEOUT_MS);
    const settle = () => {
      clearTimeout(deadline);
      this.#ungreeted.delete(socket);
      socket.off('readable', read).off('end', drop).off('close', settle);
    };
    let head = Buffer.alloc(0);
    const read = () => {
      for (let chunk = socket.read(); chunk !== null; chunk = socket.read()) {
        head = Buffer.concat([head, chunk]);
        const end = head.indexOf(NEWLINE);
        if (end < 0 && head.length <= MAX_GREETING_BYTES) continue;
        settle();
        const callback = this.#callbacks.get(head.toString('latin1', 0, Math.max(end, 0)));
        if (!callback) return drop();
        if (end + 1 < head.length) socket.unshift(head.subarray(end + 1));
        return callback(socket);
      }
    };
    socket.on('readable', read).on('end', drop).on('close', settle);
    this.#ungreeted.add(socket);
    // Close the oldest one: the platform's own connections send their greeting at once, so they are among the newest.
    if (this.#ungreeted.size > MAX_UNGREETED) {
      const [oldest] = this.#ungreeted;
      oldest!.destroy();
    }
  }
}
