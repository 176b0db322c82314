import { DATA_OPTION, inBytes, ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';

const backup: Configure = (command, cli) => {
  command
    .argument('[file]', 'the archive; by default platform-TIME.tar.gz in the current folder')
    .option(...DATA_OPTION)
    .option('--with-key', 'put the key of the secrets in, too: who has the archive then has them')
    .addHelpText('after', '\nThe platform may go on running.\n\nExample:\n  $ platform backup platform.tar.gz')
    .action(async (file, { data, withKey = false }) => {
      const made = await (await ownPlatform(cli, { data })).backup(file, { withKey });
      cli.output.result(made, () => `${made.file}\n${inBytes(made.bytes)}, ${made.files} files`);
      if (made.has_key) cli.output.warn('The archive has the key of the secrets: keep it as you keep them.');
      else if (made.has_secrets) {
        cli.output.warn('The key of the secrets is not in it: keep a copy of that file elsewhere, or use --with-key.');
      }
    });
};

export default backup;
