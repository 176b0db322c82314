import { Agent } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { GatewayError } from './gateway-error.ts';

/** Keep-alive time of idle connections, slightly shorter than the keep-alive time of servers that announce none. */
const IDLE_MS = 4000;
const MAX_IDLE = 32;

export interface App {
  /** Connects to the app. Resolves to `undefined` if it does not listen. */
  connect(): Promise<Socket | undefined>;
  /** Message for clients while the app does not listen, such as "The app has ended and is started again." */
  absence(): string;
}

/** Connection pool for the app of one instance. */
export class AppAgent extends Agent {
  readonly #app: App;

  constructor(app: App) {
    super({ keepAlive: true, maxFreeSockets: MAX_IDLE, timeout: IDLE_MS, scheduling: 'lifo' });
    this.#app = app;
  }

  override createConnection(_: object, done?: (error: Error | null, socket: Duplex) => void): undefined {
    void this.#dial().then(
      (socket) => done?.(null, socket),
      (error) => done?.(error, undefined as never),
    );
  }

  async #dial(): Promise<Duplex> {
    const socket = await this.#app.connect().catch(() => undefined);
    if (socket === undefined) throw new GatewayError(503, this.#app.absence());
    return socket;
  }
}
