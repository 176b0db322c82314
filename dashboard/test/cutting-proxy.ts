import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { freePort } from './free-port.ts';

/** Passes connections on, and cuts those with an event stream when it is told to. */
export interface CuttingProxy {
  readonly url: string;
  /** Where it passes connections to. */
  readonly port: number;
  /** Connections that carried an event stream so far. */
  readonly streams: number;
  /** Ends all connections that carry an event stream, in the middle of whatever they say. Returns how many there were. */
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
