import { DATA_OPTION, inBytes, ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';

const backup: Configure = (command, cli) => {
  command
    .argument('[file]', 'Path of the archive (default: platform-TIME.tar.gz in the current folder)')
    .option(...DATA_OPTION)
    .option('--with-key', 'Include the encryption key: anyone with the archive can then read the secrets')
    .addHelpText(
      'after',
      '\nThe platform can keep running during the backup.\n\nExample:\n  $ platform backup platform.tar.gz',
    )
    .action(async (file, { data, withKey = false }) => {
      // A running platform needs them more.
      cli.host.yieldProcessors();
      const made = await (await ownPlatform(cli, { data })).backup(file, { withKey });
      cli.output.result(made, () => `${made.file}\n${inBytes(made.bytes)}, ${made.files} files`);
      if (made.has_key)
        cli.output.warn('The archive contains the encryption key: protect it like the secrets themselves.');
      else if (made.has_secrets) {
        cli.output.warn(
          'The archive does not contain the encryption key: keep a separate copy of that file, or use --with-key.',
        );
      }
    });
};

export default backup;
