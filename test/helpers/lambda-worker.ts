import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pathToFileURL } from 'node:url';
import { invoke } from './lambda-runtime.ts';

/** A Lambda function in a process of its own: `node lambda-worker.ts <bundle>`. An event is POSTed, the answer streamed. */
const { handler } = await import(pathToFileURL(process.argv[2]!).href);

const server = createServer(async (request, response) => {
  try {
    const { isStream, payload } = await invoke(handler, JSON.parse(Buffer.concat(await request.toArray()).toString()));
    response.writeHead(200, { 'x-mode': isStream ? 'stream' : 'buffered' });
    await pipeline(Readable.from(payload), response);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
    if (response.headersSent) response.destroy();
    else response.writeHead(500).end();
  }
});
server.listen(0, '127.0.0.1', () => {
  process.stderr.write(`listening on ${(server.address() as AddressInfo).port}\n`);
});
// Ends with the test, however that ends.
process.stdin.resume().on('end', () => process.exit());
