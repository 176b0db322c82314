import { chmod } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';

const MAX_HELLO_BYTES = 100;
const NEWLINE = 10;

/**
 * The Unix socket that sandboxes dial. Each connection opens with a line `<kind> <token>`; tokens are secret, and whoever
 * knows one is let in.
 */
export class Door {
  readonly #server: Server;
  readonly #callers = new Map<string, (socket: Socket) => void>();

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(path: string): Promise<Door> {
    const server = createServer({ allowHalfOpen: true });
    const door = new Door(server);
    server.on('connection', (socket) => door.#greet(socket));
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, 511, resolve));
    // Sandboxes run under other uids; the folder around it is ours alone.
    await chmod(path, 0o666);
    return door;
  }

  /** `callback` gets each connection that says `hello`, until the answered function is called. */
  on(hello: string, callback: (socket: Socket) => void): () => void {
    this.#callers.set(hello, callback);
    return () => this.#callers.delete(hello);
  }

  close(): void {
    this.#server.close();
  }

  #greet(socket: Socket): void {
    // A peer that dies is seen by its end; nothing here depends on an error's text.
    socket.on('error', () => socket.destroy());
    let head = Buffer.alloc(0);
    const read = () => {
      for (let chunk = socket.read(); chunk !== null; chunk = socket.read()) {
        head = Buffer.concat([head, chunk]);
        const end = head.indexOf(NEWLINE);
        if (end < 0 && head.length <= MAX_HELLO_BYTES) continue;
        socket.off('readable', read);
        const callback = this.#callers.get(head.toString('latin1', 0, Math.max(end, 0)));
        if (!callback) return void socket.destroy();
        if (end + 1 < head.length) socket.unshift(head.subarray(end + 1));
        return callback(socket);
      }
    };
    socket.on('readable', read);
  }
}

/** A record as the Perl programs read it. */
export function record(...fields: (string | number)[]): Buffer {
  const body = Buffer.from(fields.join('\0'));
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
}
