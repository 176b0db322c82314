import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { buffer } from 'node:stream/consumers';

/**
 * Path of a VM's hooks, which Lambda calls (docs.aws.amazon.com/lambda/latest/dg/microvms-launching.html, "Lifecycle
 * hooks").
 */
const PREFIX = '/aws/lambda-microvms/runtime/v1';

/** Command line of the runner, which prints a JSON line once it listens. */
export interface RunnerProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * Serves the hooks of a Lambda MicroVM until the runner that they started has ended. Returns the runner's exit code.
 *
 * All VMs of an image resume from one memory snapshot. A process in the snapshot would have the same random state in
 * all of them, so it contains only this listener. Each VM starts its own runner, after its kernel has been told that it
 * is another machine and has mixed in random bytes that the platform drew for this VM.
 */
export async function serveHooks(
  port: number,
  program: RunnerProgram,
  say: (message: string, more?: object) => void,
): Promise<number> {
  const ended = Promise.withResolvers<number>();
  let started: Promise<void> | undefined;
  const hooks: Readonly<Record<string, (request: IncomingMessage) => Promise<void>>> = {
    async ready() {},
    /** Called on a trial VM. Snapshot pages that are read here are prefetched for later VMs. */
    async validate() {
      const { listening, end } = startRunner({ ...program, env: { ...program.env, PLATFORM_RUNNER_LISTEN: '0' } });
      await listening;
      await end();
    },
    /** Only the first call has an effect, because the job can reach this port, too. */
    async run(request) {
      started ??= (async () => {
        await writeFile('/dev/urandom', await buffer(request));
        const { listening, exited } = startRunner(program);
        exited.then(ended.resolve);
        await listening;
      })();
      await started;
    },
  };
  const server = createServer(async (request, response) => {
    response.setHeader('connection', 'close');
    const path = request.url ?? '';
    const hook = request.method === 'POST' && path.startsWith(`${PREFIX}/`) ? path.slice(PREFIX.length + 1) : '';
    if (!Object.hasOwn(hooks, hook)) return void response.writeHead(404).end();
    try {
      await hooks[hook]!(request);
      response.writeHead(200).end();
    } catch (error) {
      say('hook failed', { hook, error: String(error) });
      response.writeHead(500).end();
    }
  });
  server.listen(port);
  await once(server, 'listening');
  say('hooks', { port: (server.address() as AddressInfo).port });
  const code = await ended.promise;
  // A hook that failed because its runner ended gets its response first.
  const closed = once(server, 'close');
  server.close();
  await closed;
  return code;
}

function startRunner({ command, args, env }: RunnerProgram) {
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.pipe(process.stdout, { end: false });
  const exited = once(child, 'exit').then(([code]) => (code as number | null) ?? -1);
  const heard = once(createInterface(child.stdout), 'line');
  const lost = exited.then((code) => Promise.reject(new Error(`the runner ended with ${code}`)));
  lost.catch(() => {});
  return {
    exited,
    listening: Promise.race([heard, lost]).then(() => {}),
    async end() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}
