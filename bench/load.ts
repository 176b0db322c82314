import { connect, type Socket } from 'node:net';
import { median, percentile } from './statistics.ts';

/**
 * A small load generator: each of `connections` keep-alive sockets repeats the same request as soon as its answer is
 * complete. It uses bare sockets, so that the client takes little CPU time from the server under test.
 *
 * Run as a program: `node bench/load.ts URL SECONDS CONNECTIONS RATE BODY [HEADER: VALUE]...`; sends at most RATE
 * requests per
 * second (0: unlimited), as GET for an empty body (''), otherwise as POST; prints one JSON line.
 */
export interface Load {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failed: number;
  /**
   * Time from when the LLM wrote the first chunk of a stream, `t=NANOSECONDS;`, until it arrived here. Absent if there
   * was no such chunk.
   */
  readonly firstPieceMs?: number;
}

const HEADER_END = Buffer.from('\r\n\r\n');
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

/** End of the answer in `bytes`, or undefined while it is incomplete. */
function endOfAnswer(bytes: Buffer): number | undefined {
  const bodyAt = bytes.indexOf(HEADER_END) + HEADER_END.length;
  if (bodyAt < HEADER_END.length) return undefined;
  const head = bytes.toString('latin1', 0, bodyAt);
  const length = /content-length: (\d+)/i.exec(head)?.[1];
  if (length === undefined) return bytes.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK) ? bytes.length : undefined;
  return bytes.length >= bodyAt + Number(length) ? bodyAt + Number(length) : undefined;
}

async function run(
  url: URL,
  seconds: number,
  connections: number,
  rate: number,
  body: string,
  headers: readonly string[],
): Promise<Load> {
  const own = body === '' ? [] : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`];
  const line = `${body === '' ? 'GET' : 'POST'} ${url.pathname} HTTP/1.1`;
  const host = headers.some((header) => /^host:/i.test(header)) ? [] : [`Host: ${url.host}`];
  const request = Buffer.from([line, ...host, ...own, ...headers, '', body].join('\r\n'));
  const latencies: number[] = [];
  const firstPieces: number[] = [];
  let failed = 0;
  const started = performance.now();
  const end = started + seconds * 1000;

  const one = (index: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket: Socket = connect(Number(url.port), url.hostname);
      socket.setNoDelay(true);
      let sentAt = 0;
      let sent = 0;
      let pending: Buffer = Buffer.alloc(0);
      let hasBegun = false;
      const send = (): void => {
        sentAt = performance.now();
        if (sentAt >= end) return void socket.end(resolve);
        sent++;
        socket.write(request);
      };
      const sendInTime = (): void => {
        const due = rate === 0 ? 0 : started + ((index + sent * connections) / rate) * 1000;
        const early = due - performance.now();
        if (early > 0) setTimeout(send, early);
        else send();
      };
      socket.on('connect', sendInTime);
      socket.on('error', reject);
      socket.on('data', (chunk: Buffer) => {
        pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
        const at = hasBegun ? undefined : /t=(\d+);/.exec(pending.toString('latin1'))?.[1];
        if (at !== undefined) {
          hasBegun = true;
          firstPieces.push(Number(process.hrtime.bigint() - BigInt(at)) / 1e6);
        }
        if (endOfAnswer(pending) === undefined) return;
        if (!/^HTTP\/1.1 20[02]/.test(pending.toString('latin1', 0, 12))) failed++;
        latencies.push(performance.now() - sentAt);
        pending = Buffer.alloc(0);
        hasBegun = false;
        sendInTime();
      });
    });

  await Promise.all(Array.from({ length: connections }, (_, index) => one(index)));
  const elapsed = (performance.now() - started) / 1000;
  return {
    requestsPerSecond: latencies.length / elapsed,
    p50Ms: median(latencies),
    p99Ms: percentile(latencies, 99),
    failed,
    ...(firstPieces.length > 0 && { firstPieceMs: median(firstPieces) }),
  };
}

const [url, seconds, connections, rate, body = '', ...headers] = process.argv.slice(2);
const result = await run(new URL(url!), Number(seconds), Number(connections), Number(rate), body, headers);
process.stdout.write(`${JSON.stringify(result)}\n`);
