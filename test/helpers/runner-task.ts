import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { FakeContainer } from './fake-ecs/tasks.ts';
import { type RunnerProcess, startRunner } from './runner.ts';

/** Starts the real runner as the container of a sandbox task, on port 8080 of its own address. */
export async function startRunnerTask(_: unknown, address: string): Promise<FakeContainer> {
  return asContainer(
    await startRunner({ PLATFORM_RUNNER_LEASE_SECONDS: '600', PLATFORM_RUNNER_NOTICE_SECONDS: '110' }),
    address,
  );
}

/** Exposes a runner at port 8080 of its own address. */
export async function asContainer(runner: RunnerProcess, address: string): Promise<FakeContainer> {
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
  const exited = runner.ended.then((code) => {
    server.close();
    for (const socket of sockets) socket.destroy();
    return code < 0 ? 137 : code;
  });
  return { exited, kill: (signal) => void runner.kill(signal) };
}
