import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { FakeContainer } from './fake-ecs/tasks.ts';
import { startRunner } from './runner.ts';

/** The real runner as a task's container, on port 8080 of its own address. */
export async function startRunnerTask(_: unknown, address: string): Promise<FakeContainer> {
  const runner = await startRunner({ PLATFORM_RUNNER_LEASE_SECONDS: '600' });
  const port = Number(new URL(runner.url).port);
  const sockets = new Set<Socket>();
  const server = createServer((inside) => {
    const outside = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [inside, outside],
      [outside, inside],
    ] as const) {
      sockets.add(from);
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  server.listen(8080, address);
  await once(server, 'listening');
  const exited = runner.ended.then(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { exited, kill: () => void runner.kill() };
}
