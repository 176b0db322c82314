import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { freePort } from './free-port.ts';

/** A proxy that can cut connections with an event stream. */
export interface CuttingProxy {
  readonly url: string;
  /** Target port. */
  readonly port: number;
  /** Number of connections that carried an event stream. */
  readonly streams: number;
  /** Cuts all connections with an event stream, mid-message. Returns their number. */
  cut(): number;
  close(): void;
}

export async function startCuttingProxy(): Promise<CuttingProxy> {
  const port = await freePort();
  const open = new Set<Socket>();
  const withStream = new Set<Socket>();
  let streams = 0;
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    open.add(client);
    client.on('data', (bytes) => {
      if (!bytes.includes('text/event-stream') || withStream.has(client)) return;
      withStream.add(client);
      streams += 1;
    });
    client.pipe(upstream).pipe(client);
    const end = () => {
      open.delete(client);
      withStream.delete(client);
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    port,
    get streams() {
      return streams;
    },
    cut() {
      const those = [...withStream];
      for (const socket of those) socket.resetAndDestroy();
      return those.length;
    },
    close() {
      for (const socket of open) socket.destroy();
      server.close();
    },
  };
}
