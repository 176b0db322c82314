import { UsageError } from '#client/usage-error.ts';
import { readFolder } from '../publishing/read-folder.ts';
import type { Configure } from '../shared/cli.ts';

const validate: Configure = (command, cli) => {
  command
    .argument('[folder]', 'Folder of the agent', '.')
    .addHelpText('after', '\nExample:\n  $ platform validate ./hello')
    .action(async (folder) => {
      const { body } = await readFolder(cli, folder);
      const answer = await (await cli.client()).validateAgent({ body });
      cli.output.result(answer, ({ valid, errors, warnings }) =>
        [
          ...errors.map((text) => `${cli.output.style('red', 'error:')} ${text}`),
          ...warnings.map((text) => `${cli.output.style('yellow', 'warning:')} ${text}`),
          ...(valid ? [`${folder} is valid.`] : []),
        ].join('\n'),
      );
      if (!answer.valid) throw new UsageError(`${folder} is not valid: ${answer.errors.length} errors.`);
    });
};

export default validate;
