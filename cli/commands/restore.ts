import { DATA_OPTION, inBytes, ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';

const restore: Configure = (command, cli) => {
  command
    .argument('<file>', 'Archive created by `platform backup`')
    .option(...DATA_OPTION)
    .option('--check', 'Verify the archive without restoring it')
    .addHelpText(
      'after',
      '\nThe data folder must be empty or not exist: nothing is overwritten.\n\nExample:\n  $ platform restore platform.tar.gz --data ./restored',
    )
    .action(async (file, { data, check = false }) => {
      const made = await (await ownPlatform(cli, { data })).restore(file, { checkOnly: check });
      const what = `${made.files} files, ${inBytes(made.bytes)}, created ${made.created_at}`;
      cli.output.result(made, () =>
        check ? `${made.file} is valid: ${what}` : `Restored to ${made.data_folder}: ${what}`,
      );
      if (!check && !made.key_found) {
        cli.output.warn(
          `The encryption key is missing: copy that file to ${made.key_file} before you start the platform.`,
        );
      }
      if (!check) cli.output.note(`Start it with \`platform start --data ${made.data_folder}\`.`);
    });
};

export default restore;
