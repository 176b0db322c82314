import { connect, type Socket } from 'node:net';
import { median, percentile } from './statistics.ts';

/**
 * A small load generator: `connections` keep-alive sockets, each sending the same GET again as soon as its answer is
 * complete. Bare sockets, so that the client takes little of the processor from the server under test.
 *
 * Run as a program: `node bench/load.ts URL SECONDS CONNECTIONS [HEADER: VALUE]...`; prints one JSON line.
 */
export interface Load {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failed: number;
}

const HEADER_END = Buffer.from('\r\n\r\n');

async function run(url: URL, seconds: number, connections: number, headers: readonly string[]): Promise<Load> {
  const lines = [`GET ${url.pathname} HTTP/1.1`, `Host: ${url.host}`, ...headers, '', ''];
  const request = Buffer.from(lines.join('\r\n'));
  const latencies: number[] = [];
  let failed = 0;
  const started = performance.now();
  const end = started + seconds * 1000;

  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket: Socket = connect(Number(url.port), url.hostname);
      socket.setNoDelay(true);
      let sentAt = 0;
      let pending: Buffer = Buffer.alloc(0);
      const send = (): void => {
        sentAt = performance.now();
        if (sentAt < end) socket.write(request);
        else socket.end(resolve);
      };
      socket.on('connect', send);
      socket.on('error', reject);
      socket.on('data', (chunk: Buffer) => {
        pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
        const bodyAt = pending.indexOf(HEADER_END) + HEADER_END.length;
        if (bodyAt < HEADER_END.length) return;
        const head = pending.toString('latin1', 0, bodyAt);
        const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN);
        if (Number.isNaN(length)) reject(new Error(`no content-length in ${head}`));
        if (pending.length < bodyAt + length) return;
        if (!head.startsWith('HTTP/1.1 200')) failed++;
        latencies.push(performance.now() - sentAt);
        pending = Buffer.alloc(0);
        send();
      });
    });

  await Promise.all(Array.from({ length: connections }, one));
  const elapsed = (performance.now() - started) / 1000;
  return {
    requestsPerSecond: latencies.length / elapsed,
    p50Ms: median(latencies),
    p99Ms: percentile(latencies, 99),
    failed,
  };
}

const [url, seconds, connections, ...headers] = process.argv.slice(2);
process.stdout.write(`${JSON.stringify(await run(new URL(url!), Number(seconds), Number(connections), headers))}\n`);
