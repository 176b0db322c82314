import { EXIT, UsageError } from '#client/usage-error.ts';
import { DATA_OPTION, ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';

const upgrade: Configure = (command, cli) => {
  command
    .option(...DATA_OPTION)
    .option('--check', 'Show what would be done without changing anything')
    .addHelpText(
      'after',
      '\nRun this after you stopped the platform and installed a newer version. It makes a backup, then upgrades the data.\n\nExample:\n  $ platform upgrade --check',
    )
    .action(async ({ data, check = false }) => {
      const result = await (await ownPlatform(cli, { data })).upgrade({ checkOnly: check });
      const { from_version: from, to_version: to, problems, done, backup } = result;
      cli.output.result(result, () => {
        if (from === to) return `The data already has version ${to}. Nothing to do.`;
        const steps = `the data from version ${from} to ${to}.`;
        return done ? `Upgraded ${steps} Backup: ${backup?.file}` : `Would upgrade ${steps}`;
      });
      if (problems.length > 0) throw new UsageError(problems.join('\n'), { exitCode: EXIT.failed });
    });
};

export default upgrade;
