import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { UsageError } from '#client/usage-error.ts';
import { DATA_OPTION, ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const start: Configure = (command, cli) => {
  command
    .option(...DATA_OPTION)
    .option('--port <number>', 'Port to listen on (default: PLATFORM_PORT or 4280)')
    .option('--no-examples', 'Do not publish the example agents')
    .addHelpText(
      'after',
      '\nRuns until you press Ctrl-C. On a server, use `platform systemd-unit`. docs/settings.md lists the settings.\n\nExample:\n  $ platform start',
    )
    .action(async ({ data, port, examples }) => {
      const own = await ownPlatform(cli, { data, anyUrl: true });
      const { running, pid, url, data_folder } = await own.status();
      if (running) {
        throw new UsageError(`A platform is already running on ${data_folder}: process ${pid} at ${url}.`, {
          hint: 'Run `platform status` to see it. To start a second platform, use another --data and --port.',
          exitCode: 1,
        });
      }
      const [program, ...argv] = own.program;
      const child = spawn(program!, [...argv, ...(examples ? [] : ['--no-examples'])], {
        stdio: 'inherit',
        cwd: cli.host.cwd,
        env: { ...cli.host.env, PLATFORM_DATA: data_folder, ...(port !== undefined && { PLATFORM_PORT: port }) },
      });
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
