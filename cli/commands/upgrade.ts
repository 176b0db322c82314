import { EXIT, UsageError } from '#client/usage-error.ts';
import { DATA_OPTION, ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';

const upgrade: Configure = (command, cli) => {
  command
    .option(...DATA_OPTION)
    .option('--check', 'only say what would be done')
    .addHelpText(
      'after',
      '\nAfter a newer platform was installed and the old one stopped: makes a backup, then brings the data to the new version.\n\nExample:\n  $ platform upgrade --check',
    )
    .action(async ({ data, check = false }) => {
      const result = await (await ownPlatform(cli, { data })).upgrade({ checkOnly: check });
      const { from_version: from, to_version: to, problems, done, backup } = result;
      cli.output.result(result, () => {
        if (from === to) return `The data has version ${to}: nothing to do.`;
        const steps = `from version ${from} to ${to}`;
        return done ? `The data went ${steps}. As it was: ${backup?.file}` : `The data would go ${steps}.`;
      });
      if (problems.length > 0) throw new UsageError(problems.join('\n'), { exitCode: EXIT.failed });
    });
};

export default upgrade;
