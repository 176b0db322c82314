import { DATA_OPTION, inBytes, ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';

const restore: Configure = (command, cli) => {
  command
    .argument('<file>', 'an archive of `platform backup`')
    .option(...DATA_OPTION)
    .option('--check', 'read and verify the archive, and change nothing')
    .addHelpText(
      'after',
      '\nThe folder must be empty, or not be there: nothing is replaced.\n\nExample:\n  $ platform restore platform.tar.gz --data ./restored',
    )
    .action(async (file, { data, check = false }) => {
      const made = await (await ownPlatform(cli, { data })).restore(file, { checkOnly: check });
      const what = `${made.files} files, ${inBytes(made.bytes)}, of ${made.created_at}`;
      cli.output.result(made, () =>
        check ? `${made.file} is whole: ${what}` : `Restored into ${made.data_folder}: ${what}`,
      );
      if (!check && !made.key_found) {
        cli.output.warn(`Its secrets need their key: put that file at ${made.key_file} before you start the platform.`);
      }
      if (!check) cli.output.note(`Start it with \`platform start --data ${made.data_folder}\`.`);
    });
};

export default restore;
