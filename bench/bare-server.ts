import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Baseline: a `node:http` server that always answers the same bytes. `node bench/bare-server.ts BODY`; prints its port.
 */
const body = process.argv[2]!;
const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
const server = createServer((_request, response) => response.writeHead(200, headers).end(body));
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
