import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { UsageError } from '#client/usage-error.ts';
import { DATA_OPTION, ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const start: Configure = (command, cli) => {
  command
    .option(...DATA_OPTION)
    .option('--port <number>', 'the port; PLATFORM_PORT, else 4280')
    .option('--no-examples', 'do not publish the examples')
    .addHelpText(
      'after',
      '\nRuns until Ctrl-C; `platform systemd-unit` keeps it running on a server. Settings are in docs/settings.md.\n\nExample:\n  $ platform start',
    )
    .action(async ({ data, port, examples }) => {
      const own = await ownPlatform(cli, { data, anyUrl: true });
      const { running, pid, url, data_folder } = await own.status();
      if (running) {
        throw new UsageError(`A platform runs on ${data_folder} already: process ${pid} at ${url}.`, {
          hint: '`platform status` shows it. Another one needs another --data and --port.',
          exitCode: 1,
        });
      }
      const [program, ...argv] = own.program;
      const child = spawn(program!, [...argv, ...(examples ? [] : ['--no-examples'])], {
        stdio: 'inherit',
        cwd: cli.host.cwd,
        env: { ...cli.host.env, PLATFORM_DATA: data_folder, ...(port !== undefined && { PLATFORM_PORT: port }) },
      });
      // Ctrl-C reaches both; a service manager tells this process only.
      const pass = (signal: NodeJS.Signals) =>
        void (signal === 'SIGINT' && cli.host.stdin.isTTY ? 0 : child.kill(signal));
      for (const signal of SIGNALS) process.on(signal, pass);
      const [status, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
      for (const each of SIGNALS) process.off(each, pass);
      if (status !== 0)
        throw new UsageError(`The platform ended with ${signal ?? `status ${status}`}.`, { exitCode: 1 });
    });
};

export default start;
