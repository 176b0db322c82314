import { createServer } from 'node:http';

/**
 * App of the measured services, and the baseline if run bare: `node bench/service-app.mjs`. Listens on `PORT` or a free
 * port,
 * and prints the port. `/` answers a few bytes, `/bytes/N` answers N bytes; upgraded connections are echoed.
 */
const answer = JSON.stringify({ word: process.env.WORD ?? '' });
const chunk = Buffer.alloc(64 * 1024, 'x');

const server = createServer((request, response) => {
  const [, bytes] = /^\/bytes\/(\d+)$/.exec(request.url) ?? [];
  if (bytes === undefined) {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.length }).end(answer);
    return;
  }
  let left = Number(bytes);
  response.writeHead(200, { 'content-length': left });
  const write = () => {
    while (left > 0) {
      const part = left < chunk.length ? chunk.subarray(0, left) : chunk;
      left -= part.length;
      if (!response.write(part)) return void response.once('drain', write);
    }
    response.end();
  };
  write();
});
server.on('upgrade', (_request, socket, head) => {
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n');
  socket.write(head);
  socket.pipe(socket);
});
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
