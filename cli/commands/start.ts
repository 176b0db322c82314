import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { UsageError } from '#client/usage-error.ts';
import { DATA_OPTION, ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';

/** Starts the image of docs/self-host.md. */
export const IN_CONTAINER =
  'docker run --init --publish 127.0.0.1:4280:4280 --volume agent-platform:/data --security-opt seccomp=unconfined --security-opt systempaths=unconfined --security-opt apparmor=unconfined agent-platform';
const SYSTEMS: { readonly [platform: string]: string } = { darwin: 'macOS', win32: 'Windows' };

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const start: Configure = (command, cli) => {
  command
    .option(...DATA_OPTION)
    .option('--port <number>', 'Port to listen on (default: PLATFORM_PORT or 4280)')
    .option('--no-examples', 'Do not publish the example agents')
    .option('--new-key', 'Create another API key of the owner, print it and exit; the platform must be stopped')
    .addHelpText(
      'after',
      '\nRuns until you press Ctrl-C. On a server, use `platform systemd-unit`. docs/settings.md lists the settings.\n\nExample:\n  $ platform start',
    )
    .action(async ({ data, port, examples, newKey }) => {
      const system = cli.host.platform;
      if (system !== 'linux') {
        throw new UsageError(
          `Agents that are programs run in sandboxes of Linux, so on ${SYSTEMS[system] ?? system} the platform needs its container.`,
          {
            hint: `With the image from \`docker build --tag agent-platform .\` in a clone of the repository: ${IN_CONTAINER}`,
          },
        );
      }
      const own = await ownPlatform(cli, { data, anyUrl: true });
      const { running, pid, url, data_folder } = await own.status();
      if (running) {
        throw new UsageError(`A platform is already running on ${data_folder}: process ${pid} at ${url}.`, {
          hint: 'Run `platform status` to see it. To start a second platform, use another --data and --port.',
          exitCode: 1,
        });
      }
      const [program, ...argv] = own.program;
      const child = spawn(
        program!,
        [...argv, ...(examples ? [] : ['--no-examples']), ...(newKey ? ['--new-key'] : [])],
        {
          stdio: 'inherit',
          cwd: cli.host.cwd,
          env: { ...cli.host.env, PLATFORM_DATA: data_folder, ...(port !== undefined && { PLATFORM_PORT: port }) },
        },
      );
      // Ctrl-C reaches both processes; a service manager signals only this one.
      const pass = (signal: NodeJS.Signals) =>
        void (signal === 'SIGINT' && cli.host.stdin.isTTY ? 0 : child.kill(signal));
      for (const signal of SIGNALS) process.on(signal, pass);
      const [status, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
      for (const each of SIGNALS) process.off(each, pass);
      if (status !== 0)
        throw new UsageError(`The platform exited with ${signal ?? `status ${status}`}.`, { exitCode: 1 });
    });
};

export default start;
